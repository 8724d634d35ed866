//! Finds functions with which a candidate's library would interpose those of the driver, the runtime or the C library.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use object::{Object, ObjectSymbol};

/// The interposing functions of a library, as a sentence.
pub(super) fn interposed(library: &Path) -> Result<Option<String>> {
    let own = defined(library)?;
    let mut system = BTreeSet::new();
    for path in loaded() {
        system.extend(defined(&path)?);
    }
    let found: Vec<&str> = own
        .iter()
        .map(String::as_str)
        .filter(|name| is_cuda(name) || system.contains(*name))
        .filter(|name| !EVERYWHERE.contains(name))
        .collect();
    Ok((!found.is_empty()).then(|| {
        format!(
            "the project's library defines {}, which the system or the CUDA driver defines: rename them, or make them static",
            found.join(", ")
        )
    }))
}

/// Symbols that every shared object may define.
const EVERYWHERE: [&str; 6] = ["_init", "_fini", "__bss_start", "_edata", "_end", "__data_start"];

/// Whether it is a name like `cuLaunchKernel`, `cudaMalloc`, `nvmlInit`, `__cudaRegisterFunction`.
fn is_cuda(name: &str) -> bool {
    let bare = name.trim_start_matches('_');
    ["cu", "cuda", "nvml", "cudart"]
        .iter()
        .any(|prefix| bare.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase())))
}

/// The global dynamic symbols that a shared object defines.
fn defined(path: &Path) -> Result<BTreeSet<String>> {
    let bytes = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    let file = object::File::parse(&*bytes).with_context(|| format!("reading {} as a library", path.display()))?;
    Ok(file
        .dynamic_symbols()
        .filter(|symbol| symbol.is_definition() && symbol.is_global())
        .filter_map(|symbol| symbol.name().ok().map(str::to_owned))
        .collect())
}

/// The files of the C library that this process has loaded.
fn loaded() -> Vec<PathBuf> {
    let Ok(maps) = std::fs::read_to_string("/proc/self/maps") else {
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = maps
        .lines()
        .filter_map(|line| line.split_whitespace().nth(5))
        .filter(|path| {
            let name = path.rsplit('/').next().unwrap_or("");
            ["libc.so", "libc-", "libm.so", "libpthread", "libdl", "librt", "ld-linux", "libgcc_s"]
                .iter()
                .any(|known| name.starts_with(known))
        })
        .map(PathBuf::from)
        .collect();
    paths.sort();
    paths.dedup();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_cuda_s_libraries_are_known_by_their_prefix_and_a_capital_letter() {
        for name in ["cuLaunchKernel", "cudaMalloc", "nvmlInit", "__cudaRegisterFunction", "cudartGetVersion"] {
            assert!(is_cuda(name), "{name}");
        }
        for name in ["custom_launch", "cu", "cudalike", "rms_norm_launch", "cu_Launch", "xcuLaunch"] {
            assert!(!is_cuda(name), "{name}");
        }
    }

    #[test]
    fn a_library_may_not_define_what_the_c_library_does() -> Result<()> {
        let own = loaded();
        let found = own.iter().find(|path| path.to_string_lossy().contains("/libc.so"));
        let library = found.context("this program has loaded no C library")?;
        let names = defined(library)?;
        // What it only uses is the loader's.
        assert!(names.contains("malloc") && !names.contains("__tls_get_addr"), "{} names", names.len());
        let why = interposed(library)?.context("it defines all of its own")?;
        assert!(why.contains(" malloc,") && why.contains("make them static"), "{why}");
        assert!(EVERYWHERE.iter().all(|name| !why.contains(&format!(" {name},"))), "{why}");
        Ok(())
    }
}
