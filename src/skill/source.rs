//! The origin of a skill: the binary, a folder, or an archive.

use std::cmp::Ordering;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::address::Address;
use super::archive;
use super::bundled;
use super::digest::{Digest, FileDigests, file_digests};
use super::frontmatter::Document;
use super::lint::{self, Finding};
use super::tree::{SKILL_MD, Tree};
use crate::base::text::{nearest, one_line};

/// A skill's origin, as a receipt records it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(crate) enum Source {
    /// In the binary.
    Embedded,
    /// A folder. The path is recorded only if it is useful and not private.
    Folder {
        /// Absolute, or relative to the install's project.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<PathBuf>,
    },
    /// A `.skill` file.
    Archive {
        /// As for a folder.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path: Option<PathBuf>,
    },
    /// A repository or a site.
    Remote {
        from: Address,
        /// The commit, or the SHA-256 of what was downloaded.
        at: String,
    },
}

impl Source {
    /// Where it is, if that is not on this machine.
    pub(crate) fn address(&self) -> Option<&Address> {
        match self {
            Self::Remote { from, .. } => Some(from),
            _ => None,
        }
    }

    /// Whether what was installed can be read again from what a receipt says.
    pub(crate) fn is_repeatable(&self) -> bool {
        match self {
            Self::Embedded | Self::Remote { .. } => true,
            Self::Folder { path } | Self::Archive { path } => path.is_some(),
        }
    }
}

/// An installable skill: it passed every fatal rule.
#[derive(Clone, Debug)]
pub struct Skill {
    /// The name in its header, and of its folder.
    pub(crate) name: String,
    /// `metadata.version`, where it has one.
    pub version: Option<String>,
    /// Its origin.
    pub(crate) source: Source,
    /// Its files.
    pub(crate) tree: Tree,
    /// The digest of each file.
    pub(crate) files: FileDigests,
    /// The digest of the tree.
    pub digest: Digest,
    /// The findings that do not prevent an install.
    pub(crate) findings: Vec<Finding>,
}

impl Skill {
    /// An embedded skill.
    pub(crate) fn bundled(name: &str) -> Result<Self> {
        let tree = bundled::tree(name).with_context(|| {
            let close = nearest(name, bundled::names()).map(|close| format!("did you mean {close}? "));
            format!(
                "there is no embedded skill '{name}'; {}there are: {}. For a folder write ./{name}",
                close.unwrap_or_default(),
                bundled::names().join(", ")
            )
        })?;
        // Tests check the embedded skill against every rule; skip them here.
        Self::from_tree(name, Source::Embedded, tree, Vec::new())
    }

    /// Opens an embedded skill, a folder with a SKILL.md, or a `.skill` file.
    pub fn open(named: &Path) -> Result<Self> {
        match named.to_str() {
            Some(name) if bundled::names().contains(&name) => Self::bundled(name),
            Some(name) if is_name(name) && !named.exists() => Self::bundled(name),
            _ => Self::read(named),
        }
    }

    /// Several skills by name, or all with `*`: those of a folder of skills, or the embedded ones.
    pub(crate) fn open_several(folder: Option<&Path>, names: &[String]) -> Result<Vec<Self>> {
        let there = match folder {
            Some(folder) => skills_in(folder)?,
            None => bundled::names().into_iter().map(str::to_owned).collect(),
        };
        let place = folder.map_or("this kernels".to_owned(), |folder| folder.display().to_string());
        let chosen = choose(&there, names, &place)?.into_iter();
        chosen.map(|name| folder.map_or_else(|| Self::bundled(name), |folder| Self::read(&folder.join(name)))).collect()
    }

    /// A folder or an archive.
    pub fn read(path: &Path) -> Result<Self> {
        let meta = path.metadata().with_context(|| format!("cannot read a skill from {}", path.display()))?;
        let whole = path.canonicalize().with_context(|| format!("cannot resolve {}", path.display()))?;
        let (folder, tree, source) = if meta.is_dir() {
            let inside = if path.join(SKILL_MD).exists() { Vec::new() } else { skills_in(path).unwrap_or_default() };
            if !inside.is_empty() {
                bail!(several(&inside, &format!("{} is a folder of skills", path.display())));
            }
            let folder = lint::folder_name(path).unwrap_or_default();
            let tree = Tree::read(path).with_context(|| format!("{} is refused as a skill", path.display()))?;
            (folder, tree, Source::Folder { path: Some(whole) })
        } else if meta.is_file() {
            if path.file_name().is_some_and(|name| name == SKILL_MD) {
                bail!("{} is one file of a skill; name its folder", path.display());
            }
            let (folder, tree) = archive::open(path)?;
            (folder, tree, Source::Archive { path: Some(whole) })
        } else {
            bail!("{} is neither a folder nor a .skill file", path.display());
        };
        let more = format!("\n`kernels skills validate {}` lists everything", path.display());
        Self::checked(&folder, source, tree, path, &more)
    }

