//! A content cache: folders of files that appear atomically, by rename.
//!
//! Layout: `objects/KEY/` with an `entry.json` that lists every file with its SHA-256, `manifests/KEY`, and `work/`, where
//! running processes write. It can be deleted at any time.
//!
//! Compilations are looked up as in ccache's direct mode: a manifest, keyed by source, flags and compiler, lists what
//! earlier compilations read ([`Read`]); an entry's key covers the manifest's key and the contents of those files.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use rustix::fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::key::sha256;
use super::read::Read;
use crate::toolchain::cache;

pub(crate) struct Store {
    objects: PathBuf,
    manifests: PathBuf,
    work: PathBuf,
    next: AtomicUsize,
}

#[derive(Deserialize, Serialize)]
struct Entry<Facts> {
    /// SHA-256 by file name.
    files: BTreeMap<String, String>,
    facts: Facts,
}

/// A cached compilation.
pub(crate) struct Found<Facts> {
    pub(crate) key: String,
    pub(crate) folder: PathBuf,
    pub(crate) facts: Facts,
    pub(crate) read: Read,
}

const ENTRY: &str = "entry.json";
/// Entries unused for this long are removed.
const UNUSED: Duration = Duration::from_secs(90 * 24 * 3600);
/// Size limit in bytes, beyond which the least recently used entries are removed.
const MOST: u64 = 8 << 30;
/// Length limit of a manifest.
const LISTS: usize = 8;

impl Store {
    pub(crate) fn open() -> Result<Self> {
        let cache = cache::folder()?;
        Ok(Self {
            objects: cache.join("objects"),
            manifests: cache.join("manifests"),
            work: cache.join("work"),
            next: AtomicUsize::new(0),
        })
    }

    /// The folder and facts of an entry, if all its files are present and unmodified.
    pub(crate) fn get<Facts: DeserializeOwned>(&self, key: &str) -> Option<(PathBuf, Facts)> {
        let folder = self.objects.join(key);
        let entry: Entry<Facts> = serde_json::from_slice(&fs::read(folder.join(ENTRY)).ok()?).ok()?;
        let whole =
            entry.files.iter().all(|(name, digest)| fs::read(folder.join(name)).is_ok_and(|b| sha256(&b) == *digest));
        whole.then_some((folder, entry.facts))
    }

    /// The compilation of `base` that has the key of what it read; `None` if it must be compiled.
    pub(crate) fn recall<Facts: DeserializeOwned>(
        &self,
        base: &str,
        key: impl Fn(&Read) -> Option<String>,
    ) -> Option<Found<Facts>> {
        self.list(base).into_iter().find_map(|read| {
            let key = key(&read)?;
            let (folder, facts) = self.get(&key)?;
            self.touch(&key);
            self.touch(base);
            Some(Found { key, folder, facts, read })
        })
    }

    /// Stores a compilation: the named files of a work folder, with what it read and the key over that.
    ///
    /// An entry that another process stored meanwhile stays, if it is `good`: symbols of anonymous namespaces carry a digest of
    /// the project's path, so objects of two compilations differ, and a library may be linked with the first one already.
    pub(crate) fn keep<Facts: Serialize + DeserializeOwned>(
        &self,
        base: &str,
        (read, key): (Read, String),
        (work, files): (&Work, &[&str]),
        facts: Facts,
        good: impl Fn(&Path, &Facts) -> bool,
    ) -> Result<Found<Facts>> {
        let mut lists = self.list(base);
        lists.retain(|known| *known != read);
        lists.insert(0, read.clone());
        lists.truncate(LISTS);
        self.set_list(base, &lists, work)?;
        let (fresh, place) = (fresh(work, files, &facts)?, self.place(&key)?);
        // Fails where there is an entry: the first of several processes wins.
        if fs::rename(&fresh, &place).is_err() {
            if let Some((folder, facts)) = self.get(&key).filter(|(folder, facts)| good(folder, facts)) {
                return Ok(Found { key, folder, facts, read });
            }
            put_in_place(&fresh, &place)?;
        }
        Ok(Found { key, folder: place, facts, read })
    }

    /// Moves the named files of a work folder into the cache.
    pub(crate) fn put<Facts: Serialize>(
        &self,
        key: &str,
        work: &Work,
        files: &[&str],
        facts: Facts,
    ) -> Result<PathBuf> {
        let (fresh, place) = (fresh(work, files, facts)?, self.place(key)?);
        put_in_place(&fresh, &place)?;
        Ok(place)
    }

