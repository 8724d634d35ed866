//! `skills-lock.json` at a project's top: from where the project's skills came, and the digests they must have. The format is
//! that of npm's `skills`, with the commit and the digest of this program beside; what others wrote into it stays.

use std::io::{self, ErrorKind};
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::lock::Lock;
use crate::base::dir::Dir;
use crate::base::hex;
use crate::skill::address::{Address, GITHUB};
use crate::skill::source::{Skill, Source};
use crate::skill::tree::SKILL_MD;
use crate::skill::{Digest, RelPath, Tree};

pub(crate) const FILE: &str = "skills-lock.json";

const LIMIT: u64 = 4 * 1024 * 1024;
/// The version of the format.
const VERSION: u64 = 1;
/// ASCII as JavaScript's `localeCompare` orders it, but for letters, whose case counts last.
const ORDER: &str = " _-,;:!?.'\"()[]{}@*/\\&#%`^+<=>|~$0123456789abcdefghijklmnopqrstuvwxyz";

/// The entries, as they are in the file.
#[derive(Debug, Default)]
pub(crate) struct Pins(Map<String, Value>);

/// What a skill of the project must be.
#[derive(Clone, Debug)]
pub(crate) struct Pin {
    pub(crate) from: Address,
    /// The commit, where one is known.
    pub(crate) at: Option<String>,
    /// This program's digest of the tree, or that of npm's `skills`.
    digest: Result<Digest, String>,
}

impl Pins {
    pub(crate) fn read(project: &Path) -> Result<Self> {
        Self::read_in(&open(project)?)
    }

    fn read_in(project: &Dir) -> Result<Self> {
        let path = project.path().join(FILE);
        let bytes = match project.read_plain(FILE, LIMIT) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            bytes => bytes.with_context(|| format!("cannot read {}; it must be a regular file", path.display()))?,
        };
        let whole: Value =
            serde_json::from_slice(&bytes).with_context(|| format!("{} is not valid", path.display()))?;
        match (&whole["version"].as_u64(), &whole["skills"]) {
            (Some(VERSION), Value::Object(skills)) => Ok(Self(skills.clone())),
            _ => bail!("{} is not of version {VERSION}, the one known here; upgrade kernels", path.display()),
        }
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &String> {
        self.0.keys()
    }

    /// What a skill is pinned to, if it came from elsewhere.
    pub(crate) fn get(&self, name: &str) -> Option<Pin> {
        let entry = self.0.get(name)?;
        let text = |key: &str| entry[key].as_str();
        let source = text("sourceUrl").or(text("source"))?;
        let repository = |url: String| {
            let folder = text("skillPath").and_then(|path| path.strip_suffix(SKILL_MD)).unwrap_or_default();
            let revision = text("ref").map(|revision| format!("@{revision}")).unwrap_or_default();
            format!("{url}/{folder}").trim_end_matches('/').to_owned() + &revision
        };
        let from = match text("sourceType")? {
            "github" => repository(format!("github:{}", text("source")?)),
            "git" | "gitlab" => repository(source.to_owned()),
            "well-known" => format!("{source}#{name}"),
            "download" => source.to_owned(),
            _ => return None,
        };
        let commit = |at: &&str| at.len() >= 40 && at.bytes().all(|byte| byte.is_ascii_hexdigit());
        Some(Pin {
            from: from.parse().ok()?,
            at: text("commit").filter(commit).map(str::to_owned),
            digest: text("tree").and_then(|tree| tree.parse().ok()).ok_or(text("computedHash")?.to_owned()),
        })
    }

    /// Pins the project's copy of a skill to what was installed.
    pub(crate) fn add(project: &Path, skill: &Skill) -> Result<()> {
        let Some(entry) = entry(skill) else { return Ok(()) };
        let same = |pin: &Pin| pin.digest == Ok(skill.digest) && skill.source.address() == Some(&pin.from);
        if Self::read(project)?.get(&skill.name).is_some_and(|pin| same(&pin)) {
            return Ok(());
        }
        change(project, |pins| drop(pins.0.insert(skill.name.clone(), entry)))
    }

    /// Forgets a skill that is not in the project any more.
    pub(crate) fn remove(project: &Path, name: &str) -> Result<()> {
        change(project, |pins| drop(pins.0.shift_remove(name)))
    }
}

