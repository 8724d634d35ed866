//! Compiles cuda and cpp blocks to objects, which are discarded.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::Options;
use super::diagnosis::{self, Diagnosis};
use super::document::Document;
use super::fence::Block;
use super::job::{Job, Jobs, is_cuda};
use super::layout::Work;
use super::process;
use super::report::Gathered;
use crate::base::text::and;
use crate::compile::key::{Key, sha256};
use crate::compile::nvcc::{check_path, prerequisites};
use crate::compile::parallel;
use crate::compile::read::Read;
use crate::compile::store::Store;
use crate::toolchain::{HostCompiler, Toolchain, ToolchainError, Torch, Version, clean};

/// Name of the dependency file (`-MF`).
const DEPENDENCIES: &str = "object.d";
/// Time limit of one compilation.
const SECONDS: u64 = 300;
const PYTHON: &str = "Python.h";

struct Compiler {
    toolchain: Toolchain,
    host: HostCompiler,
    torch: Result<Torch, ToolchainError>,
    /// The folder of Python.h, if a block includes it and it was found.
    python: Option<PathBuf>,
    /// The blocks that compiled before; `None` without a cache folder.
    store: Option<Store>,
}

enum Outcome {
    Clean,
    /// Errors, each with the architectures that report it.
    Wrong(Vec<(Diagnosis, Vec<String>)>),
    Unchecked(String),
}

/// Compiles every block; returns the compiler's version, if there is a compiler.
pub(super) fn check(
    documents: &[Document],
    work: &Work,
    options: &Options,
    gathered: &mut Gathered,
) -> Result<Option<Toolchain>> {
    let mut jobs = Jobs::default();
    for number in 0..documents.len() {
        jobs.add(number, documents, work, gathered)?;
    }
    let wants_python = jobs.all.iter().any(|job| job.included.names.contains(PYTHON));
    let compiler = compiler(options, wants_python);
    let is_ours = |file: &str| documents.iter().any(|document| document.path == file);
    let numbered: Vec<(usize, &Job)> = jobs.all.iter().enumerate().collect();
    let outcomes = match &compiler {
        Err(reason) => jobs.all.iter().map(|_| Outcome::Unchecked(reason.clone())).collect(),
        Ok(compiler) => parallel::map(&numbered, |(number, job)| compile(*number, job, compiler, work, &is_ours))?,
    };
    for (job, outcome) in jobs.all.iter().zip(&outcomes) {
        note(job.block, job.is_cuda, outcome, gathered);
        if let Outcome::Wrong(errors) = outcome {
            for (error, archs) in errors {
                report(job, error, archs, &is_ours, gathered);
            }
        }
    }
    for (first, block, name) in &jobs.carried {
        let carriers = jobs
            .all
            .iter()
            .zip(&outcomes)
            .skip(*first)
            .filter(|(job, _)| job.block.file == block.file && job.included.names.contains(name));
        let best = carriers.min_by_key(|(_, outcome)| matches!(outcome, Outcome::Unchecked(_)));
        if let Some((_, outcome)) = best {
            note(block, is_cuda(block), outcome, gathered);
        }
    }
    let Ok(compiler) = compiler else {
        return Ok(Toolchain::find().ok());
    };
    if !jobs.all.is_empty() {
        gathered.tool("nvcc", &compiler.toolchain.version);
    }
    if let (true, Ok(torch)) = (jobs.all.iter().any(|job| job.included.torch), &compiler.torch) {
        gathered.tool("torch's headers", &torch.version);
    }
    Ok(Some(compiler.toolchain))
}

fn compiler(options: &Options, wants_python: bool) -> Result<Compiler, String> {
    // A wrong CUDA_HOME is reported as such; if no toolkit is found, the next step is named.
    let toolchain = Toolchain::find().map_err(|error| error.to_string())?;
    let host = HostCompiler::find().map_err(|error| error.to_string())?;
    Ok(Compiler {
        torch: torch(options),
        python: wants_python.then(|| python(options)).flatten(),
        store: Store::open().ok(),
        toolchain,
        host,
    })
}

fn note(block: &Block, is_cuda: bool, outcome: &Outcome, gathered: &mut Gathered) {
    let what = if is_cuda { "cuda block" } else { "cpp block" };
    match outcome {
        Outcome::Unchecked(reason) => {
            gathered.unchecked(what, reason, &block.file, block.line);
        }
        _ => gathered.checked(what, 1),
    }
}

/// The include folder of the given Python.
fn python(options: &Options) -> Option<PathBuf> {
    const QUESTION: &str = "import sysconfig; print(sysconfig.get_paths()['include'])";
    let mut python = Command::new(&options.python);
    let ran = process::run(python.args(["-I", "-c", QUESTION]), &[], 30).ok()?;
    let folder = PathBuf::from(ran.out.trim());
    (folder.join(PYTHON).is_file() && check_path(&folder).is_ok()).then_some(folder)
}

/// torch of the given Python, else the torch that `kernels build --torch` finds.
fn torch(options: &Options) -> Result<Torch, ToolchainError> {
    let oldest = Version { major: 2, minor: 0 };
    Torch::find(Some(&options.python), oldest).or_else(|_| Torch::find(None, oldest))
}

