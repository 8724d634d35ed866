//! The part of a family that a project has: all of it, or some operations and nothing of the others.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};

use super::catalog::Choice;
use super::name::class;
use super::scan::Language;
use super::shake::shake;
use super::{Family, embedded, sources, torch_side};

/// A family as a project has it.
pub(super) struct Part {
    /// The family with only the functions and layers that are left.
    pub(super) family: Family,
    /// Its files, by their path in the scaffold's folder of the family.
    pub(super) files: BTreeMap<String, Vec<u8>>,
    /// The binding, which declares the launchers.
    binding: String,
    /// Its kernels, if they are not those of a bundled project.
    pub(super) kernel: Option<sources::Part<'static>>,
}

impl Part {
    /// Keeps the chosen operations.
    pub(super) fn of(choice: &Choice) -> Self {
        let family = choice.family;
        let folder = format!("scaffold/{}", family.name);
        let text =
            |path: &str| String::from_utf8_lossy(embedded::file(&format!("{folder}/{path}")).unwrap_or_default());
        let module = format!("package/{}.py", family.name);
        let whole = text(&module);
        let others = family.operations.keys().filter(|name| !choice.operations.contains(name.as_str()));
        let mut unwanted: BTreeSet<String> = others.flat_map(|name| [name.clone(), format!("{name}_")]).collect();
        let is_whole = unwanted.is_empty();

        // Drops the unwanted ops of torch, and the functions and layers that need them.
        let kept = shake(&whole, Language::Python, &unwanted, &[]);
        unwanted.extend(ops(&whole).difference(&ops(&kept)).map(|name| (*name).to_owned()));
        let kept = shake(&whole, Language::Python, &unwanted, &[]);
        let exports = having(&kept, "def", &family.exports, &mut unwanted);
        let layers = shake(&text(&format!("package/layers/{}.py", family.name)), Language::Python, &unwanted, &[]);
        let layers = having(&layers, "class", &family.layers, &mut unwanted);

        let mut files = BTreeMap::new();
        // In reverse order, so that tests come before the cases whose helpers they import.
        let mut used = Vec::new();
        for (path, bytes) in embedded::below(&folder).collect::<Vec<_>>().into_iter().rev() {
            let language = match path.rsplit_once('.') {
                Some((_, "py")) => Language::Python,
                Some((_, "cpp")) => Language::Cpp,
                _ => {
                    files.insert(path.to_owned(), bytes.to_vec());
                    continue;
                }
            };
            if path.starts_with("package/layers/") && layers.is_empty() {
                continue;
            }
            let kept = shake(&String::from_utf8_lossy(bytes), language, &unwanted, &used);
            let imports = kept.lines().filter_map(|line| line.strip_prefix("from cases_")?.split_once(" import "));
            used.extend(imports.flat_map(|(_, names)| names.split(", ")).map(str::to_owned));
            files.insert(path.to_owned(), kept.into_bytes());
        }
        let binding = files.get(&format!("torch-ext/{}.cpp", family.name));
        let binding = binding.map(|bytes| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default();
        let description = if is_whole {
            family.description.clone()
        } else {
            choice.operations.iter().map(|name| family.operations[*name].as_str()).collect::<Vec<_>>().join(" ")
        };
        Self { family: Family { description, exports, layers, ..family.clone() }, files, binding, kernel: None }
    }

    /// An operation of the user's own, as `kernels add --blank` starts it.
    pub(super) fn blank(name: &str) -> Result<Self> {
        // Leaked, because they are kept among embedded files, which are static.
        let fill = |bytes: &[u8]| -> &'static str { String::from_utf8_lossy(bytes).replace("@OP@", name).leak() };
        let own = embedded::below("scaffold/blank/kernel/kernel_src");
        let own = own.map(|(path, bytes)| (&*path.replace("blank", name).leak(), fill(bytes).as_bytes())).collect();
        let spec = fill(embedded::file("scaffold/blank/kernel/kernel.toml").context("no blank is embedded")?);
        let rooted = spec.replace("\"kernel_src/", &format!("\"kernel_src/{name}/"));
        let files = torch_side::render(&rooted, name)?;
        let binding = String::from_utf8_lossy(&files[&format!("torch-ext/{name}.cpp")]).into_owned();
        let family = Family {
            name: name.to_owned(),
            description: "An operation of this project.".to_owned(),
            exports: vec![name.to_owned()],
            layers: vec![class(name)],
            ..Family::default()
        };
        let kernel = sources::Part { name: name.to_owned().leak(), spec: spec.into(), own, shared: Vec::new() };
        Ok(Self { family, files, binding, kernel: Some(kernel) })
    }

    /// Whether the binding calls a launcher.
    pub(super) fn launches(&self, launcher: &str) -> bool {
        self.binding.contains(&format!(" {launcher}("))
    }
}

/// The ops that a module calls, from `ops.NAME.default`.
fn ops(module: &str) -> BTreeSet<&str> {
    module.split(" ops.").skip(1).filter_map(|rest| rest.split_once(".default")).map(|(name, _)| name).collect()
}

/// The names that a module defines. The others are added to `unwanted`.
fn having(module: &str, keyword: &str, names: &[String], unwanted: &mut BTreeSet<String>) -> Vec<String> {
    let is_there = |name: &&String| module.contains(&format!("\n{keyword} {name}("));
    let (there, others): (Vec<&String>, Vec<&String>) = names.iter().partition(is_there);
    unwanted.extend(others.into_iter().cloned());
    there.into_iter().cloned().collect()
}
