//! Requests that change the Hub: a repository, a branch, a tag, a commit with its large files.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;
use serde_json::{Value, json};

use super::fault::Fault;
use super::file::{Content, File};
use super::read::is_commit;
use super::{Hub, Repo};
use crate::base::http::{Body, Method, Request, Response, encoded, is_private};
use crate::base::{base64, plural};

/// One commit, and where it goes.
pub(super) struct Commit<'a> {
    pub(super) branch: &'a str,
    /// The branch's commit from which the change was made. The Hub refuses the change if the branch has another by then.
    pub(super) parent: &'a str,
    pub(super) summary: String,
    pub(super) description: String,
    pub(super) files: Vec<&'a File>,
    pub(super) deletes: Vec<&'a str>,
    /// Propose the change instead of making it.
    pub(super) pull_request: bool,
    /// The Python that sends large files by Xet, if the Hub asks for that.
    pub(super) python: &'a Path,
}

impl Commit<'_> {
    /// Tells the Hub that the change is a pull request, for which one needs no right to write.
    pub(super) fn query(&self) -> &'static str {
        if self.pull_request { "?create_pr=1" } else { "" }
    }
}

/// The Hub's answer to a commit.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Committed {
    pub(super) commit_oid: String,
    pub(super) pull_request_url: Option<String>,
}

#[derive(Deserialize)]
struct Modes {
    files: Vec<Mode>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Mode {
    path: String,
    #[serde(rename = "uploadMode")]
    kind: String,
    #[serde(default)]
    should_ignore: bool,
}

#[derive(Deserialize)]
struct Batch {
    /// How to send the objects; `None` means as offered.
    transfer: Option<String>,
    #[serde(default)]
    objects: Vec<Object>,
}

#[derive(Deserialize)]
struct Object {
    oid: String,
    #[serde(default)]
    actions: HashMap<String, Action>,
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Action {
    href: String,
    #[serde(default)]
    header: BTreeMap<String, Value>,
}

/// The most files in one request that asks how to send them.
const QUESTIONS: usize = 256;
/// The LFS transfer with one request per file.
const BASIC: &str = "basic";
/// The transfer that a Hub may ask for instead.
const XET: &str = "xet";
const LFS: &str = "application/vnd.git-lfs+json";

impl Hub {
    fn post(&self, url: String, body: &Value, tried: &str) -> Result<Response, Fault> {
        let body = body.to_string();
        let request = self.request(Method::Post, url).header("Content-Type", "application/json");
        self.expect(tried, self.http().send(&request.body(Body::Bytes(body.as_bytes()))))
    }

    /// Creates the repository; it is no error if it exists by now.
    pub(super) fn create(&self, repo: &Repo, private: bool) -> Result<()> {
        let mut body = json!({"name": repo.name, "organization": repo.owner, "type": "kernel"});
        if private {
            body["visibility"] = "private".into();
        }
        match self.post(format!("{}/api/repos/create", self.endpoint()), &body, &format!("creating {repo}")) {
            Err(fault) if fault.status == 409 && self.exists(repo)? => Ok(()),
            answer => Ok(answer.map(drop)?),
        }
    }

    /// Makes a branch that begins at a commit; `false` if there is one of this name already.
    pub(super) fn create_branch(&self, repo: &Repo, branch: &str, start: Option<&str>) -> Result<bool> {
        let body = start.map_or_else(|| json!({}), |start| json!({"startingPoint": start}));
        let url = self.api(repo, &format!("branch/{}", encoded(branch)));
        match self.post(url, &body, &format!("making the branch {branch} of {repo}")) {
            Err(fault) if fault.status == 409 => Ok(false),
            answer => Ok(answer.map(|_| true)?),
        }
    }

