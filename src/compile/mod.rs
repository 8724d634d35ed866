//! nvcc to cubins, PTX and a shared object; what ptxas and the machine code say of each kernel.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::project::Project;
use crate::toolchain::Toolchain;

/// A project compiled.
#[derive(Clone, Debug)]
pub struct Build {
    /// The compiler's version.
    pub compiler: String,
    /// One an architecture, in rising order.
    pub targets: Vec<Target>,
}

/// A project compiled for one architecture.
#[derive(Clone, Debug)]
pub struct Target {
    /// Compute capability without the point: 90.
    pub arch: u32,
    /// The launchers, with machine code and PTX of this architecture alone.
    pub library: PathBuf,
    /// One a `.cu` file.
    pub units: Vec<Unit>,
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

/// What became of one kernel.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Kernel {
    /// The symbol.
    pub symbol: String,
    /// The symbol as C++ writes it.
    pub name: String,
    /// Registers a thread.
    pub registers: u32,
    /// Bytes stored to local memory by spills.
    pub spill_stores: u32,
    /// Bytes loaded from local memory by spills.
    pub spill_loads: u32,
    /// Bytes of stack a thread.
    pub stack: u32,
    /// Bytes of static shared memory a block.
    pub shared: u32,
    /// The most threads a block may have (launch bounds).
    pub max_threads: u32,
    /// Theoretical occupancy with blocks of `max_threads` and no dynamic shared memory, 0 to 1.
    pub occupancy: f64,
    /// Global loads in the machine code: all, and those of 16 bytes.
    pub loads: Accesses,
    /// Global stores in the machine code: all, and those of 16 bytes.
    pub stores: Accesses,
}

/// How many global accesses of a kind the machine code holds.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Accesses {
    /// All of them.
    pub all: u32,
    /// Those of 16 bytes.
    pub wide: u32,
}

/// Compiles a project, or takes from the cache what is unchanged. `force` compiles again.
/// `tell` is called with a line whenever a unit is done.
pub fn build(
    _project: &Project,
    _archs: &[u32],
    _toolchain: &Toolchain,
    _force: bool,
    _tell: &(dyn Fn(&str) + Sync),
) -> anyhow::Result<Build> {
    anyhow::bail!("not there yet")
}

impl Build {
    /// A digest of the device code alone: the same for the same machine code, whatever the comments say.
    pub fn device_digest(&self) -> anyhow::Result<String> {
        anyhow::bail!("not there yet")
    }

    /// What overran a budget, a line each.
    pub fn over_budget(&self, _project: &Project) -> Vec<String> {
        Vec::new()
    }
}
