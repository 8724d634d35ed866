//! Reads the ELF of a cubin: kernels, machine code and launch bounds.

use anyhow::{Context, Result, bail};
use object::elf::{FileHeader64, STT_FUNC, STT_OBJECT, SectionHeader64};
use object::read::elf::{ElfFile64, SectionHeader as _, SectionTable, Sym as _};
use object::{LittleEndian, SymbolIndex};

type Header = FileHeader64<LittleEndian>;

pub(super) struct Cubin<'a> {
    bytes: &'a [u8],
    sections: SectionTable<'a, Header>,
    /// Kernels by name: their number in the table of symbols, and their section.
    entries: Vec<(String, u32, usize)>,
    pub(super) variables: Vec<String>,
}

#[derive(Debug)]
pub(super) struct Entry<'a> {
    pub(super) symbol: String,
    /// The machine code of the kernel and of the functions it calls.
    pub(super) code: &'a [u8],
    /// The maximum block size, if the source declares it.
    pub(super) max_threads: Option<u32>,
    /// Registers per thread.
    pub(super) registers: u32,
    /// Bytes of the section of static shared memory; from compute capability 9.0 on with what the system reserves.
    pub(super) shared: u64,
    /// Bytes of stack per thread, without recursion.
    pub(super) stack: u32,
}

/// `st_other` of a kernel, unlike a device function.
const STO_CUDA_ENTRY: u8 = 0x10;

impl<'a> Cubin<'a> {
    pub(super) fn parse(bytes: &'a [u8]) -> Result<Self> {
        let file = ElfFile64::<LittleEndian>::parse(bytes).context("the cubin is not an ELF file")?;
        let sections = *file.elf_section_table();
        let symbols = file.elf_symbol_table();
        let (mut entries, mut variables) = (Vec::new(), Vec::new());
        for (index, symbol) in symbols.enumerate() {
            // From sm_90 on, code refers to a variable that is never defined.
            if symbol.st_type() == STT_OBJECT && !symbol.is_undefined(LittleEndian) {
                let name = symbol.name(LittleEndian, symbols.strings())?;
                variables.push(String::from_utf8_lossy(name).into_owned());
            }
            if symbol.st_type() != STT_FUNC || symbol.st_other().0 & STO_CUDA_ENTRY == 0 {
                continue;
            }
            let name = symbol.name(LittleEndian, symbols.strings())?;
            let section = symbols
                .symbol_section(LittleEndian, symbol, SymbolIndex(index.0))?
                .with_context(|| format!("no machine code for {}", String::from_utf8_lossy(name)))?;
            entries.push((String::from_utf8_lossy(name).into_owned(), u32::try_from(index.0)?, section.0));
        }
        entries.sort();
        Ok(Self { bytes, sections, entries, variables })
    }

    pub(super) fn entries(&self) -> Result<Vec<Entry<'a>>> {
        let all = self.section(".nv.info")?.unwrap_or_default();
        let (registers, stacks) = (figures(all, REGCOUNT)?, figures(all, MIN_STACK_SIZE)?);
        let of =
            |all: &[(u32, u32)], number: u32| all.iter().find_map(|(of, figure)| (*of == number).then_some(*figure));
        self.entries
            .iter()
            .map(|(symbol, number, section)| {
                let header = self.sections.section(object::SectionIndex(*section))?;
                let code = header.data(LittleEndian, self.bytes)?;
                let info = self.section(&format!(".nv.info.{symbol}"))?;
                Ok(Entry {
                    max_threads: info.map(max_threads).transpose()?.flatten(),
                    registers: of(&registers, *number)
                        .with_context(|| format!("the cubin does not say how many registers {symbol} has"))?,
                    stack: of(&stacks, *number).unwrap_or_default(),
                    shared: self
                        .header(&format!(".nv.shared.{symbol}"))?
                        .map_or(0, |header| header.sh_size(LittleEndian)),
                    symbol: symbol.clone(),
                    code,
                })
            })
            .collect()
    }

    /// The sorted names by which host code registers a cubin's kernels and variables.
    pub(super) fn registered(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self
            .entries
            .iter()
            .map(|(symbol, ..)| symbol.as_str())
            .chain(self.variables.iter().map(String::as_str))
            .collect();
        names.sort_unstable();
        names
    }

    fn section(&self, name: &str) -> Result<Option<&'a [u8]>> {
        self.header(name)?.map(|header| self.data(header)).transpose()
    }

    fn header(&self, name: &str) -> Result<Option<&'a SectionHeader64<LittleEndian>>> {
        for section in self.sections() {
            let (known, header) = section?;
            if known == name {
                return Ok(Some(header));
            }
        }
        Ok(None)
    }

    pub(super) fn sections(&self) -> impl Iterator<Item = Result<(&'a str, &'a SectionHeader64<LittleEndian>)>> + '_ {
        self.sections.iter().map(|header| {
            let name = self.sections.section_name(LittleEndian, header)?;
            Ok((std::str::from_utf8(name)?, header))
        })
    }

    pub(super) fn data(&self, header: &SectionHeader64<LittleEndian>) -> Result<&'a [u8]> {
        Ok(header.data(LittleEndian, self.bytes)?)
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Attribute<'a> {
    pub(super) kind: u8,
    pub(super) value: &'a [u8],
}

