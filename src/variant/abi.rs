//! Checks that a shared object loads on every supported system: `manylinux_2_28`, Python's stable ABI from 3.9 on,
//! torch's stable ABI, no absolute run path.

use std::collections::{BTreeSet, HashSet};
use std::fmt;
use std::fs::File;
use std::path::Path;

use anyhow::{Context, Result};
use object::LittleEndian;
use object::elf::{DT_NEEDED, DT_RPATH, DT_RUNPATH, STB_WEAK};
use object::read::elf::{Dyn as _, ElfFile64, Sym as _};
use object::read::{ReadCache, ReadRef};

use crate::toolchain::TORCH_LIBRARIES;

/// The dynamic-linking facts of one file.
#[derive(Debug, Default)]
pub(super) struct Needs {
    /// Needed libraries, by soname.
    pub(super) libraries: Vec<String>,
    /// `RPATH` and `RUNPATH`.
    run_paths: Vec<String>,
    undefined: Vec<Symbol>,
    exports: HashSet<String>,
}

#[derive(Debug)]
struct Symbol {
    name: String,
    /// `GLIBC_2.17`, if the symbol is versioned.
    version: Option<String>,
    weak: bool,
}

/// Why the object would not load everywhere.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Violation {
    /// A symbol version newer than `manylinux_2_28`.
    TooNew { symbol: String, version: String, most: &'static str },
    /// Not in Python's stable ABI as of 3.9.
    Python(String),
    /// In torch's C++ ABI, which changes with every version.
    Torch(String),
    /// Undefined: no known library provides it.
    Nowhere(String),
    /// Not present on every system.
    Library(String),
    /// An absolute folder in RPATH or RUNPATH.
    RunPath(String),
    /// Not an importable module.
    NoModule(String),
}

/// The newest symbol versions of `manylinux_2_28`, by prefix.
const NEWEST: [(&str, &str); 4] =
    [("GLIBC_", "2.28"), ("GLIBCXX_", "3.4.24"), ("CXXABI_", "1.3.11"), ("GCC_", "7.0.0")];

/// Libraries of every such Linux system. The CUDA runtime comes with torch.
const SYSTEM: [&str; 9] = [
    "libc.so.6",
    "libm.so.6",
    "libdl.so.2",
    "librt.so.1",
    "libpthread.so.0",
    "libstdc++.so.6",
    "libgcc_s.so.1",
    "ld-linux-x86-64.so.2",
    "ld-linux-aarch64.so.1",
];

/// Functions and data of Python's stable ABI as of 3.9, from `CPython`'s `Misc/stable_abi.toml`.
const ABI3: &str = include_str!("abi3.txt");

impl Needs {
    pub(super) fn of(path: &Path) -> Result<Self> {
        let read = || -> Result<Self> {
            let cache = ReadCache::new(File::open(path)?);
            Self::parse(&cache)
        };
        read().with_context(|| format!("cannot read the shared object {}", path.display()))
    }

    fn parse<'d>(data: impl ReadRef<'d>) -> Result<Self> {
        let elf = ElfFile64::<LittleEndian, _>::parse(data)?;
        let sections = elf.elf_section_table();
        let symbols = elf.elf_dynamic_symbol_table();
        let versions = sections.versions(LittleEndian, data)?;
        let mut needs = Self::default();
        for (index, symbol) in symbols.enumerate() {
            let name = symbol.name(LittleEndian, symbols.strings())?;
            if name.is_empty() {
                continue;
            }
            let name = String::from_utf8_lossy(name).into_owned();
            if !symbol.is_undefined(LittleEndian) {
                needs.exports.insert(name);
                continue;
            }
            let version = match &versions {
                Some(table) => table.version(table.version_index(LittleEndian, index).index())?,
                None => None,
            };
            needs.undefined.push(Symbol {
                name,
                version: version.map(|v| String::from_utf8_lossy(v.name()).into_owned()),
                weak: symbol.st_bind() == STB_WEAK,
            });
        }
        if let Some((entries, link)) = sections.dynamic(LittleEndian, data)? {
            let strings = sections.strings(LittleEndian, data, link)?;
            for entry in entries {
                let tag = entry.tag(LittleEndian);
                if ![DT_NEEDED, DT_RPATH, DT_RUNPATH].contains(&tag) {
                    continue;
                }
                let text = entry.string(LittleEndian, strings)?;
                let text = String::from_utf8_lossy(text).into_owned();
                if tag == DT_NEEDED {
                    needs.libraries.push(text);
                } else {
                    needs.run_paths.extend(text.split(':').map(str::to_owned));
                }
            }
        }
        Ok(needs)
    }

    /// All violations. `provided`: symbols that torch and the CUDA runtime define. `cudart`: the runtime's soname.
    pub(super) fn violations(&self, id: &str, provided: &HashSet<String>, cudart: &str) -> Vec<Violation> {
        let abi3: HashSet<&str> = ABI3.lines().collect();
        let mut all = BTreeSet::new();
        for symbol in &self.undefined {
            let name = &symbol.name;
            if let Some(version) = &symbol.version {
                all.extend(too_new(name, version));
            } else if name.starts_with("Py") || name.starts_with("_Py") {
                if !abi3.contains(name.as_str()) {
                    all.insert(Violation::Python(name.clone()));
                }
            } else if is_torch_cxx(name) {
                all.insert(Violation::Torch(name.clone()));
            } else if !symbol.weak && !provided.contains(name) {
                all.insert(Violation::Nowhere(name.clone()));
            }
        }
        for library in &self.libraries {
            let known =
                SYSTEM.contains(&library.as_str()) || TORCH_LIBRARIES.contains(&library.as_str()) || library == cudart;
            if !known {
                all.insert(Violation::Library(library.clone()));
            }
        }
        for path in &self.run_paths {
            if !path.is_empty() && !path.starts_with("$ORIGIN") {
                all.insert(Violation::RunPath(path.clone()));
            }
        }
        let init = format!("PyInit_{id}");
        if !self.exports.contains(&init) {
            all.insert(Violation::NoModule(init));
        }
        all.into_iter().collect()
    }
}

