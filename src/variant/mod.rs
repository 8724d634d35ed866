//! A project as the Hub's loader takes it: `build/torch-stable-abi211-cu130-x86_64-linux/`, with nvcc and a C++
//! compiler alone, through torch's stable ABI.

mod abi;
mod arch;
mod compat;
mod link;
mod metadata;
mod object;
mod place;
mod plan;
mod sources;

pub use place::Protected;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::compile::parallel;
use crate::compile::store::Store;
use crate::project::TorchProject;
use crate::toolchain::{HostCompiler, Known, Toolchain, Torch, Version};

use metadata::{Digest, METADATA};
use object::Compiler;
use place::{Existing, Stage};
use plan::Plan;
use sources::Sources;

/// What is asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options<'a> {
    /// Compute capabilities without the point; none: those of the project, else the usual ones.
    pub archs: &'a [u32],
    /// The folder for variants; none: `build` of the project.
    pub out: Option<&'a Path>,
    /// The Python in whose environment torch is.
    pub python: Option<&'a Path>,
    /// Compile again, and replace what this program did not write, after moving it to a backup.
    pub force: bool,
}

/// A variant that lies where it belongs.
#[derive(Clone, Debug)]
pub struct Variant {
    /// `torch-stable-abi211-cu130-x86_64-linux`
    pub name: String,
    /// The module's name, and the namespace of its operators.
    pub id: String,
    /// Its folder.
    pub path: PathBuf,
    /// The shared object.
    pub library: PathBuf,
    /// What it was compiled for, as metadata.json has it: `8.0`, `9.0+PTX`.
    pub archs: Vec<String>,
    /// nvcc's version.
    pub compiler: String,
    /// The C++ compiler's.
    pub host: String,
    /// How it was made; none: it was there, whole.
    pub made: Option<Made>,
    /// What was left out, and why.
    pub notes: Vec<String>,
}

/// How a variant was made.
#[derive(Clone, Debug)]
pub struct Made {
    /// torch's version, whose headers were used.
    pub torch: String,
    /// Where they were found.
    pub torch_origin: String,
    /// Files that were compiled now.
    pub compiled: usize,
    /// Files whose objects came from the cache.
    pub cached: usize,
    /// What it needs, by soname.
    pub libraries: Vec<String>,
    /// Symbols that were defined in it for older systems.
    pub compat: Vec<String>,
    /// What compilers said, by file.
    pub warnings: Vec<String>,
    /// Where what was replaced by force lies now.
    pub backup: Option<PathBuf>,
}

/// Builds the variant of a project, unless it is there as it would be built.
///
/// The project's folder is only read, but for `build`. Everything is put together beside the final folder and takes
/// its place in one step; what this program did not write is never deleted ([`Protected`]).
pub fn build(
    project: &TorchProject,
    options: Options<'_>,
    tell: &(dyn Fn(&str) + Sync),
) -> Result<Variant> {
    if !cfg!(target_os = "linux") {
        bail!("variants are built on Linux alone");
    }
    let builder = Builder::new(project, options)?;
    let mut variant = builder.variant();
    if builder.is_built(&variant.path)? {
        return Ok(variant);
    }
    let torch = Torch::find(options.python, project.stable_abi)?;
    suits(project, &torch, &builder.toolchain, &mut variant.notes)?;
    let store = Store::open()?;
    let objects = builder.compile(&torch, &store, tell)?;
    let linked = link::library(
        &builder.plan,
        &objects,
        &builder.toolchain,
        &builder.host,
        &torch,
        &store,
        options.force,
    )?;
    let backup = builder.install(&linked.path, &variant.path)?;
    let compiled = objects.iter().filter(|made| made.seconds.is_some()).count();
    variant.made = Some(Made {
        torch: torch.version,
        torch_origin: torch.origin,
        compiled,
        cached: objects.len() - compiled,
        libraries: linked.libraries,
        compat: linked.compat,
        warnings: objects
            .into_iter()
            .filter(|made| made.seconds.is_some() && !made.said.is_empty())
            .map(|made| made.said)
            .collect(),
        backup,
    });
    Ok(variant)
}

/// The module's name that a build of the sources as they are would have, with this machine's compilers.
pub fn id(project: &TorchProject, archs: &[u32]) -> Result<String> {
    let options = Options {
        archs,
        ..Options::default()
    };
    Ok(Builder::new(project, options)?.plan.id)
}

/// All that a build follows from.
struct Builder<'a> {
    project: &'a TorchProject,
    options: Options<'a>,
    toolchain: Toolchain,
    host: HostCompiler,
    sources: Sources,
    plan: Plan,
    /// The shared object's name.
    library: String,
    /// The folder of variants.
    out: PathBuf,
}

