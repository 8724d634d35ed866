//! Composes a project's files from some families: the same bytes for the same name and families, on any machine.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail};

use super::catalog::Choice;
use super::part::Part;
use super::scan::Language;
use super::shake::shake;
use super::sources::{self, FOLDER};
use super::{Family, Name, embedded, kernel_toml, manifest, package};

/// A project in memory.
#[derive(Clone, Debug)]
pub(crate) struct Composition {
    /// Its files by path.
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    /// How many operations its kernel.toml has, by name.
    pub(crate) operations: Vec<String>,
}

/// The name of a family's folder that becomes the Python package.
const PACKAGE: &str = "package";

/// The files of a project of these operations. `owner`: its owner on the Hub.
/// `blanks`: operations of the user's own, which follow these.
pub(crate) fn compose(name: &Name, owner: &str, choices: &[Choice], blanks: &[String]) -> Result<Composition> {
    let blanks = blanks.iter().map(|name| Part::blank(name));
    let taken: Vec<Part> = choices.iter().map(|choice| Ok(Part::of(choice))).chain(blanks).collect::<Result<_>>()?;
    let families: Vec<&Family> = taken.iter().map(|part| &part.family).collect();
    let mut tree = Files::default();
    let ext = format!("torch-ext/{}", name.package());
    let filled = Filled::of(name, &families);
    let has_layers = families.iter().any(|family| !family.layers.is_empty());
    for (path, bytes) in embedded::below("scaffold/common") {
        let bytes = filled.fill(bytes);
        let bytes = if path.ends_with(".py") && !has_layers { without_layers(&bytes) } else { bytes };
        tree.add(path.to_owned(), bytes)?;
    }
    let mut folders = Vec::new();
    for part in &taken {
        for (path, bytes) in &part.files {
            let place = match path.split_once('/') {
                Some((PACKAGE, inside)) => format!("{ext}/{inside}"),
                Some(("torch-ext" | "tests" | "benchmarks", _)) => path.clone(),
                _ => continue,
            };
            tree.add(place, filled.fill(bytes))?;
        }
        if part.kernel.is_none() {
            folders.extend(part.family.kernel_folders());
        }
    }
    let (mut parts, shared) = sources::gather(&folders);
    parts.extend(taken.iter().filter_map(|part| part.kernel.clone()));
    for part in &parts {
        for (file, bytes) in &part.own {
            tree.add(format!("{FOLDER}/{}/{file}", part.name), bytes.to_vec())?;
        }
    }
    for (file, bytes) in shared {
        tree.add(format!("{FOLDER}/{file}"), bytes.to_vec())?;
    }
    tree.add("LICENSE".to_owned(), embedded::LICENCE.to_vec())?;
    let is_wanted = |launcher: &str| taken.iter().any(|part| part.launches(launcher));
    let kernel_toml = kernel_toml::compose(&parts, &is_wanted)?;
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
    tree.add(format!("{ext}/__init__.py"), package::init(name, &families).into_bytes())?;
    if let Some(layers) = package::layers(name, &families) {
        tree.add(format!("{ext}/layers/__init__.py"), layers.into_bytes())?;
    }
    Ok(Composition { files: tree.0, operations })
}

/// A file for a project without layers.
fn without_layers(bytes: &[u8]) -> Vec<u8> {
    let layers = BTreeSet::from(["layers".to_owned()]);
    shake(&String::from_utf8_lossy(bytes), Language::Python, &layers, &[]).into_bytes()
}

fn operations(kernel_toml: &str) -> Result<Vec<String>> {
    let table: toml::Table = kernel_toml.parse().context("the composed kernel.toml is not TOML")?;
    let list = table.get("operation").and_then(toml::Value::as_array);
    Ok(list.into_iter().flatten().filter_map(|operation| Some(operation.get("name")?.as_str()?.to_owned())).collect())
}

/// Files by path; a path that is added twice is an error.
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

/// The values of the placeholders in the scaffold's texts.
struct Filled(Vec<(&'static str, String)>);

impl Filled {
    fn of(name: &Name, families: &[&Family]) -> Self {
        let notes = families
            .iter()
            .filter_map(|family| embedded::file(&format!("scaffold/{}/README.md", family.name)))
            .map(String::from_utf8_lossy)
            .collect();
        Self(vec![
            // First, because it has placeholders itself.
            ("@NOTES@\n", notes),
            ("@FAMILIES@\n", package::contents(families)),
            ("@NAME@", name.to_string()),
            ("@PACKAGE@", name.package()),
            ("@FUNCTION@", families.first().and_then(|family| family.exports.first().cloned()).unwrap_or_default()),
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
