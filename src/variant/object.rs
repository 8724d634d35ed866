//! Compiles one file, or takes its object from the cache.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::plan::{Plan, REGISTRATION, UnitPlan};
use super::rename;
use super::sources::Sources;
use crate::compile::file_names::{self, CLIMBED, MISLED, Says, Search};
use crate::compile::key::{Key, sha256};
use crate::compile::nvcc::{self, SYSTEM, check_path, no_room};
use crate::compile::read::Read;
use crate::compile::store::{Found, Store, Work};
use crate::confine::compiler::Cell;
use crate::toolchain::{HostCompiler, Toolchain, Torch, Version, clean};

/// The object's name in its cache entry.
pub(super) const OBJECT: &str = "unit.o";

/// Where nvcc leaves the machine code that it puts into the object.
const KEPT: &str = "kept";

pub(super) struct Compiler<'a> {
    pub(super) root: &'a Path,
    pub(super) plan: &'a Plan,
    pub(super) sources: &'a Sources,
    pub(super) toolchain: &'a Toolchain,
    pub(super) host: &'a HostCompiler,
    pub(super) torch: &'a Torch,
    pub(super) store: &'a Store,
    pub(super) force: bool,
    /// Threads per nvcc process.
    pub(super) threads: usize,
}

pub(super) struct Made {
    pub(super) key: String,
    pub(super) object: PathBuf,
    /// Whether it contains [`Plan::placeholder`] in place of the module's name.
    pub(super) unnamed: bool,
    /// The machine code in the object: `90` or `90a`, and a cubin.
    pub(super) cubins: Vec<(String, PathBuf)>,
    /// Compiler output.
    pub(super) said: String,
    /// Compile time; `None` if from the cache.
    pub(super) seconds: Option<f64>,
}

#[derive(Deserialize, Serialize)]
struct Facts {
    said: String,
    /// The architectures of the machine code in the object.
    cubins: Vec<String>,
}

/// The name of an architecture's machine code in a cache entry.
fn cubin(arch: &str) -> String {
    format!("unit.sm_{arch}.cubin")
}

impl Made {
    fn of(found: Found<Facts>, seconds: Option<f64>) -> Self {
        let cubins = found.facts.cubins.into_iter().map(|arch| (arch.clone(), found.folder.join(cubin(&arch))));
        Self {
            key: found.key,
            object: found.folder.join(OBJECT),
            unnamed: false,
            cubins: cubins.collect(),
            said: found.facts.said,
            seconds,
        }
    }
}

/// The first torch whose headers need C++20.
const CXX20: Version = Version { major: 2, minor: 12 };

impl<'a> Compiler<'a> {
    #[allow(clippy::too_many_arguments, reason = "each is used")]
    pub(super) fn new(
        root: &'a Path,
        plan: &'a Plan,
        sources: &'a Sources,
        toolchain: &'a Toolchain,
        host: &'a HostCompiler,
        torch: &'a Torch,
        store: &'a Store,
        force: bool,
    ) -> Self {
        let cores = crate::base::cores();
        let files = plan.units.iter().filter(|unit| unit.cuda).count();
        Self { root, plan, sources, toolchain, host, torch, store, force, threads: (cores / files.max(1)).max(1) }
    }

    /// Compiles a unit, or takes it from the cache.
    ///
    /// The module's name depends on every file of the project. To keep an edit elsewhere from recompiling what uses the name,
    /// units are compiled with a placeholder of the same length, which is replaced before linking. In machine code for a card
    /// it cannot be replaced: that is compressed in the object.
    pub(super) fn unit(&self, unit: &UnitPlan) -> Result<Made> {
        // Objects for link-time optimisation are compressed, which hides the names in them.
        let opaque = unit.flags.iter().any(|flag| flag.starts_with("-flto"));
        if !opaque {
            let made = self.unit_as(unit, &self.plan.placeholder)?;
            let read = |path: &Path| fs::read(path).with_context(|| format!("cannot read {}", path.display()));
            let device: Vec<Vec<u8>> = made.cubins.iter().map(|(_, cubin)| read(cubin)).collect::<Result<_>>()?;
            let object = read(&made.object)?;
            if !device.iter().any(|code| rename::has_part(code))
                && let Some(renamed) = rename::renamed(&object, &self.plan.placeholder, &self.plan.id)
            {
                return Ok(Made { unnamed: renamed != object, ..made });
            }
        }
        self.unit_as(unit, &self.plan.id)
    }

