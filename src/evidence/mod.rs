//! Recorded runs, and whether they still match the code.
//!
//! A folder of evidence holds `<operation>-<gpu>.json` for each operation and card ([`Evidence`]), and may hold
//! `peers-<gpu>.json` ([`Peers`]): times of other projects' kernels on the same card. `harness-<gpu>.json`
//! has the results of the cheating kernels of `tests/cheats`, and `e2e-<name>-<gpu>.json` the times of a whole model
//! ([`EndToEndEvidence`]). `widths-<gpu>.json` and `trials-<gpu>.json` are written by the scripts of `benches/gpu`;
//! `RECORD.json.sig` is a signature.

mod brief;
pub(crate) mod coverage;
pub(crate) mod end_to_end;
pub mod form;
pub(crate) mod freshness;
mod headline;
mod operation;
pub mod page;
pub(crate) mod peers;
pub(crate) mod recorded;
mod records;
mod rounds;
pub mod signature;
mod summary;

pub use end_to_end::EndToEndEvidence;
pub(crate) use freshness::Digest;
pub use freshness::{Freshness, Standing, Texts, check};
pub(crate) use peers::PeerRow;
pub use peers::Peers;
pub use recorded::{Evidence, record};

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::agent::project::git_root;

/// The format of records of peers, models and trials.
const FORMAT: u32 = 1;

/// The evidence folder of a project: the named one, else `evidence/` of its git root, else its own.
pub(crate) fn folder(project: &Path, named: Option<&Path>) -> PathBuf {
    if let Some(named) = named {
        return named.to_path_buf();
    }
    let root = std::path::absolute(project).ok();
    let root = root.as_deref().and_then(git_root);
    root.as_deref().unwrap_or(project).join("evidence")
}

/// Reads a record; errors name the file.
fn read<T: DeserializeOwned>(path: &Path) -> Result<T> {
    read_of(path, &[FORMAT])
}

/// Reads a record of one of these formats.
fn read_of<T: DeserializeOwned>(path: &Path, known: &[u32]) -> Result<T> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let value: Value = serde_json::from_str(&text).with_context(|| format!("{} is not JSON", path.display()))?;
    let format = value.get("format").unwrap_or(&Value::Null);
    ensure!(
        known.iter().any(|known| *format == *known),
        "{} is not a record that this version of kernels can read: its format is {format}, and {known:?} is known",
        path.display()
    );
    let format = format.clone();
    serde_json::from_value(value).with_context(|| format!("{} is not a record of format {format}", path.display()))
}

/// The `.json` files of a folder with a wanted name, sorted by name; none if the folder does not exist.
fn files(dir: &Path, wanted: impl Fn(&str) -> bool) -> Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.with_context(|| format!("cannot read {}", dir.display()))?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.with_context(|| format!("cannot read {}", dir.display()))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.ends_with(".json") && wanted(&name) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
