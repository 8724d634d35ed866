//! What a kernel project is: a folder with `build.toml` (kernel-builder's own) and `kernel.toml` (ours).
//!
//! [`Spec`] is `kernel.toml` as written, [`Case`] one row of its cases, and [`Bound`] an operation with every
//! size of a case filled in: the tensors and the launcher's arguments, ready to be recorded and checked.

pub mod bound;
pub mod case;
pub mod dtype;
pub mod formula;
pub mod spec;

pub use bound::{Bound, BoundArgument, BoundTensor};
pub use case::{Case, Inputs};
pub use dtype::DType;
pub use formula::Formula;
pub use spec::{
    Argument, Budget, CType, CaseSet, Operation, OracleRef, Role, Spec, Tolerance, Values,
};

use std::path::{Path, PathBuf};

/// A project, read and checked.
#[derive(Clone, Debug)]
pub struct Project {
    /// Its folder.
    pub root: PathBuf,
    /// Its name, from build.toml.
    pub name: String,
    /// The `.cu` files to compile, relative to the root, in build.toml's order.
    pub sources: Vec<PathBuf>,
    /// Include folders, relative to the root.
    pub includes: Vec<PathBuf>,
    /// Flags for nvcc.
    pub cuda_flags: Vec<String>,
    /// kernel.toml.
    pub spec: Spec,
    /// The bytes of kernel.toml, of which evidence keeps a digest.
    pub spec_digest: String,
}

impl Project {
    /// Reads a project's folder.
    pub fn open(_dir: &Path) -> anyhow::Result<Self> {
        anyhow::bail!("not there yet")
    }
}

impl Operation {
    /// All cases of a table, those that are drawn afresh drawn from `seed`.
    pub fn cases(&self, _sets: &[CaseSet], _seed: u64) -> anyhow::Result<Vec<Case>> {
        anyhow::bail!("not there yet")
    }

    /// The case that a person named: `rows=128,width=4096`.
    pub fn case_of_shape(&self, _shape: &str, _dtype: DType) -> anyhow::Result<Case> {
        anyhow::bail!("not there yet")
    }

    /// Fills every size of a case in.
    pub fn bind(&self, _case: &Case) -> anyhow::Result<Bound> {
        anyhow::bail!("not there yet")
    }
}
