//! Finding nvcc, or installing it from pinned wheels.

use std::path::PathBuf;

use thiserror::Error;

/// A CUDA compiler that can be used.
#[derive(Clone, Debug)]
pub struct Toolchain {
    /// The compiler driver.
    pub nvcc: PathBuf,
    /// Its version, `13.0.88`.
    pub version: String,
    /// Where it was found, for people: `CUDA_HOME`, `PATH`, …
    pub origin: String,
    /// Folders to give the linker with `-L`.
    pub library_dirs: Vec<PathBuf>,
}

/// Why there is none.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct ToolchainError(pub String);

impl Toolchain {
    /// The version whose machine code evidence is tied to.
    pub const PINNED: &str = "13.0.88";

    /// The first that works of: `CUDA_HOME`, `PATH`, the usual places, an active venv's wheels, our own cache.
    pub fn find() -> Result<Self, ToolchainError> {
        Err(ToolchainError("not there yet".to_owned()))
    }

    /// Whether it is the pinned one.
    pub fn is_pinned(&self) -> bool {
        self.version == Self::PINNED
    }
}