    fn place(&self, key: &str) -> Result<PathBuf> {
        create(&self.objects)?;
        Ok(self.objects.join(key))
    }

    /// A manifest; empty if absent or unreadable.
    fn list(&self, key: &str) -> Vec<Read> {
        fs::read(self.manifests.join(key))
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default()
    }

    /// Writes a manifest. If two processes write at once, one addition is lost, which costs a recompilation.
    fn set_list(&self, key: &str, list: &[Read], work: &Work) -> Result<()> {
        create(&self.manifests)?;
        let fresh = work.path.join("manifest");
        let place = self.manifests.join(key);
        fs::write(&fresh, serde_json::to_vec(list)?).and_then(|()| fs::rename(&fresh, &place)).with_context(|| {
            format!("cannot write {}; free some space there, or set KERNELS_CACHE to another folder", place.display())
        })
    }

    /// Creates an empty work folder.
    pub(crate) fn work(&self) -> Result<Work> {
        create(&self.work)?;
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        if number == 0 {
            self.tidy();
        }
        // Process ids are reused, in containers almost at once, so the name has the time as well.
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.subsec_nanos());
        let path = self.work.join(format!("{}-{now}-{number}", process::id()));
        let cannot = || writable(&path);
        fs::create_dir(&path).with_context(cannot)?;
        let held = File::open(&path).with_context(cannot)?;
        // Without file locks another process takes the folder for abandoned, but only after a day.
        let _ = flock(&held, FlockOperation::NonBlockingLockExclusive);
        Ok(Work { path, _held: held })
    }

    /// Removes the work folders of killed processes, unused entries, and those beyond the size limit.
    fn tidy(&self) {
        for entry in fs::read_dir(&self.work).into_iter().flatten().flatten() {
            let path = entry.path();
            // A new folder may not be locked yet; testing the lock would take it from its owner.
            if age(&path) < Duration::from_secs(60) {
                continue;
            }
            let abandoned =
                File::open(&path).is_ok_and(|folder| match flock(&folder, FlockOperation::NonBlockingLockExclusive) {
                    Ok(()) => true,
                    Err(rustix::io::Errno::WOULDBLOCK) => false,
                    Err(_) => age(&path) > Duration::from_secs(24 * 3600),
                });
            if abandoned {
                let _ = fs::remove_dir_all(path);
            }
        }
        let unused = |path: &Path| age(path) > UNUSED;
        let manifests = fs::read_dir(&self.manifests);
        for path in manifests.into_iter().flatten().flatten().map(|e| e.path()) {
            if unused(&path) {
                let _ = fs::remove_file(&path);
            }
        }
        let objects = fs::read_dir(&self.objects).into_iter().flatten().flatten();
        let mut objects: Vec<(Duration, PathBuf)> =
            objects.map(|entry| (age(&entry.path().join(ENTRY)), entry.path())).collect();
        objects.sort();
        let mut total = 0;
        for (age, path) in objects {
            total += size(&path);
            if age > UNUSED || total > MOST {
                let _ = fs::remove_dir_all(&path);
            }
        }
    }

    /// Updates an entry's time of use, at most once a day.
    pub(crate) fn touch(&self, key: &str) {
        for path in [self.objects.join(key).join(ENTRY), self.manifests.join(key)] {
            if age(&path) > Duration::from_secs(24 * 3600)
                && let Ok(file) = File::options().append(true).open(&path)
            {
                let _ = file.set_modified(SystemTime::now());
            }
        }
    }
}

/// A folder of this process, removed on drop.
pub(crate) struct Work {
    pub(crate) path: PathBuf,
    _held: File,
}

