//! Every candidate through nvcc for the oldest architecture and the newest; a warning is an error.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread;

use kernels::toolchain::Toolchain;
use sha2::{Digest, Sha256};

use super::suite::{self, Candidate, Suite};
use super::support::cuda;

/// The compiler.
struct Nvcc {
    program: PathBuf,
    version: String,
}

impl Nvcc {
    fn find() -> Self {
        // If there is none, the tests install the pinned one.
        let program = Toolchain::find().map_or_else(
            |_| cuda::home().join("bin/nvcc"),
            |toolchain| toolchain.nvcc,
        );
        let out = Command::new(&program).arg("--version").output();
        let out = out.unwrap_or_else(|e| panic!("{}: {e}", program.display()));
        Self {
            program,
            version: String::from_utf8_lossy(&out.stdout).into_owned(),
        }
    }

    /// The compiler's messages about a project; `None` if there are none.
    fn complaints(&self, folder: &Path) -> Option<String> {
        let mut command = Command::new(&self.program);
        command.args(["-std=c++17", "-O3", "-c", "-Werror", "all-warnings"]);
        command.args(["-Xcompiler", "-fPIC,-Wall"]);
        for arch in [75, 90] {
            command.args(["-gencode", &format!("arch=compute_{arch},code=sm_{arch}")]);
        }
        let out = command
            .arg("-o")
            .arg(folder.join("candidate.o"))
            .arg(folder.join("candidate.cu"))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&out.stdout) + String::from_utf8_lossy(&out.stderr);
        (!out.status.success() || !said.trim().is_empty()).then(|| said.into_owned())
    }
}

/// Compiles what has changed since the last compilation without messages.
pub fn all(suite: &Suite) {
    let nvcc = Nvcc::find();
    let known = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cheats-compiled");
    fs::create_dir_all(&known).unwrap();
    // One per source and define: dtypes and formulas are in kernel.toml, which no compiler reads.
    let mut todo: BTreeMap<(String, Option<String>), Candidate> = suite
        .candidates()
        .into_iter()
        .map(|one| ((one.source.clone(), one.define.clone()), one))
        .collect();
    let stamp = |one: &Candidate| {
        let mut hash = Sha256::new();
        hash.update(&nvcc.version);
        for (name, text) in one.files() {
            if !name.ends_with(".toml") {
                hash.update(format!("{name}\0{text}\0"));
            }
        }
        known.join(suite::hex(&hash.finalize()))
    };
    todo.retain(|_, one| !stamp(one).exists());

    let scratch = tempfile::TempDir::with_prefix("kernels-cheats-").unwrap();
    let queue = Mutex::new(todo.into_values().collect::<Vec<_>>());
    let complaints = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let Some(one) = queue.lock().unwrap().pop() else {
                        return;
                    };
                    match nvcc.complaints(&one.write(scratch.path())) {
                        None => fs::write(stamp(&one), "").unwrap(),
                        Some(said) => {
                            let said = format!("{}:\n{said}", one.slug());
                            complaints.lock().unwrap().push(said);
                        }
                    }
                }
            });
        }
    });
    let complaints = complaints.into_inner().unwrap();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}