    /// Removes a branch, if it exists.
    pub(super) fn delete_branch(&self, repo: &Repo, branch: &str) -> Result<()> {
        let url = self.api(repo, &format!("branch/{}", encoded(branch)));
        let answer = self.http().send(&self.request(Method::Delete, url));
        match self.expect(&format!("removing the branch {branch} of {repo}"), answer) {
            Err(fault) if fault.status == 404 => Ok(()),
            answer => Ok(answer.map(drop)?),
        }
    }

    /// Tags a commit. It is no error if the commit has the tag already.
    pub(super) fn tag(&self, repo: &Repo, commit: &str, tag: &str, message: &str) -> Result<()> {
        let url = self.api(repo, &format!("tag/{}", encoded(commit)));
        match self.post(url, &json!({"tag": tag, "message": message}), &format!("tagging {repo} with {tag}")) {
            Err(fault) if fault.status == 409 => {
                let there = self.refs(repo)?.tags.remove(tag);
                ensure!(
                    there.as_deref() == Some(commit),
                    "{repo} has the tag {tag} for another commit: choose another name"
                );
                Ok(())
            }
            answer => Ok(answer.map(drop)?),
        }
    }

    /// Sends the large files, then the commit.
    pub(super) fn commit(&self, repo: &Repo, commit: &Commit, tell: &dyn Fn(&str)) -> Result<Committed> {
        let large = self.large(repo, commit)?;
        self.send_large(repo, commit, &large, tell)?;
        let mut lines = vec![json!({"key": "header", "value": {
            "summary": commit.summary, "description": commit.description, "parentCommit": commit.parent}})];
        for file in &commit.files {
            lines.push(if large.iter().any(|one| one.path == file.path) {
                json!({"key": "lfsFile", "value":
                    {"path": file.path, "algo": "sha256", "oid": file.sha256, "size": file.size}})
            } else {
                let content = base64(&file.bytes()?);
                json!({"key": "file", "value": {"path": file.path, "content": content, "encoding": "base64"}})
            });
        }
        lines.extend(commit.deletes.iter().map(|path| json!({"key": "deletedFile", "value": {"path": path}})));
        let body = lines.iter().map(Value::to_string).collect::<Vec<_>>().join("\n");
        let url = self.api(repo, &format!("commit/{}{}", encoded(commit.branch), commit.query()));
        let request = self.request(Method::Post, url).header("Content-Type", "application/x-ndjson").once();
        let answer = self.http().send(&request.body(Body::Bytes(body.as_bytes())));
        let tried = format!("committing to {} of {repo}", commit.branch);
        let done: Committed = self.expect(&tried, answer)?.json()?;
        // It becomes the name of a folder when it is read back.
        ensure!(is_commit(&done.commit_oid), "{tried}: the Hub's answer names {:?} as the commit", done.commit_oid);
        Ok(done)
    }

    /// The files that the Hub wants through LFS.
    fn large<'a>(&self, repo: &Repo, commit: &Commit<'a>) -> Result<Vec<&'a File>> {
        let mut large = Vec::new();
        let asked: Vec<&File> = commit.files.iter().copied().filter(|file| file.size > 0).collect();
        for files in asked.chunks(QUESTIONS) {
            let listed: Vec<Value> = files
                .iter()
                .map(|file| json!({"path": file.path, "size": file.size, "sample": base64(&file.sample)}))
                .collect();
            let url = self.api(repo, &format!("preupload/{}{}", encoded(commit.branch), commit.query()));
            let tried = format!("asking {repo} how files are sent");
            let modes: Modes = self.post(url, &json!({"files": listed}), &tried)?.json()?;
            for file in files {
                let mode = modes.files.iter().find(|mode| mode.path == file.path);
                let mode = mode.with_context(|| format!("{tried}: its answer has no {}", file.path))?;
                ensure!(
                    !mode.should_ignore,
                    "the .gitignore of {repo} leaves out {}: take the line out of it there",
                    file.path
                );
                if mode.kind == "lfs" {
                    large.push(*file);
                }
            }
        }
        Ok(large)
    }

