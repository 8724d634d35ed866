//! The limits of a multiprocessor, and how many of its warps a kernel can keep there.

use anyhow::{Context, Result};

/// What one multiprocessor of an architecture has.
///
/// Source: CUDA C++ Programming Guide 13.0, "Technical Specifications per Compute Capability", and the
/// allocation rules of `cuda_occupancy.h` of the same toolkit, against which a test holds this file.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Compute capability without the point.
    pub arch: u32,
    /// Warps that are there at once.
    pub warps: u32,
    /// Blocks that are there at once.
    pub blocks: u32,
    /// Bytes of shared memory, all carved out of L1 that can be.
    pub shared: u32,
    /// Bytes of shared memory that the system takes a block.
    pub shared_reserved: u32,
    /// Shared memory is given out in multiples of this.
    pub shared_unit: u32,
    /// 32-bit registers.
    pub registers: u32,
    /// Threads that a block may have.
    pub threads_a_block: u32,
}

const fn limits_of(arch: u32, warps: u32, blocks: u32, shared_kib: u32) -> Limits {
    // From compute capability 8.0 on, the system keeps 1 KiB a block.
    let new = arch >= 80;
    Limits {
        arch,
        warps,
        blocks,
        shared: shared_kib * 1024,
        shared_reserved: if new { 1024 } else { 0 },
        shared_unit: if new { 128 } else { 256 },
        registers: 65_536,
        threads_a_block: 1024,
    }
}

const TABLE: [Limits; 7] = [
    limits_of(75, 32, 16, 64),
    limits_of(80, 64, 32, 164),
    limits_of(86, 48, 16, 100),
    limits_of(89, 48, 24, 100),
    limits_of(90, 64, 32, 228),
    limits_of(100, 64, 32, 228),
    limits_of(120, 48, 24, 100),
];

/// The architectures that a project can be compiled for.
pub const ARCHS: [u32; 7] = [75, 80, 86, 89, 90, 100, 120];

impl Limits {
    /// An architecture's limits; an error that names all of them for one that is not known.
    pub fn of(arch: u32) -> Result<Self> {
        TABLE
            .into_iter()
            .find(|limits| limits.arch == arch)
            .with_context(|| {
                let known: Vec<_> = ARCHS.iter().map(u32::to_string).collect();
                format!(
                    "architecture {arch} is not known; it is one of {}",
                    known.join(", ")
                )
            })
    }

    /// Which part of the warps a kernel can keep there, 0 to 1: with blocks of `threads` threads, `registers` a
    /// thread and `shared` bytes a block.
    pub fn occupancy(&self, registers: u32, shared: u32, threads: u32) -> f64 {
        f64::from(self.blocks_at_once(registers, shared, threads) * threads.div_ceil(32))
            / f64::from(self.warps)
    }

    /// How many blocks are there at once.
    pub fn blocks_at_once(&self, registers: u32, shared: u32, threads: u32) -> u32 {
        // Registers go to warps in units of 256; each quarter of the multiprocessor has a quarter of them.
        const UNIT: u32 = 256;
        const QUARTERS: u32 = 4;
        let warps = threads.div_ceil(32).max(1);
        let by_warps = self.warps / warps;
        let by_registers = match (registers * 32).next_multiple_of(UNIT) {
            0 => self.blocks,
            a_warp => (self.registers / QUARTERS / a_warp) * QUARTERS / warps,
        };
        let by_shared = match (shared + self.shared_reserved).next_multiple_of(self.shared_unit) {
            0 => self.blocks,
            a_block => self.shared / a_block,
        };
        by_warps.min(by_registers).min(by_shared).min(self.blocks)
    }
}
