//! Every candidate through nvcc for the oldest architecture and the newest; a warning is an error. Only the warnings are
//! wanted, so nothing is optimised, and the front end runs once where the text does not depend on the architecture.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::thread;

use super::suite::{Candidate, Suite};
use super::support::cuda;

/// Compiles a project; the error has the compiler's messages.
fn compile(one: &Candidate, folder: &Path) -> Result<String, String> {
    let mut command = Command::new(cuda::home().join("bin/nvcc"));
    command.args(["-std=c++17", "--Ofast-compile=max", "-c"]);
    command.args(["-Werror", "all-warnings", "-Xcompiler", "-fPIC,-Wall"]);
    if one.files().values().any(|t| t.contains("__CUDA_ARCH__")) {
        for arch in [75, 90] {
            command.args(["-gencode", &format!("arch=compute_{arch},code=sm_{arch}")]);
        }
    } else {
        command.args(["-gencode", "arch=compute_75,code=[sm_75,sm_90]"]);
    }
    let out = command.arg("-o").arg(folder.join("candidate.o")).arg(folder.join("candidate.cu")).output().unwrap();
    let said = String::from_utf8_lossy(&out.stdout) + String::from_utf8_lossy(&out.stderr);
    if out.status.success() && said.trim().is_empty() { Ok(String::new()) } else { Err(said.into_owned()) }
}

/// Compiles what has changed since it was last compiled.
pub fn all(suite: &Suite) {
    // One per source and define: dtypes and formulas are in kernel.toml, which no compiler reads.
    let todo: BTreeMap<(String, Option<String>), Candidate> =
        suite.candidates().into_iter().map(|one| ((one.source.clone(), one.define.clone()), one)).collect();
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
                    let files = one.files();
                    let mut input: Vec<&[u8]> = vec![b"cheats 1"];
                    for (name, text) in files.iter().filter(|(name, _)| !name.ends_with(".toml")) {
                        input.extend([name.as_bytes(), text.as_bytes()]);
                    }
                    let made = || compile(&one, &one.write(scratch.path()));
                    if let Err(said) = cuda::remembered(&input, made) {
                        let said = format!("{}:\n{said}", one.slug());
                        complaints.lock().unwrap().push(said);
                    }
                }
            });
        }
    });
    let complaints = complaints.into_inner().unwrap();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}
