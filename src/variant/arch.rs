//! Target architectures: SASS, and PTX for newer cards.

use anyhow::{Result, bail};

use crate::base::arch::{self, Capability};
use crate::project::KernelTable;

/// The architectures in ascending order: `cuda-capabilities` of the kernel, else `asked`, else the defaults; limited to
/// `asked` unless that is empty, and to those that nvcc compiles for.
///
/// PTX of the newest architecture without a suffix is embedded unless the project names another, so that the kernel runs
/// on later cards.
pub(super) fn of(kernel: &KernelTable, asked: &[u32], compiled: &[u32]) -> Result<Vec<Capability>> {
    let mut archs = if !kernel.capabilities.is_empty() {
        kernel.capabilities.clone()
    } else if asked.is_empty() {
        arch::defaults().into_iter().map(Capability::new).collect()
    } else {
        asked.iter().copied().map(Capability::new).collect()
    };
    let all = archs.clone();
    archs.retain(|arch| (asked.is_empty() || asked.contains(&arch.number)) && compiled.contains(&arch.number));
    if archs.is_empty() {
        let all: Vec<_> = all.iter().map(Capability::to_string).collect();
        let name = &kernel.name;
        if asked.is_empty() {
            bail!(
                "[kernel.{name}] is for {} alone, and nvcc compiles for {}: set CUDA_HOME to another CUDA, or add one of these \
                 to cuda-capabilities",
                all.join(", "),
                arch::named(compiled)
            );
        }
        let asked: Vec<_> = asked.iter().map(u32::to_string).collect();
        bail!(
            "--arch {} leaves nothing to compile of [kernel.{name}], whose cuda-capabilities are {}",
            asked.join(","),
            all.join(", ")
        );
    }
    archs.sort_unstable();
    archs.dedup_by_key(|arch| (arch.number, arch.suffix));
    if archs.iter().all(|arch| !arch.ptx)
        && let Some(newest) = archs.iter_mut().rfind(|arch| arch.suffix.is_none())
    {
        newest.ptx = true;
    }
    Ok(archs)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What nvcc 13.0 and 12.4 compile for.
    const CUDA_13: [u32; 12] = [75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121];
    const CUDA_12: [u32; 14] = [50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 89, 90];

    fn shown(capabilities: &[&str], asked: &[u32], compiled: &[u32]) -> Result<String> {
        let kernel = KernelTable {
            name: "k".to_owned(),
            capabilities: capabilities.iter().filter_map(|text| Capability::parse(text)).collect(),
            ..KernelTable::default()
        };
        let archs = of(&kernel, asked, compiled)?;
        let texts: Vec<_> = archs.iter().map(Capability::to_string).collect();
        Ok(texts.join(" "))
    }

    #[test]
    fn the_newest_without_a_suffix_keeps_its_ptx() {
        assert_eq!(shown(&[], &[], &CUDA_13).unwrap(), "7.5 8.0 8.9 9.0 10.0 12.0+PTX");
        assert_eq!(shown(&[], &[], &CUDA_12).unwrap(), "7.5 8.0 8.9 9.0+PTX");
        assert_eq!(shown(&[], &[90, 80], &CUDA_13).unwrap(), "8.0 9.0+PTX");
        assert_eq!(shown(&["9.0a", "8.0", "12.0"], &[], &CUDA_13).unwrap(), "8.0 9.0a 12.0+PTX");
        assert_eq!(shown(&["9.0a"], &[], &CUDA_13).unwrap(), "9.0a");
        assert_eq!(shown(&["9.0", "8.0+PTX"], &[], &CUDA_13).unwrap(), "8.0+PTX 9.0");
    }

    #[test]
    fn what_a_cuda_cannot_compile_for_is_left_out_and_nothing_left_is_an_error() {
        assert_eq!(shown(&["7.0", "8.0"], &[], &CUDA_13).unwrap(), "8.0+PTX");
        assert_eq!(shown(&["7.0", "8.0"], &[], &CUDA_12).unwrap(), "7.0 8.0+PTX");
        assert_eq!(shown(&["8.0", "9.0", "10.0", "12.0+PTX"], &[], &CUDA_12).unwrap(), "8.0 9.0+PTX");
        assert!(shown(&["7.0"], &[], &CUDA_13).unwrap_err().to_string().contains("7.0"));
        let none = shown(&["9.0a"], &[80], &CUDA_13).unwrap_err().to_string();
        assert!(none.contains("--arch 80") && none.contains("9.0a"), "{none}");
    }
}