impl Drop for Work {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// An entry with the named files of a work folder, inside it.
fn fresh<Facts: Serialize>(work: &Work, files: &[&str], facts: Facts) -> Result<PathBuf> {
    let fresh = work.path.join("entry");
    let full = || {
        format!(
            "cannot write to the cache in {}; free some space there, or set KERNELS_CACHE to another folder",
            work.path.display()
        )
    };
    fs::create_dir(&fresh).with_context(full)?;
    let mut digests = BTreeMap::new();
    for name in files {
        let to = fresh.join(name);
        fs::rename(work.path.join(name), &to).with_context(full)?;
        digests.insert((*name).to_owned(), sha256(&fs::read(&to)?));
        // Read-only, because users get these paths.
        fs::set_permissions(&to, fs::Permissions::from_mode(0o444)).with_context(full)?;
    }
    let entry = Entry { files: digests, facts };
    fs::write(fresh.join(ENTRY), serde_json::to_vec(&entry)?).with_context(full)?;
    Ok(fresh)
}

fn put_in_place(fresh: &Path, place: &Path) -> Result<()> {
    replace(fresh, place).with_context(|| format!("cannot put {} in place", place.display()))
}

/// Replaces `place` by `fresh`; the old content (damaged, or from a concurrent process) moves to the path of `fresh`.
fn replace(fresh: &Path, place: &Path) -> io::Result<()> {
    for _ in 0..100 {
        match fs::rename(fresh, place) {
            Ok(()) => return Ok(()),
            Err(_) if fs::symlink_metadata(place).is_ok() => {}
            Err(error) => return Err(error),
        }
        if renameat_with(CWD, fresh, CWD, place, RenameFlags::EXCHANGE).is_ok() {
            return Ok(());
        }
        // The file system cannot exchange, or another process was faster.
        let aside = fresh.with_extension("old");
        let _ = fs::remove_dir_all(&aside);
        let _ = fs::rename(place, &aside);
    }
    fs::rename(fresh, place)
}

fn create(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| writable(folder))
}

fn writable(path: &Path) -> String {
    format!("cannot create {}; set KERNELS_CACHE to a folder that can be written", path.display())
}

/// The bytes of a folder's files.
fn size(folder: &Path) -> u64 {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    files.filter_map(|file| Some(file.metadata().ok()?.len())).sum()
}

