//! `kernels skills pack --as`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use serde_json::json;

use crate::base::dir::Dir;
use crate::base::disk;
use crate::cli::skills;
use crate::install::refusal::{Refusal, Refused};
use crate::report::{Output, style};
use crate::skill::plugin;
use crate::skill::source::Skill;
use crate::skill::tree::Tree;

/// Writes the folder in one step if nothing is there. An equal folder is left as it is.
pub(super) fn run(skill: &Skill, arguments: &skills::Pack, output: Output) -> Result<ExitCode> {
    let tree = plugin::tree(skill, &arguments.layouts, arguments.owner.as_deref())?;
    let path = arguments.output.clone().unwrap_or_else(|| PathBuf::from(format!("{}-plugin", skill.name)));
    if fs::symlink_metadata(&path).is_ok() {
        if Tree::read(&path).ok() != Some(tree.clone()) {
            return Err(Refusal(vec![Refused {
                path,
                reason: "is there and differs".to_owned(),
                changes: Vec::new(),
                advice: vec!["move it away, or choose another folder with -o".to_owned()],
            }])
            .into());
        }
    } else {
        write(&path, &tree).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let what = format!("{}, {} files", arguments.layouts.join(", "), tree.len());
    output.line(format!("{} {}", path.display(), style::faint(what)));
    output.json(&json!({
        "path": path.to_string_lossy(),
        "name": skill.name,
        "version": skill.version,
        "layouts": arguments.layouts,
        "files": tree.iter().map(|(path, _)| path.as_str()).collect::<Vec<_>>(),
        "tree": skill.digest,
    }));
    Ok(ExitCode::SUCCESS)
}

/// Writes the tree beside its place first, so that an interrupted run leaves no part of it there.
fn write(path: &Path, tree: &Tree) -> Result<()> {
    let above = path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let staged = tempfile::Builder::new().prefix(".kernels-pack-").tempdir_in(above)?;
    let folder = staged.path().join("folder");
    fs::create_dir(&folder)?;
    tree.write(&Dir::open(&folder)?)?.sync()?;
    Ok(disk::move_new(&folder, path)?)
}
