//! Merges a user's edits into another version of a skill, file by file, with the text that was installed as their
//! common base.

use std::collections::BTreeMap;
use std::path::Path;

use similar::TextMerge;

use super::base::Base;
use super::protect::see_edits;
use super::receipt::Receipt;
use super::refusal::Refused;
use super::scan::{Change, ChangeKind};
use super::state::Judgement;
use super::step::{Action, Merge};
use super::transaction::OldTree;
use crate::agent::Scope;
use crate::base::dir::Dir;
use crate::base::text;
use crate::skill::path::RelPath;
use crate::skill::source::{Skill, is_newer};
use crate::skill::tree::{Entry, MAX_BYTES, Tree, is_executable};

/// The step for an edited install: the new version with the edits in it. Both sides' changes in one place are refused, or
/// written between markers.
pub(super) fn decide(
    skill: &Skill,
    (dest, scope): (&Path, Scope),
    judged: &Judgement,
    how: Merge,
) -> Result<(Action, OldTree), Refused> {
    let refused = |reason: String, changes: Vec<Change>, advice: &[&str]| {
        let advice = advice.iter().map(|&line| line.to_owned()).collect();
        Refused { path: dest.to_path_buf(), reason, changes, advice }
    };
    // Edits are known by the receipt.
    let Some(receipt) = judged.receipt.as_ref().filter(|receipt| receipt.tree != skill.digest) else {
        return Ok((Action::Unchanged, OldTree::default()));
    };
    let here = receipt.version.as_deref().unwrap_or("the installed version");
    let there = skill.version.as_deref().unwrap_or("the new one");
    if is_newer(here, there) {
        let reason = format!("is an edited {here}, newer than {there}");
        return Err(refused(reason, Vec::new(), &["upgrade kernels, or name a source with a later version"]));
    }
    let base = Base::of(dest, receipt, Some(skill));
    let merged = merge(skill, dest, judged.state.changes(), receipt, &base);
    let (tree, conflicts) = merged.map_err(|why| {
        refused(format!("cannot be merged: {why}"), Vec::new(), &["--force moves it to a backup, then installs"])
    })?;
    if !conflicts.is_empty() && how != Merge::WithMarkers {
        let see = see_edits(dest, scope);
        let conflicts_too = "--conflicts writes both texts between markers; the edited tree stays in a backup";
        let reason = format!("was edited where {there} differs from {here}:");
        let is_lost = |change: &&Change| change.kind == ChangeKind::Edited && base.get(&change.path).is_none();
        let lost = conflicts.iter().find(is_lost).map(|change| {
            format!("the installed text of {} is neither in .kernels/base nor in git's history", change.path)
        });
        let advice: Vec<&str> = lost.as_deref().into_iter().chain([see.as_str(), conflicts_too]).collect();
        return Err(refused(reason, conflicts.clone(), &advice));
    }
    let old = OldTree { keep: true, fingerprint: judged.fingerprint.clone() };
    Ok((Action::Merge { tree, from: receipt.version.clone(), conflicts }, old))
}

/// The files of `skill` with these changes of the install in `folder`, and those of them that conflict.
fn merge(
    skill: &Skill,
    folder: &Path,
    changes: &[Change],
    receipt: &Receipt,
    base: &Base<'_>,
) -> Result<(Tree, Vec<Change>), String> {
    let folder = Dir::open_last(folder).map_err(|error| error.to_string())?;
    let mut files: BTreeMap<RelPath, Entry> =
        skill.tree.iter().map(|(path, entry)| (path.clone(), entry.clone())).collect();
    let mut conflicts = Vec::new();
    for change in changes {
        let path = change
            .file
            .to_str()
            .ok_or("its name is not UTF-8")
            .and_then(|text| RelPath::parse(text).map_err(|_| "no skill can have a file of this name"));
        let path = path.map_err(|why| format!("{}: {why}", change.path))?;
        let ours = match change.kind {
            // A power cut did it, not the user.
            ChangeKind::Emptied => continue,
            ChangeKind::Missing => None,
            _ => Some(read(&folder, &path).map_err(|error| format!("{path}: {error}"))?),
        };
        let theirs = files.remove(&path);
        let (file, conflict) = if skill.files.get(&path) == receipt.files.get(&path) {
            (ours, false)
        } else {
            let base = match (&ours, change.kind) {
                (Some(ours), ChangeKind::Mode) => Some(Entry { executable: !ours.executable, ..ours.clone() }),
                _ => base.get(path.as_str()),
            };
            one(base.as_ref(), ours, theirs, receipt, skill)
        };
        files.extend(file.map(|file| (path, file)));
        conflicts.extend(conflict.then(|| change.clone()));
    }
    let mut tree = Tree::default();
    for (path, entry) in files {
        tree.insert(path, entry).map_err(|error| error.to_string())?;
    }
    Ok((tree, conflicts))
}

fn read(folder: &Dir, path: &RelPath) -> std::io::Result<Entry> {
    let above = path.parents().last().unwrap_or_default();
    let folder = folder.below(above)?;
    let meta = folder.open_plain(path.file_name())?.metadata()?;
    let content = folder.read_plain(path.file_name(), MAX_BYTES)?;
    Ok(Entry { executable: is_executable(&meta), content: content.into() })
}

/// One file that both sides changed, and whether the changes conflict.
fn one(
    base: Option<&Entry>,
    ours: Option<Entry>,
    theirs: Option<Entry>,
    receipt: &Receipt,
    skill: &Skill,
) -> (Option<Entry>, bool) {
    let (ours, theirs) = match (ours, theirs) {
        (Some(ours), Some(theirs)) => (ours, theirs),
        // Deleted by one side and edited by the other: the edited file stays.
        (ours, theirs) => {
            let conflict = ours.is_some() || theirs.is_some();
            return (ours.or(theirs), conflict);
        }
    };
    let executable = match base {
        _ if !receipt.modes => theirs.executable,
        Some(base) if base.executable == ours.executable => theirs.executable,
        _ => ours.executable,
    };
    // What the new version has; an edit may have lines of both kinds.
    let is_crlf = text::with_lf(&theirs.content).is_some();
    let text = |entry: &Entry| {
        let text = text::with_lf(&entry.content).unwrap_or_else(|| entry.content.to_vec());
        let text = String::from_utf8(text).ok().filter(|text| !text.contains('\0'))?;
        Some(if is_crlf { text.replace("\r\n", "\n") } else { text })
    };
    // Without the base, everything conflicts that is not the same.
    let before = base.map_or(Some(String::new()), text);
    let (Some(before), Some(mine), Some(new)) = (before, text(&ours), text(&theirs)) else {
        let conflict = ours.content != theirs.content;
        return (Some(Entry { executable, ..ours }), conflict);
    };
    let mut merged = TextMerge::from_lines(before.as_str(), mine.as_str(), new.as_str());
    let version = skill.version.as_deref().unwrap_or("new");
    merged.labels("installed", "your edit", &format!("{} {version}", skill.name));
    let mut content = merged.to_string();
    if is_crlf {
        content = content.replace('\n', "\r\n");
    }
    (Some(Entry { executable, content: content.into_bytes().into() }), merged.is_conflicted())
}
