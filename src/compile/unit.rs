//! Compiles one `.cu` file for one architecture: a single nvcc run gives the host object, the cubin and the PTX.
//!
//! The cubin and the PTX are nvcc's intermediate files (`--keep`), identical to those the object embeds.
//!
//! A unit's first architecture is compiled in full. For the others only device code is compiled, and the first one's host
//! code is reused ([`super::share`]): host compilation takes half the time of a small unit.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::{Instant, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use super::cubin::Cubin;
use super::file_names::{self, CLIMBED, MISLED, Says, Search};
use super::key::{Key, sha256};
use super::nvcc::{self, check_path, no_room};
use super::ptxas::{self, Usage};
use super::read::{Read, contains};
use super::share::{Begun, CUBIN, FATBIN, Host, Hosts, OBJECT, PTX};
use super::store::{Found, Store, Work};
use super::{Kernel, Unit, name, sass};
use crate::base::arch::{Capability, Limits};
use crate::confine::compiler::Cell;
use crate::project::{Capabilities, Project, source_digest};
use crate::toolchain::{HostCompiler, Toolchain, clean};

pub(super) struct Compiler<'a> {
    root: PathBuf,
    capabilities: Capabilities,
    toolchain: &'a Toolchain,
    host: &'a HostCompiler,
    /// Flags common to all units.
    flags: Vec<String>,
    /// What the compilers reach: of the project, the files that its digest covers.
    cell: Cell,
    covered: BTreeSet<PathBuf>,
    includes: Vec<PathBuf>,
    identity: String,
    /// Headers, read once per build.
    texts: Mutex<HashMap<PathBuf, Option<Text>>>,
    /// What the project's flags say.
    says: Says,
    /// Host objects of the first architecture.
    hosts: Hosts,
    first: u32,
}

/// A header: its SHA-256, and what it says.
#[derive(Clone)]
struct Text {
    sha256: String,
    says: Says,
}

/// Which part of a unit nvcc compiles.
#[derive(Clone, Copy, PartialEq)]
enum Part {
    Whole,
    Device,
}

pub(super) struct Made {
    pub(super) found: Found<Facts>,
    /// nvcc's run time; `None` if from the cache.
    pub(super) seconds: Option<f64>,
}

/// What the cache keeps of a unit besides its files.
#[derive(Deserialize, Serialize)]
pub(super) struct Facts {
    pub(super) kernels: Vec<Kernel>,
    /// Compiler output other than warnings: `#pragma message`, notes.
    pub(super) remarks: Vec<String>,
}

/// The macro through which host code sees the list of architectures.
const ASKS: &[u8] = b"__CUDA_ARCH_LIST__";

