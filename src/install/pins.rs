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

/// The file's contents.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Pins {
    skills: Map<String, Value>,
    /// What others wrote beside them.
    rest: Map<String, Value>,
}

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
        let text = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&bytes);
        let mut rest: Map<String, Value> =
            serde_json::from_slice(text).with_context(|| format!("{} is not valid", path.display()))?;
        match (rest.get("version").and_then(Value::as_u64), rest.get_mut("skills").map(Value::take)) {
            (Some(VERSION), Some(Value::Object(skills))) => Ok(Self { skills, rest }),
            _ => bail!("{} is not of version {VERSION}, the one known here; upgrade kernels", path.display()),
        }
    }

    /// Entries of kinds that are not read here.
    pub(crate) fn unread(&self) -> impl Iterator<Item = &String> {
        self.names().filter(|name| self.get(name).is_none())
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &String> {
        self.skills.keys()
    }

    /// What a skill is pinned to, if it came from elsewhere.
    pub(crate) fn get(&self, name: &str) -> Option<Pin> {
        let entry = self.skills.get(name)?;
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

    /// Pins the project's copy of a skill from elsewhere to what was installed.
    pub(crate) fn add(project: &Path, skill: &Skill) -> Result<()> {
        let Some(entry) = entry(skill) else { return Ok(()) };
        let same = |pin: &Pin| pin.digest == Ok(skill.digest) && skill.source.address() == Some(&pin.from);
        if Self::read(project)?.get(&skill.name).is_some_and(|pin| same(&pin)) {
            return Ok(());
        }
        change(project, |pins| drop(pins.skills.insert(skill.name.clone(), entry)))
    }

    /// Forgets a skill that is not in the project any more.
    pub(crate) fn remove(project: &Path, name: &str) -> Result<()> {
        change(project, |pins| drop(pins.skills.shift_remove(name)))
    }
}

impl Pin {
    /// Refuses a skill with other contents than were pinned.
    pub(crate) fn check(&self, skill: &Skill) -> Result<()> {
        if !self.is(skill.digest, &skill.tree) {
            let (pinned, found, npm) = match &self.digest {
                Ok(tree) => (tree.to_string(), skill.digest.to_string(), ""),
                Err(npm) => (npm.clone(), npm_digest(&skill.tree), NPM),
            };
            bail!(
                "{} of {} is {found}, and {FILE} pins {pinned}; nothing was installed\n{npm}`kernels skills add {}` shows what \
                 it is now, and pins that",
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
    let before = pins.clone();
    make(&mut pins);
    if pins == before {
        return Ok(());
    }
    let Pins { mut skills, mut rest } = pins;
    skills.sort_keys();
    rest.entry("version").or_insert(VERSION.into());
    rest.insert("skills".to_owned(), skills.into());
    let text = serde_json::to_string_pretty(&rest)? + "\n";
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

/// Why npm's digest may be another for the same files.
const NPM: &str = "the digest of npm's `skills` also covers files that are not installed here (`.env`, `.DS_Store`, caches), and orders \
                   names that are not ASCII in a way of its own\n";

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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use crate::skill::tree::Entry;

    #[test]
    fn what_npm_s_skills_writes_of_each_kind_of_source_is_read() {
        let pinned = |mut entry: Value| {
            entry["computedHash"] = "abc".into();
            let pins = Pins { skills: Map::from_iter([("demo".to_owned(), entry)]), ..Pins::default() };
            pins.get("demo").map(|pin| (pin.from.to_string(), pin.at))
        };
        let from = |text: &str| Some((text.to_owned(), None));
        let github = json!({"source": "o/r", "sourceType": "github", "skillPath": "skills/demo/SKILL.md", "ref": "v1"});
        assert_eq!(pinned(github.clone()), from("github:o/r/skills/demo@v1"));
        let top = json!({"source": "o/r", "sourceType": "github", "skillPath": "SKILL.md"});
        assert_eq!(pinned(top), from("github:o/r"));
        for kind in ["git", "gitlab"] {
            let url = "https://x.example/o/r.git";
            let git = json!({"source": "o/r", "sourceUrl": url, "sourceType": kind, "skillPath": "demo/SKILL.md"});
            assert_eq!(pinned(git), from("https://x.example/o/r.git/demo"));
        }
        let site = json!({"source": "x.example", "sourceUrl": "https://x.example", "sourceType": "well-known"});
        assert_eq!(pinned(site), from("https://x.example#demo"));
        let archive = json!({"source": "https://x.example/demo.skill", "sourceType": "download"});
        assert_eq!(pinned(archive), from("https://x.example/demo.skill"));
        assert_eq!(pinned(json!({"source": "/here", "sourceType": "local"})), None);
        // A commit is as long as a SHA-1 at least.
        for (commit, is_one) in
            [("a".repeat(40), true), ("0".repeat(64), true), ("a".repeat(39), false), ("g".repeat(40), false)]
        {
            let mut entry = github.clone();
            entry["commit"] = commit.clone().into();
            assert_eq!(pinned(entry).unwrap().1, is_one.then_some(commit));
        }
    }

    #[test]
    fn files_are_digested_in_the_order_of_javascript() {
        let of = |names: &[&str]| {
            let mut tree = Tree::default();
            for name in names {
                let entry = Entry { executable: false, content: (*name).as_bytes().to_vec().into() };
                tree.insert(RelPath::parse(name).unwrap(), entry).unwrap();
            }
            npm_digest(&tree)
        };
        let digest = |names: &[&str]| {
            let hash = names.iter().fold(Sha256::new(), |hash, name| hash.chain_update(name).chain_update(name));
            hex(&hash.finalize())
        };
        // Letters behind digits and digits behind signs, whatever their case, and what is not ASCII last.
        let ordered = ["_a", "-a", "10", "2", "a", "A1", "b", "B2", "é", "ф"];
        let mut shuffled = ordered;
        shuffled.reverse();
        assert_eq!(of(&shuffled), digest(&ordered));
    }

    #[test]
    fn what_a_killed_run_left_of_the_file_goes_and_nothing_else() {
        let scratch = tempfile::tempdir().unwrap();
        let at = |name: &str| scratch.path().join(name);
        let (left, others) = (".skills-lock.json.7.tmp", [".skills-lock.json.7", "x.tmp", "skills-lock.json.tmp"]);
        for name in others.iter().chain([&left]) {
            std::fs::write(at(name), "").unwrap();
        }
        change(scratch.path(), |pins| drop(pins.skills.insert("demo".to_owned(), json!({})))).unwrap();
        assert!(!at(left).exists() && others.iter().all(|name| at(name).exists()));
        let text = std::fs::read_to_string(at(FILE)).unwrap();
        assert!(text.contains("\"demo\"") && text.ends_with("}\n"), "{text}");
        // Without a change the file stays as somebody wrote it.
        std::fs::write(at(FILE), r#"{"version":1,"skills":{"demo":{}}}"#).unwrap();
        change(scratch.path(), |pins| drop(pins.skills.shift_remove("other"))).unwrap();
        assert!(!std::fs::read_to_string(at(FILE)).unwrap().ends_with('\n'));
    }
}