    fn send_large(&self, repo: &Repo, commit: &Commit, files: &[&File], tell: &dyn Fn(&str)) -> Result<()> {
        if files.is_empty() {
            return Ok(());
        }
        let objects: Vec<Value> = files.iter().map(|file| json!({"oid": file.sha256, "size": file.size})).collect();
        let body = json!({"operation": "upload", "transfers": [BASIC], "objects": objects, "hash_algo": "sha256",
            "ref": {"name": commit.branch}})
        .to_string();
        let url = format!("{}/kernels/{repo}.git/info/lfs/objects/batch", self.endpoint());
        let request = self.request(Method::Post, url).header("Accept", LFS).header("Content-Type", LFS);
        let tried = format!("preparing {} for {repo}", plural(files.len(), "large file"));
        let batch: Batch =
            self.expect(&tried, self.http().send(&request.body(Body::Bytes(body.as_bytes()))))?.json()?;
        let other = batch.transfer.as_deref().filter(|transfer| *transfer != BASIC);
        if other == Some(XET) {
            tell(&format!("{} by Xet", plural(files.len(), "large file")));
            return self.send_by_xet(repo, commit, files);
        }
        // For a file in parts, the headers have their size and addresses, whatever transfer the answer names.
        let parts = batch.objects.iter().flat_map(|object| object.actions.values());
        let in_parts = || parts.clone().any(|action| action.header.contains_key("chunk_size")).then_some("multipart");
        if let Some(transfer) = other.or_else(in_parts) {
            bail!(
                "{tried}: the Hub wants them by `{transfer}`, and this version of kernels sends large files by LFS in one \
                 piece, or by Xet; nothing was sent: update kernels, or use `kernel-builder upload`"
            );
        }
        for file in files {
            let object = batch.objects.iter().find(|object| object.oid == file.sha256);
            let object = object.with_context(|| format!("{tried}: its answer has no {}", file.path))?;
            if let Some(error) = &object.error {
                let said = error["message"].as_str().unwrap_or("without a reason");
                bail!("the Hub refuses {}: {}", file.path, self.without_token(said));
            }
            // A file that is there already has no actions.
            if let Some(action) = object.actions.get("upload") {
                tell(&format!("{} ({} bytes)", file.path, file.size));
                self.put(action, file)?;
            }
            if let Some(action) = object.actions.get("verify") {
                let body = json!({"oid": file.sha256, "size": file.size}).to_string();
                let request = self.of_action(Method::Post, action)?.header("Content-Type", LFS).header("Accept", LFS);
                let answer = self.http().send(&request.body(Body::Bytes(body.as_bytes())));
                self.expect(&format!("sending {}", file.path), answer)?;
            }
        }
        Ok(())
    }

    fn put(&self, action: &Action, file: &File) -> Result<()> {
        let request = self.of_action(Method::Put, action)?;
        file.ensure_unchanged()?;
        let request = match &file.content {
            Content::Disk(path) => request.body(Body::File(path)),
            Content::Text(text) => request.body(Body::Bytes(text)),
        };
        self.expect(&format!("sending {}", file.path), self.http().send(&request))?;
        Ok(())
    }

    /// A request to the address that the Hub gives; its headers authorize it there. A Hub on another machine must not use this
    /// to reach servers of this machine.
    fn of_action<'a>(&self, method: Method, action: &Action) -> Result<Request<'a>> {
        let own = is_private(&action.href) && self.endpoint().starts_with("http://");
        ensure!(
            action.href.starts_with("https://") || own,
            "the Hub sends a file to an address without https; nothing was sent there"
        );
        let request = if action.header.keys().any(|name| name.eq_ignore_ascii_case("authorization")) {
            Request::new(method, action.href.clone())
        } else {
            self.request(method, action.href.clone())
        };
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Ok(action.header.iter().fold(request, |request, (name, value)| request.header(name, &text(value))))
    }
}