impl<'a> Compiler<'a> {
    pub(super) fn new(
        project: &Project,
        root: PathBuf,
        toolchain: &'a Toolchain,
        host: &'a HostCompiler,
        first: u32,
    ) -> Result<Self> {
        check_path(&root)?;
        for path in project.sources.iter().chain(&project.includes) {
            check_path(path)?;
            ensure!(
                path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)),
                "{} is not below the project",
                path.display()
            );
        }
        let mut flags = nvcc::defaults(&project.cuda_flags);
        flags.extend(nvcc::SHIPPED.map(str::to_owned));
        for flag in ["-Werror", "all-warnings", "-Xptxas", "-v", "-Xcompiler", "-fPIC"] {
            flags.push(flag.to_owned());
        }
        for include in &project.includes {
            flags.push("-I".to_owned());
            flags.push(include.display().to_string());
        }
        if let Some((_, why)) = super::flags::refused(&project.cuda_flags) {
            bail!("{why}");
        }
        flags.extend(project.cuda_flags.iter().cloned());
        let says = Says::of_flags(&project.cuda_flags);
        says.check(Path::new("cuda-flags"))?;
        let covered = source_digest::files(&root, &project.sources, &project.includes)?;
        Ok(Self {
            identity: identity(toolchain, host),
            cell: Cell::new(&host.path, toolchain.root()).reads(covered.iter().map(|file| root.join(file))),
            covered,
            includes: project.includes.iter().map(|path| file_names::plainly(path)).collect(),
            root,
            capabilities: project.capabilities.clone(),
            toolchain,
            host,
            flags,
            texts: Mutex::default(),
            says,
            hosts: Hosts::default(),
            first,
        })
    }

    /// Compiles a unit, or takes it from the cache.
    pub(super) fn unit(&self, source: &Path, arch: u32, store: &Store, force: bool) -> Result<Made> {
        let path = self.root.join(source);
        let begun = (arch == self.first).then(|| self.hosts.begin(source));
        let mut part = if begun.is_some() { Part::Whole } else { Part::Device };
        let good = |folder: &Path, facts: &Facts| !force && facts.are_of(&folder.join(CUBIN), arch);
        for _ in 0..5 {
            let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            let base = self.base(source, &bytes, arch);
            let says = Says::of(&bytes);
            says.check(source)?;
            if !force
                && let Some(found) = store.recall::<Facts>(&base, |read| self.key(&base, &says, read))
                && good(&found.folder, &found.facts)
            {
                self.offer(begun, source, &bytes, &found);
                return Ok(Made { found, seconds: None });
            }
            let work = store.work()?;
            let started = Instant::now();
            let clock = SystemTime::now();
            let (said, read) = self.compile(source, arch, part, &work)?;
            let seconds = Some(started.elapsed().as_secs_f64());
            // A file edited during compilation may differ from what nvcc read: compile again.
            let edited = read.headers.iter().chain([&source.to_owned()]).any(|header| {
                let modified = self.root.join(header).metadata().and_then(|m| m.modified());
                // Ignore dates in the future, as unpacked archives may have.
                modified.is_ok_and(|modified| modified >= clock && modified <= SystemTime::now())
            });
            self.forget(&read.headers, edited);
            if edited || fs::read(&path).ok().as_ref() != Some(&bytes) {
                continue;
            }
            let Some(key) = self.key(&base, &says, &read) else {
                continue;
            };
            if part == Part::Device {
                let host = self.hosts.wait(source);
                let wanted = self.host_key(source, &bytes, &read);
                let fits = host.is_some_and(|host| {
                    Some(&host.key) == wanted.as_ref() && host.graft(&work.path, self.host, &self.cell)
                });
                if !fits {
                    part = Part::Whole;
                    continue;
                }
            }
            let facts = facts(&said, &work, arch).with_context(|| format!("{} for sm_{arch}", source.display()))?;
            let files = [OBJECT, CUBIN, PTX];
            let found = store.keep(&base, (read, key), (&work, &files), facts, good)?;
            self.offer(begun, source, &bytes, &found);
            return Ok(Made { found, seconds });
        }
        bail!("{} or a file it includes keeps changing while it is compiled", path.display())
    }

    /// Shares this architecture's host code with the unit's other architectures.
    fn offer(&self, begun: Option<Begun<'_>>, source: &Path, bytes: &[u8], found: &Found<Facts>) {
        let Some(begun) = begun else { return };
        // Host code that reads the list of architectures differs between them.
        let asks = |path: &Path| fs::read(self.root.join(path)).map_or(true, |text| contains(&text, ASKS));
        if asks(source) || found.read.headers.iter().any(|header| asks(header)) {
            return;
        }
        if let Some(key) = self.host_key(source, bytes, &found.read) {
            begun.done(Host { key, object: found.folder.join(OBJECT), cubin: found.folder.join(CUBIN) });
        }
    }

    /// The key of what the host code depends on: everything but the architecture.
    fn host_key(&self, source: &Path, bytes: &[u8], read: &Read) -> Option<String> {
        self.key(&self.base(source, bytes, 0), &Says::of(bytes), read)
    }

    /// The cache key before the included headers are known.
    fn base(&self, source: &Path, bytes: &[u8], arch: u32) -> String {
        let mut key = Key::new("kernels unit 3");
        key.field(&self.identity);
        for flag in &self.flags {
            key.field(flag);
        }
        key.field(arch.to_be_bytes());
        if let Some(suffix) = self.capabilities.target(source, arch).suffix {
            key.field(suffix.to_string());
        }
        key.field(source.as_os_str().as_encoded_bytes()).field(bytes);
        key.finish()
    }

    /// The key with what was read, of a source that says so; `None` if a header is missing, or was compiled by a program that
    /// did not look at what the texts say.
    fn key(&self, base: &str, says: &Says, read: &Read) -> Option<String> {
        let headers: Vec<Text> = read.headers.iter().map(|header| self.text(header)).collect::<Option<_>>()?;
        let texts = headers.iter().map(|header| &header.says);
        let fits = read.fits(texts.chain([says, &self.says]));
        fits.then(|| read.key(base, &self.covered, |header| Some(self.text(header)?.sha256)))?
    }

    fn text(&self, header: &Path) -> Option<Text> {
        if let Some(known) = self.texts.lock().ok()?.get(header) {
            return known.clone();
        }
        let bytes = fs::read(self.root.join(header)).ok();
        let text = bytes.map(|bytes| Text { sha256: sha256(&bytes), says: Says::of(&bytes) });
        self.texts.lock().ok()?.insert(header.to_owned(), text.clone());
        text
    }

    fn forget(&self, headers: &[PathBuf], all: bool) {
        if let Ok(mut texts) = self.texts.lock() {
            if all {
                texts.clear();
            }
            // They may have been read before the compiler ran: read the files again.
            for header in headers {
                texts.remove(header);
            }
        }
    }

    /// Runs nvcc; returns its output and what it read.
    fn compile(&self, source: &Path, arch: u32, part: Part, work: &Work) -> Result<(String, Read)> {
        check_path(&work.path)?;
        let (what, to) = match part {
            Part::Whole => ("-c", OBJECT),
            Part::Device => ("-fatbin", FATBIN),
        };
        let target = self.capabilities.target(source, arch);
        let dependencies = work.path.join("unit.d");
        let mut command = Command::new(&self.toolchain.nvcc);
        clean(&mut command)
            .current_dir(&self.root)
            .env("TMPDIR", &work.path)
            .arg(what)
            .arg(source)
            .arg("-o")
            .arg(work.path.join(to))
            .arg("-gencode")
            .arg(Capability { ptx: true, ..target }.gencode())
            .arg("-ccbin")
            .arg(&self.host.path)
            .args(["-MD", "-MF"])
            .arg(&dependencies)
            .args(["--keep", "--keep-dir"])
            .arg(&work.path)
            .args(&self.flags);
        // What `.incbin` reads is in no other list.
        let assembled = work.path.join("assembled.d");
        if let Some(flag) = nvcc::assembler_dependencies(self.host, &assembled) {
            command.arg(format!("-Xcompiler={}", flag.replace(',', "\\,")));
        }
        let cell = self.cell.clone().writes(&work.path);
        let output =
            cell.output(&mut command).with_context(|| format!("cannot run {}", self.toolchain.nvcc.display()))?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if !output.status.success() {
            let out = String::from_utf8_lossy(&output.stdout);
            let readable = self.readable(&format!("{out}{said}"), work);
            // nvcc's exit code varies with the request and is not informative; a signal is.
            let status = output.status;
            let killed = status.code().is_none().then(|| format!(" ({status})"));
            bail!(
                "{} does not compile for {}{}:\n{readable}{}{}",
                source.display(),
                target.code(),
                killed.unwrap_or_default(),
                no_room(&readable, &work.path),
                nvcc::unreadable(&readable)
            );
        }
        for (ending, to) in [("cubin", CUBIN), ("ptx", PTX)] {
            let from = kept(&work.path, ending)?;
            fs::rename(&from, work.path.join(to)).with_context(|| format!("cannot rename {}", from.display()))?;
        }
        let read = nvcc::read_files(&self.root, &work.path, &dependencies, &assembled)?;
        Ok((said, self.read(source, &read)?))
    }

    /// What was read, of the project; an error if the project's digest does not cover a file, or which one is read. Others are
    /// the compiler's and the system's, whose contents the identity stands for.
    fn read(&self, source: &Path, read: &[PathBuf]) -> Result<Read> {
        let mut headers = BTreeSet::new();
        for path in read {
            let full = self.root.join(path);
            let plain = file_names::plainly(&full);
            let resolved =
                if file_names::has_parent(path) { full.canonicalize().unwrap_or(full.clone()) } else { full.clone() };
            match plain.strip_prefix(&self.root) {
                Ok(_) if !file_names::leads_there(&full) => bail!("{} was read{CLIMBED}", path.display()),
                Ok(path) if self.covered.contains(path) => drop(headers.insert(path.to_owned())),
                Err(_) if self.cell.is_system(&resolved) => {}
                _ => bail!("{} was read{}", path.display(), nvcc::UNREADABLE),
            }
        }
        let mut says = vec![self.says.clone()];
        for path in headers.iter().map(PathBuf::as_path).chain([source]) {
            says.push(Says::of(&fs::read(self.root.join(path)).unwrap_or_default()));
            says[says.len() - 1].check(path)?;
        }
        let folders = headers.iter().map(PathBuf::as_path).chain([source]).filter_map(Path::parent);
        let search = Search {
            root: &self.root,
            folders: folders.map(Path::to_owned).chain(self.includes.iter().cloned()).chain([PathBuf::new()]).collect(),
            covers: |path: &Path| self.covered.contains(path),
        };
        if let Some(path) = read.iter().find(|path| search.may_find_another(path, &says)) {
            bail!("{} was read{CLIMBED}", path.display());
        }
        if let Some(name) = search.misled(&says, |path| self.cell.is_system(path)) {
            bail!("{} or a file it includes asks for {name}{MISLED}", source.display());
        }
        Ok(Read::new(headers, read, &says))
    }

    /// Compiler output without ptxas's statistics, with the paths of the project.
    fn readable(&self, said: &str, work: &Work) -> String {
        let lines: Vec<&str> = said.lines().filter(|line| !ptxas::is_info(line)).map(str::trim_end).collect();
        let mut text = lines.join("\n");
        for folder in [&self.root, &work.path] {
            text = text.replace(&format!("{}/", folder.display()), "");
        }
        text.trim().to_owned()
    }
}

