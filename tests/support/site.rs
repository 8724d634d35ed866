//! A web site on loopback, and repositories that `https://github.com/` leads to in a test's home.

#![allow(dead_code, reason = "every test target uses its own part of this")]
#![allow(clippy::unwrap_used, unreachable_pub, reason = "a helper that fails is a test that fails")]

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use super::{Ran, Test, write};

/// What a path answers.
#[derive(Clone, Default)]
pub struct Answer {
    pub body: Vec<u8>,
    /// A redirection to this address.
    pub to: Option<String>,
    /// The connection ends after half of the body.
    pub cut: bool,
    /// Nothing is answered for as long as the test runs.
    pub never: bool,
    /// The body again and again: to a client, without an end.
    pub endless: bool,
}

/// So many bytes stand for an answer without an end. Tests' homes lie in memory.
const ENDLESS: usize = 256 << 20;

type Pages = Arc<Mutex<BTreeMap<String, Answer>>>;

/// The server; its thread ends with the test's process.
pub struct Site {
    pub port: u16,
    pages: Pages,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Site {
    pub fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let site = Self { port: listener.local_addr().unwrap().port(), pages: Pages::default(), asked: Arc::default() };
        let (pages, asked) = (site.pages.clone(), site.asked.clone());
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (pages, asked) = (pages.clone(), asked.clone());
                thread::spawn(move || answer(stream, &pages, &asked));
            }
        });
        site
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
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

/// An error means that the client has gone.
fn answer(stream: TcpStream, pages: &Pages, asked: &Mutex<Vec<String>>) -> Option<()> {
    let mut lines = BufReader::new(stream.try_clone().ok()?).lines();
    let path = lines.next()?.ok()?.split(' ').nth(1)?.to_owned();
    while !lines.next()?.ok()?.is_empty() {}
    asked.lock().unwrap().push(path.clone());
    let page = pages.lock().unwrap().get(&path).cloned();
    let mut stream = stream;
    let Some(page) = page else {
        return stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").ok();
    };
    if page.never {
        thread::sleep(Duration::from_secs(60));
    }
    let (status, location) = match &page.to {
        Some(to) => ("302 Found", format!("Location: {to}\r\n")),
        None => ("200 OK", String::new()),
    };
    let length = if page.endless { String::new() } else { format!("Content-Length: {}\r\n", page.body.len()) };
    write!(stream, "HTTP/1.1 {status}\r\n{location}{length}Connection: close\r\n\r\n").ok()?;
    let sent = if page.cut { page.body.len() / 2 } else { page.body.len() };
    stream.write_all(&page.body[..sent]).ok()?;
    // A client that takes it all is to fail the test, and not to fill the machine's memory.
    for _ in 0..if page.endless { ENDLESS / page.body.len().max(1) } else { 0 } {
        stream.write_all(&page.body).ok()?;
    }
    Some(())
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