fn report(job: &Job<'_>, error: &Diagnosis, archs: &[String], is_ours: &dyn Fn(&str) -> bool, gathered: &mut Gathered) {
    let (rule, arch) = if job.is_cuda {
        let names: Vec<String> = archs.iter().map(|arch| format!("sm_{arch}")).collect();
        ("cuda", format!(" for {}", and(&names)))
    } else {
        ("cpp", String::new())
    };
    let name = job.block.name();
    let (file, line, within) = match &error.place {
        Some((file, line)) if is_ours(file) => (file.as_str(), *line, String::new()),
        Some((file, line)) => (job.block.file.as_str(), job.block.line, format!(" (at {file}:{line})")),
        None => (job.block.file.as_str(), job.block.line, String::new()),
    };
    gathered.find(rule, file, line, format!("{name} does not compile{arch}: {}{within}", error.message));
}

fn compile(
    number: usize,
    job: &Job<'_>,
    compiler: &Compiler,
    work: &Work,
    is_ours: &dyn Fn(&str) -> bool,
) -> Result<Outcome> {
    if job.included.torch && compiler.torch.is_err() {
        return Ok(Outcome::Unchecked(
            "no headers of torch; `kernels toolchain install --torch` puts them into the cache".to_owned(),
        ));
    }
    let all: Vec<&str> = job.archs.iter().map(String::as_str).collect();
    let digest = |header: &Path| Some(sha256(&fs::read(job.folder.join(header)).ok()?));
    let base = compiler.key(job, &all)?;
    let key = |read: &Read| read.key(&base, [], digest);
    let store = compiler.store.as_ref();
    if store.is_some_and(|store| store.recall::<()>(&base, key).is_some()) {
        return Ok(Outcome::Clean);
    }
    let out = output_folder(number, &all, true, work)?;
    let Some(error) = once(job, &all, true, compiler, (work, &out), is_ours)? else {
        // A cache that cannot be written costs a compilation the next time.
        if let Some(store) = store
            && let Ok(scratch) = store.work()
            && let read = Read::only(headers(&out, job, work))
            && !read.headers.is_empty()
            && let Some(key) = key(&read)
        {
            let _ = store.keep(&base, (read, key), (&scratch, &[]), (), |_, ()| true);
        }
        return Ok(Outcome::Clean);
    };
    if let Some(header) = error.missing_header()
        && !includes_quoted(&job.documents, &error, header)
    {
        return Ok(Outcome::Unchecked(format!("there is no <{header}> here")));
    }
    if !job.is_cuda {
        return Ok(Outcome::Wrong(vec![(error, job.archs.clone())]));
    }
    // A run for all architectures reports one error; a run per architecture shows which fail. With optimisation, because
    // some compile-time constants are known only then.
    let mut errors: Vec<(Diagnosis, Vec<String>)> = Vec::new();
    for arch in &all {
        let out = output_folder(number, &[arch], false, work)?;
        if let Some(error) = once(job, &[arch], false, compiler, (work, &out), is_ours)? {
            match errors.iter_mut().find(|(known, _)| *known == error) {
                Some((_, archs)) => archs.push((*arch).to_owned()),
                None => errors.push((error, vec![(*arch).to_owned()])),
            }
        }
    }
    Ok(if errors.is_empty() { Outcome::Clean } else { Outcome::Wrong(errors) })
}

/// Whether the missing header was included in quotes, hence should be a file of the same Markdown.
fn includes_quoted(documents: &[&Document], error: &Diagnosis, header: &str) -> bool {
    let Some((file, line)) = &error.place else {
        return false;
    };
    let wanted = format!("\"{header}\"");
    let includes = |(text, first): (&String, usize)| {
        let at = line.checked_sub(first);
        at.and_then(|at| text.lines().nth(at)).is_some_and(|line| line.contains(&wanted))
    };
    let named = documents.iter().filter(|known| known.path == *file);
    named
        .flat_map(|document| {
            let blocks = document.blocks.iter();
            let harnesses = document.harnesses.iter();
            blocks
                .map(|block| (&block.text, block.line + 1))
                .chain(harnesses.map(|harness| (&harness.text, harness.line + 1)))
        })
        .any(includes)
}

/// One folder per run, so that the files of `--keep` do not collide.
fn output_folder(number: usize, archs: &[&str], quick: bool, work: &Work) -> Result<PathBuf> {
    let out = work.folder(&format!("out/{number}-{}-{quick}", archs.join("-")))?;
    check_path(&out)?;
    Ok(out)
}

/// The included files of the page, relative to the job's folder. Other headers are covered by the versions of the
/// compilers and of torch in the key.
fn headers(out: &Path, job: &Job<'_>, work: &Work) -> Vec<PathBuf> {
    let text = fs::read(out.join(DEPENDENCIES)).unwrap_or_default();
    let laid = work.path();
    let mut headers = prerequisites(&text);
    headers.retain(|path| path.is_relative() || path.starts_with(laid));
    for header in &mut headers {
        if let Ok(inside) = header.strip_prefix(&job.folder) {
            *header = inside.to_owned();
        } else if let Ok(inside) = header.strip_prefix(laid) {
            *header = Path::new("../..").join(inside);
        }
    }
    headers.sort();
    headers.dedup();
    headers
}

