//! A project's files, of some families: the same bytes for the same name and families, on any machine.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail, ensure};

use super::sources::{self, FOLDER};
use super::{Family, Name, embedded, kernel_toml, manifest, package};

/// A project in memory.
#[derive(Clone, Debug)]
pub(crate) struct Project {
    /// Its files by path.
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    /// How many operations its kernel.toml has, by name.
    pub(crate) operations: Vec<String>,
}

/// The part of a path of `scaffold/common` that stands for the Python package's name.
const PACKAGE: &str = "package";

/// The folders of a family, and where they go; `package` itself goes to the Python package.
const FOLDERS: [(&str, &str); 3] = [("torch-ext", "torch-ext"), ("tests", "tests"), ("benchmarks", "benchmarks")];

/// The files of a project of these families, of which there is at least one. `owner`: whose it is on the Hub.
pub(crate) fn compose(name: &Name, owner: &str, families: &[&Family]) -> Result<Project> {
    ensure!(!families.is_empty(), "a project of no family");
    let mut tree = Files::default();
    let ext = format!("torch-ext/{}", name.package());
    let filled = Filled::of(name, families);
    for (path, bytes) in embedded::below("scaffold/common") {
        let path = match path.strip_prefix("torch-ext/package/") {
            Some(inside) => format!("{ext}/{inside}"),
            None => path.to_owned(),
        };
        tree.add(path, filled.fill(bytes))?;
    }
    let mut folders = Vec::new();
    for family in families {
        let root = format!("scaffold/{}", family.name);
        for (from, to) in FOLDERS {
            for (path, bytes) in embedded::below(&format!("{root}/{from}")) {
                tree.add(format!("{to}/{path}"), filled.fill(bytes))?;
            }
        }
        for (path, bytes) in embedded::below(&format!("{root}/{PACKAGE}")) {
            if family.layers.is_empty() && path.starts_with("layers/") {
                continue;
            }
            tree.add(format!("{ext}/{path}"), filled.fill(bytes))?;
        }
        folders.extend(family.kernel_folders());
    }
    let (parts, shared) = sources::gather(&folders);
    for part in &parts {
        for (file, bytes) in &part.own {
            tree.add(format!("{FOLDER}/{}/{file}", part.name), bytes.to_vec())?;
        }
    }
    for (file, bytes) in shared {
        tree.add(format!("{FOLDER}/{file}"), bytes.to_vec())?;
    }
    tree.add("LICENSE".to_owned(), embedded::LICENCE.to_vec())?;
    let kernel_toml = kernel_toml::compose(&parts)?;
    let operations = operations(&kernel_toml)?;
    tree.add("kernel.toml".to_owned(), kernel_toml.into_bytes())?;
    let binding: BTreeSet<String> = tree
        .0
        .keys()
        .filter(|path| {
            let inside = path.strip_prefix("torch-ext/").unwrap_or_default();
            !inside.is_empty() && !inside.contains('/')
        })
        .cloned()
        .collect();
    let manifest = manifest::compose(name, owner, &parts, &binding);
    tree.add("build.toml".to_owned(), manifest.into_bytes())?;
    tree.add(format!("{ext}/__init__.py"), package::init(name, families).into_bytes())?;
    if let Some(layers) = package::layers(name, families) {
        tree.add(format!("{ext}/layers/__init__.py"), layers.into_bytes())?;
    }
    Ok(Project { files: tree.0, operations })
}

fn operations(kernel_toml: &str) -> Result<Vec<String>> {
    let table: toml::Table = kernel_toml.parse().context("the composed kernel.toml is no TOML")?;
    let list = table.get("operation").and_then(toml::Value::as_array);
    Ok(list.into_iter().flatten().filter_map(|operation| Some(operation.get("name")?.as_str()?.to_owned())).collect())
}

/// Files by path, none of them twice.
#[derive(Default)]
struct Files(BTreeMap<String, Vec<u8>>);

impl Files {
    fn add(&mut self, path: String, bytes: Vec<u8>) -> Result<()> {
        match self.0.entry(path) {
            Entry::Occupied(there) => bail!("two parts of the scaffold have {}", there.key()),
            Entry::Vacant(place) => {
                place.insert(bytes);
                Ok(())
            }
        }
    }
}

/// What stands in for the placeholders of the scaffold's texts.
struct Filled(Vec<(&'static str, String)>);

impl Filled {
    fn of(name: &Name, families: &[&Family]) -> Self {
        let notes = families
            .iter()
            .filter_map(|family| embedded::file(&format!("scaffold/{}/README.md", family.name)))
            .map(String::from_utf8_lossy)
            .collect();
        Self(vec![
            // First what has placeholders of its own.
            ("@NOTES@\n", notes),
            ("@FAMILIES@\n", package::contents(families)),
            ("@NAME@", name.to_string()),
            ("@PACKAGE@", name.package()),
            ("@FUNCTION@", families[0].exports[0].clone()),
        ])
    }

    fn fill(&self, bytes: &[u8]) -> Vec<u8> {
        let Ok(text) = std::str::from_utf8(bytes) else {
            return bytes.to_vec();
        };
        let mut text = text.to_owned();
        for (placeholder, value) in &self.0 {
            if text.contains(placeholder) {
                text = text.replace(placeholder, value);
            }
        }
        text.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scaffold::Catalog;

    #[test]
    fn every_family_alone_and_all_together_are_composed_alike_in_any_order() {
        let catalog = Catalog::embedded().unwrap();
        let name = Name::parse("some-kernels").unwrap();
        for family in &catalog.families {
            let project = compose(&name, "somebody", &[family]).unwrap();
            for (path, bytes) in &project.files {
                let text = String::from_utf8_lossy(bytes);
                for placeholder in ["@NAME@", "@PACKAGE@", "@FAMILIES@", "@FUNCTION@", "@NOTES@"] {
                    assert!(!text.contains(placeholder), "{path} still has {placeholder}");
                }
            }
        }
        let mut names: Vec<String> = catalog.families.iter().map(|one| one.name.clone()).collect();
        let one = compose(&name, "somebody", &catalog.select(&names, &[]).unwrap()).unwrap();
        names.reverse();
        let other = compose(&name, "somebody", &catalog.select(&names, &[]).unwrap()).unwrap();
        assert_eq!(one.files, other.files);
    }
}
