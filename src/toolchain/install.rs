//! Installs the pinned wheels with pip into a scratch folder of the cache, tests them, and renames it into place.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Output, Stdio};

use rustix::fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with};
use rustix::io::Errno;

use super::candidate::{at, installed};
use super::known::Known;
use super::{Toolchain, ToolchainError, cache};

/// pip requirements with the hashes of all wheels.
const PINS: &str = include_str!("pins.txt");
const ORIGIN: &str = "`kernels toolchain install`";

#[derive(Clone, Debug)]
pub(crate) struct Installed {
    pub(crate) toolchain: Toolchain,
    /// Whether it was already installed.
    pub(crate) already: bool,
}

/// Installs the pinned toolchain into the cache, unless it is present and runs. `force` downloads it again.
///
/// `show`: pip's progress goes to stderr. `tell` gets a line if another process holds the lock.
/// The installation is made in a scratch folder and renamed into place; the next installation removes the scratch folder
/// of a killed one.
pub(crate) fn install(
    python: &Path,
    force: bool,
    show: bool,
    tell: &dyn Fn(&str),
) -> Result<Installed, ToolchainError> {
    if !cfg!(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))) {
        return Err(ToolchainError(
            "the pinned wheels are for Linux on x86_64 and aarch64; install a CUDA toolkit and set CUDA_HOME to it"
                .to_owned(),
        ));
    }
    let cache = cache::folder()?;
    let target = installed(&cache);
    fs::create_dir_all(&cache).map_err(|error| failed("create", &cache, &error))?;
    let _lock = lock(&cache.join("toolchain.lock"), tell)?;
    let whole = |folder: &Path| at(&folder.join("nvidia/cu13"), ORIGIN, &Known::nothing());
    if !force
        && let Ok(toolchain) = whole(&target)
        && toolchain.is_pinned()
    {
        return Ok(Installed { toolchain, already: true });
    }
    clear(&cache);
    let scratch = Scratch::new(&cache)?;
    let site = scratch.0.join("site");
    let pip = Pip {
        python,
        scratch: &scratch.0,
        show,
        pins: PINS,
        again: "kernels toolchain install",
        by_hand: format!("install CUDA {} by hand and set CUDA_HOME", Toolchain::PINNED),
    };
    pip.run(&["install", "--target"], &site, &["--no-compile"])?;
    let found = whole(&site).map_err(|why| ToolchainError(format!("pip installed the wheels, but {why}")))?;
    if !found.is_pinned() {
        return Err(ToolchainError(format!("pip installed nvcc {} instead of {}", found.version, Toolchain::PINNED)));
    }
    swap(&site, &target).map_err(|error| failed("put in place", &target, &error))?;
    Ok(Installed { toolchain: whole(&target).map_err(ToolchainError)?, already: false })
}

/// The prefix of scratch folders.
const TEMPORARY: &str = ".toolchain-install-";

/// A folder that is removed when the installation ends.
pub(super) struct Scratch(pub(super) PathBuf);

