//! Builds a project for the Hub's loader: `build/torch-stable-abi211-cu130-x86_64-linux/`, with nvcc and a C++ compiler,
//! against torch's stable ABI.

mod abi;
mod arch;
mod compat;
mod link;
mod metadata;
mod object;
mod place;
mod plan;
pub(crate) mod provenance;
mod rename;
mod sources;

pub(crate) use place::Protected;

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::compile::key::Key;
use crate::compile::parallel;
use crate::compile::store::Store;
use crate::project::{BUILD_TOML, TorchProject, source_digest};
use crate::toolchain::{HostCompiler, Known, Toolchain, Torch, Version};

use abi::{Needs, Violation};
use metadata::{Digest, METADATA};
use object::Compiler;
use place::{Existing, Stage};
use plan::Plan;
use provenance::Provenance;
use sources::Sources;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options<'a> {
    /// Compute capabilities without the point; if empty, the project's, else the defaults.
    pub(crate) archs: &'a [u32],
    /// The folder of variants; by default `build` of the project.
    pub(crate) out: Option<&'a Path>,
    /// The Python whose torch is used.
    pub(crate) python: Option<&'a Path>,
    /// Recompile, and replace foreign files after moving them to a backup.
    pub(crate) force: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Variant {
    /// `torch-stable-abi211-cu130-x86_64-linux`
    pub(crate) name: String,
    /// The name of the module and its operators' namespace.
    pub(crate) id: String,
    pub(crate) path: PathBuf,
    pub(crate) library: PathBuf,
    /// As in metadata.json: `8.0`, `9.0+PTX`.
    pub(crate) archs: Vec<String>,
    /// The version of nvcc.
    pub(crate) compiler: String,
    /// The version of the C++ compiler.
    pub(crate) host: String,
    /// How it was built; `None` if it was up to date.
    pub(crate) made: Option<Made>,
    /// What was left out, and why.
    pub(crate) notes: Vec<String>,
}

/// Machine code by architecture, `90` or `90a`: sources and their cubins.
pub(crate) type Device = BTreeMap<String, Vec<(PathBuf, PathBuf)>>;

#[derive(Clone, Debug)]
pub(crate) struct Made {
    /// The version of the torch whose headers were used.
    pub(crate) torch: String,
    /// Where its headers were found.
    pub(crate) torch_origin: String,
    /// Number of files compiled.
    pub(crate) compiled: usize,
    /// Number of objects from the cache.
    pub(crate) cached: usize,
    /// Needed libraries, by soname.
    pub(crate) libraries: Vec<String>,
    /// Symbols defined for older systems.
    pub(crate) compat: Vec<String>,
    /// Compiler warnings by file.
    pub(crate) warnings: Vec<String>,
    /// The machine code by architecture, `90` or `90a`: sources and cubins.
    pub(crate) device: Device,
    /// Where the replaced files were moved.
    pub(crate) backup: Option<PathBuf>,
}

/// Builds the variant of a project, unless it is up to date.
///
/// Only `build` in the project's folder is written. The variant is assembled in a staging folder and renamed into place;
/// foreign files are never deleted ([`Protected`]).
pub(crate) fn build(project: &TorchProject, options: Options<'_>, tell: &(dyn Fn(&str) + Sync)) -> Result<Variant> {
    if !cfg!(target_os = "linux") {
        bail!("variants are built on Linux alone");
    }
    let builder = Builder::new(project, options)?;
    let mut variant = builder.variant();
    let (provenance, remark) = builder.provenance();
    variant.notes.extend(remark);
    if builder.is_built(&variant.path, &provenance)? {
        return Ok(variant);
    }
    let torch = Torch::find(options.python, project.stable_abi)?;
    suits(project, &torch, &builder.toolchain, &mut variant.notes)?;
    let store = Store::open()?;
    let objects = builder.compile(&torch, &store, tell)?;
    let linked =
        link::library(&builder.plan, &objects, &builder.toolchain, &builder.host, &torch, &store, options.force)?;
    let backup = builder.install(&linked.path, &variant.path, &provenance)?;
    let mut device = Device::new();
    for (unit, made) in builder.plan.units.iter().zip(&objects) {
        for (arch, cubin) in &made.cubins {
            device.entry(arch.clone()).or_default().push((unit.source.clone(), cubin.clone()));
        }
    }
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
        device,
        backup,
    });
    Ok(variant)
}

