//! Device code: cubins, or PTX that the driver compiles.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{CString, c_void};

use cudarc::driver::{result, sys};

use super::driver::{GpuError, Said};
use super::{Device, Launch, State};

/// The modules of one code path of a project.
#[derive(Debug)]
pub(crate) struct Modules {
    modules: Vec<sys::CUmodule>,
    functions: RefCell<HashMap<String, sys::CUfunction>>,
}

impl Modules {
    /// Loads images, each with a name for errors: cubins, or PTX.
    pub(crate) fn load(_device: &Device, images: &[(String, Vec<u8>)]) -> Result<Self, GpuError> {
        const DOING: &str = "loading device code";
        let context = result::ctx::get_current().said(DOING)?;
        let context = context.map_or(0, |context| context as usize);
        // The driver compiles PTX on the thread that loads it: one thread per image.
        let handles: Vec<Result<usize, GpuError>> = std::thread::scope(|scope| {
            let threads: Vec<_> = images
                .iter()
                .map(|(name, image)| {
                    scope.spawn(move || {
                        // PTX must end with a zero byte; a cubin may.
                        let mut bytes = image.clone();
                        bytes.push(0);
                        // SAFETY: the context is the caller's and outlives the scope; the driver copies the image.
                        unsafe {
                            result::ctx::set_current(context as sys::CUcontext).said(DOING)?;
                            result::module::load_data(bytes.as_ptr().cast::<c_void>())
                        }
                        .said(&format!("loading {name}"))
                        .map(|module| module as usize)
                    })
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|_| Err(GpuError::new(DOING, "its thread died"))))
                .collect()
        });
        let mut loaded = Self { modules: Vec::new(), functions: RefCell::default() };
        let mut failed = None;
        for handle in handles {
            match handle {
                Ok(module) => loaded.modules.push(module as sys::CUmodule),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(loaded), Err)
    }

    fn function(&self, symbol: &str) -> Option<sys::CUfunction> {
        if let Some(found) = self.functions.borrow().get(symbol) {
            return Some(*found);
        }
        let name = CString::new(symbol).ok()?;
        let found = self.modules.iter().find_map(|module| {
            // SAFETY: the module is loaded; an unknown name gives an error.
            unsafe { result::module::get_function(*module, name.clone()) }.ok()
        })?;
        self.functions.borrow_mut().insert(symbol.to_owned(), found);
        Some(found)
    }

    /// The device variables with these names.
    pub(crate) fn state(&self, names: &[String]) -> Result<State, GpuError> {
        State::read(&self.modules, names)
    }

    /// Whether one of the modules has the kernel.
    pub(crate) fn has(&self, symbol: &str) -> bool {
        self.function(symbol).is_some()
    }

    /// Repeats a recorded launch on the device's stream, with the recorded bytes as arguments.
    pub(crate) fn launch(&self, device: &Device, launch: &Launch) -> Result<(), GpuError> {
        let doing = format!("launching {}", launch.symbol);
        let function = self
            .function(&launch.symbol)
            .ok_or_else(|| GpuError::new(&doing, "no such kernel in the project's code"))?;
        for (attribute, value) in &launch.function {
            let Some(attribute) = super::capture::function_attribute(*attribute) else {
                continue;
            };
            // SAFETY: the function is alive.
            unsafe { result::function::set_function_attribute(function, attribute, *value) }.said(&doing)?;
        }
        check_sizes(function, launch, &doing)?;
        let mut attributes: Vec<sys::CUlaunchAttribute> =
            launch.attributes.iter().filter_map(|(id, bytes)| super::capture::attribute(*id, bytes)).collect();
        let mut arguments: Vec<*mut c_void> =
            launch.arguments.iter().map(|bytes| bytes.as_ptr().cast_mut().cast::<c_void>()).collect();
        let config = sys::CUlaunchConfig {
            gridDimX: launch.grid[0],
            gridDimY: launch.grid[1],
            gridDimZ: launch.grid[2],
            blockDimX: launch.block[0],
            blockDimY: launch.block[1],
            blockDimZ: launch.block[2],
            sharedMemBytes: launch.shared,
            hStream: device.stream,
            attrs: attributes.as_mut_ptr(),
            numAttrs: u32::try_from(attributes.len()).unwrap_or(0),
        };
        // SAFETY: number and sizes of the arguments match the function's; the driver copies them.
        unsafe { sys::cuLaunchKernelEx(&raw const config, function, arguments.as_mut_ptr(), std::ptr::null_mut()) }
            .said(&doing)
    }
}

/// Checks the number and sizes of the recorded arguments against the function's parameters: the driver would read past
/// the end of an argument that is too short.
fn check_sizes(function: sys::CUfunction, launch: &Launch, doing: &str) -> Result<(), GpuError> {
    let mut index = 0;
    loop {
        let (mut offset, mut size) = (0, 0);
        // SAFETY: writes two numbers.
        let known = unsafe { sys::cuFuncGetParamInfo(function, index, &raw mut offset, &raw mut size) };
        if known != sys::CUresult::CUDA_SUCCESS {
            break;
        }
        match launch.arguments.get(index) {
            Some(bytes) if bytes.len() == size => index += 1,
            other => {
                return Err(GpuError::new(
                    doing,
                    format!(
                        "argument {index} has {size} bytes, and in the recording {}",
                        other.map_or("none".to_owned(), |bytes| bytes.len().to_string())
                    ),
                ));
            }
        }
    }
    if index == launch.arguments.len() {
        Ok(())
    } else {
        Err(GpuError::new(doing, format!("it has {index} arguments, and in the recording {}", launch.arguments.len())))
    }
}

impl Drop for Modules {
    fn drop(&mut self) {
        for module in &self.modules {
            // SAFETY: loaded by `load`, unloaded once, and no function of it is used after.
            let _ = unsafe { result::module::unload(*module) };
        }
    }
}