/// The symbols that libraries define.
pub(super) fn provided<'p>(libraries: impl Iterator<Item = &'p Path>) -> Result<HashSet<String>> {
    let mut all = HashSet::new();
    for library in libraries {
        all.extend(Needs::of(library)?.exports);
    }
    Ok(all)
}

fn too_new(symbol: &str, version: &str) -> Option<Violation> {
    let (prefix, most) = NEWEST.iter().find(|(prefix, _)| version.starts_with(prefix))?;
    let numbers = |text: &str| -> Option<Vec<u32>> { text.split('.').map(|part| part.parse().ok()).collect() };
    let number = &version[prefix.len()..];
    // CXXABI_FLOAT128 and GLIBC_PRIVATE have no number; only the first is public, and 2.28 has it.
    let fits = match numbers(number) {
        Some(number) => Some(number) <= numbers(most),
        None => number != "PRIVATE",
    };
    (!fits).then(|| Violation::TooNew { symbol: symbol.to_owned(), version: version.to_owned(), most })
}

/// Whether a symbol is in `c10::`, `at::` or `torch::`, but not `torch::stable`.
fn is_torch_cxx(symbol: &str) -> bool {
    let text = demangled(symbol);
    // `{vtable(c10::Error)}`
    let text = text.strip_prefix('{').and_then(|text| text.split_once('(')).map_or(text.as_str(), |(_, inner)| inner);
    symbol.starts_with("_Z")
        && ["c10::", "at::", "torch::", "caffe2::"].iter().any(|space| text.starts_with(space))
        && !text.starts_with("torch::stable::")
}

fn demangled(symbol: &str) -> String {
    cpp_demangle::Symbol::new(symbol)
        .ok()
        .and_then(|parsed| parsed.demangle().ok())
        .unwrap_or_else(|| symbol.to_owned())
}

impl Violation {
    /// The symbol, if a compatibility definition could replace it.
    pub(super) fn symbol(&self) -> Option<&str> {
        match self {
            Self::TooNew { symbol, .. } => Some(symbol),
            _ => None,
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooNew { symbol, version, most } => {
                let family = version.split('_').next().unwrap_or_default();
                write!(
                    f,
                    "{} needs {version}, and systems of manylinux_2_28 have {family}_{most} at most: do without it, or build \
                     with an older compiler and C library (a manylinux_2_28 container)",
                    demangled(symbol)
                )
            }
            Self::Python(symbol) => {
                write!(f, "{symbol} is not of Python's stable ABI as of 3.9: use what Py_LIMITED_API=0x03090000 leaves")
            }
            Self::Torch(symbol) => write!(
                f,
                "{} is not of torch's stable ABI and breaks with the next torch: use torch/csrc/stable and torch/headeronly",
                demangled(symbol)
            ),
            Self::Nowhere(symbol) => write!(
                f,
                "{} is called and defined nowhere: not in the project's sources, nor in torch or CUDA's runtime; add the file \
                 that defines it to the src of a [kernel.X], or correct its declaration (extern \"C\" on both sides?)",
                demangled(symbol)
            ),
            Self::Library(library) => write!(
                f,
                "it needs {library}, which is not on every system: link torch, CUDA's runtime and the system's C and C++ \
                 libraries alone"
            ),
            Self::RunPath(path) => write!(f, "its RUNPATH has {path}, a folder of this machine: take -Wl,-rpath out"),
            Self::NoModule(symbol) => write!(
                f,
                "it exports no {symbol}, so Python cannot import it: write REGISTER_EXTENSION(TORCH_EXTENSION_NAME) once, in \
                 a file that includes registration.h"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        for (version, fits) in [
            ("GLIBC_2.2.5", true),
            ("GLIBC_2.28", true),
            ("GLIBC_2.29", false),
            ("GLIBC_2.3", true),
            ("GLIBC_PRIVATE", false),
            ("GLIBCXX_3.4", true),
            ("GLIBCXX_3.4.24", true),
            ("GLIBCXX_3.4.25", false),
            ("CXXABI_1.3.11", true),
            ("CXXABI_1.3.12", false),
            ("CXXABI_FLOAT128", true),
            ("GCC_3.0", true),
            ("libcudart.so.13", true),
        ] {
            assert_eq!(too_new("f", version).is_none(), fits, "{version}");
        }
    }

    #[test]
    fn only_torchs_own_cxx_is_refused() {
        for (symbol, refused) in [
            ("_ZN3c105ErrorC1Ev", true),
            ("_ZTVN3c105ErrorE", true),
            ("_ZN2at4_ops5empty4callEv", true),
            ("_ZN5torch6stable6TensorC1Ev", false),
            ("aoti_torch_get_data_ptr", false),
            ("_ZNSt6vectorIiSaIiEE5beginEv", false),
        ] {
            assert_eq!(is_torch_cxx(symbol), refused, "{symbol}");
        }
    }
}
