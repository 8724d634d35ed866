//! kernel.toml of a project: the files of its parts, one after another.

use std::fmt::Write as _;

use anyhow::{Context, Result};

use super::slice::slice;
use super::sources::{FOLDER, Part};

const HEAD: &str = "\
# How to call the launchers of this project, and what is right: `kernels build`, `verify` and `bench` read it.
format = 1
";

/// The whole file, with the operations whose launchers are wanted. With several parts, the budgets of each are for its own
/// kernels.
pub(super) fn compose(parts: &[Part], is_wanted: &dyn Fn(&str) -> bool) -> Result<String> {
    let mut text = HEAD.to_owned();
    for part in parts {
        let own = part.spec.split_once("\nformat = 1\n");
        let (_, own) = own.with_context(|| format!("kernel.toml of {} has no line `format = 1`", part.name))?;
        let _ = write!(text, "\n# {} {} {}\n", "-".repeat(8), part.name, "-".repeat(8));
        let own = slice(own.trim_start(), is_wanted)?;
        let folder = format!("{FOLDER}/{}", part.name);
        // Paths of a part lie in its own folder in the project.
        let own = own.replace(&format!("\"{FOLDER}/"), &format!("\"{folder}/"));
        if parts.len() == 1 {
            text.push_str(&own);
        } else {
            text.push_str(&limited(&own, &folder));
        }
    }
    Ok(text)
}

/// The text with each budget limited to the kernels of a folder.
fn limited(text: &str, folder: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        out.push_str(line);
        if line.trim_end() == "[[budget]]" {
            let _ = writeln!(out, "source = \"{folder}\"");
        }
    }
    out
}
