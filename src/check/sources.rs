//! Rules for built files: unlisted headers, forgotten sources, unshipped data.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;

use super::finding::Edit;
use super::findings::Findings;
use super::load::{COMPILED, Origin, Sources, ending};
use crate::project::BUILD_TOML;
use crate::project::manifest::Words;

pub(super) fn check(project: &Sources, findings: &mut Findings) {
    unlisted(project, findings);
    extra(project, findings);
    data(project, findings);
}

/// The builder copies only files listed in a `src`; an unlisted header is missing when it compiles.
fn unlisted(project: &Sources, findings: &mut Findings) {
    let mut by_origin: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    let index = |origin| match origin {
        Origin::Framework => 0,
        Origin::Kernel(at) => at + 1,
    };
    let missing: Vec<_> = project
        .units
        .iter()
        .filter(|unit| unit.compiled && !unit.listed && unit.code.text.path != "torch-ext/registration.h")
        .collect();
    for unit in &missing {
        let paths = by_origin.entry(index(unit.origin)).or_default();
        paths.push(&unit.code.text.path);
    }
    for unit in missing {
        let path = &unit.code.text.path;
        let Some((includer, at)) = &unit.included else {
            continue;
        };
        let Some(includer) = project.unit(includer) else {
            continue;
        };
        let (what, list) = match unit.origin {
            Origin::Framework => {
                let list = project.manifest.framework().and_then(|one| one.src.as_ref());
                ("the framework".to_owned(), list)
            }
            Origin::Kernel(at) => {
                let kernel = &project.manifest.kernels[at];
                (format!("[kernel.{}]", kernel.name.value), kernel.src.as_ref())
            }
        };
        let message =
            format!("no `src` lists `{path}`, and the builder copies only listed files; add it to that of {what}");
        findings.add("sources/unlisted", &includer.code.text, at, message);
        if let Some(list) = list
            && let Some(edit) = add_to(project, list, &by_origin[&index(unit.origin)])
        {
            findings.fix_with(edit);
        }
    }
}

/// Appends paths to a list, before its closing bracket.
fn add_to(project: &Sources, list: &Words, paths: &[&str]) -> Option<Edit> {
    // Paths with characters special to TOML or CMake are not fixed automatically.
    let plain = |path: &&str| path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-/+".contains(&byte));
    let file = &project.build;
    if !file.exact || !paths.iter().all(plain) {
        return None;
    }
    let before = list.items.last();
    let start = before.map_or(list.at.start + 1, |word| word.at.end);
    let close = list.at.end - 1;
    let tail = file.content.get(start..close)?;
    let comma = has_comma(tail);
    let mut text = String::new();
    let quoted = paths.iter().map(|path| format!("\"{path}\""));
    if tail.contains('\n') || file.content[list.at.clone()].contains('\n') {
        let end = if tail.contains("\r\n") { "\r\n" } else { "\n" };
        let indent = before.map_or("  ".to_owned(), |word| {
            let line = file.line_range(file.line(word.at.start));
            let ahead = &file.content[line.start..word.at.start];
            if ahead.trim_start().is_empty() { ahead.to_owned() } else { "  ".to_owned() }
        });
        let kept = tail.trim_end_matches([' ', '\t', '\r', '\n']);
        if before.is_some() && !comma {
            text.push(',');
        }
        text.push_str(kept);
        for path in quoted {
            let _ = write!(text, "{end}{indent}{path},");
        }
        text.push_str(if tail.contains('\n') { &tail[kept.len()..] } else { end });
    } else {
        let joined = quoted.collect::<Vec<_>>().join(", ");
        if before.is_some() {
            text.push_str(", ");
        }
        text.push_str(&joined);
        if comma {
            text.push(',');
        }
    }
    Some(Edit { path: BUILD_TOML.to_owned(), at: start..close, text, what: format!("listed {}", paths.join(", ")) })
}

/// Whether a comma follows the last element, ignoring comments.
fn has_comma(tail: &str) -> bool {
    tail.lines().any(|line| line.split('#').next().unwrap_or_default().contains(','))
}

