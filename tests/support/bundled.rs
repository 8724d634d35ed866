//! The shared object of a bundled project, whose launchers a test calls on the host.

#![allow(unsafe_code, clippy::unwrap_used, reason = "tests of C functions")]

use std::path::Path;

use kernels::compile;
use kernels::project::Project;
use kernels::toolchain::Toolchain;
use libloading::Library;

use super::cuda;

/// Builds `kernels/NAME` for `sm_90` and loads it.
pub(super) fn library(name: &str) -> Library {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("kernels")
        .join(name);
    let home = cuda::home();
    let toolchain = Toolchain {
        nvcc: home.join("bin/nvcc"),
        version: Toolchain::PINNED.to_owned(),
        origin: "the tests' cache".to_owned(),
        library_dirs: vec![home.join("lib")],
    };
    let project = Project::open(&root).unwrap();
    let build = compile::build(&project, &[90], &toolchain, false, &|_| {}).unwrap();
    // SAFETY: the library's constructors register its kernels and nothing else.
    unsafe { Library::new(&build.targets[0].library) }.unwrap()
}
