//! Skills out of a git repository. Nothing is checked out: the files are read from git's objects, so that no link is made,
//! no hook, filter or submodule is followed, and names that collide never meet on a disk.

use std::collections::BTreeMap;
use std::env;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Error, Result, anyhow, bail};

use super::process;
use crate::base::scratch::Scratch;
use crate::skill::RelPath;
use crate::skill::address::Address;
use crate::skill::frontmatter::Document;
use crate::skill::lint::is_valid_name;
use crate::skill::source::{Skill, choose};
use crate::skill::tree::{Entry, MAX_BYTES, MAX_FILES, SKILL_MD, Tree, TreeError};

/// The most bytes of a repository's latest state, as git sends it.
const LARGEST: u64 = 1_000_000_000;
/// The most bytes of the list of its files.
const LISTED: u64 = 64_000_000;
/// The user's own settings in the environment; others would lead git to another repository, or to a program.
const KEPT: [&str; 6] =
    ["GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSL_CAINFO", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"];
/// Settings that a user's configuration does not change here. A large object is streamed, not held in memory.
const SETTINGS: [&str; 9] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    // What is fetched is gone with this process.
    "core.fsync=none",
    "core.bigFileThreshold=32m",
    "gc.auto=0",
    "maintenance.auto=false",
    "fetch.unpackLimit=1",
    "fetch.recurseSubmodules=false",
    "http.followRedirects=initial",
];
/// The most that git may hold in memory at once, as its own limit: a few bytes of a pack or an answer without an end could ask for
/// all that there is. Large files are streamed.
const MEMORY: &str = "256m";
/// How a file begins that Git LFS keeps elsewhere.
const LFS: &[u8] = b"version https://git-lfs.github.com/spec/";

/// One state of a repository, as objects in a private folder.
pub(super) struct Repository {
    scratch: Scratch,
    commit: String,
    files: Vec<Listed>,
}

/// A file of the repository.
struct Listed {
    path: String,
    mode: String,
    object: String,
    bytes: u64,
}

impl Repository {
    /// The skills of these names.
    pub(super) fn open(&self, from: &Address, names: &[String]) -> Result<Vec<Skill>> {
        let Address::Git { folder, .. } = from else { bail!("{from} is no repository") };
        let there = self.skills(folder.as_ref()).with_context(|| from.to_string())?;
        let all: Vec<String> = there.keys().cloned().collect();
        let read = |name: &String| {
            let one = from.of_skill(name, RelPath::parse(&there[name]).ok());
            let tree = self.read(&there[name]).with_context(|| format!("{one} is refused as a skill"))?;
            super::skill(one, self.commit.clone(), name, tree)
        };
        choose(&all, names, &from.to_string())?.into_iter().map(read).collect()
    }

    pub(super) fn fetch(url: &str, revision: Option<&str>) -> Result<Self> {
        let scratch = Scratch::new()?;
        // What `git init` makes, without the hooks of a template.
        for folder in ["objects", "refs"] {
            fs::create_dir(scratch.path().join(folder))?;
        }
        fs::write(scratch.path().join("HEAD"), "ref: refs/heads/main\n")?;
        fs::write(scratch.path().join("config"), "[core]\nrepositoryformatversion = 0\nbare = true\n")?;
        let mut repository = Self { scratch, commit: String::new(), files: Vec::new() };
        let mut command = repository.git(&["fetch", "--quiet", "--depth=1", "--no-tags", "--", url]);
        // No address begins with file:, but a user's url.….insteadOf may lead to a folder. Redirections stay with https.
        let protocols = if url.starts_with("http://") { "http" } else { "https:ssh:file" };
        command.arg(revision.unwrap_or("HEAD")).env("GIT_ALLOW_PROTOCOL", protocols).stdout(Stdio::null());
        let child = command.spawn().map_err(|error| no_git(&error))?;
        if let Err(said) = process::wait(child, repository.scratch.path(), LARGEST)? {
            return Err(why(revision, &said));
        }
        let fetched = fs::read_to_string(repository.scratch.path().join("FETCH_HEAD")).unwrap_or_default();
        repository.commit = fetched.split_whitespace().next().context("git fetched nothing")?.into();
        if fetched.contains("\ttag '") {
            // An annotated tag is an object of its own.
            let commit = format!("{}^{{commit}}", repository.commit);
            let commit = stdout(&mut repository.git(&["rev-parse", "--verify", &commit]), MAX_BYTES)?;
            repository.commit = String::from_utf8(commit)?.trim().into();
        }
        repository.files = repository.list()?;
        Ok(repository)
    }

