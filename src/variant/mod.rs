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
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, Result, bail};

use crate::compile::parallel;
use crate::compile::store::Store;
use crate::project::TorchProject;
use crate::toolchain::{HostCompiler, Known, Toolchain, Torch, Version};

use metadata::{Digest, METADATA};
use object::Compiler;
use place::{Stage, There};
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
    let place = out.join(&plan.name);
    let library = format!("{}.abi3.so", plan.id);
    let mut variant = Variant {
        name: plan.name.clone(),
        id: plan.id.clone(),
        library: place.join(&library),
        path: place,
        archs: plan.archs.iter().map(ToString::to_string).collect(),
        compiler: toolchain.version.clone(),
        host: host.version.clone(),
        made: None,
        notes: plan.notes.clone(),
    };
    let there = place::look(&variant.path)?;
    match there {
        There::Whole {
            id,
            files,
            metadata,
        } if !options.force && id == plan.id => {
            let whole = sources
                .package
                .keys()
                .all(|path| files.contains_key(&*path.to_string_lossy()))
                && files.contains_key(&library)
                && files.contains_key("_ops.py");
            if whole && metadata::text(project, &plan, &Digest::new(files))? == metadata {
                return Ok(variant);
            }
        }
        There::Foreign(files) if !options.force => {
            return Err(Protected {
                path: variant.path,
                files,
            }
            .into());
        }
        _ => {}
    }
    let torch = Torch::find(options.python, project.stable_abi)?;
    suits(project, &torch, &toolchain, &mut variant.notes)?;
    let store = Store::open()?;
    let compiler = Compiler::new(
        &project.root,
        &plan,
        &sources,
        &toolchain,
        &host,
        &torch,
        &store,
        options.force,
    );
    let done = AtomicUsize::new(0);
    let objects = parallel::map(&plan.units, |unit| {
        let made = compiler.unit(unit)?;
        let word = match made.seconds {
            Some(seconds) => {
                done.fetch_add(1, Ordering::Relaxed);
                format!("compiled in {seconds:.1} s")
            }
            None => "from the cache".to_owned(),
        };
        tell(&format!("{}: {word}", unit.source.display()));
        Ok(made)
    })?;
    let linked = link::library(
        &plan,
        &objects,
        &toolchain,
        &host,
        &torch,
        &store,
        options.force,
    )?;
    let stage = Stage::new(&out)?;
    let object = std::fs::read(&linked.path)
        .with_context(|| format!("cannot read {}", linked.path.display()))?;
    let mut files = BTreeMap::new();
    let ops = metadata::ops(&plan.id).into_bytes();
    let generated = [
        (PathBuf::from(&library), &object, true),
        (PathBuf::from("_ops.py"), &ops, false),
    ];
    let package = sources
        .package
        .iter()
        .map(|(path, bytes)| (path.clone(), bytes, false));
    for (path, bytes, program) in package.chain(generated) {
        stage.write(&path, bytes, program)?;
        files.insert(path.to_string_lossy().into_owned(), metadata::digest(bytes));
    }
    let text = metadata::text(project, &plan, &Digest::new(files))?;
    stage.write(Path::new(METADATA), text.as_bytes(), false)?;
    // Looked at once more: the compilers took their time.
    let foreign = matches!(place::look(&variant.path)?, There::Foreign(_));
    if foreign && !options.force {
        bail!(
            "{} was changed during the build; nothing was replaced: run the build again",
            variant.path.display()
        );
    }
    let backup = stage.put(&variant.path, foreign)?;
    let now = done.into_inner();
    variant.made = Some(Made {
        torch: torch.version,
        torch_origin: torch.origin,
        compiled: now,
        cached: objects.len() - now,
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
    let known = Known::load();
    let toolchain = Toolchain::find_known(&known)?;
    let host = HostCompiler::find_known(&known)?;
    let sources = Sources::read(project)?;
    Ok(Plan::new(project, &sources, &toolchain, &host, archs)?.id)
}

/// Whether the torch that was found is within what the project asks for.
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
            "[torch] minver is {least}, older is {found}; activate an environment with a newer one"
        );
    }
    if let Some(most) = bound(&range.end).filter(|most| torch.release > *most) {
        bail!(
            "[torch] maxver is {most}, newer is {found}; activate an environment with an older one"
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
