//! The host compiler that nvcc uses.

use std::env;
use std::env::consts::ARCH;
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::ToolchainError;
use super::known::Known;

#[derive(Clone, Debug)]
pub(crate) struct HostCompiler {
    pub(crate) path: PathBuf,
    /// The first line of its `--version`.
    pub(crate) version: String,
    /// The source of its path: `NVCC_CCBIN`, `CXX`, `PATH`.
    pub(crate) origin: String,
    /// The processor that it compiles for, as `-dumpmachine` says: `x86_64`, `aarch64`.
    pub(crate) cpu: String,
}

impl HostCompiler {
    /// The first of: `NVCC_CCBIN`, `CXX`, `g++` in PATH, `c++` in PATH. A variable without a usable compiler is an error.
    pub(crate) fn find() -> Result<Self, ToolchainError> {
        Self::find_known(&Known::nothing())
    }

    /// As [`HostCompiler::find`], without starting a compiler whose version is known.
    pub(crate) fn find_known(known: &Known) -> Result<Self, ToolchainError> {
        let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
        for name in ["NVCC_CCBIN", "CXX"] {
            let Some(value) = set(name) else { continue };
            let Some(path) = resolve(&value) else {
                return Err(ToolchainError(format!(
                    "{name}={} is not a C++ compiler: it must be one program, without options; correct it or unset it",
                    value.to_string_lossy()
                )));
            };
            return Self::at(path, name, known);
        }
        match ["g++", "c++"].iter().find_map(|name| in_path(name)) {
            Some(path) => Self::at(path, "PATH", known),
            None => Err(ToolchainError(
                "no C++ compiler: nvcc needs g++; install it (Debian and Ubuntu: `apt install g++`, Fedora: \
                 `dnf install gcc-c++`) or set CXX to one"
                    .to_owned(),
            )),
        }
    }

    fn at(path: PathBuf, origin: &str, known: &Known) -> Result<Self, ToolchainError> {
        let said = known.version(&path).map_err(|why| ToolchainError(format!("{why} (found through {origin})")))?;
        let version = said.lines().next().unwrap_or_default().trim().to_owned();
        let machine = known.says(&path, "-dumpmachine").unwrap_or_default();
        let cpu = match machine.trim().split('-').next() {
            Some("arm64") => "aarch64",
            Some("") | None => ARCH,
            Some(cpu) => cpu,
        };
        Ok(Self { version, cpu: cpu.to_owned(), path, origin: origin.to_owned() })
    }

    /// Whether its programs run on this processor.
    pub(crate) fn is_native(&self) -> bool {
        self.cpu == ARCH
    }
}

/// Resolves a variable: a program by path or name, or a folder with g++, as nvcc's `-ccbin` allows.
fn resolve(value: &OsStr) -> Option<PathBuf> {
    let path = Path::new(value);
    if path.is_dir() {
        return Some(path.join("g++")).filter(|path| is_program(path));
    }
    if path.components().count() > 1 {
        return std::path::absolute(path).ok().filter(|path| is_program(path));
    }
    in_path(path.to_str()?)
}

/// Finds a program in PATH.
pub(super) fn in_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name))
        .find(|path| is_program(path))
}

/// Whether it is an executable file.
pub(super) fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}