/// The module's name that a build of the current sources with this machine's compilers would have.
pub(crate) fn id(project: &TorchProject, archs: &[u32]) -> Result<String> {
    let options = Options { archs, ..Options::default() };
    Ok(Builder::new(project, options)?.plan.id)
}

/// A digest of the kernels' sources and nvcc's options, by which evidence is recorded. It is the same on every machine.
pub(crate) fn sources(project: &TorchProject) -> Result<String> {
    let build = &project.build;
    let mut key = Key::new("kernels variant's sources 1");
    for file in source_digest::files(&project.root, &build.sources, &build.includes)? {
        let path = project.root.join(&file);
        let text = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        key.field(file.as_os_str().as_encoded_bytes()).field(source_digest::plain_bytes(text));
    }
    for kernel in &build.kernels {
        key.field(&kernel.name).field(kernel.cuda_flags.join("\n"));
    }
    Ok(key.finish())
}

/// The shared object of a built variant, if it has one.
pub(crate) fn library(variant: &Path, id: &str) -> Option<PathBuf> {
    Some(variant.join(format!("{id}.abi3.so"))).filter(|path| path.is_file())
}

/// Why a variant's library would not load on every system, as far as the file alone shows: whether torch defines the symbols
/// that it should is not checked.
pub(crate) fn portability(library: &Path, id: &str, cuda: Option<Version>) -> Result<Vec<String>> {
    let cudart = cuda.map_or_else(String::new, |cuda| format!("libcudart.so.{}", cuda.major));
    let violations = Needs::of(library)?.violations(id, &HashSet::new(), &cudart);
    let own = violations.iter().filter(|violation| !matches!(violation, Violation::Nowhere(_)));
    Ok(own.map(ToString::to_string).collect())
}

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
        toolchain.must_compile_for(options.archs, &known)?;
        let compiled = toolchain.archs(&known)?;
        let plan = Plan::new(project, &sources, &toolchain, &host, options.archs, &compiled)?;
        let out = match options.out {
            Some(out) => std::path::absolute(out).with_context(|| format!("--out {} is not a path", out.display()))?,
            None => project.root.join("build"),
        };
        Ok(Self { library: format!("{}.abi3.so", plan.id), project, options, toolchain, host, sources, plan, out })
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

    /// Where it comes from: the commit, and whether it holds all that is compiled or packed.
    fn provenance(&self) -> (Provenance, Option<String>) {
        let package = sources::package_folder(self.project);
        let code = self.sources.code.keys().map(PathBuf::as_path);
        let files: Vec<&Path> = code.chain([package.as_path(), Path::new(BUILD_TOML)]).collect();
        Provenance::of(&self.project.root, &files)
    }

    /// Whether the variant is up to date. An error if the folder has foreign files.
    fn is_built(&self, place: &Path, provenance: &Provenance) -> Result<bool> {
        if self.options.force {
            return Ok(false);
        }
        match place::look(place)? {
            Existing::Nothing => Ok(false),
            Existing::Foreign(files) => Err(Protected { path: place.to_owned(), files }.into()),
            Existing::Whole { id, files, metadata } => {
                let mut package = self.sources.package.keys();
                let whole = id == self.plan.id
                    && package.all(|path| files.contains_key(&*path.to_string_lossy()))
                    && files.contains_key(&self.library)
                    && files.contains_key("_ops.py");
                let same = |one: &Provenance| self.metadata(files.clone(), one).map(|text| text == metadata);
                let kept = || Provenance::kept(&metadata, &self.project.root);
                // Whoever writes a library can write a metadata.json that fits it.
                let whole = whole && is_linked_here(&metadata);
                Ok(whole && (same(provenance)? || kept().as_ref().map(same).transpose()?.unwrap_or(false)))
            }
        }
    }

    fn metadata(&self, files: BTreeMap<String, String>, provenance: &Provenance) -> Result<String> {
        metadata::text(self.project, &self.plan, &sources(self.project)?, &Digest::new(files), provenance)
    }

    fn compile(&self, torch: &Torch, store: &Store, tell: &(dyn Fn(&str) + Sync)) -> Result<Vec<object::Made>> {
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

    /// Assembles the variant and renames it into place; returns the path of the backup.
    fn install(&self, library: &Path, place: &Path, provenance: &Provenance) -> Result<Option<PathBuf>> {
        let stage = Stage::new(&self.out)?;
        let object = std::fs::read(library).with_context(|| format!("cannot read {}", library.display()))?;
        let ops = metadata::ops(&self.plan.id).into_bytes();
        let generated = [(PathBuf::from(&self.library), &object, true), (PathBuf::from("_ops.py"), &ops, false)];
        let package = self.sources.package.iter();
        let package = package.map(|(path, bytes)| (path.clone(), bytes, false));
        let mut files = BTreeMap::new();
        for (path, bytes, executable) in package.chain(generated) {
            stage.write(&path, bytes, executable)?;
            files.insert(path.to_string_lossy().into_owned(), metadata::digest(bytes));
        }
        let text = self.metadata(files, provenance)?;
        stage.write(Path::new(METADATA), text.as_bytes(), false)?;
        // Checked again, because compilation takes long.
        let foreign = matches!(place::look(place)?, Existing::Foreign(_));
        if foreign && !self.options.force {
            bail!("{} was changed during the build; nothing was replaced: run the build again", place.display());
        }
        let backup = stage.put(place, foreign)?;
        // Without it the next build links anew.
        let _ = keep_as_linked_here(&text);
        Ok(backup)
    }
}

