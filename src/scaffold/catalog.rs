//! `scaffold/scaffold.toml`: the families of operations that a project can have, and sets of families.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::embedded;
use crate::base::text::nearest;

/// All families and sets.
#[derive(Clone, Debug)]
pub(crate) struct Catalog {
    /// Sorted by name, which is also their order in a project.
    pub(crate) families: Vec<Family>,
    /// The sets, by the name of their model.
    pub(crate) sets: Vec<Set>,
}

/// Operations that belong together: their kernels, their binding, their functions and layers.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Family {
    /// The stem of its files, and what `--op` takes.
    #[serde(skip_deserializing)]
    pub(crate) name: String,
    /// What it is, in a sentence.
    pub(crate) description: String,
    /// The folders of `kernels/` with its kernels; without one, `scaffold/<name>/kernel` has them.
    #[serde(default)]
    pub(crate) projects: Vec<String>,
    /// Its operations by the names of their functions, each in a sentence.
    pub(crate) operations: BTreeMap<String, String>,
    /// The operations that an operation needs.
    #[serde(default)]
    pub(super) needs: BTreeMap<String, Vec<String>>,
    /// Names that `--op` takes for the whole family.
    #[serde(default)]
    pub(crate) also: Vec<String>,
    /// The names that its Python module exports.
    pub(crate) exports: Vec<String>,
    /// The classes of its layers' module.
    pub(crate) layers: Vec<String>,
}

/// The families that a model needs.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Set {
    /// What `--for` takes.
    #[serde(skip_deserializing)]
    pub(crate) name: String,
    /// What it is for, in a sentence.
    #[serde(default)]
    pub(crate) description: String,
    /// Names of families.
    pub(crate) families: Vec<String>,
}

/// The file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tables {
    family: BTreeMap<String, Family>,
    #[serde(default)]
    set: BTreeMap<String, Set>,
}

/// A name that is not in the catalog.
#[derive(Clone, Debug, Error)]
#[error("{0}")]
pub(crate) struct Unknown(pub String);

impl Catalog {
    /// The embedded catalog.
    pub(crate) fn embedded() -> Result<Self> {
        let bytes = embedded::file("scaffold/scaffold.toml").context("no scaffold is embedded")?;
        let text = std::str::from_utf8(bytes).context("scaffold.toml is not UTF-8")?;
        let tables: Tables = toml::from_str(text).context("the embedded scaffold.toml cannot be read")?;
        Ok(Self {
            families: tables.family.into_iter().map(|(name, family)| Family { name, ..family }).collect(),
            sets: tables.set.into_iter().map(|(name, set)| Set { name, ..set }).collect(),
        })
    }

    /// Whether `--op` takes a name.
    pub(crate) fn has_operation(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// The family of a name that `--op` takes, and the operation; `None` for the whole family.
    fn find(&self, name: &str) -> Option<(&Family, Option<&str>)> {
        let wanted = plain(name);
        // A gradient comes with its operation.
        let is_wanted = |own: &String| plain(own) == wanted || format!("{}backward", plain(own)) == wanted;
        for family in &self.families {
            if let Some(operation) = family.operations.keys().find(|own| is_wanted(own)) {
                return Some((family, Some(operation)));
            }
        }
        let is_whole = |family: &&Family| family.also.iter().any(|own| plain(own) == wanted);
        self.families.iter().find(is_whole).map(|family| (family, None))
    }

    /// The families that some operations and sets name, each once, in the catalog's order.
    pub(crate) fn select(&self, operations: &[String], sets: &[String]) -> Result<Vec<Choice<'_>>, Unknown> {
        let mut chosen: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for name in sets {
            let set = self.sets.iter().find(|set| set.name == *name);
            let set = set.ok_or_else(|| {
                let names: Vec<&str> = self.sets.iter().map(|set| set.name.as_str()).collect();
                unknown("--for", name, &names, &names)
            })?;
            for family in self.families.iter().filter(|family| set.families.contains(&family.name)) {
                chosen.entry(&family.name).or_default().extend(family.operations.keys().map(String::as_str));
            }
        }
        for name in operations {
            let (family, operation) = self.find(name).ok_or_else(|| {
                if embedded::file(&format!("kernels/{name}/kernel.toml")).is_some() {
                    return Unknown(format!(
                        "{name} is bundled for `kernels build`, `verify` and `bench` alone (kernels/{name}): it has no torch \
                         side. `kernels add --blank NAME` starts an operation of your own"
                    ));
                }
                let names: Vec<&str> = self.families.iter().flat_map(Family::names).collect();
                unknown("--op", name, &names, &names)
            })?;
            let wanted = chosen.entry(&family.name).or_default();
            match operation {
                Some(operation) => {
                    wanted.insert(operation);
                    wanted.extend(family.needs.get(operation).into_iter().flatten().map(String::as_str));
                }
                None => wanted.extend(family.operations.keys().map(String::as_str)),
            }
        }
        let choice = |family| Some(Choice { family, operations: chosen.remove(family.name.as_str())? });
        Ok(self.families.iter().filter_map(choice).collect())
    }
}

/// The chosen part of a family.
#[derive(Clone, Debug)]
pub(crate) struct Choice<'a> {
    /// The family.
    pub(crate) family: &'a Family,
    /// Names of its operations, at least one.
    pub(crate) operations: BTreeSet<&'a str>,
}

impl Family {
    /// All that `--op` takes for it.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.operations.keys().chain(&self.also).map(String::as_str)
    }

    /// The folders of its kernels among the embedded files, each with its name in a project.
    pub(super) fn kernel_folders(&self) -> Vec<(&str, String)> {
        if self.projects.is_empty() {
            return vec![(&self.name, format!("scaffold/{}/kernel", self.name))];
        }
        let folder = |project: &String| format!("kernels/{project}");
        self.projects.iter().map(|project| (project.as_str(), folder(project))).collect()
    }
}

fn plain(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '-' | '_')).flat_map(char::to_lowercase).collect()
}

/// The error for an unknown name: similar names, and all names.
fn unknown(option: &str, name: &str, all: &[&str], listed: &[&str]) -> Unknown {
    let near = nearest(name, all.iter().copied()).map(|near| format!(" Did you mean `{near}`?")).unwrap_or_default();
    Unknown(format!(
        "{option} {name:?}: nothing has that name.{near} There are {}; `kernels init --list` says what each is",
        listed.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_catalog_names_what_is_there() {
        let catalog = Catalog::embedded().unwrap();
        let mut owners = BTreeMap::new();
        for family in &catalog.families {
            for name in family.names() {
                assert!(owners.insert(plain(name), name).is_none(), "{name} is there twice");
            }
            for (_, folder) in family.kernel_folders() {
                assert!(embedded::file(&format!("{folder}/kernel.toml")).is_some(), "{folder}");
            }
        }
        for set in &catalog.sets {
            for family in &set.families {
                assert!(catalog.families.iter().any(|one| one.name == *family), "{} names {family}", set.name);
            }
        }
    }
}