    fn unit_as(&self, unit: &UnitPlan, name: &str) -> Result<Made> {
        let base = self.base(unit, name);
        let flags = Says::of_flags(&unit.flags);
        flags.check(&unit.source)?;
        self.says(&unit.source).check(&unit.source)?;
        let key = |read: &Read| {
            let texts: Vec<Says> = read.headers.iter().chain([&unit.source]).map(|path| self.says(path)).collect();
            if !read.fits(texts.iter().chain([&flags])) {
                return None;
            }
            read.key(&base, self.sources.code.keys(), |header| Some(sha256(self.sources.code.get(header)?)))
        };
        if !self.force
            && let Some(found) = self.store.recall::<Facts>(&base, key)
        {
            return Ok(Made::of(found, None));
        }
        let work = self.store.work()?;
        let started = Instant::now();
        let (said, read) = self.compile(unit, name, &work)?;
        let seconds = Some(started.elapsed().as_secs_f64());
        let edited = self.edited(&unit.source) || read.headers.iter().any(|path| self.edited(path));
        let Some(key) = key(&read).filter(|_| !edited) else {
            bail!(
                "{} or a file it includes was edited while it was compiled; run the build again",
                unit.source.display()
            );
        };
        let cubins = if unit.cuda { collect(&work.path, &unit.flags)? } else { Vec::new() };
        let names: Vec<String> = cubins.iter().map(|arch| cubin(arch)).collect();
        let files: Vec<&str> = std::iter::once(OBJECT).chain(names.iter().map(String::as_str)).collect();
        let found = self.store.keep(&base, (read, key), (&work, &files), Facts { said, cubins }, |_, _| !self.force)?;
        Ok(Made::of(found, seconds))
    }

    fn says(&self, path: &Path) -> Says {
        self.sources.code.get(path).map(|bytes| Says::of(bytes)).unwrap_or_default()
    }

    /// Whether a file changed after it was read for the identity.
    fn edited(&self, path: &Path) -> bool {
        fs::read(self.root.join(path)).ok().as_ref() != self.sources.code.get(path)
    }

    /// The cache key before the included headers are known.
    fn base(&self, unit: &UnitPlan, name: &str) -> String {
        let mut key = Key::new("kernels torch unit 3");
        key.field(&self.toolchain.version)
            .field(&self.host.version)
            .field(self.host.path.as_os_str().as_encoded_bytes())
            .field(&self.torch.version)
            .field(REGISTRATION);
        for flag in self.flags(unit, name) {
            key.field(flag);
        }
        key.field(unit.source.as_os_str().as_encoded_bytes());
        if let Some(bytes) = self.sources.code.get(&unit.source) {
            key.field(bytes);
        }
        key.finish()
    }

    /// The plan's options, and those that depend on torch and on the module's name.
    fn flags(&self, unit: &UnitPlan, name: &str) -> Vec<String> {
        let mut flags = unit.flags.clone();
        if !unit.cuda && !unit.flags.iter().any(|flag| flag.starts_with("-std=")) {
            let standard = if self.torch.release < CXX20 { 17 } else { 20 };
            flags.push(format!("-std=c++{standard}"));
        }
        flags.push(format!("-DTORCH_EXTENSION_NAME={name}"));
        flags
    }

