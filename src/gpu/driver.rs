//! The CUDA driver: whether it is there, and its errors.

use std::sync::OnceLock;
use std::time::Duration;

use cudarc::driver::{result, sys};
use thiserror::Error;

use super::Card;

/// The oldest CUDA version a driver may speak: `cuFuncGetParamInfo`, by which launches are recorded, came with it.
const OLDEST: i32 = 12_040;

/// How long a launch on the card, or an answer of the recording process, is waited for: `KERNELS_PATIENCE` seconds,
/// else 30. A kernel that runs longer is taken for one that never ends.
pub(super) fn patience() -> Duration {
    static SECONDS: OnceLock<u64> = OnceLock::new();
    let seconds = SECONDS.get_or_init(|| {
        let set = std::env::var("KERNELS_PATIENCE").ok();
        set.and_then(|text| text.parse().ok())
            .filter(|seconds| *seconds > 0)
            .unwrap_or(30)
    });
    Duration::from_secs(*seconds)
}

/// What the driver said, and to what.
#[derive(Clone, Debug, Error)]
#[error("{doing}: {said}")]
pub struct GpuError {
    /// What was tried.
    pub doing: String,
    /// The driver's name for the error, with its text.
    pub said: String,
    /// Whether the context is lost: an illegal access, a trap, a time-out.
    pub sticky: bool,
}

impl GpuError {
    pub(super) fn new(doing: impl Into<String>, said: impl Into<String>) -> Self {
        Self {
            doing: doing.into(),
            said: said.into(),
            sticky: false,
        }
    }

    /// A kernel that did not end in time holds the context like a crash.
    pub(super) fn time_out(doing: impl Into<String>, seconds: u64) -> Self {
        Self {
            doing: doing.into(),
            said: format!("not finished after {seconds} s"),
            sticky: true,
        }
    }
}

/// Turns a driver's result into ours.
pub(super) trait Said<T> {
    fn said(self, doing: &str) -> Result<T, GpuError>;
}

impl<T> Said<T> for Result<T, result::DriverError> {
    fn said(self, doing: &str) -> Result<T, GpuError> {
        self.map_err(|error| {
            use sys::CUresult as R;
            let text = |found: Result<&std::ffi::CStr, _>| {
                found.map_or_else(
                    |_: result::DriverError| String::new(),
                    |text| text.to_string_lossy().into_owned(),
                )
            };
            let said = format!(
                "{} ({})",
                text(error.error_string()),
                text(error.error_name())
            );
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
            GpuError {
                doing: doing.to_owned(),
                said,
                sticky,
            }
        })
    }
}

impl Said<()> for sys::CUresult {
    fn said(self, doing: &str) -> Result<(), GpuError> {
        self.result().said(doing)
    }
}

/// Loads the driver, once; answers the CUDA version that it speaks (13000 is 13.0).
pub(super) fn load() -> Result<i32, GpuError> {
    const DOING: &str = "loading the NVIDIA driver";
    // SAFETY: only looks whether the library can be opened.
    if !unsafe { sys::is_culib_present() } {
        return Err(GpuError::new(
            DOING,
            "libcuda.so.1 is not there: this machine has no NVIDIA driver",
        ));
    }
    result::init().said(DOING)?;
    let mut version = 0;
    // SAFETY: writes one int.
    unsafe { sys::cuDriverGetVersion(&raw mut version) }.said(DOING)?;
    if version < OLDEST {
        return Err(GpuError::new(
            DOING,
            format!(
                "it speaks CUDA {}.{}; 12.4 or later is needed, so update the driver",
                version / 1000,
                version % 1000 / 10
            ),
        ));
    }
    Ok(version)
}

/// The cards of this machine.
///
/// # Errors
/// A sentence for people: no driver, too old a driver, no card.
pub fn probe() -> Result<Vec<Card>, String> {
    let version = load().map_err(|error| error.said)?;
    let count = result::device::get_count().map_err(|error| error.to_string())?;
    if count == 0 {
        return Err("the driver finds no card".to_owned());
    }
    (0..count)
        .map(|ordinal| super::card::describe(ordinal, version).map_err(|error| error.to_string()))
        .collect()
}