fn age(path: &Path) -> Duration {
    path.metadata().and_then(|meta| meta.modified()).ok().and_then(|then| then.elapsed().ok()).unwrap_or_default()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    const DAY: u64 = 24 * 3600;

    fn store(cache: &Path) -> Store {
        Store {
            objects: cache.join("objects"),
            manifests: cache.join("manifests"),
            work: cache.join("work"),
            next: AtomicUsize::new(0),
        }
    }

    /// Says that a file or folder was last written so long ago.
    fn make_old(path: &Path, seconds: u64) {
        let then = SystemTime::now() - Duration::from_secs(seconds);
        File::open(path).unwrap().set_modified(then).unwrap();
    }

    /// Keeps a compilation that left this code.
    fn keep(store: &Store, header: &str, code: &str, facts: u32, good: bool) -> Found<u32> {
        let work = store.work().unwrap();
        fs::write(work.path.join("code"), code).unwrap();
        let read = Read::only(vec![header.into()]);
        let key = format!("of {header}");
        store.keep("base", (read, key), (&work, &["code"]), facts, |_, _| good).unwrap()
    }

    #[test]
    fn a_compilation_is_found_again_as_long_as_its_files_are_as_they_were() {
        let cache = tempfile::tempdir().unwrap();
        let store = store(cache.path());
        let recalled = |key: &str| {
            let found: Option<Found<u32>> = store.recall("base", |_| Some(key.to_owned()));
            found.map(|found| (fs::read_to_string(found.folder.join("code")).unwrap(), found.facts))
        };
        assert_eq!(recalled("of a.h"), None);
        let kept = keep(&store, "a.h", "one", 1, true);
        assert_eq!((kept.key.as_str(), kept.facts, &kept.folder), ("of a.h", 1, &cache.path().join("objects/of a.h")));
        assert_eq!(fs::metadata(kept.folder.join("code")).unwrap().permissions().mode() & 0o777, 0o444);
        assert_eq!(recalled("of a.h"), Some(("one".to_owned(), 1)));
        assert_eq!(recalled("of b.h"), None);
        assert!(store.recall::<u32>("other", |_| Some("of a.h".to_owned())).is_none());
        assert!(store.recall::<u32>("base", |_| None).is_none());
        // The first of several stays, if it is good.
        assert_eq!(keep(&store, "a.h", "two", 2, true).facts, 1);
        assert_eq!(recalled("of a.h"), Some(("one".to_owned(), 1)));
        assert_eq!(keep(&store, "a.h", "two", 2, false).facts, 2);
        assert_eq!(recalled("of a.h"), Some(("two".to_owned(), 2)));
        fs::remove_file(kept.folder.join("code")).unwrap();
        fs::write(kept.folder.join("code"), "edited").unwrap();
        assert_eq!(recalled("of a.h"), None);
        // What is put replaces what is there.
        let work = store.work().unwrap();
        fs::write(work.path.join("code"), "three").unwrap();
        assert_eq!(store.put("of a.h", &work, &["code"], 3).unwrap(), kept.folder);
        assert_eq!(recalled("of a.h"), Some(("three".to_owned(), 3)));
    }

    #[test]
    fn a_manifest_has_the_last_reads_each_once_the_latest_first() {
        let cache = tempfile::tempdir().unwrap();
        let store = store(cache.path());
        let names = || {
            let list = store.list("base");
            list.iter().map(|read| read.headers[0].display().to_string()).collect::<Vec<_>>()
        };
        for header in ["0", "1", "0"] {
            keep(&store, header, "", 0, true);
        }
        assert_eq!(names(), ["0", "1"]);
        for header in ["2", "3", "4", "5", "6", "7", "8"] {
            keep(&store, header, "", 0, true);
        }
        assert_eq!(names(), ["8", "7", "6", "5", "4", "3", "2", "0"]);
    }

    #[test]
    fn a_cache_that_cannot_be_made_is_named_with_the_way_out() {
        let cache = tempfile::tempdir().unwrap();
        fs::write(cache.path().join("work"), "in the way").unwrap();
        let error = format!("{:#}", store(cache.path()).work().err().unwrap());
        assert!(error.contains("set KERNELS_CACHE") && error.contains("/work"), "{error}");
        let (from, to) = (cache.path().join("none"), cache.path().join("to"));
        assert!(replace(&from, &to).is_err_and(|error| error.kind() == io::ErrorKind::NotFound));
    }

    #[test]
    fn what_is_unused_abandoned_or_too_much_goes_with_the_first_work_of_a_process() {
        let cache = tempfile::tempdir().unwrap();
        let at = |path: &str| cache.path().join(path);
        let first = store(cache.path());
        for (name, days, bytes) in [("new", 1, 1), ("used", 80, 5 << 30), ("large", 85, 5 << 30), ("old", 91, 1)] {
            keep(&first, name, "", 0, true);
            let folder = at(&format!("objects/of {name}"));
            File::create(folder.join("bytes")).unwrap().set_len(bytes).unwrap();
            make_old(&folder.join(ENTRY), days * DAY);
        }
        for (name, days) in [("base", 89), ("unused", 91)] {
            fs::write(at("manifests").join(name), "[]").unwrap();
            make_old(&at("manifests").join(name), days * DAY);
        }
        for (name, seconds) in [("killed", 3600), ("held", 3600), ("begun", 5)] {
            fs::create_dir(at("work").join(name)).unwrap();
            make_old(&at("work").join(name), seconds);
        }
        let held = File::open(at("work/held")).unwrap();
        flock(&held, FlockOperation::NonBlockingLockExclusive).unwrap();
        // Once a process.
        drop(first.work().unwrap());
        assert!(at("objects/of old").exists());
        let _work = store(cache.path()).work().unwrap();
        keep(&first, "stale", "", 0, true);
        make_old(&at("objects/of stale").join(ENTRY), 91 * DAY);
        drop(store(cache.path()).work().unwrap());
        assert!(!at("objects/of stale").exists(), "too old, and not too much");
        let left = |folder: &str, names: [&str; 4]| names.map(|name| at(folder).join(name).exists());
        assert_eq!(left("objects", ["of new", "of used", "of large", "of old"]), [true, true, false, false]);
        assert_eq!(left("manifests", ["base", "unused", "", ""])[..2], [true, false]);
        assert_eq!(left("work", ["killed", "held", "begun", ""])[..3], [false, true, true]);
    }

    #[test]
    fn the_time_of_use_is_written_once_a_day() {
        let cache = tempfile::tempdir().unwrap();
        let store = store(cache.path());
        keep(&store, "a.h", "", 0, true);
        let (entry, list) = (cache.path().join("objects/of a.h").join(ENTRY), cache.path().join("manifests/base"));
        for (seconds, touched) in [(DAY / 2, false), (2 * DAY, true)] {
            make_old(&entry, seconds);
            make_old(&list, seconds);
            assert!(store.recall::<u32>("base", |_| Some("of a.h".to_owned())).is_some());
            for path in [&entry, &list] {
                assert_eq!(age(path) < Duration::from_secs(DAY / 4), touched, "{}", path.display());
            }
        }
    }
}
