//! A run's folder: what happened, one JSON line an event in `events.jsonl`, and contents under their SHA-256 in `blobs/`. One
//! process writes; each event is on the disk before its writer goes on, so that a run which was killed continues after it.

mod blob;

use std::fs::{self, File};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, Result, bail};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::base::disk;

const EVENTS: &str = "events.jsonl";
/// Locked by the writer, whose process it names.
const LOCK: &str = "lock";
/// How long a lock is waited for. A program that the last writer was starting shares it until its own code begins, also after
/// that writer's end.
const PATIENCE: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(5);
/// The kind of the first event.
pub(crate) const HEADER: &str = "header";

/// A run's folder, open for writing.
#[derive(Debug)]
pub(crate) struct Journal {
    folder: PathBuf,
    events: File,
    /// Of the whole lines.
    length: u64,
    next: u64,
    /// Whether a failed write may have left a part of a line behind them.
    torn: bool,
    _lock: File,
}

/// What happened. Who reads many events takes their data as it stands, and reads it by its kind.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Event<D = Value> {
    /// Its number, from 0.
    pub(crate) seq: u64,
    /// In UTC (RFC 3339).
    pub(crate) time: String,
    pub(crate) kind: String,
    pub(crate) data: D,
}

/// An event as it is written.
#[derive(Serialize)]
struct Line<'a, T> {
    seq: u64,
    time: String,
    kind: &'a str,
    data: &'a T,
}

impl Journal {
    /// Starts a run; its first event is the header. The folder may be there already, but with nothing in it.
    pub(crate) fn create(folder: &Path, header: &impl Serialize) -> Result<Self> {
        fs::create_dir_all(folder).with_context(|| format!("cannot make the run's folder {}", folder.display()))?;
        let path = folder.join(EVENTS);
        let is_other = |entry: fs::DirEntry| ![EVENTS, LOCK].iter().any(|name| entry.file_name() == *name);
        if fs::symlink_metadata(&path).is_err() && fs::read_dir(folder)?.flatten().any(is_other) {
            bail!("{} is not empty; name another folder", folder.display());
        }
        let lock = lock(folder)?;
        if fs::symlink_metadata(&path).is_ok() {
            bail!("{} has a run already; continue it, or name another folder", folder.display());
        }
        let first = line(0, HEADER, header)?;
        disk::write_atomic(&path, &first, 0o666)
            .and_then(|()| disk::sync_folder(folder))
            .with_context(|| format!("cannot write {}", path.display()))?;
        Self::at(folder, lock, first.len() as u64, 1)
    }

    /// Continues a run, and returns what has happened in it. A last line that was not written whole is dropped.
    pub(crate) fn open<D: DeserializeOwned>(folder: &Path) -> Result<(Self, Vec<Event<D>>)> {
        if !folder.join(EVENTS).exists() {
            // Before a lock file is made in a folder of something else.
            Self::read::<D>(folder)?;
        }
        let lock = lock(folder)?;
        let (events, length) = parse(folder)?;
        blob::tidy(folder);
        let journal = Self::at(folder, lock, length, events.len() as u64)?;
        let cut = journal.events.set_len(length).and_then(|()| journal.events.sync_all());
        cut.with_context(|| format!("cannot write {}", folder.join(EVENTS).display()))?;
        Ok((journal, events))
    }

    /// What has happened in a run so far, beside its writer.
    pub(crate) fn read<D: DeserializeOwned>(folder: &Path) -> Result<Vec<Event<D>>> {
        Ok(parse(folder)?.0)
    }

    fn at(folder: &Path, lock: File, length: u64, next: u64) -> Result<Self> {
        let path = folder.join(EVENTS);
        let events = File::options().write(true).open(&path);
        let events = events.with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { folder: folder.to_owned(), events, length, next, torn: false, _lock: lock })
    }

    /// Writes an event, and returns its number when it is on the disk.
    pub(crate) fn append(&mut self, kind: &str, data: &impl Serialize) -> Result<u64> {
        let (seq, text) = (self.next, line(self.next, kind, data)?);
        let written = if self.torn { self.events.set_len(self.length) } else { Ok(()) }
            .and_then(|()| self.events.write_all_at(&text, self.length))
            .and_then(|()| self.events.sync_data());
        self.torn = written.is_err();
        written.with_context(|| format!("cannot write {}", self.folder.join(EVENTS).display()))?;
        self.length += text.len() as u64;
        self.next += 1;
        Ok(seq)
    }

    /// Keeps contents, and returns their SHA-256 in hexadecimal digits, by which [`Journal::get`] finds them.
    pub(crate) fn put(&self, contents: &[u8]) -> Result<String> {
        blob::put(&self.folder, contents)
    }

    /// Contents that were kept, compared with their digest.
    pub(crate) fn get(folder: &Path, digest: &str) -> Result<Vec<u8>> {
        blob::get(folder, digest)
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }
}

fn line(seq: u64, kind: &str, data: &impl Serialize) -> Result<Vec<u8>> {
    let time = humantime::format_rfc3339_millis(SystemTime::now()).to_string();
    let mut text = serde_json::to_vec(&Line { seq, time, kind, data })?;
    text.push(b'\n');
    Ok(text)
}

