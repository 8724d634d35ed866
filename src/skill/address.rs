//! Where a skill comes from that is not on this machine: a repository or a site, as it is typed and recorded.

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::path::RelPath;
use super::tree::SKILL_MD;
use crate::base::http;
use crate::base::text::is_invisible;

pub(crate) const GITHUB: &str = "https://github.com/";
/// Hosts on which the address of a repository need not end in `.git`.
const FORGES: [&str; 4] = [GITHUB, "https://gitlab.com/", "https://codeberg.org/", "https://bitbucket.org/"];

/// An address of one or more skills. Its text, `github:OWNER/REPO/PATH@REF` or a URL, reads back as the same.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub(crate) enum Address {
    Git {
        /// What git fetches, ending in `.git`.
        url: String,
        folder: Option<RelPath>,
        /// A branch, a tag or a commit.
        revision: Option<String>,
    },
    /// A `.skill` archive.
    Archive(String),
    /// A site with an index of skills, and the name of one of them.
    Site { url: String, skill: Option<String> },
}

#[derive(Debug, Error, PartialEq, Eq)]
pub(crate) enum AddressError {
    #[error("'{0}' is neither OWNER/REPO[/PATH][@REF] nor the URL of a .git repository, a .skill archive or a site")]
    Shape(String),
    /// Something that git or curl would take for an option, or another place than the one that is shown.
    #[error("'{0}' is no address: it has a space, a hidden character, `..`, or a part that begins with `-`")]
    Part(String),
    #[error(
        "'{0}' is not fetched, only https and ssh are, and http from this machine; for what lies here name a folder"
    )]
    Protocol(String),
    #[error("the address has a password or a query, which would be recorded; let git's credential helper know it")]
    Secret,
}

impl Address {
    /// The address that was typed, unless it is a path that is there or is written as one.
    pub(crate) fn typed(text: &Path) -> Option<Result<Self, AddressError>> {
        // A folder by the owner's name means that a path was misspelt.
        let there = text.components().next().is_some_and(|first| Path::new(&first).symlink_metadata().is_ok());
        let text = text.to_str()?;
        let path = there || text.starts_with(['/', '.', '~']) || text.ends_with(".skill") || text.ends_with(SKILL_MD);
        (is_explicit(text) || !path && github(text).is_some()).then(|| text.parse())
    }

    /// The address that a file names: `OWNER/REPO` alone may be a folder that is gone.
    pub(crate) fn written(text: &Path) -> Option<Result<Self, AddressError>> {
        text.to_str().filter(|text| is_explicit(text)).map(str::parse)
    }

    /// Whether `one` is the address of a skill that this one names, alone or with others.
    pub(crate) fn covers(&self, one: &Self) -> bool {
        match (self, one) {
            (Self::Git { url, folder, revision }, Self::Git { url: there, folder: inside, revision: other }) => {
                url == there && revision == other && (folder.is_none() || folder == inside)
            }
            (Self::Site { url, skill }, Self::Site { url: there, skill: one }) => {
                url == there && (skill.is_none() || skill == one)
            }
            _ => self == one,
        }
    }

    /// The address of one of the skills there: its folder in a repository, its name on a site.
    pub(crate) fn of_skill(&self, name: &str, inside: Option<RelPath>) -> Self {
        let mut one = self.clone();
        match &mut one {
            Self::Git { folder, .. } => *folder = inside,
            Self::Site { skill, .. } => *skill = Some(name.to_owned()),
            Self::Archive(_) => {}
        }
        one
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let hidden = |c: char| c.is_control() || c.is_whitespace() || is_invisible(c) || matches!(c, '\\' | '"' | '\'');
        // `/-/` is in the addresses of GitLab's pages.
        let odd = |part: &str| part.starts_with('-') && part != "-" || part.contains("..");
        if text.contains(hidden) || text.split(['/', ':', '@', '#']).any(odd) {
            return Err(AddressError::Part(text.escape_debug().to_string()));
        }
        let short = text.strip_prefix("github:").or_else(|| (!is_explicit(text)).then_some(text));
        match short {
            Some(short) => github(short).unwrap_or_else(|| Err(AddressError::Shape(text.to_owned()))),
            None => of_url(text),
        }
    }
}

