//! Device variables: memory of a project's modules that outlives a launch.

use std::ffi::CString;

use cudarc::driver::{result, sys};

use super::Device;
use super::driver::{GpuError, Said};

/// The variables of loaded modules, with their initial contents.
#[derive(Debug, Default)]
pub(crate) struct State(Vec<(sys::CUdeviceptr, Vec<u8>)>);

impl State {
    /// Reads the variables with these names, before the first launch.
    ///
    /// # Errors
    /// An error of the driver, or a variable that it does not find: a kernel whose variables cannot be reset must not
    /// be timed.
    pub(super) fn read(modules: &[sys::CUmodule], names: &[String]) -> Result<Self, GpuError> {
        let mut state = Self::default();
        for name in names {
            let doing = format!("finding the device variable {name}");
            let symbol = CString::new(name.as_str()).map_err(|error| GpuError::new(&doing, error.to_string()))?;
            let mut found = false;
            for module in modules {
                // SAFETY: the module is loaded.
                let Ok((address, length)) = (unsafe { result::module::get_global(*module, symbol.clone()) }) else {
                    continue;
                };
                found = true;
                let mut bytes = vec![0; length];
                // SAFETY: the driver says that the variable has `length` bytes.
                unsafe { result::memcpy_dtoh_sync(&mut bytes, address) }.said(&doing)?;
                state.0.push((address, bytes));
            }
            if !found {
                return Err(GpuError::new(
                    doing,
                    "the driver does not know it, so it cannot be reset between launches",
                ));
            }
        }
        Ok(state)
    }

    /// Writes the initial contents, in stream order.
    pub(crate) fn reset(&self, device: &Device) -> Result<(), GpuError> {
        for (address, bytes) in &self.0 {
            // SAFETY: the variable has as many bytes; from pageable memory the call returns once they are read.
            unsafe { result::memcpy_htod_async(*address, bytes, device.stream) }.said("resetting device variables")?;
        }
        Ok(())
    }

    /// Bytes of all variables.
    pub(crate) fn bytes(&self) -> usize {
        self.0.iter().map(|(_, bytes)| bytes.len()).sum()
    }
}
