//! Compilation units with their options, and the variant's identity.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail, ensure};

use super::arch;
use super::rename::TAIL;
use super::sources::{Sources, csrc};
use crate::base::arch::Capability;
use crate::compile::flags;
use crate::compile::key::Key;
use crate::compile::nvcc::{self, check_path};
use crate::project::TorchProject;
use crate::project::path::{is_cu, is_cxx};
use crate::toolchain::{HostCompiler, Toolchain, Version};

pub(super) const REGISTRATION: &str = include_str!("registration.h");

pub(super) struct Plan {
    /// The units, slow ones first.
    pub(super) units: Vec<UnitPlan>,
    /// `_my_kernel_cuda_0123abc`: the name of the module and its operators' namespace.
    pub(super) id: String,
    /// A name of the same length as `id` that does not depend on the sources.
    pub(super) placeholder: String,
    /// `torch-stable-abi211-cu130-x86_64-linux`
    pub(super) name: String,
    /// All architectures, as metadata.json lists them.
    pub(super) archs: Vec<Capability>,
    /// What was left out, and why.
    pub(super) notes: Vec<String>,
}

pub(super) struct UnitPlan {
    /// Relative to the project.
    pub(super) source: PathBuf,
    /// Compiled by nvcc, else by the C++ compiler.
    pub(super) cuda: bool,
    /// Options that do not depend on the location of torch.
    pub(super) flags: Vec<String>,
}

impl Plan {
    pub(super) fn new(
        project: &TorchProject,
        sources: &Sources,
        toolchain: &Toolchain,
        host: &HostCompiler,
        asked: &[u32],
        compiled: &[u32],
    ) -> Result<Self> {
        check_path(&project.root)?;
        for path in sources.code.keys() {
            check_path(path)?;
        }
        let cuda = cuda(project, toolchain)?;
        let mut plan = Self {
            units: Vec::new(),
            id: String::new(),
            placeholder: format!("_{}_cuda_{TAIL}", project.build.python_name()),
            name: variant_name(project.stable_abi, cuda, &host.cpu),
            archs: Vec::new(),
            notes: Vec::new(),
        };
        plan.add_kernels(project, (toolchain, cuda, host), (asked, compiled))?;
        let torch = &project.torch;
        let csrc = csrc(project);
        let include: Vec<&Path> = torch.includes.iter().chain(&csrc).map(PathBuf::as_path).collect();
        for source in torch.sources.iter().filter(|path| is_cxx(path)) {
            plan.add(cxx_unit(project, host, source, &include, &torch.cxx_flags)?)?;
        }
        plan.archs.sort_unstable();
        plan.archs.dedup();
        plan.units.sort_by_key(|unit| !unit.cuda);
        plan.id =
            format!("_{}_cuda_{}", project.build.python_name(), &plan.digest(sources, toolchain, host)[..TAIL.len()]);
        Ok(plan)
    }

    /// Adds the sources of every `[kernel.X]` that this CUDA can compile, for those of the `asked` architectures, if any are, that
    /// nvcc compiles for.
    fn add_kernels(
        &mut self,
        project: &TorchProject,
        (toolchain, cuda, host): (&Toolchain, Version, &HostCompiler),
        (asked, compiled): (&[u32], &[u32]),
    ) -> Result<()> {
        let csrc = csrc(project);
        for kernel in &project.build.kernels {
            if let Some(least) = kernel.cuda_minver.as_deref().and_then(Version::parse)
                && cuda < least
            {
                self.notes.push(format!(
                    "[kernel.{}] is left out: its cuda-minver is {least}, and nvcc is {}",
                    kernel.name, toolchain.version
                ));
                continue;
            }
            let archs = arch::of(kernel, asked, compiled)?;
            let include: Vec<&Path> = kernel.includes.iter().chain(&csrc).map(PathBuf::as_path).collect();
            for source in &kernel.sources {
                if is_cu(source) {
                    self.add(cuda_unit(project, source, &include, &kernel.cuda_flags, &archs)?)?;
                } else if is_cxx(source) {
                    self.add(cxx_unit(project, host, source, &include, &kernel.cxx_flags)?)?;
                }
            }
            self.archs.extend(archs);
        }
        Ok(())
    }

    fn add(&mut self, unit: UnitPlan) -> Result<()> {
        ensure!(
            self.units.iter().all(|known| known.source != unit.source),
            "{} is listed twice in build.toml; a file is compiled once",
            unit.source.display()
        );
        self.units.push(unit);
        Ok(())
    }