/// The format, as `cuobjdump -elf` shows it: a format byte, a kind byte, then a 2-byte value, or (format 4) a 2-byte
/// length and the value.
pub(super) fn attributes(mut info: &[u8]) -> Result<Vec<Attribute<'_>>> {
    const SIZED: u8 = 4;
    let mut all = Vec::new();
    while let [format, kind, low, high, rest @ ..] = info {
        let length = usize::from(u16::from_le_bytes([*low, *high]));
        if *format == SIZED {
            let Some((value, after)) = rest.split_at_checked(length) else {
                bail!("an attribute of .nv.info is longer than its section");
            };
            all.push(Attribute { kind: *kind, value });
            info = after;
        } else {
            all.push(Attribute { kind: *kind, value: &info[2..4] });
            info = rest;
        }
    }
    Ok(all)
}

/// `EIATTR_REGCOUNT`: registers a thread.
const REGCOUNT: u8 = 0x2f;
/// `EIATTR_MIN_STACK_SIZE`: bytes of stack a thread, as ptxas's `cumulative stack size`; 0 where a function calls itself.
const MIN_STACK_SIZE: u8 = 0x12;

/// The attributes of a kind: a kernel's number in the table of symbols, and its figure.
fn figures(info: &[u8], kind: u8) -> Result<Vec<(u32, u32)>> {
    let word = |bytes: &[u8]| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    let counts = attributes(info)?.into_iter().filter(|one| one.kind == kind && one.value.len() == 8);
    Ok(counts.map(|one| (word(&one.value[..4]), word(&one.value[4..]))).collect())
}

/// `__launch_bounds__`: `EIATTR_MAX_THREADS`; `__block_size__`: `EIATTR_REQNTID`. Three words, x y z.
fn max_threads(info: &[u8]) -> Result<Option<u32>> {
    const MAX_THREADS: u8 = 0x05;
    const REQNTID: u8 = 0x10;
    let product = |value: &[u8]| -> u32 {
        value.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).product()
    };
    Ok(attributes(info)?
        .iter()
        .filter(|attribute| [MAX_THREADS, REQNTID].contains(&attribute.kind))
        .map(|attribute| product(attribute.value))
        .min())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An attribute with a value of several words.
    fn sized(kind: u8, words: &[u32]) -> Vec<u8> {
        let mut bytes = vec![4, kind, u8::try_from(4 * words.len()).unwrap_or(0), 0];
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        bytes
    }

    #[test]
    fn attributes_are_short_or_as_long_as_they_say() -> Result<()> {
        let info = [vec![3, 0x1b, 7, 1], sized(REGCOUNT, &[5, 40]), vec![3, 0x50, 0, 0]].concat();
        let found: Vec<(u8, &[u8])> = attributes(&info)?.iter().map(|one| (one.kind, one.value)).collect();
        assert_eq!(found, [(0x1b, &[7, 1][..]), (REGCOUNT, &[5, 0, 0, 0, 40, 0, 0, 0]), (0x50, &[0, 0])]);
        assert!(attributes(&info[..10]).is_err());
        Ok(())
    }

    #[test]
    fn figures_are_of_kernels_by_their_numbers_and_blocks_by_the_least_bound() -> Result<()> {
        let info = [
            sized(REGCOUNT, &[5, 40]),
            sized(MIN_STACK_SIZE, &[5, 16]),
            sized(REGCOUNT, &[6, 255]),
            sized(REGCOUNT, &[1]),
        ];
        let info = info.concat();
        assert_eq!(figures(&info, REGCOUNT)?, [(5, 40), (6, 255)]);
        assert_eq!(figures(&info, MIN_STACK_SIZE)?, [(5, 16)]);
        assert_eq!(max_threads(&info)?, None);
        let bounds = [sized(0x05, &[32, 8, 2]), sized(0x10, &[64, 2, 1])].concat();
        assert_eq!((max_threads(&bounds[..16])?, max_threads(&bounds)?), (Some(512), Some(128)));
        Ok(())
    }
}