fn is_explicit(text: &str) -> bool {
    text.contains("://") || text.starts_with("github:") || is_scp(text)
}

/// Whether it is `user@host:path`, as ssh has it.
fn is_scp(text: &str) -> bool {
    let (host, path) = text.split_once(':').unwrap_or_default();
    host.split_once('@').is_some_and(|(user, host)| !user.contains('/') && !host.contains('/'))
        && !path.starts_with("//")
}

/// `OWNER/REPO[/PATH][@REF]`; nothing if it has not that form.
fn github(text: &str) -> Option<Result<Address, AddressError>> {
    let (place, revision) = parted(text);
    let mut parts = place.trim_end_matches('/').splitn(3, '/');
    let (owner, repo) = (parts.next()?, parts.next()?);
    let repo = repo.strip_suffix(".git").unwrap_or(repo);
    let plain = |name: &str| {
        let letters = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
        letters && !name.is_empty() && !name.starts_with('.')
    };
    (plain(owner) && plain(repo))
        .then(|| git(&format!("{GITHUB}{owner}/{repo}.git"), parts.next().unwrap_or_default(), revision))
}

fn of_url(text: &str) -> Result<Address, AddressError> {
    let shape = || AddressError::Shape(text.to_owned());
    let web = text.starts_with("https://") || text.starts_with("http://") && http::is_private(text);
    if !web && !text.starts_with("ssh://") && !is_scp(text) {
        return Err(AddressError::Protocol(text.to_owned()));
    }
    let authority = http::origin(text).split_once("://").map_or("", |(_, authority)| authority);
    let user = authority.rsplit_once('@').map(|(user, _)| user);
    if text.contains('?') || user.is_some_and(|user| web || user.contains(':')) {
        return Err(AddressError::Secret);
    }
    let ends = |end: &usize| text[*end..].is_empty() || text[*end..].starts_with(['/', '@', '#']);
    if let Some(end) = text.match_indices(".git").map(|(at, dot)| at + dot.len()).find(ends) {
        let (folder, revision) = parted(&text[end..]);
        return git(&text[..end], folder, revision);
    }
    let (place, fragment) = text.split_once('#').map_or((text, None), |(place, rest)| (place, Some(rest)));
    if FORGES.iter().any(|forge| text.starts_with(forge)) {
        // The page of a folder: …/OWNER/REPO/tree/REF/PATH.
        let (place, revision) = parted(text);
        let page = ["/-/tree/", "/tree/", "/blob/"].iter().find_map(|word| place.split_once(word));
        let (repo, page) = page.unwrap_or((place, ""));
        let (branch, folder) = page.split_once('/').unwrap_or((page, ""));
        let (repo, branch) = (repo.trim_end_matches('/'), Some(branch).filter(|branch| !branch.is_empty()));
        // GitLab has groups in groups.
        let parts = repo.matches('/').count();
        if parts < 4 || parts > 4 && repo.starts_with(GITHUB) {
            return Err(shape());
        }
        return git(&format!("{repo}.git"), folder, branch.or(revision));
    }
    match place.ends_with(".skill") || place.ends_with(".zip") {
        true if web && fragment.is_none() => Ok(Address::Archive(text.to_owned())),
        false if web => Ok(Address::Site {
            url: place.trim_end_matches("index.json").trim_end_matches('/').to_owned(),
            skill: fragment.map(str::to_owned),
        }),
        _ => Err(shape()),
    }
}

/// A text before `@` or `#`, and the revision behind.
fn parted(text: &str) -> (&str, Option<&str>) {
    text.split_once(['@', '#']).map_or((text, None), |(place, revision)| (place, Some(revision)))
}

