//! The Python package's `__init__.py` files, and the project's texts about its families.

use std::fmt::Write as _;

use super::{Family, Name};

/// `torch-ext/<package>/__init__.py`: the functions of every family, and the layers as a module.
pub(super) fn init(name: &Name, families: &[&Family]) -> String {
    let mut text = format!("\"\"\"{name}: {}.\"\"\"\n\n", what(families));
    let has_layers = families.iter().any(|family| !family.layers.is_empty());
    if has_layers {
        text.push_str("from . import layers\n");
    }
    let mut all = Vec::new();
    let mut imports: Vec<(&str, &[String])> =
        families.iter().map(|family| (family.name.as_str(), family.exports.as_slice())).collect();
    imports.sort_unstable();
    for (module, names) in imports {
        text.push_str(&import(module, names));
    }
    for family in families {
        all.extend(family.exports.iter().map(String::as_str));
    }
    if has_layers {
        all.push("layers");
    }
    text.push_str(&exported(&all));
    text
}

/// `torch-ext/<package>/layers/__init__.py`, which `kernelize` reads; `None` without layers.
pub(super) fn layers(name: &Name, families: &[&Family]) -> Option<String> {
    let mut with: Vec<&&Family> = families.iter().filter(|family| !family.layers.is_empty()).collect();
    if with.is_empty() {
        return None;
    }
    let all: Vec<&str> = with.iter().flat_map(|family| &family.layers).map(String::as_str).collect();
    let mut text = format!("\"\"\"Layers of {name}, for `kernelize` of the kernels library.\"\"\"\n\n");
    let listed = exported(&all);
    with.sort_unstable_by_key(|family| &family.name);
    for family in with {
        text.push_str(&import(&family.name, &family.layers));
    }
    text.push_str(&listed);
    Some(text)
}

/// The functions and layers of each family, a list in Markdown.
pub(super) fn contents(families: &[&Family]) -> String {
    let mut text = String::new();
    for family in families {
        let names = |names: &[String]| {
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            names.join(", ")
        };
        let _ = write!(text, "- **{}**: {} {}", family.name, family.description, names(&family.exports));
        if !family.layers.is_empty() {
            let _ = write!(text, "; layers {}", names(&family.layers));
        }
        text.push('\n');
    }
    text
}

/// The families' names, for a sentence.
fn what(families: &[&Family]) -> String {
    let names: Vec<&str> = families.iter().map(|family| family.name.as_str()).collect();
    format!("CUDA kernels for PyTorch ({})", names.join(", "))
}

/// The longest line of Python that formatters leave as it is.
const WIDTH: usize = 88;

fn import(module: &str, names: &[String]) -> String {
    let mut sorted: Vec<&str> = names.iter().map(String::as_str).collect();
    // In isort's order: constants, classes, functions.
    sorted.sort_unstable();
    let line = format!("from .{module} import {}\n", sorted.join(", "));
    if line.len() <= WIDTH + 1 {
        return line;
    }
    let mut text = format!("from .{module} import (\n");
    for name in sorted {
        let _ = writeln!(text, "    {name},");
    }
    text.push_str(")\n");
    text
}

fn exported(names: &[&str]) -> String {
    let mut text = "\n__all__ = [\n".to_owned();
    for name in names {
        let _ = writeln!(text, "    \"{name}\",");
    }
    text.push_str("]\n");
    text
}
