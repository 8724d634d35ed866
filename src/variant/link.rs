//! Links the objects to a shared object, and checks that it loads on every supported system.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};

use super::abi::{self, Needs, Violation};
use super::compat;
use super::object::Made;
use super::plan::Plan;
use super::rename;
use crate::compile::key::Key;
use crate::compile::nvcc::no_room;
use crate::compile::store::{Store, Work};
use crate::confine::compiler::Cell;
use crate::toolchain::{HostCompiler, TORCH_LIBRARIES, Toolchain, Torch, clean, stand_in};

const LIBRARY: &str = "library.so";

pub(super) struct Linked {
    pub(super) path: PathBuf,
    /// Needed libraries, by soname.
    pub(super) libraries: Vec<String>,
    /// Symbols defined for older systems.
    pub(super) compat: Vec<String>,
}

#[derive(Deserialize, Serialize)]
struct Facts {
    libraries: Vec<String>,
    compat: Vec<String>,
}

/// Links, or takes the library from the cache; an error names every incompatible symbol.
pub(super) fn library(
    plan: &Plan,
    objects: &[Made],
    toolchain: &Toolchain,
    host: &HostCompiler,
    torch: &Torch,
    store: &Store,
    force: bool,
) -> Result<Linked> {
    let mut key = Key::new("kernels torch library 1");
    key.field(&plan.id).field(&torch.version);
    for object in objects {
        key.field(&object.key);
    }
    let key = key.finish();
    if !force && let Some((folder, facts)) = store.get::<Facts>(&key) {
        store.touch(&key);
        return Ok(Linked { path: folder.join(LIBRARY), libraries: facts.libraries, compat: facts.compat });
    }
    let cudart = cudart(toolchain)?;
    let soname = cudart.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let work = store.work()?;
    let mut libraries: Vec<PathBuf> = TORCH_LIBRARIES.iter().map(|name| torch.libraries().join(name)).collect();
    libraries.push(cudart);
    let provided = abi::provided(libraries.iter().map(PathBuf::as_path))?;
    if !host.is_native() {
        // Names are the same on every processor, and a linker needs no more of these.
        for library in &mut libraries {
            let foreign = work.path.join(library.file_name().unwrap_or_default());
            stand_in(library, &foreign, host)?;
            *library = foreign;
        }
    }
    let linker =
        Linker { plan, objects: named(plan, objects, &work)?, toolchain, host, libraries: &libraries, work: &work };
    let (needs, compat) = linker.link_for_all(&provided, &soname)?;
    let facts = Facts { libraries: needs.libraries, compat };
    let folder = store.put(&key, &work, &[LIBRARY], &facts)?;
    Ok(Linked { path: folder.join(LIBRARY), libraries: facts.libraries, compat: facts.compat })
}

struct Linker<'a> {
    plan: &'a Plan,
    objects: Vec<PathBuf>,
    toolchain: &'a Toolchain,
    host: &'a HostCompiler,
    /// torch's, and the CUDA runtime.
    libraries: &'a [PathBuf],
    work: &'a Work,
}

