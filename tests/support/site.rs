//! A web site on loopback, and repositories that `https://github.com/` leads to in a test's home.

#![allow(dead_code, reason = "every test target uses its own part of this")]
#![allow(clippy::unwrap_used, unreachable_pub, reason = "a helper that fails is a test that fails")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use super::http::{answer, serve};
use super::{Ran, Test, write};

/// What a path answers.
#[derive(Clone, Default)]
pub struct Answer {
    pub body: Vec<u8>,
    /// A redirection to this address.
    pub to: Option<String>,
    /// The connection ends after half of the body.
    pub cut: bool,
    /// The time until it is answered.
    pub after: Duration,
    /// The body again and again: to a client, without an end.
    pub endless: bool,
}

/// Longer than a test asks.
pub const NEVER: Duration = Duration::from_secs(60);

/// So many bytes stand for an answer without an end. Tests' homes lie in memory.
const ENDLESS: usize = 256 << 20;

type Pages = Arc<Mutex<BTreeMap<String, Answer>>>;

pub struct Site {
    address: String,
    pages: Pages,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Site {
    pub fn new() -> Self {
        let (pages, asked) = (Pages::default(), Arc::<Mutex<Vec<String>>>::default());
        let (served, log) = (Arc::clone(&pages), Arc::clone(&asked));
        let address = serve(move |request, stream| {
            log.lock().unwrap().push(request.path.clone());
            let page = served.lock().unwrap().get(&request.path).cloned();
            send(page, stream)
        });
        Self { address, pages, asked }
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}{path}", self.address)
    }

    pub fn put(&self, path: &str, body: impl Into<Vec<u8>>) {
        self.answer(path, Answer { body: body.into(), ..Answer::default() });
    }

    pub fn answer(&self, path: &str, answer: Answer) {
        self.pages.lock().unwrap().insert(path.to_owned(), answer);
    }

    /// The paths that were asked for, in order.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

fn send(page: Option<Answer>, stream: &mut TcpStream) -> io::Result<()> {
    let Some(page) = page else { return stream.write_all(&answer("404 Not Found", "", "")) };
    thread::sleep(page.after);
    if page.endless {
        stream.write_all(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")?;
        // A client that takes it all is to fail the test, and not to fill the machine's memory.
        return (0..=ENDLESS / page.body.len()).try_for_each(|_| stream.write_all(&page.body));
    }
    let whole = match &page.to {
        Some(to) => answer("302 Found", &format!("Location: {to}\r\n"), &page.body),
        None => answer("200 OK", "", &page.body),
    };
    stream.write_all(if page.cut { &whole[..whole.len() - page.body.len().div_ceil(2)] } else { &whole })
}

/// A repository `acme/NAME`, with a folder to change and commit.
pub struct Repository {
    pub folder: PathBuf,
    home: PathBuf,
}

impl Repository {
    pub fn new(test: &Test, name: &str) -> Self {
        let all = test.root().join("repositories");
        let folder = all.join(format!("acme/{name}.git"));
        fs::create_dir_all(&folder).unwrap();
        let config = format!(
            "[user]\nname = a\nemail = a@b.c\n[init]\ndefaultBranch = main\n[url \"file://{}/\"]\ninsteadOf = https://github.com/\ninsteadOf = https://git.example.com/\n",
            all.display()
        );
        let at = test.home.join(".gitconfig");
        if !at.exists() {
            write(&at, config);
        }
        let repository = Self { folder, home: test.home.clone() };
        repository.git("init -q");
        repository
    }

    pub fn git(&self, typed: &str) -> String {
        let mut command = Command::new("git");
        command.env_clear().env("HOME", &self.home).env("PATH", "/usr/bin:/bin").current_dir(&self.folder);
        Ran::ok(command.args(typed.split(' '))).out.trim().to_owned()
    }

    /// Commits all that is in the folder, and returns the commit.
    pub fn commit(&self) -> String {
        self.git("add -A -f");
        self.git("commit -q --no-verify -m x");
        self.git("rev-parse HEAD")
    }

    pub fn at(&self, path: &str) -> PathBuf {
        self.folder.join(path)
    }

    pub fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        write(&self.at(path), text);
    }
}
