//! How wide a kernel's global accesses are, read from the machine code itself.
//!
//! Every instruction from sm_70 on has 16 bytes. The opcode is in bits 0 to 11 of the first word; bits 73 to 75
//! say how wide a load or store is. The tests hold this against nvdisasm for every architecture of
//! [`super::ARCHS`].

use super::Accesses;

/// What an instruction does to global memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Access {
    Load { bytes: u32 },
    Store { bytes: u32 },
}

/// The loads and the stores of a kernel's code.
pub(super) fn accesses(code: &[u8]) -> (Accesses, Accesses) {
    let (mut loads, mut stores) = (Accesses::default(), Accesses::default());
    for access in code.as_chunks().0.iter().filter_map(decode) {
        let (count, bytes) = match access {
            Access::Load { bytes } => (&mut loads, bytes),
            Access::Store { bytes } => (&mut stores, bytes),
        };
        count.all += 1;
        count.wide += u32::from(bytes >= 16);
    }
    (loads, stores)
}

/// One instruction.
pub(super) fn decode(instruction: &[u8; 16]) -> Option<Access> {
    let word = u128::from_le_bytes(*instruction);
    let opcode = word & 0xfff;
    let bytes = match (word >> 73) & 7 {
        0 | 1 => 1,
        2 | 3 => 2,
        4 => 4,
        5 => 8,
        6 => 16,
        _ => 32,
    };
    match opcode {
        LDG | LDG_UNIFORM | LD | LD_UNIFORM | LDGSTS => Some(Access::Load { bytes }),
        STG | STG_UNIFORM | ST | ST_UNIFORM => Some(Access::Store { bytes }),
        _ => None,
    }
}

const LDG: u128 = 0x381;
const LDG_UNIFORM: u128 = 0x981;
const STG: u128 = 0x386;
const STG_UNIFORM: u128 = 0x986;
const LD: u128 = 0x380;
const LD_UNIFORM: u128 = 0x980;
const ST: u128 = 0x385;
const ST_UNIFORM: u128 = 0x985;
const LDGSTS: u128 = 0xfae;