    /// Runs a compiler; returns its output and the files that it read.
    fn compile(&self, unit: &UnitPlan, name: &str, work: &Work) -> Result<(String, Read)> {
        check_path(&work.path)?;
        let own = work.path.join("include");
        let write = || fs::create_dir(&own).and_then(|()| fs::write(own.join("registration.h"), REGISTRATION));
        write().with_context(|| {
            format!("cannot write to {}; free some space there, or set KERNELS_CACHE to another folder", own.display())
        })?;
        let dependencies = work.path.join("unit.d");
        let program = if unit.cuda { &self.toolchain.nvcc } else { &self.host.path };
        let mut command = Command::new(program);
        clean(&mut command)
            .current_dir(self.root)
            .env("TMPDIR", &work.path)
            .args(self.flags(unit, name))
            .arg("-I")
            .arg(&own)
            .args(["-MD", "-MF"])
            .arg(&dependencies)
            .arg("-c")
            .arg(&unit.source)
            .arg("-o")
            .arg(work.path.join(OBJECT));
        for folder in self.torch.includes() {
            command.arg("-isystem").arg(folder);
        }
        if unit.cuda {
            let kept = work.path.join(KEPT);
            fs::create_dir(&kept).with_context(|| format!("cannot make {}", kept.display()))?;
            command.arg("--keep").arg("--keep-dir").arg(&kept);
            command.arg("-ccbin").arg(&self.host.path);
            if self.threads > 1 {
                command.arg(format!("--threads={}", self.threads));
            }
        } else {
            for folder in cuda_includes(self.toolchain) {
                command.arg("-isystem").arg(folder);
            }
            // Messages contain header paths; map them to relative ones.
            command.arg(format!("-ffile-prefix-map={}/=", self.torch.folder.display()));
        }
        let assembled = work.path.join("assembled.d");
        if let Some(flag) = nvcc::assembler_dependencies(self.host, &assembled) {
            let passed = || format!("-Xcompiler={}", flag.replace(',', "\\,"));
            command.arg(if unit.cuda { passed() } else { flag.clone() });
        }
        let cell = Cell::new(&self.host.path, self.toolchain.root())
            .reads(self.sources.code.keys().map(|file| self.root.join(file)))
            .reads(self.torch.includes())
            .writes(&work.path);
        let output = cell.output(&mut command).with_context(|| format!("cannot run {}", program.display()))?;
        let said = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let said = self.readable(&said, work);
        if !output.status.success() {
            bail!(
                "{} does not compile ({}):\n{said}{}{}",
                unit.source.display(),
                output.status,
                no_room(&said, &work.path),
                nvcc::unreadable(&said)
            );
        }
        let read = nvcc::read_files(self.root, &work.path, &dependencies, &assembled)?;
        Ok((said, self.read(unit, &read, &work.path)?))
    }

