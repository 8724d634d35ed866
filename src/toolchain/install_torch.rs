//! Installs torch's headers and link libraries from its wheel into the cache.
//!
//! The linker needs only a library's symbols: stubs with the same symbols and no code take 20 MB, the libraries 900 MB.

use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use zip::ZipArchive;

use super::install::{Pip, Scratch, clear, failed, lock, swap};
use super::stand_in::stand_in;
use super::torch::{LIBRARIES, PINNED, Torch, at, installed};
use super::{HostCompiler, ToolchainError, cache};

/// pip's requirement with the hashes of both wheels.
const PINS: &str = include_str!("torch_pins.txt");
const ORIGIN: &str = "`kernels toolchain install --torch`";

#[derive(Clone, Debug)]
pub(crate) struct InstalledTorch {
    pub(crate) torch: Torch,
    /// Whether it was already installed.
    pub(crate) already: bool,
}

/// Installs torch's headers into the cache, unless present. `force` downloads them again.
///
/// As [`super::install`]: by pip with a checked hash, into a scratch folder that is renamed into place.
pub(crate) fn install_torch(
    python: &Path,
    force: bool,
    show: bool,
    tell: &dyn Fn(&str),
) -> Result<InstalledTorch, ToolchainError> {
    let platform = match (cfg!(target_os = "linux"), std::env::consts::ARCH) {
        (true, "x86_64") => "manylinux_2_28_x86_64",
        (true, "aarch64") => "manylinux_2_28_aarch64",
        _ => {
            return Err(ToolchainError("the pinned wheel of torch is for Linux on x86_64 and aarch64".to_owned()));
        }
    };
    let cache = cache::folder()?;
    let target = installed(&cache);
    fs::create_dir_all(&cache).map_err(|error| failed("create", &cache, &error))?;
    let _lock = lock(&cache.join("toolchain.lock"), tell)?;
    let whole = |folder: &Path| at(&folder.join("torch"), ORIGIN);
    if !force && let Ok(torch) = whole(&target) {
        return Ok(InstalledTorch { torch, already: true });
    }
    // Checked before downloading half a gigabyte.
    let host = HostCompiler::find()?;
    clear(&cache);
    let scratch = Scratch::new(&cache)?;
    let pip = Pip {
        python,
        scratch: &scratch.0,
        show,
        pins: PINS,
        again: "kernels toolchain install --torch",
        by_hand: format!("install torch {PINNED} for CUDA into an environment and activate that"),
    };
    let wheel = fetch(&pip, platform)?;
    let site = scratch.0.join("site");
    unpack(&wheel, &site).map_err(|error| {
        ToolchainError(format!(
            "cannot unpack {} into {}: {error}; set KERNELS_CACHE to a folder that can be written and has 1.5 GB",
            wheel.display(),
            site.display()
        ))
    })?;
    for name in LIBRARIES {
        let library = site.join("torch/lib").join(name);
        stand_in(&library, &library, &host)?;
    }
    whole(&site).map_err(|why| ToolchainError(format!("pip fetched torch, but {why}")))?;
    swap(&site, &target).map_err(|error| failed("put in place", &target, &error))?;
    Ok(InstalledTorch { torch: whole(&target).map_err(ToolchainError)?, already: false })
}

/// Downloads torch's wheel into the scratch folder.
fn fetch(pip: &Pip<'_>, platform: &str) -> Result<PathBuf, ToolchainError> {
    let wheels = pip.scratch.join("wheels");
    // The same wheel for every Python version, so that one hash suffices.
    let words = [
        "download",
        "--platform",
        platform,
        "--python-version",
        "3.12",
        "--implementation",
        "cp",
        "--abi",
        "cp312",
        "--dest",
    ];
    pip.run(&words, &wheels, &[])?;
    fs::read_dir(&wheels)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|ending| ending == "whl"))
        .ok_or_else(|| ToolchainError("pip fetched no wheel of torch".to_owned()))
}

/// Whether a file of the wheel is kept: headers, link libraries, version, licences.
fn is_kept(path: &str) -> bool {
    path.starts_with("torch/include/")
        || path == "torch/version.py"
        || path.strip_prefix("torch/lib/").is_some_and(|name| LIBRARIES.contains(&name))
        || path.contains(".dist-info/") && (path.contains("LICENSE") || path.contains("NOTICE"))
}

fn unpack(wheel: &Path, site: &Path) -> io::Result<()> {
    let mut archive = ZipArchive::new(File::open(wheel)?)?;
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index)?;
        let name = entry.name()?.into_owned();
        if entry.is_dir() || !is_kept(&name) {
            continue;
        }
        let Some(name) = entry.enclosed_name() else {
            return Err(io::Error::other(format!("{name} leads out of the wheel")));
        };
        let path = site.join(name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut file = BufWriter::new(File::create(&path)?);
        io::copy(&mut entry, &mut file)?;
        file.into_inner()?;
    }
    Ok(())
}
