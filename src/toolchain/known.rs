//! Caches what compilers say of themselves by file identity: starting nvcc takes longer than an unchanged build should.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use super::{ask, cache};

pub(crate) struct Known {
    /// The cache file; `None` disables the cache.
    file: Option<PathBuf>,
    /// Output by path, file metadata and option.
    said: Mutex<BTreeMap<String, String>>,
}

/// The maximum number of entries.
const MOST: usize = 32;

impl Known {
    /// A disabled cache: every program is started.
    pub(crate) fn nothing() -> Self {
        Self { file: None, said: Mutex::default() }
    }

    /// Reads the cache file.
    pub(crate) fn load() -> Self {
        let file = cache::folder().ok().map(|cache| cache.join("versions.json"));
        let said =
            file.as_ref().and_then(|file| serde_json::from_slice(&fs::read(file).ok()?).ok()).unwrap_or_default();
        Self { file, said: Mutex::new(said) }
    }

    /// The output of `program --version`.
    pub(super) fn version(&self, program: &Path) -> Result<String, String> {
        self.says(program, "--version")
    }

    /// The output of a program that is given one option.
    pub(super) fn says(&self, program: &Path, option: &str) -> Result<String, String> {
        let name = self.file.as_ref().and_then(|_| identity(program)).map(|name| format!("{name} {option}"));
        if let Some(name) = &name
            && let Ok(said) = self.said.lock()
            && let Some(said) = said.get(name)
        {
            return Ok(said.clone());
        }
        let answer = ask(program, option)?;
        if let (Some(name), Some(file)) = (name, &self.file) {
            self.keep(name, &answer, file);
        }
        Ok(answer)
    }

    /// Errors are ignored: the next run asks again.
    fn keep(&self, name: String, answer: &str, file: &Path) {
        let Ok(mut said) = self.said.lock() else {
            return;
        };
        if said.len() >= MOST {
            said.clear();
        }
        said.insert(name, answer.to_owned());
        let fresh = file.with_extension(format!("json.{}", std::process::id()));
        let written = file
            .parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| fs::write(&fresh, serde_json::to_vec(&*said).unwrap_or_default()))
            .and_then(|()| fs::rename(&fresh, file));
        if written.is_err() {
            let _ = fs::remove_file(fresh);
        }
    }
}

/// File metadata of a program; `None` for a script, which may start different programs.
fn identity(program: &Path) -> Option<String> {
    let real = program.canonicalize().ok()?;
    let mut start = [0; 4];
    fs::File::open(&real).ok()?.read_exact(&mut start).ok()?;
    if start != *b"\x7fELF" {
        return None;
    }
    let meta = real.metadata().ok()?;
    Some(format!(
        "{} {} {} {}.{} {}.{}",
        real.display(),
        meta.ino(),
        meta.size(),
        meta.mtime(),
        meta.mtime_nsec(),
        meta.ctime(),
        meta.ctime_nsec()
    ))
}
