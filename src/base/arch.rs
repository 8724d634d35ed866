//! The GPU architectures: which are known, which are compiled for by default, what a multiprocessor has, and how they
//! are written. A new architecture is a row of [`TABLE`].

use std::fmt;

use anyhow::{Context, Result};

use super::text::{self, numbers};

/// What one multiprocessor of an architecture has.
///
/// Source: CUDA C++ Programming Guide 13.0, "Technical Specifications per Compute Capability", and the
/// allocation rules of `cuda_occupancy.h` of the same toolkit, against which a test holds this file.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Compute capability without the point: 90.
    pub(crate) arch: u32,
    /// Whether it is compiled for where neither the user nor a card says otherwise.
    pub(crate) by_default: bool,
    /// Resident warps.
    pub warps: u32,
    /// Resident blocks.
    pub blocks: u32,
    /// Bytes of shared memory, with the largest carve-out of L1.
    pub shared: u32,
    /// Bytes of shared memory that the system reserves for each block.
    pub shared_reserved: u32,
    /// Allocation unit of shared memory, in bytes.
    pub(crate) shared_unit: u32,
    /// 32-bit registers.
    pub registers: u32,
    /// Maximum threads of a block.
    pub threads_a_block: u32,
}

const fn row(arch: u32, by_default: bool, warps: u32, blocks: u32, shared_kib: u32) -> Limits {
    // From compute capability 8.0 on, the system reserves 1 KiB for each block.
    let new = arch >= 80;
    Limits {
        arch,
        by_default,
        warps,
        blocks,
        shared: shared_kib * 1024,
        shared_reserved: if new { 1024 } else { 0 },
        shared_unit: if new { 128 } else { 256 },
        registers: 65_536,
        threads_a_block: 1024,
    }
}

/// Architecture, compiled for by default, warps, blocks, KiB of shared memory. The defaults stand for T4, A100, L4 and
/// L40S, H100, B200 and RTX PRO 6000: machine code of 8.0 runs on 8.6 and 8.7 as well, that of 10.0 on 10.3, that of 12.0
/// on 12.1, and PTX on the rest.
const TABLE: [Limits; 11] = [
    row(75, true, 32, 16, 64),
    row(80, true, 64, 32, 164),
    row(86, false, 48, 16, 100),
    row(87, false, 48, 16, 164),
    row(89, true, 48, 24, 100),
    row(90, true, 64, 32, 228),
    row(100, true, 64, 32, 228),
    row(103, false, 64, 32, 228),
    row(110, false, 48, 24, 228),
    row(120, true, 48, 24, 100),
    row(121, false, 48, 24, 100),
];

/// Every compute capability that NVIDIA has made since 5.0.
pub(crate) const EXISTING: [u32; 21] =
    [50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 88, 89, 90, 100, 101, 103, 110, 120, 121];

/// Those that kernel-builder compiles for.
pub(crate) const KERNEL_BUILDER: [u32; 13] = [70, 72, 75, 80, 86, 87, 89, 90, 100, 101, 110, 120, 121];

/// Those that code in a skill's pages is compiled for: one for each generation of instructions that such code differs in.
pub(crate) const REPRESENTATIVE: [u32; 3] = [75, 80, 90];

/// The architectures that a project can be compiled for, in rising order.
pub fn known() -> Vec<u32> {
    TABLE.iter().map(|limits| limits.arch).collect()
}

/// Those that are compiled for where nothing says otherwise, in rising order.
pub(crate) fn defaults() -> Vec<u32> {
    let rows = TABLE.iter().filter(|limits| limits.by_default);
    rows.map(|limits| limits.arch).collect()
}

/// Architectures in words: `sm_75, sm_80 and sm_90`.
pub(crate) fn named(archs: &[u32]) -> String {
    text::and(&archs.iter().map(|arch| format!("sm_{arch}")).collect::<Vec<_>>())
}

/// A compute capability as build.toml writes it: `9.0`, `9.0a`, `9.0+PTX`.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct Capability {
    /// Without the point: 90.
    pub(crate) number: u32,
    /// `a` or `f`: features of this architecture or family alone.
    pub(crate) suffix: Option<char>,
    /// Whether its PTX is kept, which the driver compiles for newer cards.
    pub(crate) ptx: bool,
}

impl Capability {
    /// Machine code alone, of the features that later architectures have as well.
    pub(crate) fn new(number: u32) -> Self {
        Self { number, suffix: None, ptx: false }
    }