    /// The text of SKILL.md.
    pub(crate) fn text(&self) -> &str {
        self.tree.get(SKILL_MD).and_then(|entry| std::str::from_utf8(&entry.content).ok()).unwrap_or_default()
    }

    /// What its header says of it, on one line.
    pub(crate) fn description(&self) -> String {
        let header = Document::parse(self.text()).ok();
        one_line(header.as_ref().and_then(|header| header.text("description")).unwrap_or_default())
    }

    /// A skill of files from anywhere, if no rule forbids it. `shown` is where they come from, `more` ends an error.
    pub(crate) fn checked(name: &str, source: Source, tree: Tree, shown: &Path, more: &str) -> Result<Self> {
        let findings = lint::lint(&tree, Some(name), &[]);
        if let Some(first) = lint::fatal(&findings).next() {
            bail!("{}: {} [{}]{more}", first.place(shown), first.message, first.rule);
        }
        Self::from_tree(name, source, tree, findings)
    }

    /// A skill of files that were looked at before.
    pub(crate) fn from_tree(name: &str, source: Source, tree: Tree, findings: Vec<Finding>) -> Result<Self> {
        let skill_md = tree.get(SKILL_MD).with_context(|| format!("{name} has no {SKILL_MD}"))?;
        let text = std::str::from_utf8(&skill_md.content).with_context(|| format!("{name}/{SKILL_MD} is not UTF-8"))?;
        let document = Document::parse(text).with_context(|| format!("{name}/{SKILL_MD}"))?;
        let files = file_digests(&tree);
        Ok(Self {
            name: name.to_owned(),
            version: document.version().map(one_line),
            digest: Digest::of_files(&files),
            files,
            source,
            tree,
            findings,
        })
    }
}

/// Whether a word was meant as the name of a skill, though it may be none: `cuda_kernels`.
fn is_name(word: &str) -> bool {
    lint::is_valid_name(word) || nearest(word, bundled::names()).is_some_and(|_| !word.contains(['/', '.']))
}

/// The names that are wanted of those that are there: all with `*`, and the only one without any.
pub(crate) fn choose<'a>(there: &'a [String], names: &[String], place: &str) -> Result<Vec<&'a String>> {
    if there.is_empty() {
        bail!("there is no skill in {place}: no folder in it has a {SKILL_MD}");
    }
    if let Some(name) = names.iter().find(|name| *name != "*" && !there.contains(name)) {
        bail!("there is no skill '{name}' in {place}; there are: {}", there.join(", "));
    }
    if names.is_empty() && there.len() > 1 {
        bail!(several(there, &format!("{place} has several skills")));
    }
    let all = names.is_empty() || names.iter().any(|name| name == "*");
    Ok(there.iter().filter(|name| all || names.contains(name)).collect())
}

fn several(names: &[String], what: &str) -> String {
    format!("{what}: {}; choose with `-s NAME,NAME` or `-s '*'`", names.join(", "))
}

/// The folders with a SKILL.md in a folder of skills, by name. Links are not followed.
pub(crate) fn skills_in(folder: &Path) -> Result<Vec<String>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot look into {}", folder.display()))?;
    let mut names: Vec<String> = entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()) && entry.path().join(SKILL_MD).is_file())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    Ok(names)
}

/// Whether version `one` comes after `other`: dotted numbers, compared number by number; anything
/// else is not comparable and so never newer.
pub(crate) fn is_newer(one: &str, other: &str) -> bool {
    fn numbers(version: &str) -> Option<Vec<u64>> {
        version.split('.').map(|part| part.parse().ok()).collect()
    }
    match (numbers(one), numbers(other)) {
        (Some(one), Some(other)) => {
            let length = one.len().max(other.len());
            let at = |v: &[u64], n: usize| v.get(n).copied().unwrap_or(0);
            (0..length).map(|n| at(&one, n).cmp(&at(&other, n))).find(|order| order.is_ne()) == Some(Ordering::Greater)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::is_newer;

    #[test]
    fn versions_compare_by_number() {
        for (one, other) in [("0.2.0", "0.1.9"), ("0.10.0", "0.9.0"), ("1", "0.9"), ("1.0.1", "1")] {
            assert!(is_newer(one, other), "{one} {other}");
            assert!(!is_newer(other, one), "{other} {one}");
        }
        for (one, other) in [("1.0", "1"), ("1", "1.0.0"), ("a", "1"), ("1", "b"), ("", "0")] {
            assert!(!is_newer(one, other), "{one} {other}");
        }
    }
}
