//! Finds and reads the tasks of folders and of files of prompts.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::cases;
use super::files::Files;
use super::task::Task;

/// The tasks of these paths, each a task's folder, a folder of such folders, or a JSON file of prompts; by their ids.
pub(crate) fn read_all(paths: &[PathBuf]) -> Result<Vec<Task>> {
    let mut tasks = Vec::new();
    for path in paths {
        let path = &path.canonicalize().with_context(|| format!("cannot read tasks from {}", path.display()))?;
        if path.is_file() {
            tasks.extend(cases::read(path)?);
            continue;
        }
        for folder in folders(path)? {
            tasks.push(Task::read(&folder, common(&folder)?)?);
        }
    }
    tasks.sort_by(|one, other| one.id.cmp(&other.id));
    if let Some(pair) = tasks.windows(2).find(|pair| pair[0].id == pair[1].id) {
        let [one, other] = [&pair[0], &pair[1]].map(|task| task.folder.display());
        bail!("two tasks are called {}: {one} and {other}; rename one", pair[0].id);
    }
    Ok(tasks)
}

/// The tasks whose id contains a text; an error says that there is none.
pub(crate) fn chosen(mut tasks: Vec<Task>, filter: Option<&str>) -> Result<Vec<Task>, String> {
    tasks.retain(|task| filter.is_none_or(|text| task.id.contains(text)));
    if tasks.is_empty() {
        let none = || "there are no tasks".to_owned();
        return Err(filter.map_or_else(none, |text| format!("--filter {text}: no task has that in its id")));
    }
    Ok(tasks)
}

/// The folders of tasks at and below a folder, down to two levels.
pub(crate) fn folders(path: &Path) -> Result<Vec<PathBuf>> {
    let walk = walkdir::WalkDir::new(path).min_depth(1).max_depth(3).sort_by_file_name();
    let mut found = Vec::new();
    for entry in walk {
        let entry = entry.with_context(|| format!("cannot look into {}", path.display()))?;
        if entry.file_name() == "task.toml" {
            found.extend(entry.path().parent().map(Path::to_owned));
        }
    }
    if found.is_empty() {
        bail!("{} has no tasks: neither it nor a folder in it has a task.toml", path.display());
    }
    Ok(found)
}

/// What lies in `common` beside a task's folder, or beside the folder that this one is in.
fn common(folder: &Path) -> Result<Files> {
    let near = folder.ancestors().skip(1).take(2).find(|above| above.join("common").is_dir());
    near.map_or_else(|| Ok(Files::default()), |above| Files::read(&above.join("common")))
}
