//! Counts a kernel's global accesses by width in the machine code.
//!
//! From `sm_70` on every instruction has 16 bytes. Bits 0 to 8 are the opcode (9 to 11: the operand form); for loads and
//! stores bits 73 to 75 encode the width. The encoding was derived from nvdisasm's output for every architecture of
//! [`crate::base::arch`]; tests/cuda/build.rs compares the counts with nvdisasm's.

use serde::{Deserialize, Serialize};

use super::Accesses;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Access {
    Load { wide: bool },
    Store { wide: bool },
}

/// The loads and stores of a kernel. Atomics and prefetches do not count; generic accesses count, because most are global;
/// a bulk copy is one wide access.
pub(super) fn accesses(code: &[u8], arch: u32) -> (Accesses, Accesses) {
    let (mut loads, mut stores) = (Accesses::default(), Accesses::default());
    for instruction in code.as_chunks().0 {
        let (count, wide) = match decode(instruction, arch) {
            Some(Access::Load { wide }) => (&mut loads, wide),
            Some(Access::Store { wide }) => (&mut stores, wide),
            None => continue,
        };
        count.all += 1;
        count.wide += u32::from(wide);
    }
    (loads, stores)
}

fn decode(instruction: &[u8; 16], arch: u32) -> Option<Access> {
    let word = u128::from_le_bytes(*instruction);
    let field = (word >> 73) & 7;
    // 4: 32 bits, 5: 64, 6: 128, 7: 128 with `.U` on sm_75; smaller values are 8 and 16 bits.
    let wide = field >= 6;
    Some(match word & 0x1ff {
        LD | LDG => Access::Load { wide },
        ST | STG => Access::Store { wide },
        LDGSTS if (80..100).contains(&arch) => Access::Load { wide },
        // From sm_100 on 0, 2 and 4 mean 32, 64 and 128 bits.
        LDGSTS if arch >= 100 => Access::Load { wide: field == 4 },
        LDG_256 if arch >= 100 => Access::Load { wide: true },
        STG_256 if arch >= 100 => Access::Store { wide: true },
        // Direction: 1 into shared memory (5 with multicast), 2 to global memory, 3 between blocks.
        UBLKCP if arch >= 90 && field & 3 == 2 => Access::Store { wide: true },
        UBLKCP if arch >= 90 && field & 3 == 1 => Access::Load { wide: true },
        UTMALDG if arch >= 90 => Access::Load { wide: true },
        UTMASTG | UTMAREDG | UBLKRED if arch >= 90 => Access::Store { wide: true },
        _ => return None,
    })
}

const LD: u128 = 0x180;
const LDG: u128 = 0x181;
const ST: u128 = 0x185;
const STG: u128 = 0x186;
const LDG_256: u128 = 0x17e;
const STG_256: u128 = 0x17f;
const LDGSTS: u128 = 0x1ae;
const UTMALDG: u128 = 0x1b4;
const UTMASTG: u128 = 0x1b5;
const UTMAREDG: u128 = 0x1b6;
const UBLKCP: u128 = 0x1ba;
const UBLKRED: u128 = 0x1bb;

/// How many instructions of some kinds a kernel has. The encodings are those of nvdisasm's output for `sm_75` to `sm_100`.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct Opcodes {
    /// All instructions.
    pub(crate) all: u32,
    /// Of tensor cores: `HMMA`, `IMMA`, `HGMMA`, …
    pub(crate) tensor: u32,
    /// Asynchronous copies to shared memory: `LDGSTS`.
    pub(crate) copies: u32,
    /// Bulk copies: `UBLKCP`, `UTMALDG`, `UTMASTG`.
    pub(crate) bulk: u32,
    /// Atomic operations on global memory: `RED`, `ATOM`.
    pub(crate) atomics: u32,
    /// Loads and stores of local memory: `LDL`, `STL`.
    pub(crate) local: u32,
}

/// Counts them.
pub(super) fn count(code: &[u8], arch: u32) -> Opcodes {
    let mut counts = Opcodes::default();
    for instruction in code.as_chunks::<16>().0 {
        counts.all += 1;
        let kind = match u128::from_le_bytes(*instruction) & 0x1ff {
            IMMA | HMMA | BMMA | DMMA => &mut counts.tensor,
            HGMMA..=QGMMA if arch >= 90 => &mut counts.tensor,
            LDGSTS if arch >= 80 => &mut counts.copies,
            UTMALDG | UTMASTG | UBLKCP if arch >= 90 => &mut counts.bulk,
            REDG if arch >= 90 => &mut counts.atomics,
            ATOM | RED | ATOMG | ATOMG_CAS => &mut counts.atomics,
            LDL | STL => &mut counts.local,
            _ => continue,
        };
        *kind += 1;
    }
    counts
}

