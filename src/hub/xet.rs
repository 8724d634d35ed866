//! Large files by Xet, which a Hub may ask for instead of LFS. `hf_xet`, Hugging Face's own client, splits and sends them in a
//! separate Python process. On its stdin it gets the store's address and a token for this store, valid for an hour. It never
//! gets the user's token.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;
use serde_json::json;
use tempfile::TempDir;

use super::file::File;
use super::write::Commit;
use super::{Hub, Repo, load};
use crate::base::http::{Method, encoded, is_private};
use crate::toolchain;

/// Prints the SHA-256 of what was sent, in order, as its last line.
const SCRIPT: &str = r#"
import json, sys
try:
    from hf_xet import XetSession
except ImportError as error:
    print(error, file=sys.stderr)
    sys.exit(69)
ask = json.load(sys.stdin)
with XetSession().new_upload_commit(**ask["store"]) as commit:
    sent = [commit.start_upload_file(path) for path in ask["files"]]
print(json.dumps([one.result().xet_info.sha256 for one in sent]))
"#;
/// The exit code if the library is missing or too old.
const NO_LIBRARY: i32 = 69;
/// At most this many characters of the library's output are shown.
const LONGEST: usize = 600;

/// The store of such files, and a token to write there.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Store {
    cas_url: String,
    access_token: String,
    exp: u64,
}

impl Hub {
    pub(super) fn send_by_xet(&self, repo: &Repo, commit: &Commit, files: &[&File]) -> Result<()> {
        let url = self.api(repo, &format!("xet-write-token/{}{}", encoded(commit.branch), commit.query()));
        let answer = self.http().send(&self.request(Method::Get, url));
        let store: Store = self.expect(&format!("asking where {repo} keeps large files"), answer)?.json()?;
        // A Hub on another machine must not use this to reach servers of this machine.
        let own = is_private(&store.cas_url) && self.endpoint().starts_with("http://");
        ensure!(
            store.cas_url.starts_with("https://") || own,
            "the Hub sends files to a store without https; nothing was sent there"
        );
        let folder = TempDir::with_prefix("kernels-xet-").context("cannot make a folder for temporary files")?;
        let paths = (0..files.len()).map(|number| folder.path().join(number.to_string()));
        let paths: Vec<PathBuf> = paths.collect();
        for (file, path) in files.iter().zip(&paths) {
            // A copy of what was checked, which nobody edits while it is sent.
            fs::write(path, file.bytes()?).with_context(|| format!("cannot write {}", path.display()))?;
        }
        let seed = json!({"endpoint": store.cas_url, "token": store.access_token, "token_expiry_unix_secs": store.exp});
        let sent =
            self.through_library(commit.python, &json!({"store": seed, "files": paths}), folder.path(), &store)?;
        for (number, file) in files.iter().enumerate() {
            ensure!(sent.get(number) == Some(&file.sha256), "hf_xet sent something else than {}", file.path);
        }
        Ok(())
    }

    fn through_library(
        &self,
        python: &Path,
        ask: &serde_json::Value,
        scratch: &Path,
        store: &Store,
    ) -> Result<Vec<String>> {
        let shown = python.display();
        let next = "name a Python that has hf_xet, which the Hub's library brings along, with --python";
        let mut command = toolchain::python(python);
        // Neither the user's environment nor a project decides which modules are imported.
        command.args(["-I", "-c", SCRIPT]).env_clear().envs(load::environment(scratch)?);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("the Hub wants large files by Xet, and {shown} cannot be started; {next}"))?;
        if let Some(mut stdin) = child.stdin.take() {
            // If this fails, the process ended early, and its output says why.
            let _ = stdin.write_all(ask.to_string().as_bytes());
        }
        let output = child.wait_with_output()?;
        let said = String::from_utf8_lossy(&output.stderr).replace(&store.access_token, "…");
        let said = self.without_token(said.trim());
        let from = said.char_indices().rev().nth(LONGEST).map_or(0, |(at, _)| at);
        match output.status.code() {
            Some(0) => {}
            Some(NO_LIBRARY) => {
                bail!("the Hub wants large files by Xet, and {shown} cannot send them ({said}); {next}")
            }
            _ => bail!("hf_xet could not send large files ({}): {}; publish again", output.status, &said[from..]),
        }
        let printed = String::from_utf8_lossy(&output.stdout);
        let last = printed.lines().next_back().unwrap_or_default();
        serde_json::from_str(last).with_context(|| format!("hf_xet of {shown} does not say what it sent: {last}"))
    }
}
