//! `tuning.json` of a project: what was measured, and what each edit replaced, so that it can be taken back.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::base::disk;
use crate::install::{Refusal, refusal::Refused};

/// The file, in the project's folder.
pub(crate) const FILE: &str = "tuning.json";
const FORMAT: u32 = 1;
/// The most bytes of it, and of a file with a table.
const BYTES: u64 = 64 << 20;

#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Record {
    format: u32,
    pub(crate) rows: Vec<Written>,
}

/// A row that was written.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Written {
    /// When: the rows of one run have the same time.
    pub(crate) at: String,
    pub(crate) card: String,
    pub(crate) file: PathBuf,
    pub(crate) table: String,
    pub(crate) row: String,
    /// The text that it replaced.
    pub(crate) was: String,
    /// The text that stands there now.
    pub(crate) is: String,
    /// All candidates with their figures.
    pub(crate) measured: Value,
}

impl Record {
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let path = root.join(FILE);
        match disk::read_plain(&path, BYTES) {
            Ok(bytes) => {
                let record: Self =
                    serde_json::from_slice(&bytes).with_context(|| format!("cannot read {}", path.display()))?;
                anyhow::ensure!(record.format == FORMAT, "{} is of another version of this program", path.display());
                Ok(record)
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self { format: FORMAT, rows: Vec::new() }),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
        }
    }

    /// Writes it, or removes the file where it has no rows.
    pub(crate) fn write(&self, root: &Path) -> Result<()> {
        let path = root.join(FILE);
        if self.rows.is_empty() {
            return disk::delete(&path).with_context(|| format!("cannot remove {}", path.display()));
        }
        let text = serde_json::to_string_pretty(self)? + "\n";
        disk::write_atomic(&path, text.as_bytes(), 0o666).with_context(|| format!("cannot write {}", path.display()))
    }
}

/// Writes a text in the place of a file's, in one step.
pub(crate) fn replace(path: &Path, text: &str) -> Result<()> {
    let path = path.canonicalize().with_context(|| format!("cannot read {}", path.display()))?;
    let mode = path.metadata()?.permissions().mode();
    disk::write_atomic(&path, text.as_bytes(), mode & 0o777)
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(fs::set_permissions(&path, fs::Permissions::from_mode(mode))?)
}

/// A file of a project that changes.
#[derive(Debug)]
pub(crate) struct Edited {
    pub(crate) path: PathBuf,
    pub(crate) old: String,
    pub(crate) new: String,
}

/// The last run's rows, and the files without them. Edits elsewhere in the files stay.
pub(crate) fn undone(root: &Path) -> Result<(Record, Vec<Written>, Vec<Edited>)> {
    let mut record = Record::read(root)?;
    let last = record.rows.last().map(|row| row.at.clone());
    let rows: Vec<Written> = record.rows.iter().filter(|row| Some(&row.at) == last.as_ref()).cloned().collect();
    record.rows.retain(|row| Some(&row.at) != last.as_ref());
    let mut files: Vec<Edited> = Vec::new();
    for row in rows.iter().rev() {
        let path = root.join(&row.file);
        if files.iter().all(|edited| edited.path != row.file) {
            let old = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            files.push(Edited { path: row.file.clone(), new: old.clone(), old });
        }
        let Some(Edited { new: text, .. }) = files.iter_mut().find(|edited| edited.path == row.file) else { continue };
        if text.matches(&row.is).count() != 1 {
            return Err(Refusal(vec![Refused {
                path,
                reason: format!("was edited where `kernels tune` wrote the row {}; nothing was changed", row.row),
                changes: Vec::new(),
                advice: vec![format!("edit it by hand; {} has the text before, as `was`", root.join(FILE).display())],
            }])
            .into());
        }
        *text = text.replacen(&row.is, &row.was, 1);
    }
    Ok((record, rows, files))
}