fn git(url: &str, folder: &str, revision: Option<&str>) -> Result<Address, AddressError> {
    let folder = folder.strip_suffix(SKILL_MD).unwrap_or(folder).trim_matches('/');
    let shape = || AddressError::Shape(format!("{url}/{folder}"));
    let folder = (!folder.is_empty()).then(|| RelPath::parse(folder)).transpose().map_err(|_| shape())?;
    // What git allows in the name of a branch or a tag; a colon would be another refspec.
    let wrong = |name: &str| {
        name.is_empty()
            || name.len() > 255
            || name.starts_with(['/', '+', '-'])
            || name.contains(['~', '^', ':', '*', '?', '[', '@'])
    };
    match revision {
        Some(revision) if wrong(revision) => Err(AddressError::Part(revision.to_owned())),
        _ => Ok(Address::Git { url: url.to_owned(), folder, revision: revision.map(str::to_owned) }),
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Git { url, folder, revision } => {
                match url.strip_prefix(GITHUB).and_then(|repo| repo.strip_suffix(".git")) {
                    Some(repo) => write!(f, "github:{repo}")?,
                    None => f.write_str(url)?,
                }
                folder.iter().try_for_each(|folder| write!(f, "/{folder}"))?;
                revision.iter().try_for_each(|revision| write!(f, "@{revision}"))
            }
            Self::Archive(url) => f.write_str(url),
            Self::Site { url, skill } => {
                f.write_str(url)?;
                skill.iter().try_for_each(|skill| write!(f, "#{skill}"))
            }
        }
    }
}

impl From<Address> for String {
    fn from(address: Address) -> Self {
        address.to_string()
    }
}

impl TryFrom<String> for Address {
    type Error = AddressError;

    fn try_from(text: String) -> Result<Self, AddressError> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_reads_back_as_it_is_written() {
        for (typed, written) in [
            ("acme/skills", "github:acme/skills"),
            ("acme/skills/tools/review@v1", "github:acme/skills/tools/review@v1"),
            ("acme/skills#feature/x", "github:acme/skills@feature/x"),
            ("github:acme/skills.git", "github:acme/skills"),
            ("https://github.com/acme/skills", "github:acme/skills"),
            ("https://github.com/acme/skills/tree/main/tools/review", "github:acme/skills/tools/review@main"),
            ("https://github.com/acme/skills/blob/main/a/SKILL.md", "github:acme/skills/a@main"),
            ("https://github.com/acme/skills@v1", "github:acme/skills@v1"),
            ("https://gitlab.com/a/b/c/-/tree/v1/d", "https://gitlab.com/a/b/c.git/d@v1"),
            ("https://git.example.com/x.git/a@v1", "https://git.example.com/x.git/a@v1"),
            ("git@git.example.com:team/x.git#v1", "git@git.example.com:team/x.git@v1"),
            ("ssh://git@git.example.com:22/x.git", "ssh://git@git.example.com:22/x.git"),
            ("https://example.com/a/b.skill", "https://example.com/a/b.skill"),
            ("https://example.com/docs/", "https://example.com/docs"),
            ("http://127.0.0.1:80#review", "http://127.0.0.1:80#review"),
        ] {
            let address: Address = typed.parse().unwrap();
            assert_eq!(address.to_string(), written, "{typed}");
            assert_eq!(written.parse(), Ok(address), "{written}");
        }
    }

    #[test]
    fn what_git_or_curl_would_misread_is_no_address() {
        for text in [
            "",
            "acme",
            "-x/y",
            "acme/-x",
            "acme/../x",
            "acme/x/../../y",
            "acme/x@-u",
            "acme/x@a..b",
            "acme/x@a:b",
            "acme/x@",
            "ext::sh -c id",
            "file:///etc",
            "git://example.com/x.git",
            "http://example.com/x.git",
            "https://u:p@example.com/x.git",
            "https://token@example.com/x.git",
            "ssh://u:p@h/x.git",
            "ssh://-oProxyCommand=x/y.git",
            "-o@h:x.git",
            "u@-h:x.git",
            "https://example.com/a.skill?key=1",
            "https://example.com/a b.skill",
            "https://e\u{202e}xample.com/",
            "ftp://a/b.skill",
            "https://github.com/acme/x@a@b",
            "https://github.com/acme",
            "https://github.com/acme/x/issues",
            "acme/x@-",
        ] {
            assert!(text.parse::<Address>().is_err(), "{text}: {:?}", text.parse::<Address>());
        }
    }
}