impl Pin {
    /// Refuses a skill with other contents than were pinned.
    pub(crate) fn check(&self, skill: &Skill) -> Result<()> {
        if !self.is(skill.digest, &skill.tree) {
            let (pinned, found) = match &self.digest {
                Ok(tree) => (tree.to_string(), skill.digest.to_string()),
                Err(npm) => (npm.clone(), npm_digest(&skill.tree)),
            };
            bail!(
                "{} of {} is {found}, and {FILE} pins {pinned}; nothing was installed\n`kernels skills add {}` shows what it \
                 is now, and pins that",
                skill.name,
                self.from,
                self.from
            );
        }
        Ok(())
    }

    pub(crate) fn is(&self, digest: Digest, tree: &Tree) -> bool {
        match &self.digest {
            Ok(pinned) => *pinned == digest,
            Err(npm) => *npm == npm_digest(tree),
        }
    }
}

fn open(project: &Path) -> Result<Dir> {
    project
        .canonicalize()
        .and_then(|path| Dir::open(&path))
        .with_context(|| format!("cannot open {}", project.display()))
}

/// Reads, changes and writes the file while no other process of this program does.
fn change(project: &Path, make: impl FnOnce(&mut Pins)) -> Result<()> {
    let root = open(project)?;
    let locks = Lock::all(vec![root.path().to_path_buf()])?;
    let folder = locks.first().map_or(&root, Lock::folder);
    let mut pins = Pins::read_in(folder)?;
    let before = pins.0.clone();
    make(&mut pins);
    if pins.0 == before {
        return Ok(());
    }
    pins.0.sort_keys();
    let text = serde_json::to_string_pretty(&json!({ "version": VERSION, "skills": pins.0 }))? + "\n";
    write(folder, &text).with_context(|| format!("cannot write {}", root.path().join(FILE).display()))
}

/// What a killed run left of the file goes as well.
fn write(folder: &Dir, text: &str) -> io::Result<()> {
    for entry in folder.entries()? {
        let name = entry.name.to_string_lossy();
        if name.starts_with(&format!(".{FILE}.")) && name.ends_with(".tmp") {
            folder.remove_file(&entry.name)?;
        }
    }
    folder.write_atomic(FILE, text.as_bytes(), 0o644)
}

/// The entry of a skill from elsewhere.
fn entry(skill: &Skill) -> Option<Value> {
    let Source::Remote { from, at } = &skill.source else { return None };
    let (npm, tree) = (npm_digest(&skill.tree), skill.digest);
    let mut entry = match from {
        Address::Git { url, folder, revision } => {
            let github = url.strip_prefix(GITHUB).and_then(|repo| repo.strip_suffix(".git"));
            let (kind, url) = if github.is_some() { ("github", None) } else { ("git", Some(url)) };
            let path = folder.iter().map(RelPath::as_str).chain([SKILL_MD]).collect::<Vec<_>>().join("/");
            json!({
                "source": github.or(url.map(String::as_str)), "sourceUrl": url, "ref": revision, "sourceType": kind,
                "skillPath": path, "computedHash": npm, "commit": at, "tree": tree,
            })
        }
        Address::Archive(url) => json!({ "source": url, "sourceType": "download", "computedHash": npm, "tree": tree }),
        Address::Site { url, .. } => {
            let host = url.split("://").nth(1).and_then(|rest| rest.split(['/', ':']).next());
            json!({
                "source": host, "sourceUrl": url, "sourceType": "well-known", "computedHash": npm,
                "wellKnownDigest": at, "tree": tree,
            })
        }
    };
    entry.as_object_mut()?.retain(|_, value| !value.is_null());
    Some(entry)
}

/// SHA-256 over paths and contents, without lengths or modes, ordered as JavaScript's `localeCompare` orders ASCII.
fn npm_digest(tree: &Tree) -> String {
    let rank = |c: char| ORDER.find(c.to_ascii_lowercase()).unwrap_or(ORDER.len() + c as usize);
    let key = |path: &str| {
        (path.chars().map(rank).collect::<Vec<_>>(), path.chars().map(char::is_uppercase).collect::<Vec<_>>())
    };
    let mut files: Vec<_> = tree.iter().collect();
    files.sort_by_cached_key(|(path, _)| key(path.as_str()));
    let hash = files
        .iter()
        .fold(Sha256::new(), |hash, (path, entry)| hash.chain_update(path.as_str()).chain_update(&entry.content));
    hex(&hash.finalize())
}
