//! `Test`: a private home and project, and `kernels` run in them as by a user.

#![allow(dead_code, unreachable_pub, reason = "every test target uses its own part of this")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a helper that fails is a test that fails")]
#![allow(clippy::print_stdout, reason = "a test that fails shows its seed")]

pub mod bundled;
pub mod cuda;
pub mod http;
pub mod hub;
pub mod pending;
pub mod random;
pub mod report;
pub mod site;
pub mod torch;
pub mod walk_through;
pub mod yaml;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::sync::OnceLock;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use std::{env, thread};

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

/// The program under test: the one that `KERNELS_PROGRAM` names, as in `./test`, or the one of cargo's profile.
pub fn program() -> &'static str {
    static PROGRAM: OnceLock<String> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        env::var("KERNELS_PROGRAM")
            .ok()
            .filter(|named| !named.is_empty())
            .unwrap_or_else(|| env!("CARGO_BIN_EXE_kernels").to_owned())
    })
}

/// A home and a project, removed when the test ends.
pub struct Test {
    pub home: PathBuf,
    pub project: PathBuf,
    root: TempDir,
}

/// The outcome of a command.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

/// No command takes longer, however busy the machine is; then it is killed, and the test fails instead of the machine.
const PATIENCE: Duration = Duration::from_secs(600);
/// `kernels` needs less memory.
const MEMORY_KB: u64 = 1_000_000;

/// Reports that a test could not run; under CI that is a failure.
pub fn not_run(why: &str) {
    // An empty variable counts as unset, because shell scripts pass on unset variables as empty ones.
    let ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty());
    assert!(!ci, "CI must be able to run this: {why}");
    // Not eprintln!, which the test runner hides when a test passes. ./test repeats the line at its end.
    let _ = writeln!(std::io::stderr(), "\nnot run: {why}");
}

impl Test {
    /// A home, and a project with a git repository.
    pub fn new() -> Self {
        let test = Self::without_git();
        fs::create_dir(test.project.join(".git")).unwrap();
        test
    }

    /// A home, and a project without one; in memory if there is room, because a disk takes long to sync.
    pub fn without_git() -> Self {
        let room = rustix::fs::statvfs("/dev/shm").is_ok_and(|at| at.f_bavail * at.f_frsize > 1 << 30);
        if room { Self::below(Path::new("/dev/shm")) } else { Self::on_disk() }
    }

    /// The same in the folder for temporary files.
    pub fn on_disk() -> Self {
        Self::below(&std::env::temp_dir())
    }

    fn below(folder: &Path) -> Self {
        let root = TempDir::with_prefix_in("kernels-", folder).unwrap();
        let real = root.path().canonicalize().unwrap();
        let test = Self { home: real.join("home"), project: real.join("project"), root };
        fs::create_dir(&test.home).unwrap();
        fs::create_dir(&test.project).unwrap();
        test
    }

    /// The folder that holds the two.
    pub fn root(&self) -> PathBuf {
        self.root.path().canonicalize().unwrap()
    }

    /// A path of the project.
    pub fn at(&self, path: &str) -> PathBuf {
        self.project.join(path)
    }