impl Made {
    pub(super) fn unit(&self, source: &Path) -> Unit {
        Unit {
            source: source.to_owned(),
            cubin: self.found.folder.join(CUBIN),
            ptx: self.found.folder.join(PTX),
            kernels: self.found.facts.kernels.clone(),
        }
    }
}

impl Facts {
    /// Whether a cubin in the cache has these figures, as far as machine code shows them: what lies beside it may have been
    /// edited. Spills and stacks are known to ptxas only.
    fn are_of(&self, cubin: &Path, arch: u32) -> bool {
        let usage = |symbol: &str| {
            let known = self.kernels.iter().find(|kernel| kernel.symbol == symbol)?;
            Some(Usage {
                spill_stores: known.spill_stores,
                spill_loads: known.spill_loads,
                stack: known.stack,
                shared: known.shared,
            })
        };
        let read = fs::read(cubin).map_err(anyhow::Error::from);
        read.and_then(|bytes| kernels(&bytes, arch, usage)).is_ok_and(|kernels| kernels == self.kernels)
    }
}

/// Everything that affects the output except flags and the project's sources.
fn identity(toolchain: &Toolchain, host: &HostCompiler) -> String {
    let mut key = Key::new("compiler");
    key.field(&toolchain.version).field(&host.version).field(host.path.as_os_str().as_encoded_bytes());
    // Wheels of different releases can be mixed, and `--version` reports only nvcc's.
    for part in ["bin/nvcc", "bin/ptxas", "bin/cudafe++", "nvvm/bin/cicc"] {
        let size = toolchain.root().join(part).metadata().map_or(0, |meta| meta.len());
        key.field(size.to_be_bytes());
    }
    key.finish()
}

