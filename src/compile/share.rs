//! Host code shared between a unit's architectures.
//!
//! nvcc compiles a unit's host code once per architecture with identical results, except for the section that embeds the
//! machine code. One architecture's object with the section of another therefore equals the other's object. This is used
//! if both register the same kernels and variables (names in anonymous namespaces differ between runs) and no file of the
//! project reads the list of architectures; otherwise the unit is compiled in full.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Condvar, Mutex, PoisonError};

use anyhow::{Context, Result};
use object::read::elf::ElfFile64;
use object::{LittleEndian, Object as _, ObjectSection, ObjectSymbol as _, RelocationTarget, SectionKind};

use super::cubin::Cubin;
use crate::confine::compiler::Cell;
use crate::toolchain::{HostCompiler, clean};

/// Files of a compiled unit.
pub(super) const OBJECT: &str = "unit.o";
pub(super) const CUBIN: &str = "unit.cubin";
pub(super) const PTX: &str = "unit.ptx";
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

/// Whether the folders of two architectures of a unit have the same PTX, but for the number of the target, and the same host code.
pub(super) fn same_code(one: &Path, other: &Path) -> Result<bool> {
    let read = |folder: &Path, name: &str| {
        let path = folder.join(name);
        fs::read(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    let ptx = |folder| anyhow::Ok(without_target(read(folder, PTX)?));
    let host = |folder| host_code(&read(folder, OBJECT)?);
    Ok(host(one)? == host(other)? && ptx(one)? == ptx(other)?)
}

/// PTX without the number in its header. All else counts, comments too: a line that looks like one may end another, and be code.
fn without_target(mut ptx: Vec<u8>) -> Vec<u8> {
    const TARGET: &[u8] = b"\n.target sm_";
    if let Some(at) = ptx.windows(TARGET.len()).position(|bytes| bytes == TARGET) {
        let from = at + TARGET.len();
        let digits = ptx[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        ptx.drain(from..from + digits);
    }
    ptx
}

/// What a host object has besides machine code for the card: sections, relocations and symbols, with their contents. The tables in
/// which they stand are left out: objcopy writes them in another order.
fn host_code(object: &[u8]) -> Result<BTreeMap<String, Vec<u8>>> {
    let file = ElfFile64::<LittleEndian>::parse(object)?;
    let named = |index| -> Result<String> {
        let symbol = file.symbol_by_index(index)?;
        let section = symbol.section_index().map(|index| file.section_by_index(index)).transpose()?;
        let section = section.as_ref().map_or(Ok(""), ObjectSection::name)?;
        Ok(format!("{} in {section}", symbol.name()?))
    };
    let mut all = BTreeMap::new();
    for (number, section) in file.sections().enumerate() {
        let name = section.name()?;
        if name == SECTION || section.kind() == SectionKind::Metadata {
            continue;
        }
        all.insert(
            format!("section {number} {name} {} {:?}", section.size(), section.flags()),
            section.data()?.to_vec(),
        );
        for (at, relocation) in section.relocations() {
            let to = match relocation.target() {
                RelocationTarget::Symbol(index) => named(index)?,
                other => format!("{other:?}"),
            };
            let how = format!("{:?} {}", relocation.flags(), relocation.addend());
            all.insert(format!("relocation {number} {at} {how} {to}"), Vec::new());
        }
    }
    for symbol in file.symbols() {
        let place = format!("{} {:?} {:?}", symbol.address(), symbol.is_global(), symbol.kind());
        all.insert(format!("symbol {place} {} {}", symbol.is_weak(), named(symbol.index())?), Vec::new());
    }
    Ok(all)
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
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    /// The folder of a unit with PTX of some lines, and an object of C.
    fn unit(ptx: &str, machine_code: &str, host: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(PTX), ptx).unwrap();
        let c = folder.path().join("unit.c");
        fs::write(&c, format!("__attribute__((section(\"{SECTION}\"))) char code[] = \"{machine_code}\";\n{host}\n"))
            .unwrap();
        let status = Command::new("cc").args(["-c", "-o"]).arg(folder.path().join(OBJECT)).arg(&c).status().unwrap();
        assert!(status.success());
        folder
    }

    #[test]
    fn code_is_the_same_but_for_the_target_and_what_the_object_embeds() {
        let ptx =
            |target: u32, add: &str| format!("//\n// nvcc\n.version 9.0\n.target sm_{target}\n.entry f()\n{add};\n");
        let host = |calls: &str, number: u32| format!("int {calls}(int);\nint g(void) {{ return {calls}({number}); }}");
        let one = unit(&ptx(80, "add.f32"), "of 80", &host("h", 3));
        let other = |ptx: String, host: String| {
            let other = unit(&ptx, "of 89, longer", &host);
            same_code(one.path(), other.path()).unwrap()
        };
        assert!(other(ptx(89, "add.f32"), host("h", 3)));
        assert!(!other(ptx(89, "sub.f32"), host("h", 3)));
        assert!(!other(ptx(89, "add.f32;\nadd.f32"), host("h", 3)));
        assert!(!other(ptx(89, "add.f32"), host("h", 4)));
        // A line that ends a comment is code, whatever it begins with, and so may be one of another target.
        let hidden = |end: &str, add: &str| format!("add.f32;\n/*\n{end} */ {add}");
        for end in ["//", ".target sm_75"] {
            let one = unit(&ptx(80, &hidden(end, "add.f32")), "", &host("h", 3));
            let other = |add| unit(&ptx(89, &hidden(end, add)), "", &host("h", 3));
            assert!(same_code(one.path(), other("add.f32").path()).unwrap());
            assert!(!same_code(one.path(), other("sub.f32").path()).unwrap());
        }
        // The name of what is called is in the relocation and the symbol alone.
        assert!(!other(ptx(89, "add.f32"), host("i", 3)));
        let error = same_code(one.path(), tempfile::tempdir().unwrap().path()).unwrap_err();
        assert!(error.to_string().contains(OBJECT), "{error}");
    }

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
