//! Python exceptions with the program's messages.

use pyo3::PyErr;
use pyo3::prelude::*;

pyo3::create_exception!(
    kernels_harness,
    Error,
    pyo3::exceptions::PyException,
    "What the program would have said, and what to do next."
);
pyo3::create_exception!(kernels_harness, GpuError, Error, "The card, its driver, or what ran on it.");

/// Converts an error of the program. An exception raised by Python is passed on unchanged.
pub(crate) fn raised(error: anyhow::Error) -> PyErr {
    match error.downcast::<PyErr>() {
        Ok(error) => error,
        Err(error) if error.is::<kernels::gpu::GpuError>() => gpu(&format!("{error:#}")),
        Err(error) => Error::new_err(format!("{error:#}")),
    }
}

/// No driver, no GPU, or an error of the driver.
pub(crate) fn gpu(why: &str) -> PyErr {
    let next = if why.contains("libcuda") || why.contains("finds no card") {
        "; the clock and launches need an NVIDIA card, and `kernels doctor` says what this machine has"
    } else {
        ""
    };
    GpuError::new_err(format!("{why}{next}"))
}

/// A report for the package to read.
pub(crate) fn json(report: &impl serde::Serialize) -> PyResult<String> {
    serde_json::to_string(report).map_err(|error| Error::new_err(error.to_string()))
}
