//! The folder for what can be made again: the installed toolchain, and compiled objects.

use std::env;
use std::path::PathBuf;

use super::ToolchainError;

/// `$KERNELS_CACHE`, else `$XDG_CACHE_HOME/kernels`, else `~/.cache/kernels`. Absolute.
pub fn folder() -> Result<PathBuf, ToolchainError> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    if let Some(folder) = set("KERNELS_CACHE") {
        return std::path::absolute(&folder).map_err(|error| {
            ToolchainError(format!(
                "KERNELS_CACHE={} is no path: {error}",
                folder.to_string_lossy()
            ))
        });
    }
    // The XDG specification has relative paths ignored.
    let xdg = set("XDG_CACHE_HOME")
        .map(PathBuf::from)
        .filter(|path| path.is_absolute());
    let caches = xdg.or_else(|| Some(dirs_home()?.join(".cache")));
    caches.map(|folder| folder.join("kernels")).ok_or_else(|| {
        ToolchainError("no cache folder: HOME is not set; set KERNELS_CACHE to a folder".to_owned())
    })
}

fn dirs_home() -> Option<PathBuf> {
    env::home_dir().filter(|home| home.is_absolute())
}