impl Scratch {
    /// Creates one in the cache, on the same file system.
    pub(super) fn new(cache: &Path) -> Result<Self, ToolchainError> {
        let path = cache.join(format!("{TEMPORARY}{}", process::id()));
        fs::create_dir_all(&path).map_err(|error| failed("create", &path, &error))?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A call of pip that downloads pinned wheels and checks their hashes.
pub(super) struct Pip<'a> {
    /// The Python whose pip is run.
    pub(super) python: &'a Path,
    /// The folder for its temporary files.
    pub(super) scratch: &'a Path,
    /// Whether progress goes to stderr.
    pub(super) show: bool,
    /// The requirements.
    pub(super) pins: &'a str,
    /// The user's command, for messages.
    pub(super) again: &'a str,
    /// The alternative to pip, for messages.
    pub(super) by_hand: String,
}

impl Pip<'_> {
    /// Runs pip with these arguments, of which the last takes the folder, and more options.
    pub(super) fn run(&self, words: &[&str], folder: &Path, more: &[&str]) -> Result<(), ToolchainError> {
        let pins = self.scratch.join("pins.txt");
        fs::write(&pins, self.pins).map_err(|error| failed("write", &pins, &error))?;
        let mut command = Command::new(self.python);
        command
            .args(["-m", "pip"])
            .args(words)
            .arg(folder)
            .args(more)
            .args(["--no-deps", "--require-hashes", "--only-binary", ":all:"])
            .args(["--no-input", "--disable-pip-version-check"])
            .args((!self.show).then_some("--quiet"))
            .arg("--requirement")
            .arg(&pins)
            // On the file system of the cache, and removed with the scratch folder.
            .env("TMPDIR", self.scratch)
            // Ignore the user's settings that conflict with a target folder; keep index, proxy and certificates.
            .env("PIP_REQUIRE_VIRTUALENV", "0")
            .env("PIP_USER", "0")
            .env_remove("PIP_PREFIX")
            .env_remove("PIP_ROOT")
            .env_remove("PIP_TARGET")
            .env_remove("PYTHONPATH")
            .stdin(Stdio::null());
        if self.show {
            // stdout is for the report.
            let progress = rustix::io::dup(rustix::stdio::stderr()).map_err(io::Error::from);
            let progress = progress.map_err(|error| failed("write to", Path::new("stderr"), &error))?;
            command.stdout(progress).stderr(Stdio::inherit());
        } else {
            command.stdout(Stdio::null()).stderr(Stdio::piped());
        }
        let child = command.spawn();
        let output = child.and_then(process::Child::wait_with_output).map_err(|error| self.cannot_start(&error))?;
        if output.status.success() {
            return Ok(());
        }
        Err(self.failure(&output))
    }

    fn cannot_start(&self, error: &io::Error) -> ToolchainError {
        let python = self.python.display();
        ToolchainError(if error.kind() == io::ErrorKind::NotFound {
            format!("there is no Python at '{python}'; install Python 3 with pip, or name one with --python PATH")
        } else {
            format!("cannot run '{python}': {error}; name another Python with --python PATH")
        })
    }

    /// Why pip failed: it is missing, or its output.
    fn failure(&self, output: &Output) -> ToolchainError {
        let python = self.python.display();
        let has_pip = Command::new(self.python)
            .args(["-m", "pip", "--version"])
            .stdin(Stdio::null())
            .output()
            .is_ok_and(|asked| asked.status.success());
        if !has_pip {
            return ToolchainError(format!(
                "'{python}' has no pip; install it (Debian and Ubuntu: `apt install python3-pip`; elsewhere: \
                 `{python} -m ensurepip`), or name another Python with --python PATH"
            ));
        }
        let said = match String::from_utf8_lossy(&output.stderr).trim() {
            "" => "; ".to_owned(),
            said => format!(":\n{said}\n"),
        };
        ToolchainError(format!(
            "pip could not install the wheels ({}){said}check the network, the proxy and pip's index (`{python} -m pip \
             config list`), then run `{}` again; or {}",
            output.status, self.again, self.by_hand
        ))
    }
}

/// Locks out other installations; the system releases the lock when the process dies.
pub(super) fn lock(path: &Path, tell: &dyn Fn(&str)) -> Result<File, ToolchainError> {
    let file = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .map_err(|error| failed("write to", path, &error))?;
    // Without file locks concurrent installations duplicate work, but the rename stays atomic.
    if flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
        tell("another `kernels toolchain install` is at work; waiting for it");
        while flock(&file, FlockOperation::LockExclusive) == Err(Errno::INTR) {}
    }
    Ok(file)
}

/// Removes scratch folders of killed installations. The caller holds the lock.
pub(super) fn clear(cache: &Path) {
    for entry in fs::read_dir(cache).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(TEMPORARY) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Moves `new` to `target`; the old content moves to `new`, which the scratch folder's removal deletes.
pub(super) fn swap(new: &Path, target: &Path) -> io::Result<()> {
    if fs::symlink_metadata(target).is_err() {
        return fs::rename(new, target);
    }
    if renameat_with(CWD, new, CWD, target, RenameFlags::EXCHANGE).is_ok() {
        return Ok(());
    }
    let aside = new.with_extension("old");
    fs::rename(target, &aside)?;
    fs::rename(new, target)
}

pub(super) fn failed(what: &str, path: &Path, error: &io::Error) -> ToolchainError {
    ToolchainError(format!(
        "cannot {what} {}: {error}; set KERNELS_CACHE to a folder that can be written and has 400 MB",
        path.display()
    ))
}
