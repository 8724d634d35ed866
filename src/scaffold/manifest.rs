//! build.toml of a project.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::Name;
use super::sources::{FOLDER, Part};

/// The whole file. `binding`: the C++ files below torch-ext, sorted.
pub(super) fn compose(name: &Name, owner: &str, parts: &[Part], binding: &BTreeSet<String>) -> String {
    let mut text = format!(
        "[general]\nname = \"{name}\"\nversion = 1\nedition = 5\nlicense = \"Apache-2.0\"\nbackends = [\"cuda\"]\n\n\
         [general.hub]\nrepo-id = \"{owner}/{name}\"\n\n[torch]\nsrc = {}stable-abi = \"2.11\"\n",
        list(binding.iter().map(String::as_str)),
    );
    for part in parts {
        let _ = write!(text, "\n[kernel.{}]\nbackend = \"cuda\"\ndepends = []\n", part.name);
        if !part.shared.is_empty() {
            let _ = writeln!(text, "include = [\"{FOLDER}\"]");
        }
        let own = |compiled: bool| {
            let names = part.own.keys().filter(move |name| match name.rsplit_once('.') {
                Some((_, "cu")) => compiled,
                Some((_, "cuh" | "h")) => !compiled,
                _ => false,
            });
            names.map(|name| format!("{FOLDER}/{}/{name}", part.name))
        };
        let shared = part.shared.iter().map(|name| format!("{FOLDER}/{name}"));
        let paths: Vec<String> = own(true).chain(own(false)).chain(shared).collect();
        let _ = write!(text, "src = {}", list(paths.iter().map(String::as_str)));
    }
    text
}

fn list<'a>(items: impl Iterator<Item = &'a str>) -> String {
    let mut text = "[\n".to_owned();
    for item in items {
        let _ = writeln!(text, "  \"{item}\",");
    }
    text.push_str("]\n");
    text
}