    /// SHA-256 of everything that affects the variant's code: compilers, options, sources, the package. The project's path
    /// and the torch version of the headers are excluded.
    ///
    /// The package is included, because two versions of it in one process must not register the same namespace.
    fn digest(&self, sources: &Sources, toolchain: &Toolchain, host: &HostCompiler) -> String {
        let mut key = Key::new("kernels variant 1");
        key.field(&self.name).field(&toolchain.version).field(&host.version).field(REGISTRATION);
        for unit in &self.units {
            key.field(unit.source.as_os_str().as_encoded_bytes()).field((unit.flags.len() as u64).to_be_bytes());
            for flag in &unit.flags {
                key.field(flag);
            }
        }
        for files in [&sources.code, &sources.package] {
            key.field((files.len() as u64).to_be_bytes());
            for (path, bytes) in files {
                key.field(path.as_os_str().as_encoded_bytes()).field(bytes);
            }
        }
        key.finish()
    }
}

/// nvcc's version; an error if the project does not allow it.
fn cuda(project: &TorchProject, toolchain: &Toolchain) -> Result<Version> {
    let found = &toolchain.version;
    let Some(cuda) = Version::parse(found) else {
        bail!("nvcc's version {found} cannot be read");
    };
    let range = &project.build.cuda_range;
    let bound = |text: &Option<String>| text.as_deref().and_then(Version::parse);
    if let Some(least) = bound(&range.start).filter(|least| cuda < *least) {
        bail!(
            "[general.cuda] minver is {least}, and nvcc is {found}: set CUDA_HOME to a newer toolkit, or lower minver"
        );
    }
    if let Some(most) = bound(&range.end).filter(|most| cuda > *most) {
        bail!(
            "[general.cuda] maxver is {most}, and nvcc is {found}: set CUDA_HOME to an older toolkit, or raise maxver"
        );
    }
    Ok(cuda)
}

/// The folder's name, from which the Hub's loader chooses a variant.
fn variant_name(abi: Version, cuda: Version, cpu: &str) -> String {
    format!("torch-stable-abi{}{}-cu{}{}-{cpu}-linux", abi.major, abi.minor, cuda.major, cuda.minor)
}

/// Macros for every file, the same as kernel-builder's.
fn definitions(project: &TorchProject) -> [String; 4] {
    let Version { major, minor } = project.stable_abi;
    [
        format!("-DTORCH_TARGET_VERSION=0x{:016x}", u64::from(major) << 56 | u64::from(minor) << 48),
        // Python 3.9.
        "-DPy_LIMITED_API=0x03090000".to_owned(),
        "-DCUDA_KERNEL".to_owned(),
        "-DUSE_CUDA=1".to_owned(),
    ]
}

fn cuda_unit(
    project: &TorchProject,
    source: &Path,
    include: &[&Path],
    own: &[String],
    archs: &[Capability],
) -> Result<UnitPlan> {
    let mut flags = nvcc::defaults(own);
    flags.extend(nvcc::SHIPPED.map(str::to_owned));
    for flag in [
        // Reduces the size to a third.
        "-Xfatbin=-compress-all",
        "-Xcompiler=-fPIC",
        "-Xcompiler=-fno-gnu-unique",
    ] {
        flags.push(flag.to_owned());
    }
    flags.extend(definitions(project));
    flags.extend(archs.iter().map(|arch| format!("-gencode={}", arch.gencode())));
    flags.extend(include.iter().map(|path| format!("-I{}", path.display())));
    if let Some((_, why)) = flags::refused(own) {
        bail!("{why}");
    }
    flags.extend(own.iter().cloned());
    Ok(UnitPlan { source: source.to_owned(), cuda: true, flags })
}

fn cxx_unit(
    project: &TorchProject,
    host: &HostCompiler,
    source: &Path,
    include: &[&Path],
    own: &[String],
) -> Result<UnitPlan> {
    if let Some((_, why)) = flags::refused_cxx(own) {
        bail!("{why}");
    }
    let mut flags: Vec<String> = ["-O3", "-DNDEBUG", "-fPIC"].map(str::to_owned).to_vec();
    // clang lacks this option.
    if !host.version.contains("clang") {
        flags.push("-fno-gnu-unique".to_owned());
    }
    flags.extend(definitions(project));
    flags.extend(include.iter().map(|path| format!("-I{}", path.display())));
    flags.extend(own.iter().cloned());
    Ok(UnitPlan { source: source.to_owned(), cuda: false, flags })
}