/// A source beside listed ones that is neither listed nor included was probably forgotten.
fn extra(project: &Sources, findings: &mut Findings) {
    let manifest = &project.manifest;
    let kernels = manifest.kernels.iter().filter_map(|kernel| kernel.src.as_ref());
    let framework = manifest.framework().and_then(|one| one.src.as_ref());
    let first = kernels.chain(framework).next();
    let at = first.map_or(0..0, |list| list.at.clone());
    // One finding per folder: a library's folder may contain many unused sources.
    for paths in forgotten(project).into_values() {
        let named: Vec<String> = paths.iter().take(3).map(|path| format!("`{path}`")).collect();
        let more = match paths.len() - named.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let message = format!(
            "beside listed sources and in no `src`: {}{more}; list what belongs to the kernel, or move it away",
            named.join(", ")
        );
        findings.add("sources/extra", &project.build, &at, message);
    }
}

/// The folders below and beside those of listed sources, within the same folder of the project's.
fn below(project: &Sources, folders: &BTreeSet<String>) -> Vec<String> {
    let tops: BTreeSet<&str> = folders.iter().filter_map(|folder| folder.split('/').next()).collect();
    let mut found = Vec::new();
    for top in tops.into_iter().filter(|top| !top.is_empty()) {
        let hidden = |entry: &walkdir::DirEntry| entry.file_name().to_string_lossy().starts_with('.');
        let walk = walkdir::WalkDir::new(project.root.join(top)).max_depth(6).into_iter();
        for entry in walk.filter_entry(move |entry| !hidden(entry)).flatten().filter(|one| one.file_type().is_dir()) {
            if let Ok(path) = entry.path().strip_prefix(&project.root) {
                found.push(path.to_string_lossy().into_owned());
            }
        }
    }
    found
}

/// By folder: unlisted sources beside listed ones.
fn forgotten(project: &Sources) -> BTreeMap<String, BTreeSet<String>> {
    let listed = project.listed();
    let is_source = |path: &str| COMPILED.contains(&ending(path).as_str());
    let folder_of = |path: &str| path.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
    let beside = listed.iter().filter(|path| is_source(path)).map(|path| folder_of(path));
    let mut folders: BTreeSet<String> = beside.collect();
    folders.extend(below(project, &folders));
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for folder in folders {
        let Ok(entries) = fs::read_dir(project.root.join(&folder)) else {
            continue;
        };
        for entry in entries.flatten().filter(|entry| entry.path().is_file()) {
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{folder}/{name}").trim_start_matches('/').to_owned();
            // Kinds that are never listed belong to another build.
            let alike = |one: &String| ending(one) == ending(&path);
            if is_source(&path)
                && !name.starts_with('.')
                && listed.iter().any(alike)
                // A name that differs in case is reported as a misspelt entry.
                && !listed.iter().any(|one| one.eq_ignore_ascii_case(&path))
                && project.unit(&path).is_none()
            {
                found.entry(folder.clone()).or_default().insert(path);
            }
        }
    }
    found
}

/// Extensions that are not data: code, documentation, tool outputs.
const NO_DATA: [&str; 9] = ["py", "pyi", "pyc", "typed", "md", "rst", "so", "orig", "rej"];

/// A data file whose extension is not in `pyext` is not shipped with the kernel.
fn data(project: &Sources, findings: &mut Findings) {
    let Some(framework) = project.manifest.framework() else {
        return;
    };
    let shipped = |path: &str| {
        let items = framework.pyext.iter().flat_map(|list| &list.items);
        items.into_iter().any(|word| word.value.trim_start_matches('.') == ending(path))
    };
    let mut told = BTreeSet::new();
    for path in &project.package_files {
        let ending = ending(path);
        let code = COMPILED.contains(&ending.as_str()) || matches!(ending.as_str(), "h" | "hpp" | "cuh" | "");
        if code || NO_DATA.contains(&ending.as_str()) || shipped(path) || !told.insert(ending.clone()) {
            continue;
        }
        let name = path.rsplit('/').next().unwrap_or_default();
        let at = project.manifest.name.as_ref().map_or(0..0, |name| name.at.clone());
        let message = format!(
            "`{name}` in the package is not shipped: `pyext` lacks \"{ending}\"; add pyext = [\"{ending}\", \"py\"]"
        );
        let at = framework.pyext.as_ref().map_or(at, |list| list.at.clone());
        findings.add("sources/data-not-shipped", &project.build, &at, message);
    }
}
