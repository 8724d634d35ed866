//! Host code shared between a unit's architectures.
//!
//! nvcc compiles a unit's host code once per architecture with identical results, except for the section that embeds the
//! machine code. One architecture's object with the section of another therefore equals the other's object. This is used
//! if both register the same kernels and variables (names in anonymous namespaces differ between runs) and no file of the
//! project reads the list of architectures; otherwise the unit is compiled in full.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Condvar, Mutex, PoisonError};

use super::cubin::Cubin;
use crate::confine::compiler::Cell;
use crate::toolchain::{HostCompiler, clean};

/// Files of a compiled unit.
pub(super) const OBJECT: &str = "unit.o";
pub(super) const CUBIN: &str = "unit.cubin";
/// Cubin and PTX as the object embeds them; removed after the build.
pub(super) const FATBIN: &str = "embedded";
/// The object's section with machine code and PTX.
const SECTION: &str = ".nv_fatbin";

/// Host objects of the units compiled so far in this build.
#[derive(Default)]
pub(super) struct Hosts {
    /// By source; `None` while it is being compiled.
    known: Mutex<HashMap<PathBuf, Option<Answer>>>,
    changed: Condvar,
}

/// A compiled object, or `None` if the unit's host code cannot be shared.
type Answer = Option<Host>;

#[derive(Clone)]
pub(super) struct Host {
    /// The key of everything that the host code depends on.
    pub(super) key: String,
    pub(super) object: PathBuf,
    pub(super) cubin: PathBuf,
}

/// A compilation in progress. Dropped without [`Begun::done`], it shares nothing.
pub(super) struct Begun<'a> {
    hosts: &'a Hosts,
    source: PathBuf,
    answer: Answer,
}

impl Hosts {
    /// Announces that a unit's host code is being compiled.
    pub(super) fn begin(&self, source: &Path) -> Begun<'_> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(source.to_owned(), None);
        Begun { hosts: self, source: source.to_owned(), answer: None }
    }

    /// Waits for a unit's host code; `None` if it cannot be shared or is not being compiled.
    pub(super) fn wait(&self, source: &Path) -> Answer {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        self.changed
            .wait_while(known, |known| matches!(known.get(source), Some(None)))
            .unwrap_or_else(PoisonError::into_inner)
            .get(source)
            .cloned()
            .flatten()
            .flatten()
    }
}

impl Begun<'_> {
    pub(super) fn done(mut self, host: Host) {
        self.answer = Some(host);
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        let mut known = self.hosts.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(std::mem::take(&mut self.source), Some(self.answer.take()));
        self.hosts.changed.notify_all();
    }
}

impl Host {
    /// Creates the object for the machine code in `work`; false if that fails.
    pub(super) fn graft(&self, work: &Path, compiler: &HostCompiler, cell: &Cell) -> bool {
        let registered = |path: &Path| -> Option<Vec<String>> {
            let bytes = fs::read(path).ok()?;
            let names = Cubin::parse(&bytes).ok()?;
            Some(names.registered().into_iter().map(str::to_owned).collect())
        };
        let ours = registered(&work.join(CUBIN));
        if ours.is_none() || ours != registered(&self.cubin) {
            return false;
        }
        let to = work.join(OBJECT);
        let mut section = std::ffi::OsString::from(format!("{SECTION}="));
        section.push(work.join(FATBIN));
        let mut command = Command::new(objcopy(compiler));
        command.arg("--update-section").arg(section).arg(&self.object).arg(&to);
        let done = cell.clone().reads([&self.object]).writes(work).output(&mut command);
        done.is_ok_and(|output| output.status.success()) && to.is_file()
    }
}

/// The host compiler's objcopy.
fn objcopy(compiler: &HostCompiler) -> PathBuf {
    let said = clean(&mut Command::new(&compiler.path)).arg("-print-prog-name=objcopy").output();
    said.ok()
        .filter(|output| output.status.success())
        .and_then(|output| String::from_utf8(output.stdout).ok())
        .map(|path| PathBuf::from(path.trim()))
        .filter(|path| !path.as_os_str().is_empty())
        .unwrap_or_else(|| PathBuf::from("objcopy"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_for_host_code_gets_it_or_that_there_is_none() {
        let (hosts, source) = (Hosts::default(), Path::new("a.cu"));
        assert!(hosts.wait(source).is_none(), "nobody compiles it");
        for key in [Some("key"), None] {
            let begun = hosts.begin(source);
            let got = std::thread::scope(|scope| {
                let waiting = scope.spawn(|| hosts.wait(source));
                if let Some(key) = key {
                    begun.done(Host { key: key.to_owned(), object: PathBuf::new(), cubin: PathBuf::new() });
                } else {
                    drop(begun);
                }
                waiting.join()
            });
            assert!(got.is_ok_and(|got| got.map(|host| host.key).as_deref() == key), "{key:?}");
        }
    }

    #[test]
    fn objcopy_is_that_of_the_host_compiler_or_the_one_in_path() {
        // What prints its arguments, nothing, and nothing with an error.
        for (compiler, found) in
            [("/bin/echo", "-print-prog-name=objcopy"), ("/bin/true", "objcopy"), ("/bin/false", "objcopy")]
        {
            let (version, origin, cpu) = (String::new(), String::new(), String::new());
            let host = HostCompiler { path: compiler.into(), version, origin, cpu };
            assert_eq!(objcopy(&host), Path::new(found), "{compiler}");
        }
    }
}
