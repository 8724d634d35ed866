//! Compiles a project to cubins, PTX and a shared object, and reads each kernel's figures from ptxas and the machine code.

mod budget;
mod cubin;
mod digest;
pub(crate) mod file_names;
pub(crate) mod flags;
pub(crate) mod key;
mod link;
pub(crate) mod name;
pub(crate) mod nvcc;
pub(crate) mod parallel;
mod ptxas;
pub(crate) mod read;
mod sass;
mod share;
pub(crate) mod store;
pub(crate) mod unit;

pub(crate) use budget::NotCompared;
pub(crate) use digest::device_digest;
pub(crate) use sass::Opcodes;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

use crate::base::arch::{Capability, Limits};
use crate::confine;
use crate::project::Project;
use crate::toolchain::{HostCompiler, Toolchain};

/// The device variables of a cubin.
pub(crate) fn variables(cubin: &[u8]) -> anyhow::Result<Vec<String>> {
    Ok(cubin::Cubin::parse(cubin)?.variables)
}

/// How many instructions of some kinds each kernel of a cubin has, by its symbol.
pub(crate) fn opcodes(cubin: &[u8], arch: u32) -> anyhow::Result<BTreeMap<String, Opcodes>> {
    let entries = cubin::Cubin::parse(cubin)?.entries()?;
    Ok(entries.into_iter().map(|entry| (entry.symbol, sass::count(entry.code, arch))).collect())
}

/// A project compiled.
#[derive(Clone, Debug)]
pub struct Build {
    /// The compiler's version.
    pub compiler: String,
    /// One for each architecture, in rising order.
    pub targets: Vec<Target>,
    /// How many units were compiled now; the others came from the cache.
    pub compiled: usize,
}

/// A project compiled for one architecture.
#[derive(Clone, Debug)]
pub struct Target {
    /// Compute capability without the point: 90.
    pub arch: u32,
    /// `a` or `f` where a unit is compiled with the features of this architecture or family alone.
    pub features: Option<char>,
    /// The launchers, with machine code and PTX of this architecture alone.
    pub library: PathBuf,
    /// One for each `.cu` file.
    pub units: Vec<Unit>,
}

impl Target {
    /// `sm_90`, `sm_90a`.
    pub(crate) fn name(&self) -> String {
        Capability { suffix: self.features, ..Capability::new(self.arch) }.code()
    }

