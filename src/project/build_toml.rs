//! What is built from `build.toml`: its values for the cuda backend, with every file and folder that it names there.

use std::ops::Range;
use std::path::{Path, PathBuf};

use super::diagnostic::{Document, InvalidProject, Problem};
use super::manifest::{self, Framework, Kernel, KernelDepend, Kind, Manifest, VersionRange, Word, Words};
use super::path::{Wanted, inside, is_cu, is_cxx, is_header};
use crate::base::arch::Capability;

/// What is needed of `build.toml`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BuildToml {
    /// `[general] name`.
    pub(crate) name: String,
    /// `[general] version`.
    pub(crate) version: Option<u64>,
    /// `[general] license`.
    pub(crate) license: Option<String>,
    /// The `.cu` files of every `[kernel.X]` with the cuda backend, in the file's order, relative to the project.
    pub(crate) sources: Vec<PathBuf>,
    /// Their include folders, relative to the project.
    pub(crate) includes: Vec<PathBuf>,
    /// Their flags for nvcc.
    pub(crate) cuda_flags: Vec<String>,
    /// `[general] upstream`.
    pub(crate) upstream: Option<String>,
    /// `[general] source`.
    pub(crate) source: Option<String>,
    /// `[general.hub] repo-id`.
    pub(crate) repo_id: Option<String>,
    /// `[general.hub] branch`.
    pub(crate) branch: Option<String>,
    /// `[general.cuda]` minver and maxver.
    pub(crate) cuda_range: Range<Option<String>>,
    /// Python packages that the kernel needs with CUDA.
    pub(crate) python_depends: Vec<String>,
    /// Other kernels that it needs with CUDA.
    pub(crate) kernel_depends: Vec<KernelDepend>,
    /// The frameworks that have a table: `torch`, `torch-noarch`, `tvm-ffi`.
    pub(crate) frameworks: Vec<&'static str>,
    /// `[torch]`.
    pub(crate) torch: Option<TorchTable>,
    /// Every `[kernel.X]` with the cuda backend, in the file's order.
    pub(crate) kernels: Vec<KernelTable>,
}

/// `[torch]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct TorchTable {
    /// Sources and headers of the binding, relative to the project.
    pub(crate) sources: Vec<PathBuf>,
    /// Include folders, relative to the project.
    pub(crate) includes: Vec<PathBuf>,
    /// Flags for the C++ compiler.
    pub(crate) cxx_flags: Vec<String>,
    /// Endings, besides `py`, of the package's files.
    pub(crate) endings: Vec<String>,
    /// The oldest and the newest torch to build with.
    pub(crate) range: Range<Option<String>>,
    /// The oldest torch to run with, of the stable ABI; none: tied to one torch.
    pub(crate) stable_abi: Option<String>,
}

/// `[kernel.X]` with the cuda backend.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct KernelTable {
    /// X.
    pub(crate) name: String,
    /// Sources and headers, relative to the project.
    pub(crate) sources: Vec<PathBuf>,
    /// Include folders, relative to the project.
    pub(crate) includes: Vec<PathBuf>,
    /// `cuda-capabilities`.
    pub(crate) capabilities: Vec<Capability>,
    /// Flags for nvcc.
    pub(crate) cuda_flags: Vec<String>,
    /// Flags for the C++ compiler.
    pub(crate) cxx_flags: Vec<String>,
    /// The oldest CUDA that it is compiled with.
    pub(crate) cuda_minver: Option<String>,
    /// `depends`.
    pub(crate) depends: Vec<String>,
}

/// What build.toml is read for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Purpose {
    /// The harness: one set of flags, `.cu` files alone.
    Harness,
    /// A variant for torch: all that kernel-builder compiles.
    Torch,
}

/// Reads build.toml for a purpose. Errors show every problem, those of the files that it names included.
pub(super) fn read(document: &Document, root: &Path, purpose: Purpose) -> Result<BuildToml, InvalidProject> {
    let (manifest, faults) = manifest::read(document);
    let faults = faults.into_iter().filter(|fault| !fault.tolerated);
    let mut resolver = Resolver { document, root, purpose, problems: faults.map(|fault| fault.problem).collect() };
    let build = resolver.build(&manifest);
    match build {
        Some(build) if resolver.problems.is_empty() => Ok(build),
        _ => Err(document.invalid(resolver.problems)),
    }
}

