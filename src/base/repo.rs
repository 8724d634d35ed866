//! The name of a repository of kernels on the Hub: `owner/name`, with `@` a version, a branch, a tag or a commit.

use std::fmt;
use std::str::FromStr;

/// `owner/name`.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Repo {
    /// A user or an organization.
    pub(crate) owner: String,
    /// The kernel.
    pub(crate) name: String,
}

/// `owner/name@1`, `owner/name@main`, `owner/name`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Pinned {
    /// The repository.
    pub(crate) repo: Repo,
    /// What stands behind the `@`.
    pub(crate) revision: Option<String>,
}

impl FromStr for Repo {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let fits = |part: &str| {
            let legal = part.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
            legal && !part.is_empty() && part.len() <= 96 && !part.starts_with(['-', '.']) && !part.contains("..")
        };
        match text.split_once('/') {
            Some((owner, name)) if fits(owner) && fits(name) => {
                Ok(Self { owner: owner.to_owned(), name: name.to_owned() })
            }
            _ => Err(format!("`{text}` is not a repository of the Hub; write OWNER/NAME")),
        }
    }
}

impl FromStr for Pinned {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (repo, revision) = text.split_once('@').map_or((text, None), |(repo, rest)| (repo, Some(rest)));
        if revision.is_some_and(|revision| revision.is_empty() || revision.chars().any(char::is_control)) {
            return Err(format!("`{text}` has nothing behind its @; write a version (1), a branch, a tag or a commit"));
        }
        Ok(Self { repo: repo.parse()?, revision: revision.map(str::to_owned) })
    }
}

impl fmt::Display for Repo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.owner, self.name)
    }
}

/// The number of a version's branch: 3 of `v3`.
pub(crate) fn version_of(branch: &str) -> Option<u64> {
    let digits = branch.strip_prefix('v')?;
    let all = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    all.then(|| digits.parse().ok())?
}