/// The file that `--keep` left with this extension.
fn kept(folder: &Path, ending: &str) -> Result<PathBuf> {
    let found: Vec<PathBuf> = fs::read_dir(folder)?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|known| known == ending))
        .collect();
    match <[PathBuf; 1]>::try_from(found) {
        Ok([path]) => Ok(path),
        Err(found) => bail!("nvcc left {} .{ending} files instead of one", found.len()),
    }
}

/// The figures of the unit's kernels, from ptxas and the machine code.
fn facts(said: &str, work: &Work, arch: u32) -> Result<Facts> {
    let bytes = fs::read(work.path.join(CUBIN)).context("cannot read the cubin")?;
    let usage = ptxas::parse(said)?;
    let kernels = kernels(&bytes, arch, |symbol| usage.get(symbol).copied())?;
    if let Some(other) = usage.keys().find(|symbol| kernels.iter().all(|kernel| kernel.symbol != **symbol)) {
        bail!("ptxas reports on {other}, which is not in the machine code: {}", ptxas::FORGED);
    }
    let remarks =
        said.lines().filter(|line| !ptxas::is_info(line) && !line.trim().is_empty()).map(str::to_owned).collect();
    Ok(Facts { kernels, remarks })
}

/// The kernels of a cubin. `usage` has what only ptxas knows.
fn kernels(cubin: &[u8], arch: u32, usage: impl Fn(&str) -> Option<Usage>) -> Result<Vec<Kernel>> {
    let limits = Limits::of(arch)?;
    let mut kernels = Vec::new();
    for entry in Cubin::parse(cubin)?.entries()? {
        let Some(usage) = usage(&entry.symbol) else {
            bail!("ptxas said nothing of {}", entry.symbol);
        };
        // What ptxas is said to have printed, where the machine code says it too.
        let reserved = u64::from(usage.shared) + u64::from(limits.shared_reserved);
        ensure!(
            [usage.shared.into(), reserved].contains(&entry.shared) && usage.stack >= entry.stack,
            "the machine code of {} has {} bytes of shared memory and {} of stack, and ptxas reports {} and {}: {}",
            entry.symbol,
            entry.shared,
            entry.stack,
            usage.shared,
            usage.stack,
            ptxas::FORGED
        );
        ensure!(
            usage.spill_stores.checked_add(usage.spill_loads).is_some(),
            "{} cannot have spilled that much",
            entry.symbol
        );
        let registers = entry.registers;
        let max_threads = entry.max_threads.unwrap_or(limits.threads_a_block);
        let (loads, stores) = sass::accesses(entry.code, arch);
        kernels.push(Kernel {
            name: name::demangled(&entry.symbol),
            registers,
            spill_stores: usage.spill_stores,
            spill_loads: usage.spill_loads,
            stack: usage.stack,
            shared: usage.shared,
            max_threads,
            occupancy: limits.occupancy(registers, usage.shared, max_threads),
            loads,
            stores,
            symbol: entry.symbol,
        });
    }
    kernels.sort_by(|a, b| a.name.cmp(&b.name).then_with(|| a.symbol.cmp(&b.symbol)));
    Ok(kernels)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_of_one_compiler_and_one_host_compiler() {
        let folder = tempfile::tempdir().unwrap();
        let part = |name: &str, content: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        };
        part("bin/nvcc", "nvcc");
        part("nvvm/bin/cicc", "cicc");
        let toolchain = Toolchain {
            nvcc: folder.path().join("bin/nvcc"),
            version: "13.0.88".to_owned(),
            origin: "CUDA_HOME".to_owned(),
            library_dirs: Vec::new(),
        };
        let host = |path: &str, version: &str| HostCompiler {
            path: path.into(),
            version: version.to_owned(),
            origin: "CXX".to_owned(),
            cpu: "x86_64".to_owned(),
        };
        let gcc = host("/usr/bin/g++", "g++ 12.2.0");
        let first = identity(&toolchain, &gcc);
        assert_eq!(first, identity(&Toolchain { origin: "PATH".to_owned(), ..toolchain.clone() }, &gcc));
        let later = Toolchain { version: "13.1.0".to_owned(), ..toolchain.clone() };
        let others = [
            identity(&later, &gcc),
            identity(&toolchain, &host("/usr/bin/g++", "g++ 13.1.0")),
            identity(&toolchain, &host("/opt/bin/g++", "g++ 12.2.0")),
        ];
        assert!(others.iter().all(|other| *other != first), "{others:?}");
        // A wheel of another release, under the same nvcc.
        part("nvvm/bin/cicc", "another");
        assert_ne!(identity(&toolchain, &gcc), first);
    }
}