    /// `9.0`, `9.0a`, `9.0+PTX`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (text, ptx) = match text.strip_suffix("+PTX") {
            Some(text) => (text, true),
            None => (text, false),
        };
        let (major, minor) = text.split_once('.')?;
        let one = Self::parse_bare(&format!("{major}{minor}"))?;
        let sound = (1..=2).contains(&major.len()) && minor.len() == 1 + one.suffix.iter().count();
        sound.then_some(Self { ptx, ..one })
    }

    /// Whether code for it runs on cards of an architecture, compiled from its PTX if need be.
    pub(crate) fn covers(self, arch: u32) -> bool {
        match self.suffix {
            None => self.number <= arch,
            Some('f') => self.number <= arch && self.number / 10 == arch / 10,
            Some(_) => self.number == arch,
        }
    }

    /// As nvcc writes it, without the point: `90`, `90a`.
    pub(crate) fn parse_bare(text: &str) -> Option<Self> {
        let digits = text.strip_suffix(['a', 'f']).unwrap_or(text);
        let sound = matches!(digits.len(), 2 | 3) && digits.bytes().all(|b| b.is_ascii_digit());
        Some(Self {
            number: digits.parse().ok().filter(|_| sound)?,
            suffix: text[digits.len()..].chars().next(),
            ptx: false,
        })
    }

    /// As nvcc writes it: `90a`.
    pub(crate) fn bare(self) -> String {
        let suffix = self.suffix.map(String::from).unwrap_or_default();
        format!("{}{suffix}", self.number)
    }

    /// `sm_90a`
    pub(crate) fn code(self) -> String {
        format!("sm_{}", self.bare())
    }

    /// What nvcc's option `-gencode` says to compile for it.
    pub(crate) fn gencode(self) -> String {
        let bare = self.bare();
        let code = if self.ptx { format!("[sm_{bare},compute_{bare}]") } else { format!("sm_{bare}") };
        format!("arch=compute_{bare},code={code}")
    }
}

/// With the point: `9.0+PTX`.
impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.number / 10, self.number % 10)?;
        if let Some(suffix) = self.suffix {
            write!(f, "{suffix}")?;
        }
        f.write_str(if self.ptx { "+PTX" } else { "" })
    }
}

impl Limits {
    /// An architecture's limits; an error that names the known ones for any other.
    pub fn of(arch: u32) -> Result<Self> {
        TABLE.into_iter().find(|limits| limits.arch == arch).with_context(|| {
            let known = numbers(&known());
            format!("architecture {arch} is not known; it is one of {known}")
        })
    }

    /// Theoretical occupancy, 0 to 1: with blocks of `threads` threads, `registers` for each thread and `shared` bytes
    /// for each block.
    pub(crate) fn occupancy(&self, registers: u32, shared: u32, threads: u32) -> f64 {
        f64::from(self.resident_blocks(registers, shared, threads) * threads.div_ceil(32)) / f64::from(self.warps)
    }

    /// How many blocks are resident at once.
    pub fn resident_blocks(&self, registers: u32, shared: u32, threads: u32) -> u32 {
        // Registers are allocated to warps in units of 256; each of the four partitions has a quarter of them.
        const UNIT: u32 = 256;
        const PARTITIONS: u32 = 4;
        let warps = threads.div_ceil(32).max(1);
        let by_warps = self.warps / warps;
        let by_registers = match (registers * 32).next_multiple_of(UNIT) {
            0 => self.blocks,
            a_warp => (self.registers / PARTITIONS / a_warp) * PARTITIONS / warps,
        };
        let by_shared = match (shared + self.shared_reserved).next_multiple_of(self.shared_unit) {
            0 => self.blocks,
            a_block => self.shared / a_block,
        };
        by_warps.min(by_registers).min(by_shared).min(self.blocks)
    }
}

#[cfg(test)]
mod tests {
    use super::Capability;

    #[test]
    fn capabilities_are_read_with_their_suffix_and_ptx() {
        for text in ["7.5", "9.0a", "10.0f", "12.0+PTX", "9.0a+PTX"] {
            assert_eq!(Capability::parse(text).unwrap().to_string(), text);
        }
        for text in ["", "9", "90", "9.0af", "9.10", "123.0", "9.0b", "+9.0", "9.a", "9.0 "] {
            assert_eq!(Capability::parse(text), None, "{text}");
        }
        assert_eq!(Capability::parse_bare("90a").unwrap().bare(), "90a");
        assert_eq!(Capability::parse_bare("9.0"), None);
    }

    #[test]
    fn gencodes_are_as_nvcc_reads_them() {
        let of = |text| Capability::parse(text).unwrap().gencode();
        assert_eq!(of("9.0a"), "arch=compute_90a,code=sm_90a");
        assert_eq!(of("12.0+PTX"), "arch=compute_120,code=[sm_120,compute_120]");
    }
}
