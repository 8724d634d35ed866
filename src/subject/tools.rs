//! What a bare model may do: read, write and list files of its workspace, and run commands, confined and without a network.

use std::fs;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use walkdir::WalkDir;

use super::Errand;
use crate::base::disk;
use crate::model::Tool;

/// How long one command may run.
const COMMAND: Duration = Duration::from_secs(600);
/// What a model is shown of a file or of output.
const SHOWN: usize = 32 * 1024;
const LARGEST: u64 = 16 << 20;
/// Files in a list.
const LISTED: usize = 500;

/// The tools as a model is told of them.
#[expect(clippy::expect_used, reason = "embedded data, covered by a test")]
pub(super) fn tools() -> Vec<Tool> {
    serde_json::from_str(include_str!("tools.json")).expect("tools.json is valid")
}

/// Carries out a call. An error is told to the model.
pub(super) fn call(name: &str, arguments: &Value, errand: &Errand, left: Duration) -> Result<String> {
    let argument = |name: &str| {
        let text = arguments.get(name).and_then(Value::as_str);
        text.with_context(|| format!("the argument `{name}` is missing, or no text"))
    };
    match name {
        "read_file" => {
            let (named, path) = (argument("path")?, inside(errand.workspace, argument("path")?)?);
            let bytes = disk::read_plain(&path, LARGEST).with_context(|| format!("cannot read {named}"))?;
            Ok(shown(&String::from_utf8_lossy(&bytes)))
        }
        "write_file" => {
            let (named, path) = (argument("path")?, inside(errand.workspace, argument("path")?)?);
            write(&path, argument("content")?).with_context(|| format!("cannot write {named}"))?;
            Ok(format!("{named} is written"))
        }
        "list_files" => list(errand.workspace, &inside(errand.workspace, argument("path")?)?),
        "run" => run(argument("command")?, errand, left),
        _ => bail!("there is no tool `{name}`: they are read_file, write_file, list_files and run"),
    }
}

/// A path in the workspace, which no link leads out of. Nothing else runs there meanwhile.
fn inside(workspace: &Path, named: &str) -> Result<PathBuf> {
    let root = workspace.canonicalize()?;
    let path = Path::new(named);
    let relative = path.strip_prefix(workspace).or_else(|_| path.strip_prefix(&root)).unwrap_or(path);
    if !relative.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
        bail!("{named} is outside of the workspace");
    }
    let whole: PathBuf = root.join(relative).components().collect();
    let there = whole.ancestors().find(|path| fs::symlink_metadata(path).is_ok());
    let real = there.map(Path::canonicalize).transpose().with_context(|| format!("{named} leads nowhere"))?;
    if !real.is_some_and(|real| real.starts_with(&root)) {
        bail!("{named} leads out of the workspace");
    }
    Ok(whole)
}

fn write(path: &Path, content: &str) -> Result<()> {
    if fs::symlink_metadata(path).is_ok_and(|meta| !meta.is_file()) {
        bail!("it is a folder or a link");
    }
    path.parent().map(fs::create_dir_all).transpose()?;
    Ok(fs::write(path, content)?)
}

fn list(workspace: &Path, folder: &Path) -> Result<String> {
    let root = workspace.canonicalize()?;
    let walk = WalkDir::new(folder).sort_by_file_name().into_iter();
    let entries = walk.filter_entry(|entry| entry.file_name() != ".git").flatten();
    let files = entries.filter(|entry| !entry.file_type().is_dir());
    let mut names: Vec<String> = files
        .take(LISTED + 1)
        .filter_map(|file| Some(file.path().strip_prefix(&root).ok()?.display().to_string()))
        .collect();
    if names.len() > LISTED {
        names[LISTED] = format!("… more than {LISTED} files");
    }
    Ok(if names.is_empty() { "no files".to_owned() } else { names.join("\n") })
}

fn run(command: &str, errand: &Errand, left: Duration) -> Result<String> {
    // In the order in which it was printed.
    let ended = errand.shell(&format!("exec 2>&1\n{command}"), &[], left.min(COMMAND))?;
    let how = match (&ended.stopped, ended.code) {
        (Some(why), _) => format!("ended: {why}"),
        (None, code) => format!("exit code {}", code.unwrap_or(-1)),
    };
    let text = format!("{}\n[{how}]", shown(ended.output.trim_end()));
    if ended.code == Some(0) { Ok(text) } else { bail!("{text}") }
}

/// The beginning and the end of a long text.
fn shown(text: &str) -> String {
    if text.len() <= SHOWN {
        return text.to_owned();
    }
    let (from, to) = (SHOWN / 2, text.len() - SHOWN / 2);
    let part = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let [begin, end] = [part(&text.as_bytes()[..from]), part(&text.as_bytes()[to..])];
    format!("{begin}\n[… {} bytes left out …]\n{end}", to - from)
}