    fn git(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new("git");
        for (name, _) in env::vars_os() {
            if name.to_str().is_some_and(|name| name.starts_with("GIT_") && !KEPT.contains(&name)) {
                command.env_remove(name);
            }
        }
        command.args(SETTINGS.iter().flat_map(|setting| ["-c", setting])).args(arguments);
        command.env("GIT_DIR", self.scratch.path()).env("GIT_TERMINAL_PROMPT", "0").env("GIT_ASKPASS", "");
        command.env("GIT_LFS_SKIP_SMUDGE", "1").env("GIT_NO_LAZY_FETCH", "1").env("LC_ALL", "C");
        command.env("GIT_ALLOC_LIMIT", MEMORY);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn list(&self) -> Result<Vec<Listed>> {
        let listed = stdout(&mut self.git(&["ls-tree", "-r", "-l", "-z", "--full-tree", &self.commit]), LISTED)?;
        let file = |line: &str| {
            let (about, path) = line.split_once('\t')?;
            let [mode, _, object, bytes] = about.split_whitespace().collect::<Vec<_>>()[..] else { return None };
            let (path, mode, object) = (path.to_owned(), mode.to_owned(), object.to_owned());
            Some(Listed { path, mode, object, bytes: bytes.parse().unwrap_or_default() })
        };
        let lines = String::from_utf8_lossy(&listed);
        lines.split_terminator('\0').map(|line| file(line).context("git lists files in another form")).collect()
    }

    /// The skills by name, with their folders: the one at `folder`, or those below it.
    fn skills(&self, folder: Option<&RelPath>) -> Result<BTreeMap<String, String>> {
        let top = folder.map(|folder| format!("{folder}/")).unwrap_or_default();
        let folders = self.files.iter().filter_map(|file| file.path.strip_suffix(SKILL_MD));
        let all: Vec<&str> =
            folders.filter(|at| at.starts_with(&top) && (at.is_empty() || at.ends_with('/'))).collect();
        if all.len() > MAX_FILES {
            bail!("it has more than {MAX_FILES} skills; name a folder behind the repository");
        }
        if all.contains(&top.as_str()) {
            let name = folder.map_or_else(|| self.own_name(), |folder| Ok(folder.file_name().to_owned()))?;
            return Ok([(name, top.trim_end_matches('/').to_owned())].into());
        }
        // A skill inside of another is a part of that one.
        let inner = |at: &&&str| all.iter().any(|other| at.len() > other.len() && at.starts_with(other));
        let outer: Vec<&str> = all.iter().filter(|at| !inner(at)).copied().collect();
        // The copies that a repository has for its own agents, and those in its tests, are not what it offers.
        let usual = |at: &&&str| at.starts_with(&format!("{top}skills/"));
        let seen = |at: &&&str| !at[top.len()..].split('/').any(|part| part.starts_with('.'));
        let kinds: [Vec<&str>; 2] =
            [outer.iter().filter(usual).copied().collect(), outer.iter().filter(seen).copied().collect()];
        let offered = kinds.into_iter().find(|kind| !kind.is_empty()).unwrap_or(outer);
        let mut skills = BTreeMap::new();
        for at in offered.into_iter().map(|at| at.trim_end_matches('/')) {
            let name = at.rsplit('/').next().unwrap_or(at);
            if let Some(other) = skills.insert(name.to_owned(), at.to_owned()) {
                bail!("{name} is there twice, in {other} and in {at}; name the folder of one behind the repository");
            }
        }
        Ok(skills)
    }

    /// The name that a repository gives itself which is a skill: a clone's folder may have any.
    fn own_name(&self) -> Result<String> {
        let tree = self.read("")?;
        let text = tree.get(SKILL_MD).map(|entry| String::from_utf8_lossy(&entry.content).into_owned());
        let document = Document::parse(&text.unwrap_or_default()).ok();
        let name =
            document.as_ref().and_then(|document| document.get("name")?.text()).filter(|name| is_valid_name(name));
        Ok(name.unwrap_or("skill").to_owned())
    }

    fn read(&self, folder: &str) -> Result<Tree> {
        let top = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let (mut tree, mut wanted, mut bytes) = (Tree::default(), Vec::new(), 0);
        for file in &self.files {
            let Some(rest) = file.path.strip_prefix(&top).filter(|rest| tree.admits(rest)) else { continue };
            let path = || PathBuf::from(rest);
            match &*file.mode {
                "120000" => return Err(TreeError::Symlink(path()).into()),
                "160000" => bail!("{rest} is a submodule, which is not fetched"),
                mode if !mode.starts_with("100") => return Err(TreeError::Special(path()).into()),
                _ if rest.contains(char::REPLACEMENT_CHARACTER) => return Err(TreeError::NotUtf8(path()).into()),
                _ => {}
            }
            bytes += file.bytes;
            if bytes > MAX_BYTES {
                return Err(TreeError::TooLarge.into());
            }
            if wanted.len() == MAX_FILES {
                return Err(TreeError::TooManyFiles.into());
            }
            wanted.push((RelPath::parse(rest)?, file));
        }
        let contents = self.contents(wanted.iter().map(|(_, file)| *file))?;
        for ((path, file), content) in wanted.into_iter().zip(contents) {
            if content.starts_with(LFS) {
                bail!("{path} is kept in Git LFS, which is not fetched");
            }
            tree.insert(path, Entry { executable: file.mode == "100755", content: content.into() })?;
        }
        Ok(tree)
    }

    fn contents<'a>(&self, files: impl Iterator<Item = &'a Listed>) -> Result<Vec<Vec<u8>>> {
        let files: Vec<&Listed> = files.collect();
        let list = self.scratch.path().join("wanted");
        fs::write(&list, files.iter().fold(String::new(), |list, file| list + &file.object + "\n"))?;
        let said = stdout(self.git(&["cat-file", "--batch"]).stdin(File::open(&list)?), 2 * MAX_BYTES)?;
        let mut rest = said.as_slice();
        let mut next = |file: &Listed| {
            // `OBJECT blob BYTES`, the bytes, a line end.
            let start = rest.iter().position(|byte| *byte == b'\n')? + 1;
            let end = start + usize::try_from(file.bytes).ok()?;
            let content = rest.get(start..end).filter(|_| rest.starts_with(file.object.as_bytes()))?.to_vec();
            rest = rest.get(end + 1..)?;
            Some(content)
        };
        files
            .into_iter()
            .map(|file| next(file).with_context(|| format!("git has no contents of {}", file.path)))
            .collect()
    }
}