const IMMA: u128 = 0x037;
const HMMA: u128 = 0x03c;
const BMMA: u128 = 0x03d;
const DMMA: u128 = 0x03f;
const HGMMA: u128 = 0x1f0;
const QGMMA: u128 = 0x1f3;
const LDL: u128 = 0x183;
const STL: u128 = 0x187;
const ATOM: u128 = 0x18a;
const RED: u128 = 0x18e;
const REDG: u128 = 0x1a6;
const ATOMG: u128 = 0x1a8;
const ATOMG_CAS: u128 = 0x1a9;

#[cfg(test)]
mod tests {
    use super::*;

    fn code(instructions: &[(u128, u128)]) -> Vec<u8> {
        // Other bits are set as well: operands, and the operand form next to the opcode.
        let word = |(opcode, field): &(u128, u128)| opcode | 0xe00 | 0xab << 16 | field << 73 | 1 << 76 | 1 << 72;
        instructions.iter().flat_map(|one| word(one).to_le_bytes()).collect()
    }

    /// Loads and stores, all and wide.
    fn seen(opcode: u128, field: u128, arch: u32) -> [u32; 4] {
        let (loads, stores) = accesses(&code(&[(opcode, field)]), arch);
        [loads.all, loads.wide, stores.all, stores.wide]
    }

    #[test]
    fn an_access_is_wide_by_the_field_of_its_width() {
        const NONE: [u32; 4] = [0; 4];
        for field in 0..8 {
            let wide = u32::from(field >= 6);
            for opcode in [LD, LDG] {
                assert_eq!(seen(opcode, field, 75), [1, wide, 0, 0], "{opcode:#x} {field}");
            }
            for opcode in [ST, STG] {
                assert_eq!(seen(opcode, field, 120), [0, 0, 1, wide], "{opcode:#x} {field}");
            }
            assert_eq!(seen(LDGSTS, field, 75), NONE);
            assert_eq!(seen(LDGSTS, field, 80), [1, wide, 0, 0], "{field}");
            assert_eq!(seen(LDGSTS, field, 90), [1, wide, 0, 0], "{field}");
            assert_eq!(seen(LDGSTS, field, 100), [1, u32::from(field == 4), 0, 0], "{field}");
            let copy = [[0; 4], [1, 1, 0, 0], [0, 0, 1, 1], [0; 4]][usize::try_from(field % 4).unwrap_or(0)];
            assert_eq!(seen(UBLKCP, field, 90), copy, "{field}");
            assert_eq!(seen(UBLKCP, field, 89), NONE);
        }
        for (opcode, first, expected) in [
            (LDG_256, 100, [1, 1, 0, 0]),
            (STG_256, 100, [0, 0, 1, 1]),
            (UTMALDG, 90, [1, 1, 0, 0]),
            (UTMASTG, 90, [0, 0, 1, 1]),
            (UTMAREDG, 90, [0, 0, 1, 1]),
            (UBLKRED, 90, [0, 0, 1, 1]),
        ] {
            assert_eq!((seen(opcode, 0, first), seen(opcode, 0, first - 1)), (expected, NONE), "{opcode:#x}");
        }
        assert_eq!(seen(LDL, 6, 90), NONE);
        let (loads, stores) = accesses(&code(&[(LDG, 6), (STG, 5), (LDG, 4), (LD, 6)]), 90);
        assert_eq!((loads, stores), (Accesses { all: 3, wide: 2 }, Accesses { all: 1, wide: 0 }));
    }

    #[test]
    fn instructions_are_counted_by_kind_from_their_first_architecture_on() {
        let of = |opcode: u128, arch: u32| count(&code(&[(opcode, 0)]), arch);
        let none = Opcodes { all: 1, ..Opcodes::default() };
        let tensor = Opcodes { tensor: 1, ..none };
        let bulk = Opcodes { bulk: 1, ..none };
        let atomics = Opcodes { atomics: 1, ..none };
        for (first, expected, opcodes) in [
            (75, tensor, &[IMMA, HMMA, BMMA, DMMA][..]),
            (90, tensor, &[HGMMA, HGMMA + 1, QGMMA]),
            (80, Opcodes { copies: 1, ..none }, &[LDGSTS]),
            (90, bulk, &[UTMALDG, UTMASTG, UBLKCP]),
            (90, atomics, &[REDG]),
            (75, atomics, &[ATOM, RED, ATOMG, ATOMG_CAS]),
            (75, Opcodes { local: 1, ..none }, &[LDL, STL]),
            (75, none, &[LDG, STG, HGMMA - 1, QGMMA + 1]),
        ] {
            for &opcode in opcodes {
                assert_eq!(of(opcode, first), expected, "{opcode:#x}");
                if first > 75 {
                    assert_eq!(of(opcode, first - 1), none, "{opcode:#x} before");
                }
            }
        }
        let two = count(&code(&[(HMMA, 0), (HMMA, 1), (LDL, 0)]), 90);
        assert_eq!(two, Opcodes { all: 3, tensor: 2, local: 1, ..Opcodes::default() });
    }
}
