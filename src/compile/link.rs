//! Links the units of an architecture to a shared object.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::key::{Key, sha256};
use super::share::OBJECT;
use super::store::Store;
use super::unit::Made;
use crate::confine::compiler::Cell;
use crate::toolchain::{HostCompiler, Toolchain, clean};

const LIBRARY: &str = "library.so";

/// Links, or takes the library from the cache.
///
/// Uses the host compiler directly: nvcc would only add a device link, which non-relocatable code does not need. The CUDA
/// runtime is linked statically, with hidden symbols. The library is kept by the objects' contents, not by what they were
/// compiled from: the cubins beside them must have the library's symbols (see `Store::keep`).
pub(super) fn library(
    units: &[Made],
    toolchain: &Toolchain,
    host: &HostCompiler,
    store: &Store,
    force: bool,
) -> Result<PathBuf> {
    let key = key(units)?;
    let unchanged = !force && units.iter().all(|unit| unit.seconds.is_none());
    if unchanged && let Some((folder, ())) = store.get::<()>(&key) {
        store.touch(&key);
        return Ok(folder.join(LIBRARY));
    }
    let work = store.work()?;
    let mut command = Command::new(&host.path);
    clean(&mut command)
        .env("TMPDIR", &work.path)
        .arg("-shared")
        .arg("-o")
        .arg(work.path.join(LIBRARY))
        .args(units.iter().map(|unit| unit.found.folder.join(OBJECT)));
    for folder in &toolchain.library_dirs {
        command.arg("-L").arg(folder);
    }
    command.args(["-lcudart_static", "-ldl", "-lrt", "-lpthread"]).args([
        "-Wl,--exclude-libs,ALL",
        "-Wl,-z,defs",
        "-Wl,--build-id=none",
    ]);
    let output = Cell::new(&host.path, toolchain.root())
        // The folder above: another build may put a new folder in the place of an object's.
        .reads(units.iter().filter_map(|unit| unit.found.folder.parent()))
        .reads(&toolchain.library_dirs)
        .writes(&work.path)
        .output(&mut command)
        .with_context(|| format!("cannot run {}", host.path.display()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let hint = if said.contains("undefined reference to `cu") {
            "\nfunctions of the driver come through cudaGetDriverEntryPoint: libcuda is not linked"
        } else {
            ""
        };
        bail!("the units do not link ({}):\n{}{hint}", output.status, said.trim());
    }
    if self::key(units)? != key {
        bail!(
            "another `kernels build --force` replaced objects in the cache while they were linked; run the build again"
        );
    }
    Ok(store.put(&key, &work, &[LIBRARY], ())?.join(LIBRARY))
}

fn key(units: &[Made]) -> Result<String> {
    let mut key = Key::new("kernels library 2");
    for unit in units {
        let object = unit.found.folder.join(OBJECT);
        let bytes =
            fs::read(&object).with_context(|| format!("cannot read {}; run the build again", object.display()))?;
        key.field(&unit.found.key).field(sha256(&bytes));
    }
    Ok(key.finish())
}
