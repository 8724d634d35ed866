//! `docs/architecture.md` lists the rooms of `src/` from top to bottom; imports go downward, and files do not import each
//! other in a circle.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A path of modules below the crate's root, such as `verify::compare`.
type Module = Vec<String>;

/// The modules that a file names in `use` declarations and in paths, outside its unit tests.
fn imports(text: &str, module: &Module, known: &BTreeMap<Module, PathBuf>) -> BTreeSet<Module> {
    let code: String = text
        .split("#[cfg(test)]")
        .next()
        .unwrap_or_default()
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect::<Vec<_>>()
        .join(" ");
    let mut found = BTreeSet::new();
    for root in ["crate::", "super::", "self::"] {
        for (at, _) in code.match_indices(root) {
            let before = code[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
                continue;
            }
            let mut base = match root {
                "crate::" => Vec::new(),
                "super::" => module[..module.len().saturating_sub(1)].to_vec(),
                _ => module.clone(),
            };
            let mut rest = &code[at + root.len()..];
            while let Some(next) = rest.strip_prefix("super::") {
                base.pop();
                rest = next;
            }
            tree(rest, &base, known, &mut found);
        }
    }
    found.remove(module);
    found
}

/// Adds the deepest known module of each path of a use tree: `a::b`, `a::{b, c::D}`.
fn tree(text: &str, base: &Module, known: &BTreeMap<Module, PathBuf>, found: &mut BTreeSet<Module>) {
    if let Some(inside) = text.strip_prefix('{') {
        let (mut depth, mut start) = (0, 0);
        for (at, c) in inside.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => {
                    tree(inside[start..at].trim(), base, known, found);
                    return;
                }
                '}' => depth -= 1,
                ',' if depth == 0 => {
                    tree(inside[start..at].trim(), base, known, found);
                    start = at + 1;
                }
                _ => {}
            }
        }
        return;
    }
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    let mut path = base.clone();
    path.push(text[..end].to_owned());
    if known.contains_key(&path) {
        match text[end..].strip_prefix("::") {
            Some(rest) => tree(rest, &path, known, found),
            None => drop(found.insert(path)),
        }
    } else if !base.is_empty() {
        // A name that the module itself defines, or re-exports.
        found.insert(base.clone());
    }
}

/// Every module of `src/` with its file.
fn modules(root: &Path) -> BTreeMap<Module, PathBuf> {
    let mut known = BTreeMap::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let below = path.strip_prefix(root).unwrap().with_extension("");
                let mut module: Module = below.iter().map(|part| part.to_str().unwrap().to_owned()).collect();
                if module.last().is_some_and(|last| last == "mod") {
                    module.pop();
                }
                if !matches!(module.join("::").as_str(), "lib" | "main") {
                    known.insert(module, path);
                }
            }
        }
    }
    known
}

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

fn graph() -> BTreeMap<Module, BTreeSet<Module>> {
    let known = modules(&source());
    known
        .iter()
        .map(|(module, file)| {
            let text = fs::read_to_string(file).unwrap();
            (module.clone(), imports(&text, module, &known))
        })
        .collect()
}

#[test]
fn rooms_import_only_rooms_below_them() {
    let page = fs::read_to_string(source().join("../docs/architecture.md")).unwrap();
    let table = page.split("<!-- rooms -->").nth(1).expect("docs/architecture.md has <!-- rooms -->");
    let rooms: Vec<&str> = table
        .split("<!-- /rooms -->")
        .next()
        .unwrap()
        .lines()
        .filter_map(|line| line.strip_prefix("| `")?.split('`').next())
        .collect();
    let graph = graph();
    let there: BTreeSet<&str> = graph.keys().map(|module| module[0].as_str()).collect();
    let listed: BTreeSet<&str> = rooms.iter().copied().collect();
    assert_eq!(listed, there, "docs/architecture.md lists other rooms than src/ has");
    let floor = |room: &str| rooms.iter().position(|listed| *listed == room);
    let climbs: Vec<String> = graph
        .iter()
        .flat_map(|(module, imported)| imported.iter().map(move |other| (module, other)))
        .filter(|(module, other)| module[0] != other[0] && floor(&module[0]) > floor(&other[0]))
        .map(|(module, other)| format!("{} imports {}", module.join("::"), other.join("::")))
        .collect();
    assert!(climbs.is_empty(), "imports that go up:\n{}", climbs.join("\n"));
}

#[test]
fn no_two_files_import_each_other_in_a_circle() {
    let graph = graph();
    // A module's file imports its own children to re-export them; what they take from it is a name of a sibling.
    let edges: BTreeMap<&Module, Vec<&Module>> = graph
        .iter()
        .map(|(module, imported)| {
            let others = imported.iter().filter(|other| !other.starts_with(module) && !module.starts_with(other));
            (module, others.collect())
        })
        .collect();
    let mut circles = BTreeSet::new();
    for start in edges.keys() {
        let mut seen = BTreeSet::new();
        let mut open = edges[start].clone();
        while let Some(next) = open.pop() {
            if next == *start {
                circles.insert(start.join("::"));
                break;
            }
            if seen.insert(next) {
                open.extend(edges.get(next).into_iter().flatten());
            }
        }
    }
    assert!(circles.is_empty(), "files that import each other in a circle: {circles:#?}");
}
