//! `kernels_harness._native`: what the Python package is a face of. Reports cross as JSON; the package makes typed
//! objects of them.

mod clock;
mod dlpack;
mod error;
mod project;

use std::ffi::OsString;

use include_dir::include_dir;
use kernels::base::bundle::{self, Bundle};
use pyo3::prelude::*;

/// The files that `skills` and `init` install, as in the command's src/main.rs.
static BUNDLE: Bundle = Bundle {
    skills: include_dir!("$CARGO_MANIFEST_DIR/../skills"),
    kernels: include_dir!("$CARGO_MANIFEST_DIR/../kernels"),
    scaffold: include_dir!("$CARGO_MANIFEST_DIR/../scaffold"),
    revision: if let Some(packager) = option_env!("KERNELS_REVISION") {
        Some(packager)
    } else {
        kernels_revision::revision!("..")
    },
};

/// Runs a command line (without the program's name) and prints nothing: returns whether its exit code would be 0, and its
/// output with --json.
#[pyfunction]
fn call(py: Python<'_>, arguments: Vec<OsString>) -> (bool, String) {
    let called = py.detach(|| kernels::command::call(arguments));
    (called.done, called.report.to_string())
}

/// The GPUs of this machine, as JSON.
#[pyfunction]
fn cards() -> PyResult<String> {
    let cards = kernels::gpu::probe().map_err(|why| error::gpu(&why))?;
    error::json(&cards)
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    bundle::set(&BUNDLE);
    module.add("VERSION", bundle::version())?;
    module.add("PACKAGE_VERSION", env!("CARGO_PKG_VERSION"))?;
    module.add("Error", module.py().get_type::<error::Error>())?;
    module.add("GpuError", module.py().get_type::<error::GpuError>())?;
    module.add_function(wrap_pyfunction!(call, module)?)?;
    module.add_function(wrap_pyfunction!(cards, module)?)?;
    module.add_class::<clock::Clock>()?;
    module.add_class::<project::Project>()?;
    Ok(())
}
