//! The Python that has torch and the peers.

use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, Result, bail};

use crate::toolchain;

/// Prints whether the Python is recent enough and has torch, without loading it.
const LOOK: &str =
    "import importlib.util, sys; print(sys.version_info >= (3, 10), importlib.util.find_spec('torch') is not None)";

/// A Python interpreter that has torch.
#[derive(Clone, Debug)]
pub(crate) struct Interpreter {
    /// The program.
    pub(crate) path: PathBuf,
}

impl Interpreter {
    /// The interpreter that was named, else `KERNELS_PYTHON`, the active virtual environment's, `python3`. Errors name `flag`.
    ///
    /// # Errors
    /// It cannot be started, is older than 3.10, or has no torch.
    pub(crate) fn find(named: Option<&PathBuf>, flag: &str) -> Result<Self> {
        let path = Self::chosen(named);
        let next = "name one that has torch with --python, or activate its environment";
        let output = toolchain::python(&path)
            .args(["-c", LOOK])
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("{flag}: cannot start {}; {next}", path.display()))?;
        let said = String::from_utf8_lossy(&output.stdout);
        match said.trim() {
            "True True" => Ok(Self { path }),
            "True False" => bail!("{flag}: {} has no torch; {next}", path.display()),
            said if said.starts_with("False") => {
                bail!("{flag}: {} is older than Python 3.10; {next}", path.display())
            }
            _ => bail!("{flag}: {} is not a working Python ({}); {next}", path.display(), output.status),
        }
    }

    /// The same, of which nothing is known yet.
    pub(crate) fn chosen(named: Option<&PathBuf>) -> PathBuf {
        let of_environment = || {
            let folder = std::env::var_os("VIRTUAL_ENV").filter(|folder| !folder.is_empty())?;
            Some(PathBuf::from(folder).join("bin").join("python"))
        };
        let set = || std::env::var_os("KERNELS_PYTHON").filter(|path| !path.is_empty()).map(PathBuf::from);
        named.cloned().or_else(set).or_else(of_environment).unwrap_or_else(|| PathBuf::from("python3"))
    }
}
