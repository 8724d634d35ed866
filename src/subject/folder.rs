//! A workspace that was filled elsewhere: its files are copied over the task's. Files that it lacks stay.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use walkdir::WalkDir;

use super::{End, Errand, Outcome};

pub(super) fn run(from: &Path, errand: &Errand) -> Result<Outcome> {
    let begun = Instant::now();
    if !from.is_dir() {
        bail!("dir:{}: there is no such folder", from.display());
    }
    let walk = WalkDir::new(from).min_depth(1).into_iter().filter_entry(|entry| entry.file_name() != ".git");
    for entry in walk {
        let entry = entry.with_context(|| format!("cannot read {}", from.display()))?;
        let to = errand.workspace.join(entry.path().strip_prefix(from)?);
        let kind = entry.file_type();
        let there = fs::symlink_metadata(&to).map(|meta| meta.file_type()).ok();
        if there.is_some_and(|there| !there.is_dir()) {
            fs::remove_file(&to).with_context(|| format!("cannot replace {}", to.display()))?;
        }
        let copied = if kind.is_dir() {
            fs::create_dir_all(&to)
        } else if kind.is_symlink() {
            fs::read_link(entry.path()).and_then(|target| symlink(target, &to))
        } else if kind.is_file() {
            fs::copy(entry.path(), &to).map(|_| ())
        } else {
            bail!("{} is neither a file nor a folder", entry.path().display());
        };
        copied.with_context(|| format!("cannot copy {}", entry.path().display()))?;
    }
    Ok(Outcome::unseen(End::Finished, begun.elapsed().as_secs_f64(), String::new()))
}