    /// Writes a file of the project.
    pub fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        write(&self.at(path), text);
    }

    /// `kernels` with nothing but HOME and PATH in its environment, at the project's top.
    pub fn command(&self) -> Command {
        self.command_of(program())
    }

    /// The same for another program.
    pub fn command_of(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("HOME", &self.home).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command.current_dir(&self.project);
        command
    }

    /// `kernels` with the usual handling of signals: a shell's background job, as these tests may be, ignores SIGINT.
    pub fn command_with_signals(&self) -> Command {
        let mut command = self.command_of("env");
        command.arg("--default-signal=HUP,INT,TERM").arg(program());
        command
    }

    /// Runs git in a folder, and returns what it printed.
    #[track_caller]
    pub fn git(&self, folder: &Path, arguments: impl IntoIterator<Item = impl AsRef<OsStr>>) -> String {
        let mut command = self.command_of("git");
        command.current_dir(folder).args(["-c", "user.name=a", "-c", "user.email=a@example.org"]).args(arguments);
        Ran::ok(&mut command).out.trim().to_owned()
    }

    /// A folder beside the two, with what no command must change and with sources of skills.
    pub fn outside(&self) -> PathBuf {
        self.root().join("outside")
    }

    /// Runs `kernels` with these arguments.
    #[track_caller]
    pub fn run(&self, typed: &str) -> Ran {
        self.run_in(&self.project, typed)
    }

    /// The same from another folder.
    #[track_caller]
    pub fn run_in(&self, folder: &Path, typed: &str) -> Ran {
        Ran::of(self.command().current_dir(folder).args(self.words(typed)))
    }

    pub fn source(&self, version: &str) -> PathBuf {
        self.outside().join(version).join("demo")
    }

    /// What is typed, split at spaces; `V1` and `V2` are `outside/v1/demo` and `outside/v2/demo`.
    pub fn words(&self, typed: &str) -> Vec<OsString> {
        let word = |word: &str| match word {
            "V1" | "V2" => self.source(&word.to_lowercase()).into(),
            _ => word.into(),
        };
        typed.split(' ').map(word).collect()
    }

    /// Runs and expects exit code 0.
    #[track_caller]
    pub fn ok(&self, typed: &str) -> Ran {
        Ran::ok(self.command().args(self.words(typed)))
    }

    /// Runs with `--json` and reads the report, whatever the exit code.
    pub fn json(&self, typed: &str) -> Value {
        self.run(&format!("{typed} --json")).json()
    }

    /// The state of an install in `status`, by its path in the project or the home.
    pub fn state(&self, path: &str) -> String {
        let report = self.json("skills status");
        let ends = |row: &&Value| row["path"].as_str().unwrap().ends_with(path);
        let row = report["installs"].as_array().unwrap().iter().find(ends);
        row.map_or_else(|| "not listed".to_owned(), |row| row["state"].as_str().unwrap().to_owned())
    }

    /// A skill in a folder beside the project.
    pub fn skill(&self, name: &str, version: &str) -> PathBuf {
        let folder = self.outside().join("sources").join(name);
        write_skill(&folder, name, version);
        folder
    }
}

impl Ran {
    /// Runs a command and checks what holds for each of `kernels`: the exit code is one of four, a failure says why, and
    /// `--json` prints JSON.
    #[track_caller]
    pub fn of(command: &mut Command) -> Self {
        let ran = Self::of_redirected(command, Stdio::piped());
        if command.get_program() == program() {
            assert!((0..=3).contains(&ran.code), "{command:?}: {ran:#?}");
            let silent = ran.err.is_empty() && ran.out.is_empty();
            let quiet = command.get_args().any(|argument| argument == "--quiet");
            assert!(ran.code == 0 || quiet || !silent, "{command:?} fails and says nothing");
            if ran.code != 2 && command.get_args().any(|argument| argument == "--json") {
                assert!(ran.json().is_object(), "{command:?}: {ran:#?}");
            }
        }
        ran
    }

    /// The same; expects exit code 0.
    #[track_caller]
    pub fn ok(command: &mut Command) -> Self {
        let ran = Self::of(command);
        assert_eq!(ran.code, 0, "{command:?}: {ran:#?}");
        ran
    }

    /// Runs a command with another stdout.
    #[track_caller]
    pub fn of_redirected(command: &mut Command, stdout: Stdio) -> Self {
        Self::start(command, stdout).end(command)
    }

    /// Starts a command and kills it, with everything that it started, after `delay`.
    pub fn killed_after(command: &mut Command, delay: Duration) {
        let mut running = Self::start(command, Stdio::null());
        thread::sleep(delay);
        running.kill();
    }

    /// The same, as soon as something holds.
    pub fn killed_when(command: &mut Command, holds: impl FnMut() -> bool) {
        let mut running = Self::start(command, Stdio::null());
        wait_until("what the command is killed at", holds);
        running.kill();
    }

    /// In a process group of its own, so that what it starts can be killed with it.
    fn start(command: &mut Command, stdout: Stdio) -> Running {
        command.stdin(Stdio::null()).stdout(stdout).stderr(Stdio::piped()).process_group(0);
        Running(command.spawn().unwrap_or_else(|error| panic!("cannot start {command:?}: {error}")))
    }

    /// The report on stdout.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:#?}"))
    }

    /// Expects this exit code and these words in the output.
    #[track_caller]
    pub fn expect(&self, code: i32, words: &[&str]) -> &Self {
        assert_eq!(self.code, code, "{self:#?}");
        for word in words {
            assert!(self.out.contains(word) || self.err.contains(word), "no {word:?} in {self:#?}");
        }
        self
    }
}

struct Running(Child);

