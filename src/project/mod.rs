//! What a kernel project is: a folder with `build.toml` (kernel-builder's own) and `kernel.toml` (ours).
//!
//! [`Spec`] is `kernel.toml` as written, [`Case`] one row of its cases, and [`Bound`] an operation with every
//! size of a case filled in: the tensors and the launcher's arguments, ready to be recorded and checked.

pub(crate) mod bind;
pub(crate) mod bound;
pub(crate) mod build_toml;
mod capabilities;
pub(crate) mod case;
pub(crate) mod diagnostic;
pub(crate) mod draw;
pub(crate) mod dtype;
pub(crate) mod fit;
pub(crate) mod formula;
pub(crate) mod manifest;
pub(crate) mod names;
pub(crate) mod path;
mod read;
pub(crate) mod source_digest;
pub(crate) mod spec;
mod spec_digest;
mod standard;
mod table;
pub(crate) mod torch;
pub(crate) mod tuning;

pub(crate) use bound::BoundTensor;
pub use bound::{Bound, BoundArgument};
pub(crate) use build_toml::KernelTable;
pub use capabilities::Capabilities;
pub use case::{Case, Inputs};
pub use diagnostic::InvalidProject;
pub use dtype::DType;
pub(crate) use dtype::EXACT;
pub use fit::GivenTensor;
pub use formula::Formula;
pub(crate) use manifest::KernelDepend;
pub(crate) use names::CaseError;
pub(crate) use spec::Values;
pub use spec::{
    Argument, BadPointer, Budget, CType, CaseSet, Integers, Operation, OracleRef, Refusal, Role, Spec, Tolerance,
};
pub(crate) use torch::TorchProject;
pub use tuning::Tuning;

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use build_toml::Purpose;
use diagnostic::Document;

use crate::base::{arch, disk};

/// kernel-builder's file.
pub(crate) const BUILD_TOML: &str = "build.toml";

/// Our file.
pub(crate) const KERNEL_TOML: &str = "kernel.toml";

/// The most bytes of either.
const LIMIT: u64 = 8 << 20;

/// A project, read and checked.
#[derive(Clone, Debug)]
pub struct Project {
    /// Its folder, absolute, links resolved.
    pub root: PathBuf,
    /// Its name, from build.toml.
    pub name: String,
    /// The `.cu` files to compile, relative to the root, in build.toml's order.
    pub sources: Vec<PathBuf>,
    /// Include folders, relative to the root.
    pub includes: Vec<PathBuf>,
    /// Flags for nvcc.
    pub cuda_flags: Vec<String>,
    /// The architectures that it is for.
    pub capabilities: Capabilities,
    /// kernel.toml.
    pub spec: Spec,
    /// SHA-256 of the operations, cases and budgets that kernel.toml means, in hexadecimal: how it says them does not count.
    pub spec_digest: String,
    /// SHA-256 of sources, flags and oracles in Python, in hexadecimal: comments and white space do not count.
    pub source_digest: String,
}

#[cfg(test)]
impl Project {
    /// A kernel.toml for a transpose, up to the sizes of its table of cases: `rows` and `columns`.
    pub(crate) const TRANSPOSE: &str = r#"
format = 1
[[operation]]
name = "transpose"
launcher = "transpose_launch"
oracle = "transpose"
dtypes = ["f32"]
bytes = "8 * rows * columns"
flops = "0"
arguments = [
  { tensor = "x", role = "input", shape = ["1", "rows", "columns"] },
  { tensor = "out", role = "output", shape = ["1", "columns", "rows"] },
  { scalars = ["rows", "columns"], type = "i64" },
  { stream = true },
]
[[operation.verify]]
"#;

    /// One that the text of its kernel.toml describes, with an empty source.
    pub(crate) fn of(kernel: &str) -> anyhow::Result<Self> {
        Self::written(tempfile::tempdir()?.path(), kernel)
    }

    /// The same, in a folder that stays.
    pub(crate) fn written(folder: &Path, kernel: &str) -> anyhow::Result<Self> {
        let build = "[general]\nname = \"copy\"\nversion = 1\nedition = 5\nbackends = [\"cuda\"]\n\
                     [kernel.copy]\nbackend = \"cuda\"\ndepends = []\nsrc = [\"copy.cu\"]\n";
        for (name, text) in [("kernel.toml", kernel), ("build.toml", build), ("copy.cu", "")] {
            std::fs::write(folder.join(name), text)?;
        }
        Self::open(folder)
    }
}