impl Linker<'_> {
    /// Links with compatibility definitions where needed. Returns what the object needs, and the symbols defined for older
    /// systems.
    fn link_for_all(&self, provided: &HashSet<String>, soname: &str) -> Result<(Needs, Vec<String>)> {
        let mut compat: Vec<String> = Vec::new();
        let mut definitions: Vec<String> = Vec::new();
        // A compatibility definition may itself reference a symbol that is too new.
        loop {
            self.link(&definitions)?;
            let needs = Needs::of(&self.work.path.join(LIBRARY))?;
            let violations = needs.violations(&self.plan.id, provided, soname);
            if violations.is_empty() {
                return Ok((needs, compat));
            }
            let replaceable: Vec<(&str, String)> = violations
                .iter()
                .filter_map(Violation::symbol)
                .filter(|symbol| compat.iter().all(|known| known != symbol))
                .filter_map(|symbol| Some((symbol, compat::of(symbol, &self.host.cpu)?)))
                .collect();
            if replaceable.is_empty() {
                let lines: Vec<String> = violations.iter().map(|one| format!("  {one}")).collect();
                bail!("the shared object is linked, but would not load everywhere:\n{}", lines.join("\n"));
            }
            for (symbol, definition) in replaceable {
                compat.push(symbol.to_owned());
                definitions.push(definition);
            }
        }
    }

    fn link(&self, definitions: &[String]) -> Result<()> {
        let folder = &self.work.path;
        let cannot = || cannot_write(folder);
        // Only Python's init symbol is exported: launchers of two kernels may have the same name.
        let exports = folder.join("exports");
        let text = format!("{{ global: PyInit_{}; local: *; }};\n", self.plan.id);
        fs::write(&exports, text).with_context(cannot)?;
        let mut command = Command::new(&self.host.path);
        clean(&mut command)
            .current_dir(folder)
            .env("TMPDIR", folder)
            .args(["-shared", "-fPIC", "-O2", "-s", "-o", LIBRARY])
            .args(&self.objects);
        if !definitions.is_empty() {
            let source = compat::source(definitions);
            fs::write(folder.join("compat.cpp"), source).with_context(cannot)?;
            command.args(["-std=c++17", "compat.cpp"]);
        }
        command.args(["-Wl,--as-needed", "-Wl,--build-id=none"]);
        command.arg(format!("-Wl,--version-script={}", exports.display()));
        command.args(self.libraries);
        let output = Cell::new(&self.host.path, self.toolchain.root())
            // All of the cache's objects: another build may put a new folder in the place of one of these.
            .reads(self.objects.iter().filter_map(|object| object.ancestors().nth(2)))
            .reads(self.libraries)
            .writes(folder)
            .output(&mut command)
            .with_context(|| format!("cannot run {}", self.host.path.display()))?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("the objects do not link ({}):\n{}{}", output.status, said.trim(), no_room(&said, folder));
        }
        Ok(())
    }
}

/// The objects, with the placeholder replaced by the module's name.
fn named(plan: &Plan, objects: &[Made], work: &Work) -> Result<Vec<PathBuf>> {
    let name = |(at, made): (usize, &Made)| {
        if !made.unnamed {
            return Ok(made.object.clone());
        }
        let path = work.path.join(format!("{at}.o"));
        let object = fs::read(&made.object).with_context(|| format!("cannot read {}", made.object.display()))?;
        let object = rename::renamed(&object, &plan.placeholder, &plan.id)
            .with_context(|| format!("{} was changed", made.object.display()))?;
        fs::write(&path, object).with_context(|| cannot_write(&work.path))?;
        Ok(path)
    };
    objects.iter().enumerate().map(name).collect()
}

fn cannot_write(folder: &Path) -> String {
    format!("cannot write to {}; free some space there, or set KERNELS_CACHE to another folder", folder.display())
}

/// The CUDA runtime's shared object, `libcudart.so.13`.
fn cudart(toolchain: &Toolchain) -> Result<PathBuf> {
    let major = toolchain.release().map_or(0, |(major, _)| major);
    let name = format!("libcudart.so.{major}");
    let folders = &toolchain.library_dirs;
    folders.iter().map(|folder| folder.join(&name)).find(|path| path.is_file()).with_context(|| {
        let folders: Vec<_> = folders.iter().map(|f| f.display().to_string()).collect();
        format!(
            "there is no {name} in {}: CUDA's runtime belongs to nvcc {}; install it, or let `kernels toolchain \
                 install` fetch a whole one and unset CUDA_HOME",
            if folders.is_empty() {
                format!("the libraries of {}", toolchain.root().display())
            } else {
                folders.join(", ")
            },
            toolchain.version
        )
    })
}