impl<'a> Builder<'a> {
    fn new(project: &'a TorchProject, options: Options<'a>) -> Result<Self> {
        let known = Known::load();
        let toolchain = Toolchain::find_known(&known)?;
        let host = HostCompiler::find_known(&known)?;
        let sources = Sources::read(project)?;
        let plan = Plan::new(project, &sources, &toolchain, &host, options.archs)?;
        let out = match options.out {
            Some(out) => std::path::absolute(out)
                .with_context(|| format!("--out {} is no path", out.display()))?,
            None => project.root.join("build"),
        };
        Ok(Self {
            library: format!("{}.abi3.so", plan.id),
            project,
            options,
            toolchain,
            host,
            sources,
            plan,
            out,
        })
    }

    fn variant(&self) -> Variant {
        let path = self.out.join(&self.plan.name);
        Variant {
            name: self.plan.name.clone(),
            id: self.plan.id.clone(),
            library: path.join(&self.library),
            path,
            archs: self.plan.archs.iter().map(ToString::to_string).collect(),
            compiler: self.toolchain.version.clone(),
            host: self.host.version.clone(),
            made: None,
            notes: self.plan.notes.clone(),
        }
    }

    /// Whether the variant is at its place as it would be built. An error where something else is.
    fn is_built(&self, place: &Path) -> Result<bool> {
        if self.options.force {
            return Ok(false);
        }
        match place::look(place)? {
            Existing::Nothing => Ok(false),
            Existing::Foreign(files) => Err(Protected {
                path: place.to_owned(),
                files,
            }
            .into()),
            Existing::Whole {
                id,
                files,
                metadata,
            } => {
                let mut package = self.sources.package.keys();
                let whole = id == self.plan.id
                    && package.all(|path| files.contains_key(&*path.to_string_lossy()))
                    && files.contains_key(&self.library)
                    && files.contains_key("_ops.py");
                Ok(whole && self.metadata(files)? == metadata)
            }
        }
    }

    /// The text of `metadata.json` for files with these digests.
    fn metadata(&self, files: BTreeMap<String, String>) -> Result<String> {
        metadata::text(self.project, &self.plan, &Digest::new(files))
    }

    fn compile(
        &self,
        torch: &Torch,
        store: &Store,
        tell: &(dyn Fn(&str) + Sync),
    ) -> Result<Vec<object::Made>> {
        let compiler = Compiler::new(
            &self.project.root,
            &self.plan,
            &self.sources,
            &self.toolchain,
            &self.host,
            torch,
            store,
            self.options.force,
        );
        parallel::map(&self.plan.units, |unit| {
            let made = compiler.unit(unit)?;
            let how = match made.seconds {
                Some(seconds) => format!("compiled in {seconds:.1} s"),
                None => "from the cache".to_owned(),
            };
            tell(&format!("{}: {how}", unit.source.display()));
            Ok(made)
        })
    }

    /// Puts the variant together and in place; answers where what was replaced lies.
    fn install(&self, library: &Path, place: &Path) -> Result<Option<PathBuf>> {
        let stage = Stage::new(&self.out)?;
        let object =
            std::fs::read(library).with_context(|| format!("cannot read {}", library.display()))?;
        let ops = metadata::ops(&self.plan.id).into_bytes();
        let generated = [
            (PathBuf::from(&self.library), &object, true),
            (PathBuf::from("_ops.py"), &ops, false),
        ];
        let package = self.sources.package.iter();
        let package = package.map(|(path, bytes)| (path.clone(), bytes, false));
        let mut files = BTreeMap::new();
        for (path, bytes, executable) in package.chain(generated) {
            stage.write(&path, bytes, executable)?;
            files.insert(path.to_string_lossy().into_owned(), metadata::digest(bytes));
        }
        let text = self.metadata(files)?;
        stage.write(Path::new(METADATA), text.as_bytes(), false)?;
        // Looked at once more: the compilers took their time.
        let foreign = matches!(place::look(place)?, Existing::Foreign(_));
        if foreign && !self.options.force {
            bail!(
                "{} was changed during the build; nothing was replaced: run the build again",
                place.display()
            );
        }
        stage.put(place, foreign)
    }
}

/// Whether the torch that was found is one that the project may be built with.
fn suits(
    project: &TorchProject,
    torch: &Torch,
    toolchain: &Toolchain,
    notes: &mut Vec<String>,
) -> Result<()> {
    let range = &project.torch.range;
    let bound = |text: &Option<String>| text.as_deref().and_then(Version::parse);
    let found = format!("torch {} of {}", torch.version, torch.folder.display());
    if let Some(least) = bound(&range.start).filter(|least| torch.release < *least) {
        bail!(
            "[torch] minver requires torch >= {least}; found {found}: activate an environment with a newer one"
        );
    }
    if let Some(most) = bound(&range.end).filter(|most| torch.release > *most) {
        bail!(
            "[torch] maxver requires torch <= {most}; found {found}: activate an environment with an older one"
        );
    }
    let cuda = |text: &str| Version::parse(text).map(|version| version.major);
    if cuda(&torch.cuda) != cuda(&toolchain.version) {
        notes.push(format!(
            "the variant is for a torch with CUDA {}, and torch {} has CUDA {}: it would not load this variant",
            cuda(&toolchain.version).unwrap_or_default(),
            torch.version,
            torch.cuda
        ));
    }
    Ok(())
}