impl Project {
    /// Reads a project's folder, and checks that each of its cases can be: sizes, strides, scalars.
    ///
    /// Errors are an [`InvalidProject`] where a file is wrong: every problem with its line, quoted. Files that are
    /// not there, or lie outside the folder, are errors too.
    pub fn open(dir: &Path) -> anyhow::Result<Self> {
        let root = fs::canonicalize(dir).with_context(|| format!("there is no project at {}", dir.display()))?;
        if !root.is_dir() {
            anyhow::bail!(
                "{} is not a folder; a project is a folder with {BUILD_TOML} and {KERNEL_TOML}",
                dir.display()
            );
        }
        let build_text = text(dir, BUILD_TOML)?;
        let kernel_text = text(dir, KERNEL_TOML)?;
        let build_file = Document::new(dir.join(BUILD_TOML), build_text);
        let kernel_file = Document::new(dir.join(KERNEL_TOML), kernel_text);
        // Both before either fails: a person mends both files in one go.
        let (build, spec) =
            match (build_toml::read(&build_file, &root, Purpose::Harness), read::read(&kernel_file, &root)) {
                (Ok(build), Ok(spec)) => (build, spec),
                (Err(error), Ok(_)) | (Ok(_), Err(error)) => return Err(error.into()),
                (Err(first), Err(second)) => return Err(first.and(&second).into()),
            };
        let spec_digest = spec_digest::of(&spec)?;
        let source_digest = source_digest::of(&root, &build, &spec)?;
        Ok(Self {
            root,
            capabilities: Capabilities::of(&build.kernels),
            name: build.name,
            sources: build.sources,
            includes: build.includes,
            cuda_flags: build.cuda_flags,
            spec,
            spec_digest,
            source_digest,
        })
    }

    /// The operations and cases of a kernel.toml alone, with nothing to compile; what it names lies beside it.
    pub(crate) fn of_cases(file: &Path) -> anyhow::Result<Self> {
        let text = read_text(file).with_context(|| cannot_read(file))?;
        let path = fs::canonicalize(file).with_context(|| format!("cannot read {}", file.display()))?;
        let root = path.parent().unwrap_or(&path).to_owned();
        let spec = read::read(&Document::new(file.to_owned(), text), &root)?;
        Ok(Self {
            name: root.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            root,
            sources: Vec::new(),
            includes: Vec::new(),
            cuda_flags: Vec::new(),
            capabilities: Capabilities::default(),
            spec_digest: spec_digest::of(&spec)?,
            spec,
            source_digest: String::new(),
        })
    }

    /// Those of the architectures that it is for.
    ///
    /// # Errors
    /// It is for none of them.
    pub fn of_archs(&self, archs: &[u32]) -> anyhow::Result<Vec<u32>> {
        let fit: Vec<u32> = archs.iter().copied().filter(|arch| self.capabilities.cover(*arch)).collect();
        anyhow::ensure!(
            !fit.is_empty() || archs.is_empty(),
            "{} is not for {}: the cuda-capabilities of its build.toml are {}",
            self.name,
            arch::named(archs),
            self.capabilities.shown()
        );
        Ok(fit)
    }
}

/// A kernel.toml by itself, and each of its problems; `root`, which is canonical, has the files that it names.
pub(crate) fn kernel_toml_problems(text: &str, root: &Path) -> (Option<Spec>, Vec<diagnostic::Problem>) {
    read::with_problems(&Document::new(KERNEL_TOML.into(), text.to_owned()), root)
}

/// Reads a kernel.toml by itself, against the files of `root`, which is canonical. Problems name it `kernel.toml`.
pub(crate) fn read_kernel_toml(text: &str, root: &Path) -> Result<(), InvalidProject> {
    read::read(&Document::new(KERNEL_TOML.into(), text.to_owned()), root).map(|_| ())
}

/// A file, or the one that a link leads to. A pipe or a device in its place would never end.
fn read_text(path: &Path) -> io::Result<String> {
    let bytes = disk::read_plain(&fs::canonicalize(path)?, LIMIT)?;
    String::from_utf8(bytes).map_err(|_| io::Error::other("it is not UTF-8, which TOML must be"))
}

fn cannot_read(path: &Path) -> String {
    format!("cannot read {}, which is to be a regular file", path.display())
}

fn text(dir: &Path, name: &str) -> anyhow::Result<String> {
    let path = dir.join(name);
    match read_text(&path) {
        Ok(_) if disk::leads_out(&path, dir) => {
            anyhow::bail!("{} is a link out of the project's folder; copy the file into the project", path.display())
        }
        Ok(text) => Ok(text),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let next = if name == BUILD_TOML {
                "it says what to compile, as kernel-builder reads it"
            } else {
                "it says what `kernels build`, `verify` and `bench` check; docs/kernel-toml.md has the format and a small example"
            };
            anyhow::bail!(
                "{} has no {name}: {next}. Write one, start a project with `kernels init`, or name the project's folder",
                dir.display()
            )
        }
        Err(error) => Err(error).with_context(|| cannot_read(&path)),
    }
}