/// What a command of git prints, up to a limit: a few trees that name each other list more files than there are atoms.
fn stdout(command: &mut Command, most: u64) -> Result<Vec<u8>> {
    let mut child = command.stderr(Stdio::null()).spawn().map_err(|error| no_git(&error))?;
    let mut said = Vec::new();
    if let Some(stdout) = child.stdout.take() {
        stdout.take(most + 1).read_to_end(&mut said)?;
    }
    if said.len() as u64 > most {
        let _ = child.kill().and_then(|()| child.wait());
        bail!("it lists more than {} MB of files", most / 1_000_000);
    }
    if !child.wait()?.success() {
        bail!("git cannot read what it fetched");
    }
    Ok(said)
}

fn no_git(error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::NotFound => anyhow!("the program `git` is not there; install the package git"),
        _ => anyhow!("cannot start git: {error}"),
    }
}

/// What git says of a failure, and what to do about it.
fn why(revision: Option<&str>, said: &str) -> Error {
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let hint = match revision {
        Some(revision) if said.contains("couldn't find remote ref") || said.contains("not our ref") => {
            return anyhow!("there is no branch, tag or commit '{revision}'; a skill is chosen with `-s {revision}`");
        }
        _ if said.contains("terminal prompts disabled") || said.contains("Authentication failed") => {
            "\nit is private, or not there; git must be able to log in without asking (`git ls-remote` shows it)"
        }
        _ if said.contains("resolve host") || said.contains("connect") => "\ncheck the address and the connection",
        _ => "\ncheck the address: `git ls-remote` takes the same",
    };
    anyhow!("git cannot fetch it: {}{hint}", lines.join("; "))
}
