//! A workspace that was filled elsewhere: its files are copied over the task's. Where it has a repository it is whole, and files
//! that it lacks were removed; otherwise they stay. Folders of skills are not its work. A trace of the agent that filled it,
//! `NAME.trace` beside it, says what the agent did.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use walkdir::WalkDir;

use super::agent::{Seen, installed, seen};
use super::{End, Errand, Outcome};
use crate::agent::table;
use crate::trace;

pub(super) fn run(from: &Path, errand: &Errand) -> Result<Outcome> {
    if !from.is_dir() {
        bail!("dir:{}: there is no such folder", from.display());
    }
    let left = paths(from)?;
    if from.join(".git").exists() {
        for path in paths(errand.workspace)?.difference(&left) {
            let path = errand.workspace.join(path);
            if path.is_symlink() || !path.is_dir() {
                fs::remove_file(&path).with_context(|| format!("cannot remove {}", path.display()))?;
            }
        }
    }
    for path in left {
        copy(&from.join(&path), &errand.workspace.join(&path))?;
    }
    let trace = PathBuf::from(format!("{}.trace", from.display()));
    if trace.exists() { told(&trace, errand) } else { Ok(Outcome::unseen(End::Finished, 0.0, String::new())) }
}

/// What lies in a workspace, without its repository and without skills and what belongs to their installation.
fn paths(folder: &Path) -> Result<BTreeSet<PathBuf>> {
    let of = |agent: &table::Agent, path: &Path| agent.project_folders().any(|folder| path == Path::new(folder));
    let skills = |path: &Path| table::all().iter().any(|agent| of(agent, path));
    let inside = |path: &Path| path.strip_prefix(folder).unwrap_or(path).to_owned();
    let walk = WalkDir::new(folder).min_depth(1).into_iter();
    let own = |entry: &walkdir::DirEntry| entry.file_name() == ".git" || entry.file_name() == ".kernels";
    let walk = walk.filter_entry(|entry| !own(entry) && !skills(&inside(entry.path())));
    walk.map(|entry| Ok(inside(entry.with_context(|| format!("cannot read {}", folder.display()))?.path()))).collect()
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let kind = fs::symlink_metadata(from).with_context(|| format!("cannot read {}", from.display()))?.file_type();
    let there = fs::symlink_metadata(to).map(|meta| meta.file_type()).ok();
    if there.is_some_and(|there| !there.is_dir()) {
        fs::remove_file(to).with_context(|| format!("cannot replace {}", to.display()))?;
    }
    let copied = if kind.is_dir() {
        fs::create_dir_all(to)
    } else if kind.is_symlink() {
        fs::read_link(from).and_then(|target| symlink(target, to))
    } else if kind.is_file() {
        fs::copy(from, to).map(|_| ())
    } else {
        bail!("{} is neither a file nor a folder", from.display());
    };
    copied.with_context(|| format!("cannot copy {}", from.display()))
}

/// What the trace says. Tokens are not counted alike by all agents, and are left out.
fn told(trace: &Path, errand: &Errand) -> Result<Outcome> {
    let steps = trace::read(trace)?.steps.into_iter().map(Seen::from).collect();
    let told = seen(steps, &installed("agents", errand.workspace));
    // What holds words alone does not show what was done: whether a skill was loaded, say.
    Ok(if told.took.calls == Some(0) { Outcome { steps: told.steps, ..Outcome::default() } } else { told })
}
