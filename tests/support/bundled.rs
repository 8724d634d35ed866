//! The shared object of a bundled project, whose launchers a test calls on the host.

#![allow(unsafe_code, clippy::unwrap_used, reason = "tests of C functions")]

use std::path::{Path, PathBuf};

use kernels::compile;
use kernels::gpu::launcher::Library;
use kernels::project::Project;
use kernels::toolchain::Toolchain;

use super::cuda;

/// Builds `kernels/NAME` for `sm_90` and loads it.
pub fn library(name: &str) -> Library {
    // SAFETY: the library's constructors register its kernels and nothing else.
    unsafe { Library::open(&built(name)) }.unwrap()
}

/// The same for functions that are not launchers.
pub fn shared_object(name: &str) -> libloading::Library {
    // SAFETY: as above.
    unsafe { libloading::Library::new(built(name)) }.unwrap()
}

fn built(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels").join(name);
    let home = cuda::home();
    let toolchain = Toolchain {
        nvcc: home.join("bin/nvcc"),
        version: Toolchain::PINNED.to_owned(),
        origin: "the tests' cache".to_owned(),
        library_dirs: vec![home.join("lib")],
    };
    let project = Project::open(&root).unwrap();
    let build = compile::build(&project, &[90], &toolchain, false, &|_| {}).unwrap();
    build.targets[0].library.clone()
}
