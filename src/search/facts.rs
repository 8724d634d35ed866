//! What the compiled code says of itself: each kernel's figures and opcodes, and the cell of the archive that follows
//! from them.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::compile::{Accesses, Build, Kernel, Opcodes, opcodes};

/// All kernels of a candidate, for one architecture.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Facts {
    pub(crate) arch: u32,
    pub(crate) kernels: Vec<KernelFacts>,
}

/// One kernel.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct KernelFacts {
    pub(crate) source: String,
    #[serde(flatten)]
    pub(crate) kernel: Kernel,
    pub(crate) opcodes: Opcodes,
}

/// The cell of a candidate in the archive. Candidates of different cells solve the task in different ways, and do not
/// displace each other.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
pub(crate) struct Features {
    /// Whether any kernel has tensor instructions.
    pub(crate) tensor: bool,
    /// How memory is brought to shared memory: 0 through registers, 1 by `cp.async`, 2 by bulk copies.
    pub(crate) copies: u8,
    /// Thirds of global accesses that have 16 bytes: 0 to 2.
    pub(crate) wide: u8,
    /// The most registers of a thread: 0 to 64, to 128, more.
    pub(crate) registers: u8,
    /// The most shared memory of a block: 0 none, 1 up to 16 KiB, 2 more.
    pub(crate) shared: u8,
}

impl Features {
    /// In a few words, for tables: `tensor cp.async 16B:2 regs:0 smem:1`.
    pub(crate) fn words(self) -> String {
        let tensor = if self.tensor { "tensor " } else { "" };
        let copies = ["registers", "cp.async", "bulk"][usize::from(self.copies.min(2))];
        format!("{tensor}{copies} 16B:{} regs:{} smem:{}", self.wide, self.registers, self.shared)
    }
}

impl Facts {
    /// Those of the one architecture that was compiled.
    pub(crate) fn of(build: &Build) -> Result<Self> {
        let target = build.targets.last().context("the build has no architecture")?;
        let mut kernels = Vec::new();
        for unit in &target.units {
            let cubin = fs::read(&unit.cubin).with_context(|| format!("cannot read {}", unit.cubin.display()))?;
            let counts: BTreeMap<String, Opcodes> = opcodes(&cubin, target.arch)?;
            let source = unit.source.to_string_lossy().into_owned();
            kernels.extend(unit.kernels.iter().map(|kernel| KernelFacts {
                source: source.clone(),
                opcodes: counts.get(&kernel.symbol).copied().unwrap_or_default(),
                kernel: kernel.clone(),
            }));
        }
        Ok(Self { arch: target.arch, kernels })
    }

    pub(crate) fn features(&self) -> Features {
        let most = |of: fn(&KernelFacts) -> u32| self.kernels.iter().map(of).max().unwrap_or(0);
        let accesses = self.accesses();
        let thirds = (u64::from(accesses.wide) * 3).checked_div(u64::from(accesses.all)).unwrap_or(0).min(2);
        Features {
            tensor: most(|one| one.opcodes.tensor) > 0,
            copies: match (most(|one| one.opcodes.bulk), most(|one| one.opcodes.copies)) {
                (1.., _) => 2,
                (_, 1..) => 1,
                _ => 0,
            },
            wide: u8::try_from(thirds).unwrap_or(2),
            registers: match most(|one| one.kernel.registers) {
                0..=64 => 0,
                65..=128 => 1,
                _ => 2,
            },
            shared: match most(|one| one.kernel.shared) {
                0 => 0,
                1..=16384 => 1,
                _ => 2,
            },
        }
    }

    /// Loads and stores of all kernels.
    pub(crate) fn accesses(&self) -> Accesses {
        let mut sum = Accesses::default();
        for one in self.kernels.iter().flat_map(|one| [one.kernel.loads, one.kernel.stores]) {
            sum.all += one.all;
            sum.wide += one.wide;
        }
        sum
    }
}
