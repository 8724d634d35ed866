//! A digest of the device code alone.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use object::LittleEndian;
use object::elf::SHT_NOBITS;
use object::read::elf::SectionHeader as _;

use super::cubin::{Cubin, attributes};
use super::key::Key;
use super::{Build, Target};

impl Build {
    /// The same digest for the same machine code, independent of comments.
    ///
    /// SHA-256 over machine code, constants, initial values, launch attributes, and the sizes of shared and global memory, for
    /// each architecture, unit and section in order. The project's path has no effect.
    pub fn device_digest(&self) -> Result<String> {
        let units =
            |target: &Target| target.units.iter().map(|unit| (unit.source.clone(), unit.cubin.clone())).collect();
        let targets: Vec<_> = self.targets.iter().map(|target| (target.arch, units(target))).collect();
        device_digest(&targets)
    }
}

impl Build {
    /// A digest of what the build does: the device code, and the host code that starts it, which says with what grid, and
    /// which of several kernels. Comments and the names of what is not exported do not count.
    pub(crate) fn code_digest(&self) -> Result<String> {
        /// Sections of a shared object that nothing is loaded from, and the embedded device code.
        const NOT: [&str; 7] = [".nv_fatbin", ".symtab", ".strtab", ".shstrtab", ".comment", ".note", ".debug"];
        let mut key = Key::new("kernels code 1");
        key.field(self.device_digest()?);
        for target in &self.targets {
            let bytes =
                fs::read(&target.library).with_context(|| format!("cannot read {}", target.library.display()))?;
            let library = Cubin::parse(&bytes).with_context(|| format!("cannot read {}", target.library.display()))?;
            for section in library.sections() {
                let (name, header) = section?;
                if header.sh_type(LittleEndian) != SHT_NOBITS && !NOT.iter().any(|start| name.starts_with(start)) {
                    key.field(name).field(library.data(header)?);
                }
            }
        }
        Ok(key.finish())
    }
}

/// [`Build::device_digest`] of architectures in rising order, each with its sources and their cubins.
pub(crate) fn device_digest(targets: &[(u32, Vec<(PathBuf, PathBuf)>)]) -> Result<String> {
    let mut key = Key::new("kernels device code 1");
    for (arch, units) in targets {
        key.field(arch.to_be_bytes());
        let mut units: Vec<_> = units.iter().collect();
        units.sort();
        for (source, cubin) in units {
            let bytes = fs::read(cubin).with_context(|| format!("cannot read {}", cubin.display()))?;
            let sections = sections(&bytes).with_context(|| format!("cannot read {}", cubin.display()))?;
            key.field(source.as_os_str().as_encoded_bytes());
            key.field((sections.len() as u64).to_be_bytes());
            for (name, content) in sections {
                key.field(name).field(content);
            }
        }
    }
    Ok(key.finish())
}

/// The digested sections of a cubin, sorted by name.
fn sections(bytes: &[u8]) -> Result<Vec<(String, Vec<u8>)>> {
    /// Prefixes of digested sections. Others hold symbols, debug information and compiler notes.
    const COUNT: [&str; 6] = [".text.", ".nv.constant", ".nv.info.", ".nv.shared.", ".nv.global", ".nv.local"];
    let cubin = Cubin::parse(bytes)?;
    let mut all = Vec::new();
    for section in cubin.sections() {
        let (name, header) = section?;
        if !COUNT.iter().any(|start| name.starts_with(start)) {
            continue;
        }
        let content = if header.sh_type(LittleEndian) == SHT_NOBITS {
            header.sh_size(LittleEndian).to_be_bytes().to_vec()
        } else if name.starts_with(".nv.info.") {
            launch_attributes(cubin.data(header)?)?
        } else {
            cubin.data(header)?.to_vec()
        };
        all.push((stable(name), content));
    }
    all.sort();
    Ok(all)
}

/// Attributes without section indices.
fn launch_attributes(info: &[u8]) -> Result<Vec<u8>> {
    const PARAM_CBANK: u8 = 0x0a;
    let mut content = Vec::new();
    for attribute in attributes(info)? {
        let value = match attribute.kind {
            PARAM_CBANK => attribute.value.get(4..).unwrap_or_default(),
            _ => attribute.value,
        };
        content.push(attribute.kind);
        content.extend((value.len() as u64).to_be_bytes());
        content.extend(value);
    }
    Ok(content)
}

/// A symbol of an anonymous namespace carries a digest of the source's path: `_GLOBAL__N__c255a939_4_a_cu_…`.
fn stable(symbol: &str) -> String {
    const MARK: &str = "_GLOBAL__N__";
    let mut parts = symbol.split(MARK);
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push_str(MARK);
        let digest = part
            .get(..8)
            .is_some_and(|head| head.bytes().all(|b| b.is_ascii_hexdigit()) && part.as_bytes().get(8) == Some(&b'_'));
        text.push_str(if digest { &part[8..] } else { part });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_anonymous_namespaces_lose_the_digest_of_the_path() {
        let name = |mark: &str| format!(".text._ZN45_GLOBAL__N__{mark}4_a_cu_1b2cE");
        assert_eq!(stable(&name("c255a939_")), name("_"));
        assert_eq!(stable(&name("c255a93x_")), name("c255a93x_"));
        assert_eq!(stable(&name("c255a9391")), name("c255a9391"));
        let both = format!("{}{}", name("c255a939_"), name("00000000_"));
        assert_eq!(stable(&both), format!("{}{}", name("_"), name("_")));
        assert_eq!((stable(".text.plain"), stable("_GLOBAL__N__c2")), (".text.plain".into(), "_GLOBAL__N__c2".into()));
    }

    #[test]
    fn attributes_are_digested_without_the_section_that_has_the_parameters() -> Result<()> {
        let info = |section: u8, offset: u8| {
            [vec![4, 0x0a, 8, 0, section, 0, 0, 0, offset, 0, 2, 0], vec![3, 5, 9, 1]].concat()
        };
        let is = launch_attributes(&info(1, 16))?;
        assert_eq!(is, [&[0x0a][..], &4u64.to_be_bytes(), &[16, 0, 2, 0, 5], &2u64.to_be_bytes(), &[9, 1]].concat());
        assert_eq!(launch_attributes(&info(2, 16))?, is);
        assert_ne!(launch_attributes(&info(1, 17))?, is);
        Ok(())
    }
}
