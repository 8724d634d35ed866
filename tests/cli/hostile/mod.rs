//! Commands in places that are broken, used concurrently, or malicious.
//!
//! In every case: one of the four exit codes, no panic, no hang, a message that names the path, JSON
//! if it was requested, and no change outside the project and the home.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Permissions};
use std::io::{Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::stat::Mode;
use nix::unistd::{geteuid, mkfifo};
use serde_json::{Value, json};
use tempfile::TempDir;

const KERNELS: &str = env!("CARGO_BIN_EXE_kernels");
/// No command on such small skills takes this long, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(60);
/// No command needs this much memory.
const MEMORY_KB: u64 = 1_000_000;
const NOBODY: u32 = 65_534;
const CLAUDE: &str = ".claude/skills/demo";

// ---------------------------------------------------------------------------- the place

/// A home, a project, and files outside that must not change; sources are outside as well.
struct Place {
    root: TempDir,
    project: PathBuf,
    home: PathBuf,
    outside: PathBuf,
}

/// The outcome of a command.
#[derive(Debug)]
struct Ran {
    code: i32,
    out: String,
    err: String,
}

impl Ran {
    /// Expects this exit code and these words in the output.
    #[track_caller]
    fn expect(&self, code: i32, words: &[&str]) -> &Self {
        assert_eq!(self.code, code, "{self:#?}");
        for word in words {
            let said = self.out.contains(word) || self.err.contains(word);
            assert!(said, "no {word:?} in {self:#?}");
        }
        self
    }

    /// Expects that the message names this.
    #[track_caller]
    fn names(&self, word: &str) {
        assert!(self.err.contains(word), "no {word:?} in {self:#?}");
    }

    /// Expects one of these exit codes.
    #[track_caller]
    fn expect_any(&self, codes: &[i32]) -> &Self {
        assert!(codes.contains(&self.code), "none of {codes:?}: {self:#?}");
        self
    }
}

impl Place {
    fn new() -> Self {
        let root = TempDir::with_prefix("kernels-hostile-").unwrap();
        let real = root.path().canonicalize().unwrap();
        let place =
            Self { project: real.join("project"), home: real.join("home"), outside: real.join("outside"), root };
        for folder in [&place.project, &place.home, &place.outside] {
            fs::create_dir(folder).unwrap();
        }
        fs::create_dir(place.project.join(".git")).unwrap();
        write(&place.outside.join("secret"), "a secret\n");
        write(&place.outside.join("folder/file"), "a file\n");
        write(&place.outside.join("ignored/.gitignore"), "mine\n");
        fs::create_dir(place.outside.join("empty")).unwrap();
        for version in ["1", "2"] {
            write_skill(&place.outside.join(format!("v{version}/demo")), version);
        }
        place
    }

    fn command(&self) -> Command {
        let mut command = Command::new(KERNELS);
        self.prepare(&mut command);
        command
    }

    fn prepare(&self, command: &mut Command) {
        command
            .env_clear()
            .env("HOME", &self.home)
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .current_dir(&self.project);
    }

    /// Runs what a user types after `kernels`, split at spaces; `V1` and `V2` are the two versions.
    #[track_caller]
    fn run(&self, typed: &str) -> Ran {
        let mut command = self.command();
        command.args(self.words(typed));
        finish(&mut command)
    }

    fn words(&self, typed: &str) -> Vec<OsString> {
        let word = |word: &str| match word {
            "V1" => self.source("v1"),
            "V2" => self.source("v2"),
            _ => word.into(),
        };
        typed.split(' ').map(word).collect()
    }

    fn source(&self, version: &str) -> OsString {
        self.outside.join(version).join("demo").into()
    }

    #[track_caller]
    fn ok(&self, typed: &str) {
        self.run(typed).expect(0, &[]);
    }

    /// Expects that the command fails with these words, with and without `--json`, and that nothing changes.
    #[track_caller]
    fn refuses(&self, typed: &str, code: i32, words: &[&str]) {
        let before = picture(self.root.path());
        self.run(typed).expect(code, words);
        self.run(&format!("{typed} --json")).expect(code, words);
        assert_unchanged(&before, &picture(self.root.path()));
    }

    /// Expects that all read-only commands work, in text and in JSON.
    #[track_caller]
    fn look(&self) {
        let before = picture(self.root.path());
        for typed in ["skills status", "skills list", "skills diff", "doctor"] {
            self.run(typed).expect_any(&[0, 1]);
            self.run(&format!("{typed} --json")).expect_any(&[0, 1]);
        }
        assert_unchanged(&before, &picture(self.root.path()));
    }

    fn at(&self, path: &str) -> PathBuf {
        self.project.join(path)
    }

    fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        write(&self.at(path), text);
    }

    fn link(&self, to: impl AsRef<Path>, path: &str) {
        fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
        symlink(to, self.at(path)).unwrap();
    }

    /// Everything that commands must not touch.
    fn untouchable(&self) -> Picture {
        picture(&self.outside)
    }

    /// The trees that were moved away, of all areas that the tests use.
    fn backups(&self) -> Vec<PathBuf> {
        [".claude/.kernels/backups", ".claude/skills/.kernels/backups"]
            .iter()
            .flat_map(|path| list(&self.at(path)))
            .collect()
    }

    #[track_caller]
    fn assert_no_change_waits(&self) {
        for area in [".claude/.kernels", ".claude/skills/.kernels", "dest/.kernels"] {
            for entry in list(&self.at(area)) {
                let name = entry.file_name().unwrap().to_string_lossy().into_owned();
                assert!(!name.starts_with("txn-"), "{} is left", entry.display());
            }
        }
    }

    /// The installed tree is exactly this version.
    fn holds_version(&self, path: &str, version: &str) -> bool {
        let mut there = picture(&self.at(path));
        there.remove(Path::new(".kernels.json"));
        there == picture(&self.outside.join(format!("v{version}/demo")))
    }
}

