//! What must not be changed, and what a user can do about it.

use std::path::Path;

use super::refusal::Refused;
use super::state::{Foreign, Judgement, State};
use super::step::Options;
use crate::agent::Scope;
use crate::skill::source::Source;

/// The command that shows the edits of the install at `dest`.
pub(super) fn see_edits(dest: &Path, scope: Scope) -> String {
    let skill = dest.file_name().unwrap_or_default().to_string_lossy();
    let option = scope.option(dest.parent().unwrap_or(dest));
    format!("`kernels skills diff {skill}{option}` shows the edits")
}

/// Describes what is protected at `dest`: as an error without `--force`, as text with it.
pub(super) fn protect(
    (dest, scope): (&Path, Scope),
    judged: &Judgement,
    options: Options,
    command: &str,
) -> Result<String, Refused> {
    let see = see_edits(dest, scope);
    let upgrade = "upgrade kernels to manage it".to_owned();
    let (what, reason, mut advice) = match &judged.state {
        State::Absent | State::Current { .. } | State::Unchecked | State::Stale | State::Missing(_) => {
            return Ok(String::new());
        }
        State::Unreadable(why) => ("", format!("cannot be read: {why}"), vec![]),
        State::Modified(_) => ("edited tree", "was edited since it was installed:".to_owned(), vec![see]),
        State::Newer => {
            let version = judged.version.as_deref().unwrap_or("a later version");
            let reason = format!("is {version}, newer than what would replace it");
            let embedded = judged.receipt.as_ref().is_some_and(|receipt| receipt.source == Source::Embedded);
            ("newer version", reason, if embedded { vec![upgrade] } else { Vec::new() })
        }
        State::Foreign(Foreign::LaterReceipt) => {
            ("newer install", "was installed by a later kernels".to_owned(), vec![upgrade])
        }
        State::Foreign(Foreign::DamagedReceipt(why)) => {
            let from_git = "take .kernels.json from version control again, if it is there".to_owned();
            (
                "install with a damaged receipt",
                format!("has an unusable receipt, so edits cannot be detected: {why}"),
                vec![from_git],
            )
        }
        State::Foreign(Foreign::Folder) => ("foreign folder", "was not installed by kernels".to_owned(), vec![]),
        State::Foreign(Foreign::NotAFolder | Foreign::LinkFile(_)) => ("file", "is not a folder".to_owned(), vec![]),
        State::Foreign(Foreign::Link(to)) => {
            ("link", format!("is a link to {}, which kernels does not write through", to.display()), vec![])
        }
    };
    // An unreadable tree cannot be moved to a backup either, with or without --force.
    let readable = !matches!(judged.state, State::Unreadable(_));
    if options.force && readable {
        return Ok(what.to_owned());
    }
    if readable {
        let again = match (&judged.state, command) {
            (State::Foreign(Foreign::Link(_)), _) => {
                "--force moves the link itself to a backup; what it points to stays"
            }
            (_, "remove") => "--force moves it to a backup, then removes it",
            _ => "--force moves it to a backup, then installs",
        };
        advice.push(again.to_owned());
    }
    if matches!(judged.state, State::Modified(_)) && command != "remove" {
        advice.push("--merge brings the edits into the new version instead".to_owned());
    }
    let changes = match &judged.state {
        State::Modified(changes) => changes.clone(),
        _ => Vec::new(),
    };
    Err(Refused { path: dest.to_path_buf(), reason, changes, advice })
}
