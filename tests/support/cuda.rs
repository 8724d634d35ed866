//! A CUDA compiler for tests: the one that `CUDA_HOME` names if it is the pinned one, else `kernels toolchain install`
//! puts it into the test cache, once for all test programs (the install itself lets one go first).

#![allow(dead_code, reason = "every test target uses its own part of this")]
#![allow(clippy::unwrap_used, unreachable_pub, reason = "a helper that fails is a test that fails")]

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::{env, fs};

use sha2::{Digest as _, Sha256};

use super::{hex, program};

/// The folder above nvcc's `bin`.
pub fn home() -> PathBuf {
    static HOME: OnceLock<PathBuf> = OnceLock::new();
    HOME.get_or_init(find).clone()
}

fn find() -> PathBuf {
    if let Some(home) = env::var_os("CUDA_HOME").map(PathBuf::from) {
        let said = Command::new(home.join("bin/nvcc")).arg("--version").output().unwrap();
        if String::from_utf8_lossy(&said.stdout).contains("V13.0.88") {
            return home;
        }
    }
    let cache = cache();
    let installed = Command::new(program())
        .args(["toolchain", "install"])
        .env("KERNELS_CACHE", &cache)
        .env_remove("CUDA_HOME")
        .env_remove("CUDA_PATH")
        .output()
        .unwrap();
    assert!(installed.status.success(), "the tests need the CUDA compiler: {installed:?}");
    cache.join("toolchain-13.0.88/nvidia/cu13")
}

/// The tests' cache.
pub fn cache() -> PathBuf {
    let set = |name| env::var_os(name).map(PathBuf::from);
    set("KERNELS_TEST_CACHE")
        .or_else(|| set("XDG_CACHE_HOME").map(|caches| caches.join("kernels-tests")))
        .unwrap_or_else(|| set("HOME").unwrap().join(".cache/kernels-tests"))
        .join("cuda")
}

/// What `tests/debian` unpacks, or why it cannot.
pub fn debian(name: &str) -> Result<PathBuf, String> {
    unpacked("tests/debian", &[name])
}

/// A toolkit of CUDA 12, for `CUDA_HOME`, or why there is none.
pub fn cuda12() -> Result<PathBuf, String> {
    unpacked("tests/cuda12", &[])
}

fn unpacked(script: &str, arguments: &[&str]) -> Result<PathBuf, String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(script);
    let unpacked = Command::new(script).args(arguments).output().unwrap();
    if unpacked.status.success() {
        Ok(String::from_utf8(unpacked.stdout).unwrap().trim().into())
    } else {
        Err(String::from_utf8_lossy(&unpacked.stderr).trim().to_owned())
    }
}

/// Links the compiled objects of all tests, including earlier runs, into a test's own cache folder.
pub fn share_objects(own: &Path) {
    fs::create_dir_all(own).unwrap();
    for part in ["objects", "manifests", "work"] {
        let shared = cache().join(part);
        fs::create_dir_all(&shared).unwrap();
        symlink(shared, own.join(part)).unwrap();
    }
}

/// The result of `make`, cached across runs by the input and the compilers' versions. Errors are not cached.
pub fn remembered(input: &[&[u8]], make: impl FnOnce() -> Result<String, String>) -> Result<String, String> {
    static COMPILERS: OnceLock<Vec<u8>> = OnceLock::new();
    let compilers = COMPILERS.get_or_init(|| {
        let version = |program: PathBuf| Command::new(program).arg("--version").output().unwrap();
        let mut said = version(home().join("bin/nvcc")).stdout;
        said.extend(version("g++".into()).stdout);
        said
    });
    let mut hash = Sha256::new();
    for field in input.iter().chain([&compilers.as_slice()]) {
        hash.update((field.len() as u64).to_be_bytes());
        hash.update(field);
    }
    let name = hex(&hash.finalize());
    let folder = cache().join("answers");
    let path = folder.join(name);
    if let Ok(known) = fs::read_to_string(&path) {
        return Ok(known);
    }
    let answer = make()?;
    fs::create_dir_all(&folder).unwrap();
    let fresh = tempfile::NamedTempFile::new_in(&folder).unwrap();
    fs::write(&fresh, &answer).unwrap();
    fresh.persist(path).unwrap();
    Ok(answer)
}

/// The disassembler, which ./test installs: `KERNELS_NVDISASM`, beside nvcc, or in the test cache.
pub fn nvdisasm() -> Option<PathBuf> {
    [
        env::var_os("KERNELS_NVDISASM").map(PathBuf::from),
        Some(home().join("bin/nvdisasm")),
        Some(cache().join("nvdisasm/nvidia/cu13/bin/nvdisasm")),
    ]
    .into_iter()
    .flatten()
    .find(|path| path.is_file())
}