impl Running {
    #[track_caller]
    fn end(mut self, command: &Command) -> Ran {
        // Nothing is sent: the channel closes when both pipes are read to their ends.
        let (open, closed) = channel::<()>();
        let drain = |pipe: Option<Box<dyn Read + Send>>| {
            let open = open.clone();
            thread::spawn(move || {
                let mut bytes = Vec::new();
                pipe.map(|mut pipe| pipe.read_to_end(&mut bytes));
                drop(open);
                String::from_utf8_lossy(&bytes).into_owned()
            })
        };
        let out = drain(self.0.stdout.take().map(|pipe| Box::new(pipe) as _));
        let err = drain(self.0.stderr.take().map(|pipe| Box::new(pipe) as _));
        drop(open);
        let start = Instant::now();
        let mut too_much = None;
        let status = loop {
            let closed = closed.recv_timeout(Duration::from_millis(10)) == Err(RecvTimeoutError::Disconnected);
            let ended = if closed { self.0.wait().map(Some) } else { self.0.try_wait() };
            if let Some(status) = ended.unwrap() {
                break status;
            }
            let memory = if command.get_program() == program() { memory_kb(self.0.id()) } else { 0 };
            if start.elapsed() > PATIENCE || memory > MEMORY_KB {
                too_much = Some(format!("killed after {:?} with {memory} kB", start.elapsed()));
                self.kill();
            }
        };
        // Also after a normal end: what it started may hold the pipes open.
        self.kill();
        let (out, err) = (out.join().unwrap(), err.join().unwrap());
        let ran = Ran { code: status.code().unwrap_or(-1), out, err };
        assert!(too_much.is_none(), "{command:?}: {too_much:?}: {ran:#?}");
        assert!(!ran.err.contains("panicked"), "{command:?}: {ran:#?}");
        ran
    }

    fn kill(&mut self) {
        // An error means that the group has ended.
        if let Some(group) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = self.0.wait();
    }
}

fn memory_kb(id: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or(0)
}

/// Runs Python scripts with this environment, in copies of one process that has imported `modules`: support/forked.py.
pub fn forked(python: &OsStr, modules: &[&str], scripts: &[Vec<String>], environment: &Value) -> Vec<Ran> {
    let server = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/forked.py");
    let mut command = Command::new(python);
    command.arg(server).args(modules).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut server = command.spawn().unwrap();
    let mut lines = String::new();
    for argv in scripts {
        lines += &json!({ "argv": argv, "env": environment }).to_string();
        lines.push('\n');
    }
    // It is shorter than a pipe's buffer.
    server.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let said = String::from_utf8(server.wait_with_output().unwrap().stdout).unwrap();
    let text = |answer: &Value, key: &str| answer[key].as_str().unwrap().to_owned();
    let ran = |line: &str| {
        let answer: Value = serde_json::from_str(line).unwrap();
        let code = i32::try_from(answer["code"].as_i64().unwrap()).unwrap();
        Ran { code, out: text(&answer, "out"), err: text(&answer, "err") }
    };
    let ran: Vec<Ran> = said.lines().map(ran).collect();
    assert_eq!(ran.len(), scripts.len(), "{ran:#?}");
    ran
}

/// The text of a small skill.
pub fn skill_md(name: &str, version: &str) -> String {
    format!(
        "---\nname: {name}\ndescription: Does a thing. Use when tested.\nmetadata:\n  version: \"{version}\"\n---\n\
         # {name} {version}\n"
    )
}

/// Writes a small skill with a script.
pub fn write_skill(folder: &Path, name: &str, version: &str) {
    write(&folder.join("SKILL.md"), skill_md(name, version));
    write(&folder.join("references/guide.md"), format!("guide {version}\n"));
    executable(&folder.join("scripts/run.py"), format!("#!/usr/bin/env python3\nprint('{version}')\n"));
}

/// Writes a file and the folders above it.
pub fn write(path: &Path, text: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Writes a script for the shell.
pub fn script(path: &Path, text: impl Display) {
    executable(path, format!("#!/bin/sh\n{text}\n"));
}

/// Writes an executable file, from another process. A child that another test starts meanwhile would inherit a file that is open
/// here, and Linux does not run a file that is open for writing.
pub fn executable(path: &Path, text: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", "cat > \"$0\" && chmod 755 \"$0\""]).arg(path).stdin(Stdio::piped());
    let mut writing = shell.spawn().unwrap();
    writing.stdin.take().unwrap().write_all(text.as_ref()).unwrap();
    assert!(writing.wait().unwrap().success(), "writing {}", path.display());
}

