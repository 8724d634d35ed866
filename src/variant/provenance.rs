//! `provenance` of metadata.json: which program built a variant, and from which commit. It has the keys of kernel-builder, and
//! is read as strictly as by the Hub's library, which does not load a variant whose provenance it cannot read.

use std::path::Path;

use serde::{Deserialize, Deserializer, Serialize};

use crate::agent::project::git_root;
use crate::base::git::git_in;

/// The program, and the sources if they lie in git.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct Provenance {
    kernel_builder: Builder,
    #[serde(skip_serializing_if = "Option::is_none")]
    kernel: Option<State>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(try_from = "Read")]
struct Builder {
    version: String,
    #[serde(flatten)]
    state: Option<State>,
}

/// A commit, and whether there were uncommitted changes.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct State {
    #[serde(alias = "sha")]
    commit: Commit,
    dirty: bool,
}

/// A commit's full name, by SHA-1 or SHA-256.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
#[serde(try_from = "String")]
struct Commit(String);

#[derive(Deserialize)]
struct Read {
    version: String,
    #[serde(default, alias = "sha", deserialize_with = "present")]
    commit: Option<Commit>,
    #[serde(default, deserialize_with = "present")]
    dirty: Option<bool>,
}

/// `null` is an error, as in the Hub's library.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

impl TryFrom<String> for Commit {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let whole = [40, 64].contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        whole.then(|| Self(name.to_ascii_lowercase())).ok_or(format!("`{name}` is not a commit of 40 or 64 digits"))
    }
}

impl TryFrom<Read> for Builder {
    type Error = &'static str;

    fn try_from(Read { version, commit, dirty }: Read) -> Result<Self, Self::Error> {
        let state = match (commit, dirty) {
            (Some(commit), Some(dirty)) => Some(State { commit, dirty }),
            (None, None) => None,
            _ => return Err("`commit` and `dirty` of kernel-builder go together"),
        };
        Ok(Self { version, state })
    }
}

impl Provenance {
    /// The provenance of a build from these files of the project now, and a remark if git fails.
    pub(super) fn of(root: &Path, files: &[&Path]) -> (Self, Option<String>) {
        let version = concat!("kernels-harness ", env!("CARGO_PKG_VERSION")).to_owned();
        let found = state(root, files).transpose();
        let remark = found.as_ref().err().map(|why| format!("git names no commit for metadata.json: {why}"));
        let kernel = found.unwrap_or_default();
        (Self { kernel_builder: Builder { version, state: None }, kernel }, remark)
    }

    /// The provenance that an earlier build of the same sources wrote, if it is still true: its commit is an ancestor of HEAD.
    pub(super) fn kept(metadata: &str, root: &Path) -> Option<Self> {
        #[derive(Deserialize)]
        struct Written {
            provenance: Provenance,
        }
        let written = serde_json::from_str::<Written>(metadata).ok()?.provenance;
        let commit = &written.kernel.as_ref().filter(|_| !written.is_dirty())?.commit.0;
        git(root, &["merge-base", "--is-ancestor", commit, "HEAD"]).ok()?;
        Some(written)
    }

    /// Whether it was built from uncommitted changes, of which the Hub's library warns.
    pub(crate) fn is_dirty(&self) -> bool {
        [&self.kernel_builder.state, &self.kernel].into_iter().flatten().any(|state| state.dirty)
    }

    /// The text for a user.
    pub(crate) fn shown(&self) -> String {
        let of = |state: &Option<State>| {
            let Some(State { commit, dirty }) = state else { return String::new() };
            format!(" {}{}", commit.0, if *dirty { " with changes that no commit holds" } else { "" })
        };
        format!("by {}{}, from commit{}", self.kernel_builder.version, of(&self.kernel_builder.state), of(&self.kernel))
    }
}

/// The commit of a project, and which of these files have changed since; `None` outside a repository. Ignored files that a
/// compiler reads count as changed, because no commit holds them.
fn state(root: &Path, files: &[&Path]) -> Option<Result<State, String>> {
    let files: Vec<&str> = files.iter().filter_map(|path| path.to_str()).collect();
    let question = [&["--literal-pathspecs", "status", "--porcelain", "--ignored", "--"], files.as_slice()].concat();
    let state = |(commit, changes): (String, String)| {
        Ok(State { commit: Commit::try_from(commit)?, dirty: !changes.is_empty() })
    };
    Some(commit_and(root, &question)?.and_then(state))
}

/// The commit of a project, and git's answer to a question; `None` outside a repository.
pub(crate) fn commit_and(root: &Path, question: &[&str]) -> Option<Result<(String, String), String>> {
    git_root(root)?;
    Some(git(root, &["rev-parse", "--verify", "HEAD"]).and_then(|commit| Ok((commit, git(root, question)?))))
}

fn git(root: &Path, arguments: &[&str]) -> Result<String, String> {
    let output = git_in(root).args(arguments).output().map_err(|error| format!("git cannot be started: {error}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}
