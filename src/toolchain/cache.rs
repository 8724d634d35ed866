//! The cache folder: installed toolchains and compiled objects.

use std::env;
use std::path::PathBuf;

use super::ToolchainError;

/// `$KERNELS_CACHE`, else `$XDG_CACHE_HOME/kernels`, else `~/.cache/kernels`. Absolute.
pub(crate) fn folder() -> Result<PathBuf, ToolchainError> {
    let named = env::var_os("KERNELS_CACHE").filter(|value| !value.is_empty());
    if let Some(folder) = named {
        return std::path::absolute(&folder).map_err(|error| {
            ToolchainError(format!("KERNELS_CACHE={} is not a path: {error}", folder.to_string_lossy()))
        });
    }
    let caches = dirs::cache_dir().filter(|folder| folder.is_absolute());
    caches
        .map(|folder| folder.join("kernels"))
        .ok_or_else(|| ToolchainError("no cache folder: HOME is not set; set KERNELS_CACHE to a folder".to_owned()))
}