/// Looks for what the manifest names.
struct Resolver<'a> {
    document: &'a Document,
    root: &'a Path,
    purpose: Purpose,
    problems: Vec<Problem>,
}

impl Resolver<'_> {
    fn fail(&mut self, span: &Range<usize>, message: impl Into<String>, help: Option<&str>) {
        self.problems.push(Problem {
            span: span.clone(),
            message: message.into(),
            help: help.into_iter().map(str::to_owned).collect(),
        });
    }

    fn build(&mut self, manifest: &Manifest) -> Option<BuildToml> {
        if let Some(backends) = &manifest.backends
            && !backends.items.is_empty()
            && backends.items.iter().all(|word| word.value != "cuda")
        {
            let message = "`backends` lacks \"cuda\", the one backend that this binary compiles";
            self.fail(&backends.at, message, None);
        }
        let torch = manifest.frameworks.iter().find(|one| one.kind == Kind::Torch);
        let torch = torch.map(|torch| self.torch(torch));
        let cuda = manifest
            .kernels
            .iter()
            .filter(|kernel| kernel.backend.as_ref().is_some_and(|backend| backend.value == "cuda"));
        let kernels: Vec<(&Kernel, KernelTable)> = cuda.map(|kernel| (kernel, self.kernel(kernel))).collect();
        let sources = self.sources(&kernels);
        if self.purpose == Purpose::Harness {
            self.same_flags(&kernels);
            self.compiles_something(manifest, &sources);
        }
        let text = |word: &Option<Word>| word.as_ref().map(|word| word.value.clone());
        let with_cuda = |backend: Option<&str>| backend.is_none_or(|backend| backend == "cuda");
        let python = manifest.python_depends.iter();
        let python = python.filter(|(backend, _)| with_cuda(*backend));
        let depends = manifest.kernel_depends.iter();
        let depends = depends.filter(|(backend, _)| with_cuda(*backend));
        let kernels: Vec<KernelTable> = kernels.into_iter().map(|(_, kernel)| kernel).collect();
        Some(BuildToml {
            name: text(&manifest.name)?,
            version: manifest.version,
            license: text(&manifest.license),
            sources,
            includes: distinct(kernels.iter().flat_map(|kernel| kernel.includes.clone())),
            cuda_flags: kernels.last().map(|kernel| kernel.cuda_flags.clone()).unwrap_or_default(),
            upstream: text(&manifest.upstream),
            source: text(&manifest.source),
            repo_id: text(&manifest.repo_id),
            branch: text(&manifest.branch),
            cuda_range: range(&manifest.cuda),
            python_depends: python.flat_map(|(_, list)| Words::texts(Some(list))).collect(),
            kernel_depends: depends.map(|(_, kernel)| kernel.clone()).collect(),
            frameworks: manifest.frameworks.iter().map(|one| one.kind.name()).collect(),
            torch,
            kernels,
        })
    }

    fn torch(&mut self, torch: &Framework) -> TorchTable {
        let sources = self.existing(torch.src.as_ref(), Wanted::File, None);
        let includes = self.existing(torch.include.as_ref(), Wanted::Folder, None);
        TorchTable {
            sources: distinct(sources.into_iter().map(|(_, path)| path)),
            includes: distinct(includes.into_iter().map(|(_, path)| path)),
            cxx_flags: Words::texts(torch.cxx_flags.as_ref()),
            endings: Words::texts(torch.pyext.as_ref()),
            range: range(&torch.range),
            stable_abi: torch.stable_abi.of("cuda").map(str::to_owned),
        }
    }

    fn kernel(&mut self, kernel: &Kernel) -> KernelTable {
        let next = "write the file, or take it out of `src`";
        let named = self.existing(kernel.src.as_ref(), Wanted::File, Some(next));
        let mut sources = Vec::new();
        for (word, path) in named {
            if is_cu(&path) && sources.contains(&path) {
                self.fail(&word.at, format!("`{}` is listed twice", word.value), None);
            } else if self.may_list(word, &path) {
                sources.push(path);
            }
        }
        let includes = self.existing(kernel.include.as_ref(), Wanted::Folder, None);
        let capabilities = Words::texts(kernel.capabilities.as_ref()).into_iter();
        KernelTable {
            name: kernel.name.value.clone(),
            sources,
            includes: distinct(includes.into_iter().map(|(_, path)| path)),
            capabilities: capabilities.filter_map(|text| Capability::parse(&text)).collect(),
            cuda_flags: Words::texts(kernel.cuda_flags.as_ref()),
            cxx_flags: Words::texts(kernel.cxx_flags.as_ref()),
            cuda_minver: kernel.cuda_minver.as_ref().map(|word| word.value.clone()),
            depends: Words::texts(kernel.depends.as_ref()),
        }
    }

    /// Whether a file may be in the `src` of a `[kernel.X]`.
    fn may_list(&mut self, word: &Word, path: &Path) -> bool {
        let torch = self.purpose == Purpose::Torch;
        if is_cu(path) || is_header(path) || torch && is_cxx(path) {
            return true;
        }
        let (is, help) = if torch {
            ("a .cu file, nor C++ (.cpp, .cc, .cxx), nor a header", None)
        } else {
            let help = "only .cu files are compiled here; C++ for torch goes into [torch] src";
            ("a .cu file nor a header", Some(help))
        };
        self.fail(&word.at, format!("`{}` is neither {is}", word.value), help);
        false
    }

    /// The files or folders of a list, each found to be there.
    fn existing<'m>(
        &mut self,
        list: Option<&'m Words>,
        wanted: Wanted,
        help: Option<&str>,
    ) -> Vec<(&'m Word, PathBuf)> {
        let mut found = Vec::new();
        for word in list.into_iter().flat_map(|list| &list.items) {
            match inside(self.root, &word.value, wanted) {
                Ok(path) => found.push((word, path)),
                Err(message) => self.fail(&word.at, message, help),
            }
        }
        found
    }

    /// The `.cu` files of all kernels.
    fn sources(&mut self, kernels: &[(&Kernel, KernelTable)]) -> Vec<PathBuf> {
        let mut sources: Vec<PathBuf> = Vec::new();
        for (kernel, table) in kernels {
            for source in table.sources.iter().filter(|path| is_cu(path)) {
                if sources.contains(source) {
                    let message = format!("`{}` is listed twice", source.display());
                    self.fail(&kernel.at, message, None);
                } else {
                    sources.push(source.clone());
                }
            }
        }
        sources
    }

    /// The harness links all sources into one object, which is compiled with one set of flags.
    fn same_flags(&mut self, kernels: &[(&Kernel, KernelTable)]) {
        let Some(((first, first_table), others)) = kernels.split_first() else {
            return;
        };
        let at = |kernel: &Kernel| match &kernel.cuda_flags {
            Some(flags) => flags.at.clone(),
            None => kernel.at.clone(),
        };
        let line = self.document.line_of(at(first).start);
        for (kernel, table) in others {
            if table.cuda_flags != first_table.cuda_flags {
                let message =
                    format!("`cuda-flags` of [kernel.{}] differ from those of the kernel at line {line}", table.name);
                let help = "all cuda kernels of a project are compiled with the same flags";
                self.fail(&at(kernel), message, Some(help));
            }
        }
    }

    fn compiles_something(&mut self, manifest: &Manifest, sources: &[PathBuf]) {
        if !sources.is_empty() || !self.problems.is_empty() {
            return;
        }
        let (at, message) = match &manifest.kernels_at {
            Some(at) => {
                (at.clone(), "no [kernel.X] with backend = \"cuda\" has a .cu file: there is nothing to compile")
            }
            None => (0..0, "build.toml lacks [kernel.X]: there is nothing to compile"),
        };
        let help = "add, for example: src = [\"my_kernel.cu\"] to a [kernel.my_kernel]";
        self.fail(&at, message, Some(help));
    }
}

/// All of them once, in the order of their first appearance.
fn distinct(paths: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for path in paths {
        if !all.contains(&path) {
            all.push(path);
        }
    }
    all
}

fn range(range: &VersionRange) -> Range<Option<String>> {
    let text = |word: &Option<Word>| word.as_ref().map(|word| word.value.clone());
    text(&range.low)..text(&range.high)
}

impl BuildToml {
    /// The name as Python writes it: the package's folder below `torch-ext`.
    pub(crate) fn python_name(&self) -> String {
        self.name.replace('-', "_")
    }
}
