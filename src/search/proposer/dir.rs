//! `dir:PATH`: each entry of a folder is a proposal: a folder with sources, one source by its name, or a text with edits
//! as a model writes them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::{Answer, Asked};
use crate::base::disk;
use crate::search::edit;
use crate::search::event::Caught;

/// The most bytes of a file with edits.
const TEXT: u64 = 4 << 20;

/// The entries in the order of their names, without hidden ones.
pub(super) fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let read = fs::read_dir(folder).with_context(|| format!("dir:{}: cannot read the folder", folder.display()))?;
    let mut all: Vec<PathBuf> = read.flatten().map(|entry| entry.path()).collect();
    all.retain(|path| !path.file_name().unwrap_or_default().to_string_lossy().starts_with('.'));
    all.sort();
    Ok(all)
}

pub(super) fn answer(folder: &Path, asked: &Asked) -> Answer {
    let entry = entries(folder).ok().and_then(|all| all.get(asked.plan.sample as usize).cloned());
    let Some(entry) = entry else {
        let gone = Caught::public("no-answer", format!("{} has fewer entries than before", folder.display()));
        return Answer::free(Err(vec![gone]), String::new());
    };
    let name = entry.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let is = fs::symlink_metadata(&entry).map(|meta| meta.file_type());
    let sources = match is {
        Ok(is) if is.is_dir() => asked.parent.with_folder(&entry, &asked.desk.task.root, true),
        Ok(is) if is.is_file() => file(&entry, &name, asked),
        _ => Err(vec![Caught::public("not-a-file", format!("{name} is a link or a special file"))]),
    };
    // What a text with edits says of them.
    let text = disk::read_plain(&entry, TEXT).ok().filter(|_| is_text(&entry));
    let said = text.map(|bytes| edit::thought(&String::from_utf8_lossy(&bytes))).filter(|said| !said.is_empty());
    Answer::free(sources, said.map_or_else(|| name.clone(), |said| format!("{name}: {said}")))
}

/// Whether a file has edits, and is not a source.
fn is_text(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "md" || ending == "txt")
}

/// A file: a source of the same name, or a text with edits.
fn file(path: &Path, name: &str, asked: &Asked) -> Result<crate::search::sources::Sources, Vec<Caught>> {
    let bytes = disk::read_plain(path, TEXT)
        .map_err(|error| vec![Caught::public("too-large", format!("{name} cannot be taken: {error}"))])?;
    let text =
        String::from_utf8(bytes).map_err(|_| vec![Caught::public("not-text", format!("{name} is not UTF-8"))])?;
    if is_text(path) {
        return edit::apply(&asked.parent, &text);
    }
    let named: Vec<&String> =
        asked.parent.iter().map(|(path, _)| path).filter(|path| Path::new(path).ends_with(name)).collect();
    match named.as_slice() {
        [one] => asked.parent.with([((*one).clone(), text)].into()),
        [] => Err(asked.parent.refusal(name).into_iter().collect()),
        _ => Err(vec![Caught::public("ambiguous", format!("several sources are called {name}; put it into a folder"))]),
    }
}