/// The key by which the cache knows what was linked with it: of metadata.json, which has the digests of all other files.
fn linked_here(metadata: &str) -> String {
    let mut key = Key::new("kernels torch variant 1");
    key.field(metadata);
    key.finish()
}

/// Whether a variant with this metadata.json was linked with this cache.
fn is_linked_here(metadata: &str) -> bool {
    let Ok(store) = Store::open() else { return false };
    let key = linked_here(metadata);
    let known = store.get::<()>(&key).is_some();
    store.touch(&key);
    known
}

fn keep_as_linked_here(metadata: &str) -> Result<()> {
    let store = Store::open()?;
    store.put(&linked_here(metadata), &store.work()?, &[], ())?;
    Ok(())
}

/// Whether the project may be built with this torch.
fn suits(project: &TorchProject, torch: &Torch, toolchain: &Toolchain, notes: &mut Vec<String>) -> Result<()> {
    let range = &project.torch.range;
    let bound = |text: &Option<String>| text.as_deref().and_then(Version::parse);
    let found = format!("torch {} of {}", torch.version, torch.folder.display());
    if let Some(least) = bound(&range.start).filter(|least| torch.release < *least) {
        bail!("[torch] minver requires torch >= {least}; found {found}: activate an environment with a newer one");
    }
    if let Some(most) = bound(&range.end).filter(|most| torch.release > *most) {
        bail!("[torch] maxver requires torch <= {most}; found {found}: activate an environment with an older one");
    }
    let cuda = |text: &str| Version::parse(text).map(|version| version.major);
    if cuda(&torch.cuda) != cuda(&toolchain.version) {
        notes.push(format!(
            "the variant is for torches with CUDA {}, and torch {} has CUDA {}: for that one, set CUDA_HOME to a toolkit of CUDA {} \
             and build once more",
            cuda(&toolchain.version).unwrap_or_default(),
            torch.version,
            torch.cuda,
            cuda(&torch.cuda).unwrap_or_default()
        ));
    }
    Ok(())
}
