//! Runs the contenders in turn and checks the installed files after every run.

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use walkdir::WalkDir;

use crate::contender::{Contender, skill};

/// The times of each contender, in the order of `contenders`.
pub(crate) fn measure(contenders: &[Contender], warm_up: usize, runs: usize, busy: bool) -> Vec<Vec<Duration>> {
    // In the build folder, which is on a real disk like a user's project; /tmp may be in memory,
    // where syncing costs nothing.
    let folder = TempDir::with_prefix_in("install-", env!("CARGO_TARGET_TMPDIR"))
        .unwrap_or_else(|error| panic!("cannot make a temporary folder: {error}"));
    let skill = skill();
    assert!(skill.join("SKILL.md").is_file(), "no skill in {}", skill.display());
    let _writer = busy.then(|| Writer::start(&folder.path().join("busy")));

    let mut samples = vec![Vec::with_capacity(runs); contenders.len()];
    for round in 0..warm_up + runs {
        for turn in 0..contenders.len() {
            // Rotate the order.
            let index = (turn + round) % contenders.len();
            let contender = &contenders[index];
            let home = folder.path().join(format!("home-{index}"));
            let project = folder.path().join(format!("project-{index}-{round}"));
            create(&home);
            create(&project.join(".git"));
            let time = run(contender, &home, &project);
            check(contender, &skill, &project);
            fs::remove_dir_all(&project).unwrap_or_else(|error| panic!("cannot remove {}: {error}", project.display()));
            if round >= warm_up {
                samples[index].push(time);
            }
        }
    }
    samples
}

/// A process that writes 64 KB at a time and waits for the disk each time.
struct Writer(Child);

impl Writer {
    fn start(file: &Path) -> Self {
        let script = "while dd if=/dev/zero of=\"$0\" bs=64k count=1000 oflag=dsync 2>/dev/null; do :; done";
        // A process group of its own, so that the shell and its child end together.
        let child = Command::new("/bin/sh").args(["-c", script]).arg(file).process_group(0).spawn();
        Self(child.unwrap_or_else(|error| panic!("cannot start a writer: {error}")))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let group = rustix::process::Pid::from_child(&self.0);
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        let _ = self.0.wait();
    }
}

/// The time of all calls of `contender`, from the start of the process to its end.
fn run(contender: &Contender, home: &Path, project: &Path) -> Duration {
    let mut time = Duration::ZERO;
    for arguments in &contender.calls {
        let mut command = Command::new(&contender.program);
        command
            .args(arguments)
            .current_dir(project)
            .env_clear()
            .env("HOME", home)
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("DISABLE_TELEMETRY", "1")
            .env("DO_NOT_TRACK", "1")
            .stdin(Stdio::null());
        // Flush the writes of the previous contender, so that ours does not wait for them.
        rustix::fs::sync();
        let started = Instant::now();
        let output = command.output();
        time += started.elapsed();
        expect_success(&command, output);
    }
    time
}

fn expect_success(command: &Command, output: std::io::Result<Output>) {
    let output = output.unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
    assert!(
        output.status.success(),
        "{command:?} ended with {}\n--- stdout\n{}\n--- stderr\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Every file of the skill is in every place of `contender`, byte for byte.
fn check(contender: &Contender, skill: &Path, project: &Path) {
    let files: Vec<PathBuf> = WalkDir::new(skill)
        .into_iter()
        .map(|entry| entry.unwrap_or_else(|error| panic!("cannot read the skill: {error}")))
        .filter(|entry| entry.file_type().is_file())
        .map(|entry| entry.path().strip_prefix(skill).unwrap_or(entry.path()).to_owned())
        .collect();
    for place in contender.places {
        for file in &files {
            let installed = project.join(place).join(file);
            let same = fs::read(&installed).ok() == fs::read(skill.join(file)).ok();
            let name = contender.name;
            assert!(same, "{name} did not install {}", installed.display());
        }
    }
}

fn create(folder: &Path) {
    fs::create_dir_all(folder).unwrap_or_else(|error| panic!("cannot make {}: {error}", folder.display()));
}