    /// Whether another architecture has the same PTX, but for the name of the target, and the same launchers.
    pub(crate) fn has_code_of(&self, other: &Self) -> anyhow::Result<bool> {
        if self.units.len() != other.units.len() {
            return Ok(false);
        }
        for (one, another) in self.units.iter().zip(&other.units) {
            let folder = |unit: &Unit| unit.ptx.parent().map(Path::to_path_buf).unwrap_or_default();
            if one.source != another.source || !share::same_code(&folder(one), &folder(another))? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// One `.cu` file compiled for one architecture.
#[derive(Clone, Debug)]
pub struct Unit {
    /// The source, relative to the project.
    pub source: PathBuf,
    /// Its machine code.
    pub cubin: PathBuf,
    /// Its PTX.
    pub ptx: PathBuf,
    /// Its kernels.
    pub kernels: Vec<Kernel>,
}

/// The figures of one kernel.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Kernel {
    /// The symbol.
    pub symbol: String,
    /// The demangled symbol.
    pub name: String,
    /// Registers per thread.
    pub registers: u32,
    /// Bytes stored to local memory by spills.
    pub spill_stores: u32,
    /// Bytes loaded from local memory by spills.
    pub spill_loads: u32,
    /// Bytes of stack per thread.
    pub stack: u32,
    /// Bytes of static shared memory per block.
    pub shared: u32,
    /// Maximum threads per block (launch bounds).
    pub max_threads: u32,
    /// Theoretical occupancy with blocks of `max_threads` and no dynamic shared memory, 0 to 1.
    pub occupancy: f64,
    /// Global loads in the machine code: all, and those of 16 bytes.
    pub loads: Accesses,
    /// Global stores in the machine code: all, and those of 16 bytes.
    pub stores: Accesses,
}

impl Kernel {
    /// Bytes of its spills, both ways.
    pub(crate) fn spilled(&self) -> u64 {
        u64::from(self.spill_stores) + u64::from(self.spill_loads)
    }
}

/// Global accesses of one kind in the machine code.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Accesses {
    /// All of them.
    pub(crate) all: u32,
    /// Those of 16 bytes.
    pub(crate) wide: u32,
}

/// Compiles a project, or takes unchanged units from the cache; `force` recompiles all. `tell` is called with a line per
/// finished unit.
///
/// nvcc runs once per unit and architecture, in parallel on all cores, all units of the first architecture first. The
/// project's folder is not written: output goes to `objects/` of the cache, each entry by one rename.
pub fn build(
    project: &Project,
    archs: &[u32],
    toolchain: &Toolchain,
    force: bool,
    tell: &(dyn Fn(&str) + Sync),
) -> anyhow::Result<Build> {
    let archs = checked(project, archs)?;
    let root =
        project.root.canonicalize().with_context(|| format!("cannot read the project {}", project.root.display()))?;
    let host = HostCompiler::find()?;
    if !host.is_native() {
        let HostCompiler { cpu, origin, path, .. } = &host;
        bail!(
            "{} (found through {origin}) compiles for {cpu}, and launchers are loaded by this machine: unset {origin}; only \
             `kernels build --torch` builds for another processor",
            path.display()
        );
    }
    if let Some(why) = confine::compiler::unprotected() {
        tell(why);
    }
    let store = store::Store::open()?;
    let compiler = unit::Compiler::new(project, root, toolchain, &host, archs[0])?;
    let jobs: Vec<(u32, &PathBuf)> =
        archs.iter().flat_map(|&arch| project.sources.iter().map(move |source| (arch, source))).collect();
    let made = parallel::map(&jobs, |&(arch, source)| {
        let made = compiler.unit(source, arch, &store, force)?;
        let how = match made.seconds {
            Some(seconds) => format!("compiled in {seconds:.1} s"),
            None => "from the cache".to_owned(),
        };
        tell(&format!("{} {}: {how}", project.capabilities.target(source, arch).code(), source.display()));
        for remark in &made.found.facts.remarks {
            tell(remark);
        }
        Ok(made)
    })?;
    let groups: Vec<&[unit::Made]> = made.chunks(project.sources.len()).collect();
    let libraries = parallel::map(&groups, |units| link::library(units, toolchain, &host, &store, force))?;
    let targets = archs
        .iter()
        .zip(groups.iter().zip(libraries))
        .map(|(&arch, (units, library))| Target {
            arch,
            features: project
                .sources
                .iter()
                .filter_map(|source| project.capabilities.target(source, arch).suffix)
                .min(),
            library,
            units: units.iter().zip(&project.sources).map(|(made, source)| made.unit(source)).collect(),
        })
        .collect();
    Ok(Build {
        compiler: toolchain.version.clone(),
        targets,
        compiled: made.iter().filter(|made| made.seconds.is_some()).count(),
    })
}

/// Sorts the architectures and removes duplicates; an error if the project has no sources or one is unknown.
fn checked(project: &Project, archs: &[u32]) -> anyhow::Result<Vec<u32>> {
    let mut archs = archs.to_vec();
    archs.sort_unstable();
    archs.dedup();
    anyhow::ensure!(!archs.is_empty(), "no architecture to compile for");
    anyhow::ensure!(
        !project.sources.is_empty(),
        "{} names no .cu file to compile",
        project.root.join("build.toml").display()
    );
    for arch in &archs {
        Limits::of(*arch)?;
    }
    Ok(archs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_has_its_compilers_name() {
        for (features, name) in [(None, "sm_90"), (Some('a'), "sm_90a"), (Some('f'), "sm_90f")] {
            let target = Target { arch: 90, features, library: PathBuf::new(), units: Vec::new() };
            assert_eq!(target.name(), name);
        }
    }

    #[test]
    fn spills_are_of_stores_and_loads() {
        let kernel = Kernel {
            symbol: String::new(),
            name: String::new(),
            registers: 32,
            spill_stores: 12,
            spill_loads: 8,
            stack: 16,
            shared: 0,
            max_threads: 256,
            occupancy: 1.0,
            loads: Accesses::default(),
            stores: Accesses::default(),
        };
        assert_eq!(kernel.spilled(), 20);
    }
}
