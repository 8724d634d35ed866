//! For which cards a kernel is compiled: machine code, and PTX for cards that are newer.

use std::fmt;

use anyhow::{Result, bail};

use crate::project::KernelTable;

/// A compute capability to compile for.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) struct Arch {
    /// Without the point: 90.
    pub(super) number: u32,
    /// `a` or `f`: features of this architecture or family alone.
    pub(super) suffix: Option<char>,
    /// Whether its PTX is kept, which the driver compiles for a newer card.
    pub(super) ptx: bool,
}

/// What is compiled for where the project does not say. Machine code of 8.0 runs on 8.6 and 8.9 as well, and the PTX
/// of 9.0 becomes machine code of whatever comes after it.
const DEFAULT: [u32; 3] = [75, 80, 90];

impl Arch {
    fn plain(number: u32) -> Self {
        Self {
            number,
            suffix: None,
            ptx: false,
        }
    }

    /// `9.0`, `9.0a`, `9.0+PTX`; the reader of build.toml lets nothing else through.
    fn parse(text: &str) -> Option<Self> {
        let (text, ptx) = match text.strip_suffix("+PTX") {
            Some(text) => (text, true),
            None => (text, false),
        };
        let digits = text.trim_end_matches(['a', 'f']);
        Some(Self {
            number: digits.replace('.', "").parse().ok()?,
            suffix: text[digits.len()..].chars().next(),
            ptx,
        })
    }

    /// nvcc's option.
    pub(super) fn gencode(self) -> String {
        let Self { number, ptx, .. } = self;
        let suffix = self.suffix.map(String::from).unwrap_or_default();
        let code = if ptx {
            format!("[sm_{number}{suffix},compute_{number}{suffix}]")
        } else {
            format!("sm_{number}{suffix}")
        };
        format!("-gencode=arch=compute_{number}{suffix},code={code}")
    }
}

/// As metadata.json has it: `9.0+PTX`.
impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.number / 10, self.number % 10)?;
        if let Some(suffix) = self.suffix {
            write!(f, "{suffix}")?;
        }
        f.write_str(if self.ptx { "+PTX" } else { "" })
    }
}

/// What a kernel is compiled for, in rising order: its `cuda-capabilities` or the usual ones, of these `asked` if any
/// are, and none that this CUDA no longer compiles for.
///
/// The PTX of the newest without a suffix is kept, unless the project says of which: it costs some bytes, and without
/// it the kernel would end with the cards of today.
pub(super) fn of(kernel: &KernelTable, asked: &[u32], cuda: u32) -> Result<Vec<Arch>> {
    let named: Vec<Arch> = kernel
        .capabilities
        .iter()
        .filter_map(|text| Arch::parse(text))
        .collect();
    let listed = !named.is_empty();
    let mut archs = if listed {
        named
    } else if asked.is_empty() {
        DEFAULT.map(Arch::plain).to_vec()
    } else {
        asked.iter().copied().map(Arch::plain).collect()
    };
    let all = archs.clone();
    archs.retain(|arch| {
        (asked.is_empty() || asked.contains(&arch.number)) && arch.number >= oldest(cuda)
    });
    if archs.is_empty() {
        let all: Vec<_> = all.iter().map(Arch::to_string).collect();
        let name = &kernel.name;
        if asked.is_empty() {
            bail!(
                "[kernel.{name}] is for {} alone, and CUDA {cuda} compiles for {}.{} and later: use an older CUDA, or \
                 add a newer capability to cuda-capabilities",
                all.join(", "),
                oldest(cuda) / 10,
                oldest(cuda) % 10
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

/// The oldest architecture that a CUDA compiles for.
fn oldest(cuda: u32) -> u32 {
    if cuda >= 13 { 75 } else { 50 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(capabilities: &[&str], asked: &[u32], cuda: u32) -> Result<String> {
        let kernel = KernelTable {
            name: "k".to_owned(),
            capabilities: capabilities.iter().map(|&text| text.to_owned()).collect(),
            ..KernelTable::default()
        };
        let archs = of(&kernel, asked, cuda)?;
        let texts: Vec<_> = archs.iter().map(Arch::to_string).collect();
        Ok(texts.join(" "))
    }

    #[test]
    fn the_newest_without_a_suffix_keeps_its_ptx() {
        assert_eq!(shown(&[], &[], 13).unwrap(), "7.5 8.0 9.0+PTX");
        assert_eq!(shown(&[], &[90, 80], 13).unwrap(), "8.0 9.0+PTX");
        assert_eq!(
            shown(&["9.0a", "8.0", "12.0"], &[], 13).unwrap(),
            "8.0 9.0a 12.0+PTX"
        );
        assert_eq!(shown(&["9.0a"], &[], 13).unwrap(), "9.0a");
        assert_eq!(shown(&["9.0", "8.0+PTX"], &[], 13).unwrap(), "8.0+PTX 9.0");
    }

    #[test]
    fn what_a_cuda_cannot_compile_for_is_left_out_and_nothing_left_is_an_error() {
        assert_eq!(shown(&["7.0", "8.0"], &[], 13).unwrap(), "8.0+PTX");
        assert_eq!(shown(&["7.0", "8.0"], &[], 12).unwrap(), "7.0 8.0+PTX");
        assert!(
            shown(&["7.0"], &[], 13)
                .unwrap_err()
                .to_string()
                .contains("7.0")
        );
        let none = shown(&["9.0a"], &[80], 13).unwrap_err().to_string();
        assert!(
            none.contains("--arch 80") && none.contains("9.0a"),
            "{none}"
        );
    }

    #[test]
    fn gencodes_are_as_nvcc_reads_them() {
        let of = |text| Arch::parse(text).unwrap().gencode();
        assert_eq!(of("9.0a"), "-gencode=arch=compute_90a,code=sm_90a");
        assert_eq!(
            of("12.0+PTX"),
            "-gencode=arch=compute_120,code=[sm_120,compute_120]"
        );
    }
}