/// Copies what is at a path, with links and modes.
pub fn copy(from: &Path, to: &Path) {
    let meta = fs::symlink_metadata(from).unwrap();
    if meta.is_symlink() {
        symlink(fs::read_link(from).unwrap(), to).unwrap();
    } else if meta.is_dir() {
        fs::create_dir_all(to).unwrap();
        for below in list(from) {
            copy(&below, &to.join(below.file_name().unwrap()));
        }
        fs::set_permissions(to, meta.permissions()).unwrap();
    } else {
        fs::copy(from, to).unwrap();
    }
}

/// Expects that a generated file is what it is generated from, or writes it with `UPDATE=1`; `test` names the test to cargo.
#[track_caller]
pub fn generated(path: &Path, wanted: &str, test: &str) {
    if env::var_os("UPDATE").is_some() {
        // In one step, because another test may read the file at the same time.
        let new = path.with_extension("new");
        fs::write(&new, wanted).unwrap();
        fs::rename(new, path).unwrap();
    }
    assert!(
        fs::read_to_string(path).unwrap_or_default() == wanted,
        "{} is not what it is generated from; run: UPDATE=1 cargo test --test {test}",
        path.display()
    );
}

/// Waits until something holds, for as long as a command may take.
#[track_caller]
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "{what}: not after {PATIENCE:?}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// A number from the environment.
pub fn number<T: FromStr>(name: &str, otherwise: T) -> T {
    env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Bytes as hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

pub fn sha256(bytes: impl AsRef<[u8]>) -> String {
    hex(&Sha256::digest(bytes))
}

/// How many files below a folder contain a text.
pub fn files_with(folder: &Path, text: &str) -> usize {
    snapshot(folder).values().filter(|file| file.contains(text)).count()
}

/// Everything below a folder: files with their bytes and executable bit, links with their target.
pub fn snapshot(folder: impl AsRef<Path>) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    collect(folder.as_ref(), folder.as_ref(), &mut all);
    all
}

/// Everything at and below a path, by name: the mode, and the bytes or the target of a link. What was given has the empty
/// name; where nothing is, there is nothing.
pub type Picture = BTreeMap<PathBuf, (u32, Vec<u8>)>;

pub fn picture(folder: &Path) -> Picture {
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
        all.insert(at.strip_prefix(folder).unwrap().to_path_buf(), (meta.permissions().mode(), content));
    }
    all
}

/// The sorted entries of a folder; none if it does not exist.
pub fn list(folder: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<_> =
        fs::read_dir(folder).map(|entries| entries.flatten().map(|entry| entry.path()).collect()).unwrap_or_default();
    entries.sort();
    entries
}

/// The sorted names in a folder; none if it does not exist.
pub fn names(folder: &Path) -> Vec<String> {
    list(folder).iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect()
}

/// The names in an area but for the texts that installs are compared with.
pub fn area(host: &Path) -> Vec<String> {
    let mut names = names(&host.join(".kernels"));
    names.retain(|name| ![".gitignore", "base"].contains(&name.as_str()));
    names
}

/// The folder of this repository.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Makes an SSH key without a passphrase, and returns its public key.
pub fn ssh_key(path: &Path) -> String {
    Ran::ok(Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(path));
    fs::read_to_string(path.with_extension("pub")).unwrap()
}

/// A snapshot of a skill's folder without its receipt.
pub fn tree(folder: impl AsRef<Path>) -> BTreeMap<String, String> {
    let mut all = snapshot(folder);
    all.remove(".kernels.json");
    all
}

fn collect(root: &Path, folder: &Path, all: &mut BTreeMap<String, String>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
        let meta = fs::symlink_metadata(&path).unwrap();
        if meta.is_symlink() {
            all.insert(name, format!("→ {}", fs::read_link(&path).unwrap().display()));
        } else if meta.is_dir() {
            all.insert(format!("{name}/"), String::new());
            collect(root, &path, all);
        } else {
            let x = if meta.permissions().mode() & 0o100 == 0 { "-" } else { "x" };
            all.insert(name, format!("{x} {}", String::from_utf8_lossy(&fs::read(&path).unwrap())));
        }
    }
}

/// Whether an entry exists, including a dangling link.
pub fn exists(path: impl AsRef<OsStr>) -> bool {
    fs::symlink_metadata(Path::new(path.as_ref())).is_ok()
}