    /// The files that a unit read, according to its dependency file. A header outside the identity is an error: the build would
    /// not notice its changes, and kernel-builder does not copy it.
    fn read(&self, unit: &UnitPlan, used: &[PathBuf], work: &Path) -> Result<Read> {
        let mut headers = BTreeSet::new();
        for path in used {
            let full = self.root.join(path);
            let plain = file_names::plainly(&full);
            if let Ok(inside) = plain.strip_prefix(self.root) {
                if !file_names::leads_there(&full) {
                    bail!("{} was read{CLIMBED}", path.display());
                }
                if self.sources.code.contains_key(inside) {
                    headers.insert(inside.to_owned());
                    continue;
                }
            }
            // Toolkit and system headers: absolute, outside the project's include folders. The compilers' versions
            // represent them in the key.
            let own = path.starts_with(work) || SYSTEM.iter().any(|system| path.starts_with(system));
            let named = unit.flags.iter().any(|flag| {
                let folder = Path::new(flag.strip_prefix("-I").unwrap_or(flag));
                folder.is_absolute() && path.starts_with(folder)
            });
            if own || path.is_absolute() && !named && !path.starts_with(self.root) {
                continue;
            }
            bail!(
                "{} includes {}, which is in no folder of the project that build.toml names; list it in the `src` of a \
                 [kernel.X], or its folder in `include`",
                unit.source.display(),
                path.display()
            );
        }
        let mut says = vec![Says::of_flags(&unit.flags)];
        for path in headers.iter().chain([&unit.source]) {
            says.push(self.says(path));
            says[says.len() - 1].check(path)?;
        }
        let named = unit.flags.iter().filter_map(|flag| flag.strip_prefix("-I"));
        let named = named.map(|folder| file_names::plainly(&self.root.join(folder)));
        let named = named.filter_map(|folder| Some(folder.strip_prefix(self.root).ok()?.to_owned()));
        let folders = headers.iter().chain([&unit.source]).filter_map(|path| path.parent()).map(Path::to_owned);
        let search = Search {
            root: self.root,
            folders: folders.chain(named).chain([PathBuf::new()]).collect(),
            covers: |path: &Path| self.sources.code.contains_key(path),
        };
        if let Some(path) = used.iter().find(|path| !path.starts_with(work) && search.may_find_another(path, &says)) {
            bail!("{} was read{CLIMBED}", path.display());
        }
        let torch = self.torch.includes();
        let system =
            SYSTEM.iter().map(Path::new).chain([self.toolchain.root()]).chain(torch.iter().map(PathBuf::as_path));
        if let Some(name) = search.misled(&says, |path| system.clone().any(|folder| path.starts_with(folder))) {
            bail!("{} or a file it includes asks for {name}{MISLED}", unit.source.display());
        }
        Ok(Read::new(headers, used, &says))
    }

    /// Compiler output with the paths of the project.
    fn readable(&self, said: &str, work: &Work) -> String {
        let mut text = said.to_owned();
        for folder in [self.root, &work.path] {
            text = text.replace(&format!("{}/", folder.display()), "");
        }
        text.trim().to_owned()
    }
}

/// Renames the machine code that nvcc kept to the names of a cache entry; returns the architectures.
fn collect(work: &Path, flags: &[String]) -> Result<Vec<String>> {
    // `-gencode=arch=compute_90,code=sm_90`, or `code=[sm_90,compute_90]`.
    let words = flags.iter().filter(|flag| flag.contains("gencode")).flat_map(|flag| flag.split(['=', ',', '[', ']']));
    let asked: Vec<&str> = words.filter_map(|word| word.strip_prefix("sm_")).collect();
    let mut archs = Vec::new();
    for entry in fs::read_dir(work.join(KEPT))?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(stem) = name.strip_suffix(".cubin") else { continue };
        // `name.compute_75.cubin`; where PTX is kept as well, `name.compute_90.sm_90.cubin`; of one architecture, `name.cubin`.
        let named = |arch: &&&str| {
            stem.strip_suffix(**arch).is_some_and(|rest| rest.ends_with("compute_") || rest.ends_with("sm_"))
        };
        let arch = match (asked.iter().find(named), &asked[..]) {
            (Some(arch), _) | (None, [arch]) => *arch,
            _ => bail!("nvcc left machine code of an unknown architecture, {name}"),
        };
        fs::rename(entry.path(), work.join(cubin(arch)))?;
        archs.push(arch.to_owned());
    }
    archs.sort();
    Ok(archs)
}

/// The include folders of the CUDA runtime.
fn cuda_includes(toolchain: &Toolchain) -> Vec<PathBuf> {
    let targets = format!("targets/{}-linux/include", std::env::consts::ARCH);
    ["include", &targets, "targets/sbsa-linux/include"]
        .iter()
        .map(|name| toolchain.root().join(name))
        .filter(|folder| folder.join("cuda_runtime.h").is_file())
        .take(1)
        .collect()
}
