//! A hard limit on the processes and threads of a stranger's code: a cgroup with the controller `pids`, where this user may make
//! one. What is started inside cannot leave it, since `/sys` is not among the folders that it may write to.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Where cgroups are.
const ROOT: &str = "/sys/fs/cgroup";
/// How the folders are called: the number of the process that made one comes after it.
const NAME: &str = "kernels-";

/// A cgroup that this process is in.
#[derive(Debug)]
pub(crate) struct Cap {
    folder: PathBuf,
    /// The cgroup that this process was in.
    before: PathBuf,
}

impl Cap {
    /// Puts this process, and all that it starts from now on, under a limit. None where the user may not make one.
    pub(crate) fn enter(most: usize) -> Option<Self> {
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        places(&own).into_iter().find_map(|(before, above)| Self::below(before, &above, most))
    }

    fn below(before: PathBuf, above: &Path, most: usize) -> Option<Self> {
        tidy(above);
        let folder = above.join(format!("{NAME}{}", std::process::id()));
        fs::create_dir(&folder).ok()?;
        let cap = Self { folder, before };
        // Without the controller there is no such file; then the folder is of no use, and `drop` removes it.
        fs::metadata(cap.folder.join("pids.max")).ok()?;
        cap.set(most)?;
        fs::write(cap.folder.join("cgroup.procs"), std::process::id().to_string()).ok()?;
        Some(cap)
    }

    /// Lets nothing new begin.
    pub(crate) fn close(&self) {
        let _ = self.set(0);
    }

    /// The processes inside, without this one.
    pub(crate) fn inside(&self) -> Vec<i32> {
        let own = i32::try_from(std::process::id()).ok();
        let text = fs::read_to_string(self.folder.join("cgroup.procs")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).filter(|pid| Some(*pid) != own).collect()
    }

    fn set(&self, most: usize) -> Option<()> {
        fs::write(self.folder.join("pids.max"), most.to_string()).ok()
    }
}

impl Drop for Cap {
    fn drop(&mut self) {
        let _ = fs::write(self.before.join("cgroup.procs"), std::process::id().to_string());
        let begun = Instant::now();
        while fs::remove_dir(&self.folder).is_err() && begun.elapsed() < Duration::from_secs(1) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The cgroups that this process is in, each with the folder in which a new one is made. Version 1 has a tree a controller. In
/// version 2 a cgroup with processes in it hands no controller on, so that the new one lies beside it.
fn places(own: &str) -> Vec<(PathBuf, PathBuf)> {
    let fields = own.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
    let place = |(controllers, path): (&str, &str)| {
        let path = path.trim_start_matches('/');
        if controllers.split(',').any(|name| name == "pids") {
            let at = Path::new(ROOT).join("pids").join(path);
            return Some((at.clone(), at));
        }
        let at = Path::new(ROOT).join(path);
        let above = at.parent().filter(|_| controllers.is_empty() && !path.is_empty())?.to_owned();
        Some((at, above))
    };
    fields.filter_map(place).collect()
}

/// Removes what a process that was killed left; a cgroup with processes in it cannot be removed.
fn tidy(above: &Path) {
    for entry in fs::read_dir(above).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let gone = name.strip_prefix(NAME).and_then(|pid| pid.parse::<u32>().ok());
        if gone.is_some_and(|pid| !Path::new("/proc").join(pid.to_string()).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
}
