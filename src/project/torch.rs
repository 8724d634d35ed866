//! A project as kernel-builder sees it: build.toml alone, with a `[torch]` that asks for the stable ABI.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};

use super::build_toml::{self, BuildToml, Purpose, TorchTable};
use super::diagnostic::Document;
use super::manifest::{self, Kind, Words};
use super::path::{is_cu, is_cxx};
use super::{BUILD_TOML, text};
use crate::toolchain::Version;

/// A project to be built for torch, read and checked.
#[derive(Clone, Debug)]
pub(crate) struct TorchProject {
    /// Its folder, absolute, links resolved.
    pub(crate) root: PathBuf,
    /// build.toml.
    pub(crate) build: BuildToml,
    /// `[torch]`.
    pub(crate) torch: TorchTable,
    /// `[general] version`, which the Hub's loader wants.
    pub(crate) version: u64,
    /// `[general] license`.
    pub(crate) license: String,
    /// The oldest torch that the variant runs with.
    pub(crate) stable_abi: Version,
}

/// The first torch whose stable ABI has what a binding needs: tensors, a device guard, the current stream.
const FIRST_STABLE: Version = Version { major: 2, minor: 10 };

impl TorchProject {
    /// Whether a folder's build.toml has a binding for torch: C++ in the `src` of [torch].
    pub(crate) fn is_one(dir: &Path) -> bool {
        let Ok(text) = text(dir, BUILD_TOML) else { return false };
        let (manifest, _) = manifest::read(&Document::new(dir.join(BUILD_TOML), text));
        let torch = manifest.frameworks.iter().filter(|one| one.kind == Kind::Torch);
        torch.flat_map(|torch| Words::texts(torch.src.as_ref())).any(|path| is_cxx(Path::new(&path)))
    }

    /// Reads a project's build.toml, and checks that it can be built here; kernel.toml is not needed.
    pub(crate) fn open(dir: &Path) -> anyhow::Result<Self> {
        let root = fs::canonicalize(dir).with_context(|| format!("there is no project at {}", dir.display()))?;
        ensure!(root.is_dir(), "{} is not a folder; a project is a folder with {BUILD_TOML}", dir.display());
        let path = dir.join(BUILD_TOML);
        let document = Document::new(path.clone(), text(dir, BUILD_TOML)?);
        let build = build_toml::read(&document, &root, Purpose::Torch)?;
        let shown = path.display();
        if let [first, second, ..] = build.frameworks[..] {
            bail!("{shown} has both [{first}] and [{second}]; a project is for one framework: remove one");
        }
        let Some(torch) = build.torch.clone() else {
            match build.frameworks.first() {
                Some(other) => bail!(
                    "{shown} is for [{other}], which has nothing to compile for torch; `--torch` builds projects with \
                     [torch]: build this one with kernel-builder"
                ),
                None => bail!(
                    "{shown} has no [torch], so there is no binding to build; add one with src = [\"torch-ext/torch_binding.cpp\"] \
                     and stable-abi = \"2.11\""
                ),
            }
        };
        let Some(stable_abi) = torch.stable_abi.as_deref().and_then(Version::parse) else {
            bail!(
                "{shown}: [torch] has no stable-abi for cuda, and a build tied to one version of torch is not supported \
                 here; port the binding to torch/csrc/stable and add stable-abi = \"2.11\", or build it with kernel-builder"
            );
        };
        ensure!(
            stable_abi >= FIRST_STABLE,
            "{shown}: stable-abi = \"{stable_abi}\" is older than {FIRST_STABLE}, whose stable ABI is the first that a \
             CUDA kernel can do with; write \"2.11\""
        );
        ensure!(
            torch.sources.iter().any(|path| is_cxx(path)),
            "{shown}: [torch] src names no C++ file, so no op would be registered; add the binding, for example \
             src = [\"torch-ext/torch_binding.cpp\"]"
        );
        for source in &torch.sources {
            ensure!(
                is_cxx(source) || !is_cu(source),
                "{shown}: [torch] src has {}; a .cu file goes into the src of a [kernel.X], which says for which cards",
                source.display()
            );
        }
        let Some(version) = build.version else {
            bail!("{shown}: [general] has no `version`, which the Hub's loader wants; add version = 1");
        };
        let Some(license) = build.license.clone() else {
            bail!(
                "{shown}: [general] has no `license`, which the Hub's loader wants; add license = \"Apache-2.0\" or yours"
            );
        };
        for kernel in &build.kernels {
            if let Some(other) = kernel.depends.iter().find(|name| *name != "torch") {
                bail!(
                    "{shown}: [kernel.{}] depends on `{other}`, which kernel-builder fetches and this program does not; \
                     copy its headers into the project and name their folder in `include`, or build with kernel-builder",
                    kernel.name
                );
            }
        }
        Ok(Self { root, build, torch, version, license, stable_abi })
    }
}