/// Runs a command and checks the invariants of all commands.
#[track_caller]
fn finish(command: &mut Command) -> Ran {
    let json = command.get_args().any(|argument| argument == "--json");
    command.stdin(Stdio::null());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let child = child.unwrap();
    let ran = wait(child, command);
    assert!((0..=3).contains(&ran.code), "{command:?}: {ran:#?}");
    assert!(!ran.err.contains("panicked"), "{command:?}: {ran:#?}");
    let silent = ran.err.is_empty() && ran.out.is_empty();
    assert!(ran.code == 0 || !silent, "{command:?} fails and says nothing");
    if json && ran.code != 2 {
        let value: Value =
            serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{command:?}: {error}: {ran:#?}"));
        assert!(value.is_object(), "{command:?}: {ran:#?}");
    }
    ran
}

/// Waits with a limit of time and memory, so that a command that hangs or grows fails the test instead of
/// the machine.
#[track_caller]
fn wait(mut child: Child, command: &Command) -> Ran {
    let drain = |pipe: Option<Box<dyn Read + Send>>| {
        thread::spawn(move || {
            let mut bytes = Vec::new();
            if let Some(mut pipe) = pipe {
                let _ = pipe.read_to_end(&mut bytes);
            }
            String::from_utf8_lossy(&bytes).into_owned()
        })
    };
    let out = drain(child.stdout.take().map(|pipe| Box::new(pipe) as _));
    let err = drain(child.stderr.take().map(|pipe| Box::new(pipe) as _));
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        let memory = memory_kb(child.id());
        if start.elapsed() > PATIENCE || memory > MEMORY_KB {
            let _ = child.kill();
            let _ = child.wait();
            panic!("{command:?} hangs or swells: {:?}, {memory} kB", start.elapsed());
        }
        thread::sleep(Duration::from_millis(2));
    };
    Ran {
        code: status.code().unwrap_or_else(|| panic!("{command:?}: {status}")),
        out: out.join().unwrap(),
        err: err.join().unwrap(),
    }
}

fn memory_kb(id: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
}

fn write(path: &Path, text: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn skill_md(name: &str, version: &str) -> String {
    format!(
        "---\nname: {name}\ndescription: Does it. Use when asked.\nmetadata:\n  version: \"{version}.0\"\n---\n# {name} {version}\n"
    )
}

fn write_skill(folder: &Path, version: &str) {
    let name = folder.file_name().unwrap().to_str().unwrap();
    write(&folder.join("SKILL.md"), skill_md(name, version));
    for n in 0..12 {
        write(&folder.join(format!("references/{n}.md")), format!("{n} of {version}\n"));
    }
    let script = folder.join("scripts/run.sh");
    write(&script, format!("#!/bin/sh\necho {version}\n"));
    fs::set_permissions(script, Permissions::from_mode(0o755)).unwrap();
}

/// Everything below a folder, by path: kind, mode and content.
type Picture = BTreeMap<PathBuf, (u32, Vec<u8>)>;

fn picture(folder: &Path) -> Picture {
    let mut all = Picture::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(at) = open.pop() {
        let Ok(meta) = fs::symlink_metadata(&at) else {
            continue;
        };
        let content = if meta.is_symlink() {
            fs::read_link(&at).unwrap().into_os_string().into_vec()
        } else if meta.is_file() {
            fs::read(&at).unwrap_or_default()
        } else {
            open.extend(list(&at));
            Vec::new()
        };
        let inside = at.strip_prefix(folder).unwrap().to_path_buf();
        if !inside.as_os_str().is_empty() {
            all.insert(inside, (meta.permissions().mode(), content));
        }
    }
    all
}

#[track_caller]
fn assert_unchanged(before: &Picture, after: &Picture) {
    let differs: Vec<_> =
        before.keys().chain(after.keys()).filter(|path| before.get(*path) != after.get(*path)).collect();
    assert!(differs.is_empty(), "changed: {differs:?}");
}

fn list(folder: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<_> =
        fs::read_dir(folder).map(|entries| entries.flatten().map(|entry| entry.path()).collect()).unwrap_or_default();
    entries.sort();
    entries
}

fn pipe_at(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    mkfifo(path, Mode::from_bits_truncate(0o644)).unwrap();
}

/// Reports that something could not be tested; with `CI` set that is a failure.
fn skip(why: &str) {
    println!("SKIPPED: {why}");
    assert!(std::env::var_os("CI").is_none(), "CI must be able to: {why}");
}

// ---------------------------------------------------------------------------- at once

mod at_once;

// ---------------------------------------------------------------------------- what is there

mod the_destination;

mod the_folders_above;

// ---------------------------------------------------------------------------- the area

mod the_area;

// ---------------------------------------------------------------------------- the receipt

mod the_receipt;

// ---------------------------------------------------------------------------- the source

mod the_source;

// ---------------------------------------------------------------------------- permissions

mod without_permission;

// ---------------------------------------------------------------------------- file systems

mod file_systems;

// ---------------------------------------------------------------------------- the environment

mod the_environment;

// ---------------------------------------------------------------------------- the output

mod the_output;

// ---------------------------------------------------------------------------- --dest

mod dest;

// ---------------------------------------------------------------------------- archives

mod an_archive;
