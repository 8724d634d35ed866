//! `tuning.json` of a project: what was measured, and what each edit replaced, so that it can be taken back.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::table::Table;
use crate::base::disk;
use crate::install::Refusal;
use crate::project::Project;

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
                ensure!(record.format == FORMAT, "{} is of another version of this program", path.display());
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

/// Writes a file's new text in the place of its old one, in one step. A link may not lead out of the project, whose root is canonical.
pub(crate) fn replace(root: &Path, edited: &Edited) -> Result<()> {
    let named = root.join(&edited.path);
    let path = named.canonicalize().with_context(|| format!("cannot read {}", named.display()))?;
    ensure!(
        path.starts_with(root),
        "{} is a link out of the project's folder, to {}, and was not written; copy the file into the project",
        named.display(),
        path.display()
    );
    let mode = path.metadata()?.permissions().mode();
    disk::write_atomic(&path, edited.new.as_bytes(), mode & 0o777)
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

/// What is taken back: the last run's rows.
pub(crate) struct Undone {
    /// Without them.
    pub(crate) record: Record,
    pub(crate) rows: Vec<Written>,
    /// Those of them that their files do not have: the run, or an earlier undo, was ended before the record and the files agreed.
    pub(crate) absent: Vec<Written>,
    /// The files without them. Edits elsewhere in the files stay.
    pub(crate) files: Vec<Edited>,
}

/// Takes back the last run's rows, in memory.
pub(crate) fn undone(project: &Project) -> Result<Undone> {
    let root = &project.root;
    let mut record = Record::read(root)?;
    let last = record.rows.last().map(|row| row.at.clone());
    let rows: Vec<Written> = record.rows.iter().filter(|row| Some(&row.at) == last.as_ref()).cloned().collect();
    record.rows.retain(|row| Some(&row.at) != last.as_ref());
    let (mut files, mut absent): (Vec<Edited>, Vec<Written>) = (Vec::new(), Vec::new());
    for row in rows.iter().rev() {
        // The record is a file of the project like any other, and may come from a stranger.
        if !project.spec.tunings.iter().any(|tuning| tuning.file == row.file) {
            let (file, row) = (row.file.display(), &row.row);
            let reason =
                format!("has the row {row} of {file}, which no [[tuning]] of kernel.toml names; nothing was changed");
            let advice = ["take the row back by hand where it is the project's own, and remove it from this record"];
            return Err(Refusal::of(root.join(FILE), reason, &advice).into());
        }
        let path = root.join(&row.file);
        if files.iter().all(|edited| edited.path != row.file) {
            let old = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
            files.push(Edited { path: row.file.clone(), new: old.clone(), old });
        }
        let Some(Edited { new: text, .. }) = files.iter_mut().find(|edited| edited.path == row.file) else { continue };
        match text.matches(&row.is).count() {
            1 => *text = text.replacen(&row.is, &row.was, 1),
            0 if is_absent(project, row, text) => absent.push(row.clone()),
            _ => {
                let reason = format!("was edited where `kernels tune` wrote the row {}; nothing was changed", row.row);
                let by_hand = format!("edit it by hand; {} has the text before, as `was`", root.join(FILE).display());
                return Err(Refusal::of(path, reason, &[&by_hand]).into());
            }
        }
    }
    files.retain(|edited| edited.old != edited.new);
    Ok(Undone { record, rows, absent, files })
}

/// Whether a table has neither a row nor its comment, and still has the row in whose place it stood. The comment names that row, so
/// that the rows of the table are compared and not the text.
fn is_absent(project: &Project, row: &Written, text: &str) -> bool {
    let mut tunings = project.spec.tunings.iter().filter(|tuning| tuning.file == row.file && tuning.table == row.table);
    let Some(table) = tunings.find_map(|tuning| Table::read(tuning, text).ok()) else { return false };
    let count = |wanted: &str| (0..table.rows.len()).filter(|at| table.row(*at) == wanted).count();
    let mut comment = row.is.lines().map(str::trim).filter(|line| line.starts_with("//"));
    // One that was inserted took no row's place.
    let as_before = if row.was.is_empty() { count(&row.row) == 0 } else { count(&row.was) == 1 };
    as_before && !comment.any(|line| text.contains(line))
}
