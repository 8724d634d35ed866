//! Finds nvcc and torch's headers, or installs them from pinned wheels.

pub(crate) mod cache;
mod candidate;
mod host;
mod install;
mod install_torch;
mod known;
mod stand_in;
mod torch;
mod version;

pub use candidate::{Candidate, candidates};
pub(crate) use host::HostCompiler;
pub(crate) use install::install;
pub(crate) use install_torch::install_torch;
pub(crate) use known::Known;
pub(crate) use stand_in::stand_in;
pub(crate) use torch::{LIBRARIES as TORCH_LIBRARIES, PINNED as PINNED_TORCH, Torch};
pub(crate) use version::Version;

use std::path::{Path, PathBuf};
use std::process::Command;

use thiserror::Error;

use crate::base::arch;

/// A Python that takes no module from the current folder, where it would look first: it may be a stranger's project.
pub(crate) fn python(path: &Path) -> Command {
    // A bare name is found in PATH, and any other path is one from here.
    let here = Some(path).filter(|path| path.components().count() > 1).and_then(|path| std::path::absolute(path).ok());
    let mut command = Command::new(here.as_deref().unwrap_or(path));
    command.current_dir("/");
    command
}

/// A usable CUDA compiler.
#[derive(Clone, Debug)]
pub struct Toolchain {
    /// The path of nvcc.
    pub nvcc: PathBuf,
    /// Its version, `13.0.88`.
    pub version: String,
    /// Its origin, for messages: `CUDA_HOME`, `PATH`, …
    pub origin: String,
    /// Folders for the linker's `-L`.
    pub library_dirs: Vec<PathBuf>,
}

/// Why no toolchain was found.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct ToolchainError(pub String);

impl Toolchain {
    /// The version that evidence refers to.
    pub const PINNED: &str = "13.0.88";

    /// The first usable one of: `CUDA_HOME`, `PATH`, the usual locations, the active venv's wheels, the cache.
    ///
    /// A `CUDA_HOME` without nvcc is an error, because the user chose it.
    pub fn find() -> Result<Self, ToolchainError> {
        Self::find_known(&Known::nothing())
    }

    /// As [`Toolchain::find`], without starting a compiler whose version is known.
    pub(crate) fn find_known(known: &Known) -> Result<Self, ToolchainError> {
        for candidate in candidate::places() {
            let candidate = candidate.look(known);
            match candidate.found {
                Ok(toolchain) => return Ok(toolchain),
                Err(why) if candidate.explicit => {
                    return Err(ToolchainError(format!(
                        "{} is set to {}, but {why}; correct it or unset it",
                        candidate.origin,
                        candidate.folder.display()
                    )));
                }
                Err(_) => {}
            }
        }
        Err(ToolchainError(
            "no CUDA compiler (nvcc): not in CUDA_HOME, PATH, /usr/local/cuda, an active venv or the cache; \
             `kernels toolchain install` puts the pinned one into the cache, `kernels toolchain` lists the places that were searched"
                .to_owned(),
        ))
    }

    /// Whether this is the pinned version.
    pub fn is_pinned(&self) -> bool {
        self.version == Self::PINNED
    }

    /// The folder above `bin`.
    pub fn root(&self) -> &Path {
        let bin = self.nvcc.parent().unwrap_or(Path::new("/"));
        bin.parent().unwrap_or(bin)
    }

    /// The compute capabilities that it compiles for, in rising order: `[75, 80, …]`.
    pub(crate) fn archs(&self, known: &Known) -> Result<Vec<u32>, ToolchainError> {
        let text = known.says(&self.nvcc, "--list-gpu-code").map_err(ToolchainError)?;
        let mut archs: Vec<u32> =
            text.split_whitespace().filter_map(|word| word.strip_prefix("sm_")?.parse().ok()).collect();
        archs.sort_unstable();
        archs.dedup();
        Ok(archs)
    }

    /// Divides architectures into those that it compiles for, and the others. If it does not say which, all are the former.
    pub(crate) fn divide(&self, archs: &[u32], known: &Known) -> (Vec<u32>, Vec<u32>) {
        let compiled = self.archs(known).unwrap_or_default();
        archs.iter().partition(|arch| compiled.is_empty() || compiled.contains(arch))
    }

    /// An error if it does not compile for one of the architectures.
    pub(crate) fn must_compile_for(&self, archs: &[u32], known: &Known) -> Result<(), ToolchainError> {
        let (_, others) = self.divide(archs, known);
        if others.is_empty() {
            return Ok(());
        }
        Err(ToolchainError(format!(
            "nvcc {} ({}) does not compile for {}, only for {}: set CUDA_HOME to a toolkit that does",
            self.version,
            self.origin,
            arch::named(&others),
            arch::named(&self.archs(known)?)
        )))
    }

    /// Major and minor version: `(13, 0)`.
    pub(crate) fn release(&self) -> Option<(u32, u32)> {
        release(&self.version)
    }
}

/// Major and minor of `13.0` or `13.0.88`.
pub(crate) fn release(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

/// Runs `program option` and returns its stdout.
fn ask(program: &Path, option: &str) -> Result<String, String> {
    let output = clean(&mut Command::new(program))
        .arg(option)
        .output()
        .map_err(|error| format!("{} does not run: {error}", program.display()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("`{} {option}` fails ({}) {}", program.display(), output.status, said.trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Removes variables that would change a compiler's output unnoticed.
pub(crate) fn clean(command: &mut Command) -> &mut Command {
    for name in SILENT {
        command.env_remove(name);
    }
    // This program parses messages.
    command.env("LC_ALL", "C")
}

/// Variables from which nvcc and gcc take options, folders or programs.
const SILENT: [&str; 16] = [
    "NVCC_PREPEND_FLAGS",
    "NVCC_APPEND_FLAGS",
    "NVCC_CCBIN",
    "CICC_PATH",
    "NVVMIR_LIBRARY_DIR",
    "CPATH",
    "C_INCLUDE_PATH",
    "CPLUS_INCLUDE_PATH",
    "LIBRARY_PATH",
    "COMPILER_PATH",
    "GCC_EXEC_PREFIX",
    "DEPENDENCIES_OUTPUT",
    "SUNPRO_DEPENDENCIES",
    "SOURCE_DATE_EPOCH",
    "GCC_COMPARE_DEBUG",
    "LD_RUN_PATH",
];
