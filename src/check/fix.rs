//! `--fix`: mechanical edits, written atomically.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde::Serialize;

use super::Report;
use super::finding::Edit;
use crate::base::disk;

/// The result for one file.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Fix {
    /// The file, relative to the project.
    pub(crate) path: String,
    /// Edits made, or planned in a dry run.
    pub(crate) what: Vec<String>,
    /// Why the file was not edited; `None` if it was.
    pub(crate) refused: Option<String>,
}

/// Makes the edits of a report's findings, or lists them in a dry run. Each file is written atomically.
pub(crate) fn apply(root: &Path, report: &Report, dry_run: bool) -> Vec<Fix> {
    let mut by_file: BTreeMap<&str, Vec<&Edit>> = BTreeMap::new();
    for edit in report.findings.iter().filter_map(|finding| finding.edit.as_ref()) {
        let edits = by_file.entry(&edit.path).or_default();
        // Several findings can share one edit.
        if !edits.contains(&edit) {
            edits.push(edit);
        }
    }
    by_file
        .into_iter()
        .map(|(path, edits)| {
            let text = report.texts.get(path).map(String::as_str).unwrap_or_default();
            let (text, what) = edited(text, edits);
            let refused = if dry_run {
                writable(root, path, report).err()
            } else {
                writable(root, path, report)
                    .and_then(|mode| {
                        disk::write_atomic(&root.join(path), text.as_bytes(), mode)
                            .map_err(|error| format!("cannot be written: {error}"))
                    })
                    .err()
            };
            Fix { path: path.to_owned(), what, refused }
        })
        .collect()
}

/// Applies the edits in order; an edit that overlaps the previous one waits for the next run.
fn edited(text: &str, mut edits: Vec<&Edit>) -> (String, Vec<String>) {
    edits.sort_by_key(|edit| (edit.at.start, edit.at.end));
    let (mut out, mut done, mut what) = (String::with_capacity(text.len() + 64), 0, Vec::new());
    for edit in edits {
        let Some(kept) = text.get(done..edit.at.start) else {
            continue;
        };
        out.push_str(kept);
        out.push_str(&edit.text);
        done = edit.at.end;
        what.push(edit.what.clone());
    }
    out.push_str(text.get(done..).unwrap_or_default());
    (out, what)
}

/// The file's permissions, if it may be edited: a regular file that is unchanged since the check.
fn writable(root: &Path, path: &str, report: &Report) -> Result<u32, String> {
    let full = root.join(path);
    let meta = fs::symlink_metadata(&full).map_err(|error| format!("cannot be read: {error}"))?;
    if !meta.is_file() {
        return Err("is a link, and writing would put a file in its place; edit the file that it points to".to_owned());
    }
    if fs::canonicalize(&full).is_ok_and(|real| real != full) {
        return Err("is reached through a link; edit it where it is".to_owned());
    }
    if meta.permissions().readonly() {
        return Err("may not be written; change its permissions first".to_owned());
    }
    let now = fs::read(&full).map_err(|error| format!("cannot be read: {error}"))?;
    if report.texts.get(path).is_none_or(|text| text.as_bytes() != now) {
        return Err("has changed since it was checked; run again".to_owned());
    }
    Ok(meta.permissions().mode() & 0o7777)
}
