//! A Kernel Hub on loopback (tests/hub/server.py), and a project with variants to publish there.

#![allow(dead_code, reason = "every test target uses its own part of this")]
#![allow(clippy::unwrap_used, unreachable_pub, reason = "a helper that fails is a test that fails")]

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use super::{Ran, Test, write};

/// The server's process; it ends with the test.
pub struct Server {
    child: Child,
    pub port: u16,
}

impl Server {
    pub fn new() -> Self {
        Self::of(None)
    }

    /// One that keeps large files by Xet, in the store of this address.
    pub fn with_store(address: &str) -> Self {
        Self::of(Some(address))
    }

    fn of(store: Option<&str>) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hub/server.py");
        let mut command = Command::new("python3");
        let mut child = command.arg(script).args(store).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { port: line.trim().parse().unwrap(), child }
    }

    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// What the server remembers.
    pub fn state(&self) -> Value {
        self.ask("/_state", &json!({}))
    }

    pub fn fault(&self, fault: &Value) {
        self.ask("/_fault", fault);
    }

    /// What answers are to be changed to.
    pub fn lie(&self, lie: &Value) {
        self.ask("/_lie", lie);
    }

    /// Another person's commit; no text removes a file.
    pub fn put(&self, branch: &str, path: &str, text: Option<&str>) {
        let files = json!({path: text.map(|text| base64(text.as_bytes()))});
        self.ask("/_put", &json!({"repo": "acme/demo", "branch": branch, "files": files}));
    }

    /// The same of several files.
    pub fn put_all(&self, branch: &str, files: impl Iterator<Item = (String, String)>) {
        let files: Map<String, Value> = files.map(|(path, text)| (path, base64(text.as_bytes()).into())).collect();
        self.ask("/_put", &json!({"repo": "acme/demo", "branch": branch, "files": files}));
    }

    /// A file of `acme/demo`, as a reader gets it.
    pub fn text(&self, branch: &str, path: &str) -> String {
        self.answer("GET", &format!("/kernels/acme/demo/resolve/{branch}/{path}"), "")
    }

    fn ask(&self, path: &str, body: &Value) -> Value {
        serde_json::from_str(&self.answer("POST", path, &body.to_string())).unwrap()
    }

    fn answer(&self, method: &str, path: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let length = body.len();
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    }

    /// The branches of `acme/demo` with the names and digests of their files.
    pub fn files(&self, branch: &str) -> Map<String, Value> {
        self.state()["repos"]["acme/demo"]["branches"][branch]["files"].as_object().cloned().unwrap_or_default()
    }

    /// What stays the same however the state was reached: files by branch, and tags.
    pub fn content(&self) -> Value {
        let state = self.state();
        let repo = &state["repos"]["acme/demo"];
        let branches = repo["branches"].as_object().cloned().unwrap_or_default();
        let files: Map<String, Value> =
            branches.iter().map(|(name, one)| (name.clone(), one["files"].clone())).collect();
        let tags: Vec<&String> = repo["tags"].as_object().into_iter().flat_map(Map::keys).collect();
        json!({"files": files, "tags": tags})
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `demo`, with variants that hold no kernel: two, unless it is said otherwise.
pub struct Demo {
    pub test: Test,
    pub root: PathBuf,
}

pub const VARIANTS: [&str; 2] = ["torch-stable-abi211-cu130-x86_64-linux", "torch-stable-abi211-cu126-x86_64-linux"];
const ID: &str = "_demo_cuda_0123abc";

impl Demo {
    pub fn new() -> Self {
        Self::of(&VARIANTS)
    }

    pub fn of(variants: &[&str]) -> Self {
        let test = Test::without_git();
        test.ok("init demo --op blank --owner acme --no-git");
        let demo = Self { root: test.project.join("demo"), test };
        for variant in variants {
            demo.variant(variant, "\"scale\"");
        }
        demo
    }

    /// Writes a variant whose package offers `names`.
    pub fn variant(&self, name: &str, names: &str) {
        self.variant_of(name, &format!("__all__ = [{names}]\n\n\ndef scale(x):\n    return 2 * x\n"));
    }

    /// Writes a variant whose package is this code.
    pub fn variant_of(&self, name: &str, code: &str) {
        let folder = self.root.join("build").join(name);
        write(&folder.join("__init__.py"), code);
        write(&folder.join("layers/__init__.py"), "");
        let library = folder.join(format!("{ID}.abi3.so"));
        let source = self.root.join("build/source.c");
        write(&source, format!("void PyInit_{ID}(void) {{}}\nconst char *of = \"{name}\";\n"));
        let made = Command::new("cc").args(["-shared", "-fPIC", "-nostdlib", "-o"]).arg(&library).arg(&source).status();
        assert!(made.unwrap().success());
        fs::remove_file(source).unwrap();
        let mut digests = Map::new();
        for path in ["__init__.py", "layers/__init__.py", &format!("{ID}.abi3.so")] {
            let digest = Sha256::digest(fs::read(folder.join(path)).unwrap());
            digests.insert(path.to_owned(), base64(&digest).into());
        }
        let metadata = json!({
            "name": "demo", "id": ID, "version": 1, "license": "Apache-2.0", "python-depends": [],
            "backend": {"type": "cuda", "archs": ["8.0", "9.0+PTX"]},
            "digest": {"algorithm": "sha256", "files": digests},
        });
        write(&folder.join("metadata.json"), metadata.to_string());
    }

    /// `kernels`, which reaches this server alone.
    pub fn command(&self, server: &Server, typed: &str) -> Command {
        let mut command = self.test.command();
        command.current_dir(&self.root).env("HF_ENDPOINT", server.endpoint()).env("HF_TOKEN", "hf_secret");
        command.args(typed.split(' '));
        command
    }

    pub fn run(&self, server: &Server, typed: &str) -> Ran {
        Ran::of(&mut self.command(server, typed))
    }

    /// Publishes without evidence, and returns the report.
    pub fn publish(&self, server: &Server, options: &str) -> Value {
        let ran = self.run(server, format!("publish --unproved --json {options}").trim_end());
        assert_eq!(ran.code, 0, "{ran:#?}");
        ran.json()
    }
}

pub fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let bits = chunk.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for at in 0..4 {
            text.push(if at <= chunk.len() { DIGITS[(bits >> (18 - 6 * at) & 63) as usize].into() } else { '=' });
        }
    }
    text
}
