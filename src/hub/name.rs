//! The name of a variant, from which the Hub's library chooses: `torch-stable-abi211-cu130-x86_64-linux`.

use std::env::consts::ARCH;
use std::path::{Path, PathBuf};

use crate::toolchain::{Torch, Version};

/// The parts of a variant's name.
#[derive(Clone, Debug)]
pub(crate) struct Name {
    pub(crate) text: String,
    framework: Framework,
    /// `cu130`, `rocm71`, `cpu`.
    backend: String,
    /// CPU and system; `None` for a variant of Python only.
    platform: Option<(String, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Abi {
    Old,
    New,
}

#[derive(Clone, Debug, PartialEq)]
enum Framework {
    StableAbi(Version),
    /// With its C++ ABI, if the name has one.
    Torch(Version, Option<Abi>),
    TvmFfi,
    Python,
}

/// The system that a variant must fit.
#[derive(Clone, Debug)]
pub(crate) struct System {
    torch: Option<(Version, Option<Version>)>,
    /// Whether its Python is free-threaded, and older than the stable ABI for that.
    free_threaded: bool,
    /// The folder that holds torch and other packages.
    pub(super) packages: Option<PathBuf>,
}

impl System {
    /// This machine, with the torch of an environment.
    pub(crate) fn here(python: Option<&Path>) -> Self {
        let seen = Torch::seen(python);
        let free_threaded = seen.as_ref().is_some_and(|(.., folder)| is_free_threaded(folder));
        let packages = seen.as_ref().and_then(|(.., folder)| Some(folder.parent()?.to_owned()));
        Self { torch: seen.map(|(torch, cuda, _)| (torch, cuda)), free_threaded, packages }
    }

    pub(super) fn has_cuda(&self) -> bool {
        self.torch.is_some_and(|(_, cuda)| cuda.is_some())
    }
}

/// Whether a package's folder is that of a Python such as `lib/python3.14t`. 3.15 has a stable ABI for those too.
fn is_free_threaded(folder: &Path) -> bool {
    let minor =
        |part: &std::ffi::OsStr| part.to_str()?.strip_prefix("python3.")?.strip_suffix('t')?.parse::<u32>().ok();
    folder.iter().find_map(minor).is_some_and(|minor| minor < 15)
}

/// `211` is 2.11, `29` is 2.9.
fn torch_version(digits: &str) -> Option<Version> {
    let minor = digits.get(1..).filter(|rest| !rest.is_empty())?;
    Some(Version { major: digits.get(..1)?.parse().ok()?, minor: minor.parse().ok()? })
}

/// `cu130` is 13.0.
fn cuda_version(backend: &str) -> Option<Version> {
    let digits = backend.strip_prefix("cu")?;
    let split = digits.len().checked_sub(1).filter(|at| *at > 0 && digits.is_ascii())?;
    Some(Version { major: digits[..split].parse().ok()?, minor: digits[split..].parse().ok()? })
}

impl Name {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-_.".contains(c);
        if !text.chars().all(legal) {
            return None;
        }
        let (framework, rest) = if let Some(rest) = text.strip_prefix("torch-stable-abi") {
            let (digits, rest) = rest.split_once('-')?;
            (Framework::StableAbi(torch_version(digits)?), rest)
        } else if let Some(backend) = text.strip_prefix("torch-") {
            let backend = Some(backend).filter(|backend| !backend.is_empty())?.to_owned();
            return Some(Self { text: text.to_owned(), framework: Framework::Python, backend, platform: None });
        } else if let Some(rest) = text.strip_prefix("tvm-ffi") {
            (Framework::TvmFfi, rest.split_once('-')?.1)
        } else {
            let (digits, rest) = text.strip_prefix("torch")?.split_once('-')?;
            let marked = |mark, abi| Some((Some(abi), rest.strip_prefix(mark)?));
            let (abi, rest) = marked("cxx98-", Abi::Old).or(marked("cxx11-", Abi::New)).unwrap_or((None, rest));
            (Framework::Torch(torch_version(digits)?, abi), rest)
        };
        let mut parts = rest.split('-');
        let (backend, cpu, os) = (parts.next()?, parts.next()?, parts.next()?);
        if parts.next().is_some() || [backend, cpu, os].iter().any(|part| part.is_empty()) {
            return None;
        }
        let platform = Some((cpu.to_owned(), os.to_owned()));
        Some(Self { text: text.to_owned(), framework, backend: backend.to_owned(), platform })
    }

    pub(crate) fn backend(&self) -> &str {
        let name = self.backend.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
        if name == "cu" { "cuda" } else { name }
    }

    /// The CUDA that it is built with.
    pub(crate) fn cuda(&self) -> Option<Version> {
        cuda_version(&self.backend)
    }

    /// Whether it is for this kind of machine, whatever is installed there.
    pub(crate) fn is_of_this_platform(&self) -> bool {
        self.platform.as_ref().is_none_or(|(cpu, os)| cpu == ARCH && os == std::env::consts::OS)
    }

    /// Why the library would not load it here; its checks, in its own order.
    pub(crate) fn unsuitable(&self, system: &System) -> Option<String> {
        if let Some((cpu, os)) = &self.platform
            && !self.is_of_this_platform()
        {
            return Some(format!("it is for {os} on {cpu}"));
        }
        if self.platform.is_some() && system.free_threaded {
            return Some("a free-threaded Python before 3.15 loads no compiled kernel".to_owned());
        }
        let Some((torch, cuda)) = system.torch else {
            return Some(
                "no torch was found here: activate its environment, or name its Python with --python".to_owned(),
            );
        };
        match self.framework {
            Framework::StableAbi(least) if torch < least => {
                return Some(format!("it needs torch {least}, here is {torch}"));
            }
            Framework::Torch(wanted, _) if torch != wanted => {
                return Some(format!("it is for torch {wanted}, here is {torch}"));
            }
            Framework::Torch(_, Some(Abi::Old)) => return Some("it is for torch's old C++ ABI".to_owned()),
            Framework::TvmFfi => return Some("it is for tvm-ffi, which is not looked for".to_owned()),
            _ => {}
        }
        let here = if cuda.is_some() { "cuda" } else { "cpu" };
        match (self.cuda(), cuda) {
            (Some(built), Some(cuda)) if built.major != cuda.major || built.minor > cuda.minor => {
                Some(format!("it is built with CUDA {built}, and torch here with {cuda}"))
            }
            (Some(_), Some(_)) => None,
            _ if self.backend() == here || self.backend() == "universal" => None,
            _ => Some(format!("it is for {}, and torch here for {here}", self.backend())),
        }
    }

    /// Greater is preferred.
    pub(crate) fn preference(&self) -> (u8, Option<Version>, Option<Version>) {
        let (kind, abi) = match self.framework {
            Framework::StableAbi(version) => (5, Some(version)),
            Framework::Torch(version, None) => (4, Some(version)),
            Framework::Torch(version, Some(_)) => (3, Some(version)),
            Framework::TvmFfi => (2, None),
            Framework::Python => (u8::from(self.backend != "universal"), None),
        };
        (kind, abi, self.cuda())
    }
}
