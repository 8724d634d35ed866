//! The CUDA driver: loading it, and its errors.

use std::sync::OnceLock;
use std::time::Duration;

use cudarc::driver::{result, sys};
use thiserror::Error;

/// The oldest supported CUDA version, 12.4. It introduced `cuFuncGetParamInfo`, with which the arguments of a recorded
/// launch are read.
const OLDEST: i32 = 12_040;

/// The time limit of a launch on the card, and of an answer of the recording process: `KERNELS_PATIENCE` seconds, 30 by
/// default. A kernel that runs longer is treated as one that never ends.
pub(super) fn time_limit() -> Duration {
    static SECONDS: OnceLock<u64> = OnceLock::new();
    let seconds = SECONDS.get_or_init(|| {
        let set = std::env::var("KERNELS_PATIENCE").ok();
        set.and_then(|text| text.parse().ok()).filter(|seconds| *seconds > 0).unwrap_or(30)
    });
    Duration::from_secs(*seconds)
}

/// A failed call of the driver.
#[derive(Clone, Debug, Error)]
#[error("{doing}: {said}")]
pub struct GpuError {
    /// The operation that failed.
    pub(crate) doing: String,
    /// The driver's text and name of the error, or what the harness found.
    pub(crate) said: String,
    /// Whether the CUDA context is lost, as after an illegal access, a trap or a time-out.
    pub(crate) sticky: bool,
}

impl GpuError {
    pub(super) fn new(doing: impl Into<String>, said: impl Into<String>) -> Self {
        Self { doing: doing.into(), said: said.into(), sticky: false }
    }

    /// A time-out. The context counts as lost: a kernel that does not end blocks it.
    pub(super) fn time_out(doing: impl Into<String>, seconds: u64) -> Self {
        Self { doing: doing.into(), said: format!("not finished after {seconds} s"), sticky: true }
    }
}

/// Converts a driver error to a [`GpuError`], which says what was being done.
pub(super) trait Said<T> {
    fn said(self, doing: &str) -> Result<T, GpuError>;
}

impl<T> Said<T> for Result<T, result::DriverError> {
    fn said(self, doing: &str) -> Result<T, GpuError> {
        self.map_err(|error| {
            use sys::CUresult as R;
            let text = |found: Result<&std::ffi::CStr, _>| {
                found.map_or_else(|_: result::DriverError| String::new(), |text| text.to_string_lossy().into_owned())
            };
            let said = format!("{} ({})", text(error.error_string()), text(error.error_name()));
            let sticky = matches!(
                error.0,
                R::CUDA_ERROR_ILLEGAL_ADDRESS
                    | R::CUDA_ERROR_LAUNCH_FAILED
                    | R::CUDA_ERROR_LAUNCH_TIMEOUT
                    | R::CUDA_ERROR_MISALIGNED_ADDRESS
                    | R::CUDA_ERROR_ILLEGAL_INSTRUCTION
                    | R::CUDA_ERROR_INVALID_ADDRESS_SPACE
                    | R::CUDA_ERROR_INVALID_PC
                    | R::CUDA_ERROR_HARDWARE_STACK_ERROR
                    | R::CUDA_ERROR_ASSERT
                    | R::CUDA_ERROR_ECC_UNCORRECTABLE
                    | R::CUDA_ERROR_CONTEXT_IS_DESTROYED
            );
            GpuError { doing: doing.to_owned(), said, sticky }
        })
    }
}

impl Said<()> for sys::CUresult {
    fn said(self, doing: &str) -> Result<(), GpuError> {
        self.result().said(doing)
    }
}

/// Loads the driver; returns the CUDA version that it supports (13000 is 13.0).
pub(super) fn load() -> Result<i32, GpuError> {
    const DOING: &str = "loading the NVIDIA driver";
    // SAFETY: only tests whether the library can be opened.
    if !unsafe { sys::is_culib_present() } {
        return Err(GpuError::new(DOING, "libcuda.so.1 cannot be loaded: this machine has no NVIDIA driver"));
    }
    result::init().said(DOING)?;
    let mut version = 0;
    // SAFETY: writes one int.
    unsafe { sys::cuDriverGetVersion(&raw mut version) }.said(DOING)?;
    if version < OLDEST {
        return Err(GpuError::new(
            DOING,
            format!(
                "it supports CUDA {}.{}, and 12.4 or later is needed: update the driver",
                version / 1000,
                version % 1000 / 10
            ),
        ));
    }
    Ok(version)
}