impl Compiler {
    /// The cache key before the included headers are known.
    fn key(&self, job: &Job<'_>, archs: &[&str]) -> Result<String> {
        let mut key = Key::new("kernels deep block 1");
        key.field(&self.toolchain.version).field(&self.host.version);
        if let Ok(torch) = &self.torch {
            key.field(&torch.version);
        }
        for argument in self.command(job, archs, true, Path::new(""))?.get_args() {
            key.field(argument.as_encoded_bytes());
        }
        key.field(fs::read(job.folder.join(&job.source))?);
        // A new header may shadow one that was read, so the names of all are part of the key.
        for path in names(&job.folder).into_iter().chain(names(&job.folder.join("../builder"))) {
            key.field(path.as_os_str().as_encoded_bytes());
        }
        Ok(key.finish())
    }

    fn command(&self, job: &Job<'_>, archs: &[&str], quick: bool, out: &Path) -> Result<Command> {
        let mut command = Command::new(&self.toolchain.nvcc);
        clean(&mut command)
            .current_dir(&job.folder)
            .env("TMPDIR", out)
            .arg("-c")
            // The `./` prefix keeps a name that begins with `-` from being an option.
            .arg(Path::new(".").join(&job.source))
            .arg("-o")
            .arg(out.join("object.o"))
            .args(["-MMD", "-MF"])
            .arg(out.join(DEPENDENCIES))
            .args(["-std=c++17", "-Werror", "all-warnings"])
            .args(["-I", ".", "-I", "../builder"])
            .args(job.includes.iter().flat_map(|folder| [Path::new("-I"), folder]))
            .arg("-ccbin")
            .arg(&self.host.path);
        if job.is_cuda {
            // PTX with line information, to map ptxas errors to source lines.
            command.args(["-lineinfo", "--keep", "--keep-dir"]).arg(out);
            if quick && self.toolchain.release() >= Some((13, 0)) {
                // Compile time drops to a quarter; the object is discarded.
                command.arg("--Ofast-compile=max");
            }
            for arch in archs {
                command.arg("-gencode").arg(format!("arch=compute_{arch},code=sm_{arch}"));
            }
        }
        if let Some(python) = &self.python {
            command.arg("-isystem").arg(python);
        }
        if let (true, Ok(torch)) = (job.included.torch, &self.torch) {
            for folder in torch.includes() {
                check_path(&folder)?;
                command.arg("-isystem").arg(folder);
            }
            command.args(["-DTORCH_EXTENSION_NAME=_block", "-DUSE_CUDA=1", "-DCUDA_KERNEL"]);
            if !job.included.unstable {
                let Version { major, minor } = torch.release;
                let version = u64::from(major) << 56 | u64::from(minor) << 48;
                command.arg(format!("-DTORCH_TARGET_VERSION=0x{version:016x}"));
            }
        }
        Ok(command)
    }
}

/// The files below a folder, in order.
fn names(folder: &Path) -> Vec<PathBuf> {
    walkdir::WalkDir::new(folder)
        .sort_by_file_name()
        .into_iter()
        .flatten()
        .filter(|entry| !entry.file_type().is_dir())
        .filter_map(|entry| entry.path().strip_prefix(folder).ok().map(Path::to_owned))
        .collect()
}

/// Runs nvcc once; `None` if it succeeds.
fn once(
    job: &Job<'_>,
    archs: &[&str],
    quick: bool,
    compiler: &Compiler,
    (work, out): (&Work, &Path),
    is_ours: &dyn Fn(&str) -> bool,
) -> Result<Option<Diagnosis>> {
    let mut command = compiler.command(job, archs, quick, out)?;
    let ran = process::run(&mut command, &[], SECONDS)?;
    if ran.is_late {
        return Ok(Some(Diagnosis { message: format!("nvcc was not done after {SECONDS} s"), ..Diagnosis::default() }));
    }
    if ran.status.success() {
        return Ok(None);
    }
    let said = work.hide(&format!("{}\n{}", ran.err, ran.out));
    let mut found = diagnosis::first(&said, is_ours).unwrap_or_else(|| Diagnosis {
        message: said
            .lines()
            .map(str::trim)
            .find(|line| !line.is_empty())
            .map_or_else(|| format!("nvcc: {}", ran.status), str::to_owned),
        ..Diagnosis::default()
    });
    if let Some((file, line)) = &found.place
        && Path::new(file).extension().is_some_and(|ending| ending == "ptx")
    {
        let name = Path::new(file).file_name().unwrap_or_default();
        let ptx = fs::read_to_string(out.join(name)).unwrap_or_default();
        found.place = diagnosis::source_of(&ptx, *line).map(|(file, line)| (work.hide(&file), line));
        if let Some((file, _)) = &mut found.place
            && let Some(inside) = file.strip_prefix(&work.hide(&format!("{}/", job.folder.display())))
        {
            *file = inside.to_owned();
        }
    }
    Ok(Some(found))
}