/// The events of a run, and the length of their lines. Only the last line can be broken: the one before it was on the disk
/// before it was begun.
fn parse<D: DeserializeOwned>(folder: &Path) -> Result<(Vec<Event<D>>, u64)> {
    let path = folder.join(EVENTS);
    let text = match fs::read(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => bail!("{} has no run: no {EVENTS}", folder.display()),
        read => read.with_context(|| format!("cannot read {}", path.display()))?,
    };
    let (mut events, mut length) = (Vec::new(), 0);
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let last = length + line.len() == text.len();
        match serde_json::from_slice::<Event<D>>(line) {
            _ if last && line.last() != Some(&b'\n') => break,
            Ok(event) if event.seq == events.len() as u64 => events.push(event),
            Ok(event) => bail!("{}, line {}: has number {}", path.display(), events.len() + 1, event.seq),
            Err(_) if last => break,
            Err(error) => bail!("{}, line {}: {error}", path.display(), events.len() + 1),
        }
        length += line.len();
    }
    if events.is_empty() {
        bail!("{} has no whole line: it is no run of kernels", path.display());
    }
    Ok((events, length as u64))
}

/// Takes the writer's place, which a process that ends gives back however it ends.
fn lock(folder: &Path) -> Result<File> {
    let path = folder.join(LOCK);
    let file = File::options().create(true).truncate(false).read(true).write(true).open(&path);
    let mut file = file.with_context(|| format!("cannot open {}", path.display()))?;
    let begun = Instant::now();
    let locked = loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if begun.elapsed() < PATIENCE => thread::sleep(PAUSE),
            locked => break locked,
        }
    };
    match locked {
        Ok(()) => {}
        Err(Errno::WOULDBLOCK) => {
            let mut holder = String::new();
            let _ = (&mut file).take(200).read_to_string(&mut holder);
            let holder = if holder.trim().is_empty() { "another process" } else { holder.trim() };
            bail!("{holder} writes to {} (it holds {}); wait for it or end it", folder.display(), path.display());
        }
        Err(error) => bail!(
            "cannot lock {}: {error}; two writers would destroy the run, so name a folder on a local disk",
            path.display()
        ),
    }
    let _ = file.set_len(0);
    let _ = write!(file, "process {}", std::process::id());
    Ok(file)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;

    #[test]
    fn a_run_goes_on_after_a_cut_at_any_byte() {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path();
        let mut journal = Journal::create(run, &json!({ "seed": 7 })).unwrap();
        for name in ["ä\n", "b"] {
            journal.append("named", &json!({ "name": name })).unwrap();
        }
        drop(journal);
        let whole = fs::read(run.join(EVENTS)).unwrap();
        let all = Journal::read::<Value>(run).unwrap();
        let first = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        for cut in first..=whole.len() {
            fs::write(run.join(EVENTS), &whole[..cut]).unwrap();
            let kept = whole[..cut].split(|byte| *byte == b'\n').count() - 1;
            let (mut journal, events) = Journal::open::<Value>(run).unwrap();
            assert_eq!(events, all[..kept], "cut at {cut}");
            assert_eq!(journal.append("next", &0).unwrap(), kept as u64);
            drop(journal);
            assert_eq!(Journal::read::<Value>(run).unwrap().len(), kept + 1);
        }
        // Zeros are what a power cut may leave of a line.
        fs::write(run.join(EVENTS), [&whole[..first], b"\0\0\0\n"].concat()).unwrap();
        assert_eq!(Journal::open::<Value>(run).unwrap().1.len(), 1);
    }

    #[test]
    fn damage_before_the_last_line_is_an_error_and_loses_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path();
        drop(Journal::create(run, &()).unwrap());
        let first = fs::read_to_string(run.join(EVENTS)).unwrap();
        for (text, said) in [
            (format!("{first}{{\n{}", first.replace("\"seq\":0", "\"seq\":1")), "line 2"),
            (format!("{first}{first}"), "has number 0"),
            ("{".to_owned(), "no whole line"),
        ] {
            fs::write(run.join(EVENTS), &text).unwrap();
            let error = format!("{:#}", Journal::open::<Value>(run).unwrap_err());
            assert!(error.contains(said), "{error}");
            assert_eq!(fs::read_to_string(run.join(EVENTS)).unwrap(), text);
        }
    }

    #[test]
    fn one_process_writes() {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("run");
        assert!(Journal::open::<Value>(&run).is_err() && !run.exists());
        let journal = Journal::create(&run, &()).unwrap();
        for error in [Journal::open::<Value>(&run).map(drop), Journal::create(&run, &()).map(drop)] {
            let error = error.unwrap_err().to_string();
            assert!(error.contains(&format!("process {}", std::process::id())) && error.contains("/lock"), "{error}");
        }
        drop(journal);
        assert!(Journal::create(&run, &()).unwrap_err().to_string().contains("has a run already"));
        Journal::open::<Value>(&run).unwrap();
    }

    #[test]
    fn contents_are_found_by_their_digest_alone() {
        let folder = tempfile::tempdir().unwrap();
        let journal = Journal::create(folder.path(), &()).unwrap();
        let digest = journal.put(b"text").unwrap();
        assert_eq!(digest, journal.put(b"text").unwrap());
        assert_eq!(Journal::get(folder.path(), &digest).unwrap(), b"text");
        let path = folder.path().join("blobs").join(&digest[..2]).join(&digest[2..]);
        fs::write(&path, "tex").unwrap();
        assert!(Journal::get(folder.path(), &digest).unwrap_err().to_string().contains("other contents"));
        // What was cut off is written again.
        journal.put(b"text").unwrap();
        assert_eq!(Journal::get(folder.path(), &digest).unwrap(), b"text");
        for name in ["", "../../etc/passwd", &digest.to_uppercase(), &"é".repeat(32)] {
            assert!(Journal::get(folder.path(), name).is_err(), "{name}");
        }
    }
}
