//! cuda and cpp blocks: compiled to objects, which are thrown away.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use super::Options;
use super::diagnosis::{self, Diagnosis};
use super::document::{Document, HOLE, Harness};
use super::fence::{Block, Language};
use super::layout::{Work, write};
use super::process;
use super::report::Gathered;
use crate::base::arch::{self, Capability};
use crate::base::text::and;
use crate::compile::nvcc::check_path;
use crate::compile::parallel;
use crate::toolchain::{HostCompiler, Toolchain, ToolchainError, Torch, Version, clean};

/// Far more than any block of a page takes.
const SECONDS: u64 = 300;
/// Headers of torch.
const TORCH: [&str; 4] = ["torch/", "ATen/", "c10/", "caffe2/"];
/// Of these, those with a stable ABI, which want to be told for which version.
const STABLE: [&str; 3] = [
    "torch/csrc/stable/",
    "torch/headeronly/",
    "torch/csrc/inductor/aoti_torch/c/",
];
/// The header of its C interface.
const PYTHON: &str = "Python.h";
/// What `kernels build --torch` and kernel-builder give a binding.
const REGISTRATION: &str = include_str!("../variant/registration.h");

/// What compiles.
struct Compiler {
    toolchain: Toolchain,
    host: HostCompiler,
    torch: Result<Torch, ToolchainError>,
    /// The folder of Python.h, where a block wants it and it is there.
    python: Option<PathBuf>,
}

/// One run of nvcc.
struct Job<'d> {
    /// The block's, and the one whose files lie below that one's.
    documents: Vec<&'d Document>,
    block: &'d Block,
    is_cuda: bool,
    /// Relative to `folder`.
    source: PathBuf,
    folder: PathBuf,
    archs: Vec<String>,
    /// Folders of headers, below `folder`.
    includes: Vec<PathBuf>,
    reach: Reach<'d>,
}

/// What a document's blocks stand among.
struct Around<'d> {
    /// The document whose files lie below its own.
    base: Option<&'d Document>,
    /// Where its files are laid out.
    folder: PathBuf,
    /// Folders of headers, below that.
    folders: Vec<PathBuf>,
}

/// What a block includes.
struct Reach<'d> {
    /// The last parts of the names.
    names: BTreeSet<&'d str>,
    torch: bool,
    /// Headers of torch that are not of its stable ABI.
    unstable: bool,
}

/// What is to be compiled.
#[derive(Default)]
struct Plan<'d> {
    jobs: Vec<Job<'d>>,
    /// Headers that are compiled through a job of their document: the first that may be it, and the header's name.
    carried: Vec<(usize, &'d Block, &'d str)>,
}

impl<'d> Plan<'d> {
    fn push(
        &mut self,
        document: &'d Document,
        block: &'d Block,
        is_cuda: bool,
        source: PathBuf,
        around: &Around<'d>,
        gathered: &mut Gathered,
    ) {
        let archs = match block.attribute("arch").map(archs) {
            None => arch::defaults().iter().map(u32::to_string).collect(),
            Some(Some(archs)) => archs,
            Some(None) => {
                let message =
                    "arch= is a list of compute capabilities without the point: arch=80,90a";
                gathered.find("fence", &block.file, block.line, message);
                return;
            }
        };
        self.jobs.push(Job {
            documents: std::iter::once(document).chain(around.base).collect(),
            block,
            is_cuda,
            source,
            folder: around.folder.clone(),
            archs,
            includes: around.folders.clone(),
            reach: reach(document, around.base, block),
        });
    }
}

enum Outcome {
    Clean,
    /// The architectures that each error stands for.
    Wrong(Vec<(Diagnosis, Vec<String>)>),
    Unchecked(String),
}

/// Compiles every block; answers the compiler, where there is one.
pub(super) fn check(
    documents: &[Document],
    work: &Work,
    options: &Options,
    gathered: &mut Gathered,
) -> Result<Option<Toolchain>> {
    let mut plan = Plan::default();
    for number in 0..documents.len() {
        gather(number, documents, work, &mut plan, gathered)?;
    }
    let wants_python = plan.jobs.iter().any(|job| job.reach.names.contains(PYTHON));
    let compiler = compiler(options, wants_python);
    let is_ours = |file: &str| documents.iter().any(|document| document.path == file);
    let numbered: Vec<(usize, &Job)> = plan.jobs.iter().enumerate().collect();
    let outcomes = match &compiler {
        Err(reason) => plan
            .jobs
            .iter()
            .map(|_| Outcome::Unchecked(reason.clone()))
            .collect(),
        Ok(compiler) => parallel::map(&numbered, |(number, job)| {
            compile(*number, job, compiler, work, &is_ours)
        })?,
    };
    for (job, outcome) in plan.jobs.iter().zip(&outcomes) {
        note(job.block, job.is_cuda, outcome, gathered);
        if let Outcome::Wrong(errors) = outcome {
            for (error, archs) in errors {
                report(job, error, archs, &is_ours, gathered);
            }
        }
    }
    for (first, block, name) in &plan.carried {
        let carriers = plan
            .jobs
            .iter()
            .zip(&outcomes)
            .skip(*first)
            .filter(|(job, _)| job.block.file == block.file && job.reach.names.contains(name));
        let best = carriers.min_by_key(|(_, outcome)| matches!(outcome, Outcome::Unchecked(_)));
        if let Some((_, outcome)) = best {
            note(block, is_cuda(block), outcome, gathered);
        }
    }
    let Ok(compiler) = compiler else {
        return Ok(Toolchain::find().ok());
    };
    if !plan.jobs.is_empty() {
        gathered.tool("nvcc", &compiler.toolchain.version);
    }
    if let (true, Ok(torch)) = (plan.jobs.iter().any(|job| job.reach.torch), &compiler.torch) {
        gathered.tool("torch's headers", &torch.version);
    }
    Ok(Some(compiler.toolchain))
}

fn compiler(options: &Options, wants_python: bool) -> Result<Compiler, String> {
    // A CUDA_HOME that names none is said as it is; where nothing is, what to do about it.
    let toolchain = Toolchain::find().map_err(|error| error.to_string())?;
    let host = HostCompiler::find().map_err(|error| error.to_string())?;
    Ok(Compiler {
        torch: torch(options),
        python: wants_python.then(|| python(options)).flatten(),
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

/// Python's headers: of the Python that was named.
fn python(options: &Options) -> Option<PathBuf> {
    const QUESTION: &str = "import sysconfig; print(sysconfig.get_paths()['include'])";
    let mut python = Command::new(&options.python);
    let ran = process::run(python.args(["-I", "-c", QUESTION]), &[], 30).ok()?;
    let folder = PathBuf::from(ran.out.trim());
    (folder.join(PYTHON).is_file() && check_path(&folder).is_ok()).then_some(folder)
}

/// torch's headers: of the Python that was named, else of where `kernels build --torch` looks.
fn torch(options: &Options) -> Result<Torch, ToolchainError> {
    let oldest = Version { major: 2, minor: 0 };
    Torch::find(Some(&options.python), oldest).or_else(|_| Torch::find(None, oldest))
}

fn report(
    job: &Job<'_>,
    error: &Diagnosis,
    archs: &[String],
    is_ours: &dyn Fn(&str) -> bool,
    gathered: &mut Gathered,
) {
    let (rule, arch) = if job.is_cuda {
        let names: Vec<String> = archs.iter().map(|arch| format!("sm_{arch}")).collect();
        ("cuda", format!(" for {}", and(&names)))
    } else {
        ("cpp", String::new())
    };
    let name = job.block.name();
    let (file, line, within) = match &error.place {
        Some((file, line)) if is_ours(file) => (file.as_str(), *line, String::new()),
        Some((file, line)) => (
            job.block.file.as_str(),
            job.block.line,
            format!(" (at {file}:{line})"),
        ),
        None => (job.block.file.as_str(), job.block.line, String::new()),
    };
    gathered.find(
        rule,
        file,
        line,
        format!("{name} does not compile{arch}: {}{within}", error.message),
    );
}

/// Writes the sources of a document, and says what is to be compiled.
fn gather<'d>(
    number: usize,
    documents: &'d [Document],
    work: &Work,
    plan: &mut Plan<'d>,
    gathered: &mut Gathered,
) -> Result<()> {
    let document = &documents[number];
    for block in &document.blocks {
        if !is_code(block) && block.attribute("harness").is_some() {
            let message = "harness= is for cuda and cpp blocks";
            gathered.find("fence", &block.file, block.line, message);
        }
    }
    unused(document, gathered);
    if !document.blocks.iter().any(is_code) {
        return Ok(());
    }
    let folder = work.folder(&format!("{number}/files"))?;
    let files = &work.files[number];
    work.lay_out(number, documents, &folder, |block| {
        is_code(block).then(|| located(block))
    })?;
    if !files.keys().any(|path| path.ends_with("registration.h")) {
        write(&folder.join("../builder/registration.h"), REGISTRATION)?;
    }
    // A project names its folders of headers in build.toml; here each that has one is looked into.
    let headers = work
        .blocks(number, documents)
        .filter(|(path, block)| is_code(block) && is_header(path));
    let folders: BTreeSet<PathBuf> = headers
        .filter_map(|(path, _)| Path::new(path).parent().map(Path::to_owned))
        .filter(|folder| !folder.as_os_str().is_empty())
        .collect();
    let around = Around {
        base: work.base(number, documents),
        folder: folder.clone(),
        folders: folders.into_iter().collect(),
    };
    let first = plan.jobs.len();
    let mut headers: Vec<(usize, &Block, &str)> = Vec::new();
    for (at, block) in document.blocks.iter().enumerate() {
        if !is_code(block) {
            continue;
        }
        let path = block.path().filter(|path| files.get(*path) == Some(&at));
        let mut is_cuda = is_cuda(block);
        let source = match (path, block.attribute("harness")) {
            (Some(_), Some(_)) => {
                let message = "a block is a file or stands in a harness, not both";
                gathered.find("fence", &block.file, block.line, message);
                continue;
            }
            (Some(path), None) => {
                match path.rsplit_once('.').map_or("", |(_, ending)| ending) {
                    "cu" => is_cuda = true,
                    "cpp" | "cc" | "cxx" => is_cuda = false,
                    _ => {
                        headers.push((at, block, path));
                        continue;
                    }
                }
                PathBuf::from(path)
            }
            (None, Some(name)) => {
                let Some(harness) = document.harnesses.iter().find(|known| known.name == name)
                else {
                    let message = format!(
                        "there is no harness {name} in this file; it would be a comment `<!-- harness {name}`"
                    );
                    gathered.find("fence", &block.file, block.line, message);
                    continue;
                };
                let source = unit(at, is_cuda);
                write(&folder.join(&source), &composed(harness, block))?;
                source
            }
            (None, None) => {
                let source = unit(at, is_cuda);
                write(&folder.join(&source), &located(block))?;
                source
            }
        };
        plan.push(document, block, is_cuda, source, &around, gathered);
    }
    // Headers are compiled through what includes them; one that nobody includes, alone.
    for (at, block, path) in headers {
        let name = last(path);
        let mut jobs = plan.jobs[first..].iter();
        if jobs.any(|job| job.reach.names.contains(name)) {
            plan.carried.push((first, block, name));
            continue;
        }
        let source = unit(at, is_cuda(block));
        write(&folder.join(&source), &format!("#include \"{path}\"\n"))?;
        plan.push(document, block, is_cuda(block), source, &around, gathered);
    }
    Ok(())
}

fn is_code(block: &Block) -> bool {
    matches!(Language::of(block), Some(Language::Cuda | Language::Cpp))
}

fn is_cuda(block: &Block) -> bool {
    Language::of(block) == Some(Language::Cuda)
}

fn is_header(path: &str) -> bool {
    ![".cu", ".cpp", ".cc", ".cxx"]
        .iter()
        .any(|ending| path.ends_with(ending))
}

fn last(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The harness with the block in its hole; a compiler names the Markdown's lines for both.
fn composed(harness: &Harness, block: &Block) -> String {
    let mut text = marker(&block.file, harness.line + 1);
    for (offset, line) in harness.text.lines().enumerate() {
        if line.trim() == HOLE {
            text.push_str(&located(block));
            text.push_str(&marker(&block.file, harness.line + offset + 2));
        } else {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

/// A name of ours: nothing of the skill's is in it.
fn unit(at: usize, is_cuda: bool) -> PathBuf {
    PathBuf::from(format!(
        "../units/{at}.{}",
        if is_cuda { "cu" } else { "cpp" }
    ))
}

/// Harnesses that no block stands in.
fn unused(document: &Document, gathered: &mut Gathered) {
    for harness in &document.harnesses {
        let is_used = document
            .blocks
            .iter()
            .any(|block| block.attribute("harness") == Some(&harness.name));
        if !is_used {
            let message = format!(
                "no block of this file stands in the harness {}",
                harness.name
            );
            gathered.find("fence", &document.path, harness.line, message);
        }
    }
}

/// The block's text, whose lines a compiler names as the Markdown's.
fn located(block: &Block) -> String {
    let mut text = marker(&block.file, block.line + 1) + &block.text;
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

fn marker(file: &str, line: usize) -> String {
    format!("#line {line} \"{}\"\n", file.replace('"', "\\\""))
}

/// `80,90a`
fn archs(text: &str) -> Option<Vec<String>> {
    let archs: Vec<String> = text.split(',').map(|arch| arch.trim().to_owned()).collect();
    archs
        .iter()
        .all(|arch| Capability::parse_bare(arch).is_some())
        .then_some(archs)
}

/// What a text includes.
fn includes(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let rest = line.trim_start().strip_prefix('#')?.trim_start();
        let rest = rest.strip_prefix("include")?.trim_start();
        let end = match rest.chars().next()? {
            '<' => '>',
            '"' => '"',
            _ => return None,
        };
        rest[1..].split_once(end).map(|(name, _)| name)
    })
}

/// What a block includes, with its harness and through the files of its Markdown.
fn reach<'d>(document: &'d Document, base: Option<&'d Document>, block: &'d Block) -> Reach<'d> {
    let mut queue: Vec<&str> = vec![&block.text];
    if let Some(name) = block.attribute("harness") {
        let harness = document.harnesses.iter().find(|known| known.name == name);
        queue.extend(harness.map(|harness| harness.text.as_str()));
    }
    let mut reach = Reach {
        names: BTreeSet::new(),
        torch: false,
        unstable: false,
    };
    while let Some(text) = queue.pop() {
        for name in includes(text) {
            if TORCH.iter().any(|prefix| name.starts_with(prefix)) {
                reach.torch = true;
                reach.unstable |= !STABLE.iter().any(|prefix| name.starts_with(prefix));
            }
            let name = last(name);
            if reach.names.insert(name) {
                let of = |block: &&Block| block.path().map(last) == Some(name);
                let below = base.into_iter().flat_map(|base| &base.blocks);
                let named = document
                    .blocks
                    .iter()
                    .chain(below)
                    .filter(|block| is_code(block))
                    .find(of);
                queue.extend(named.map(|block| block.text.as_str()));
            }
        }
    }
    reach
}

fn compile(
    number: usize,
    job: &Job<'_>,
    compiler: &Compiler,
    work: &Work,
    is_ours: &dyn Fn(&str) -> bool,
) -> Result<Outcome> {
    if job.reach.torch && compiler.torch.is_err() {
        return Ok(Outcome::Unchecked(
            "no headers of torch; `kernels toolchain install --torch` puts them into the cache"
                .to_owned(),
        ));
    }
    let all: Vec<&str> = job.archs.iter().map(String::as_str).collect();
    let Some(error) = once(number, job, &all, true, compiler, work, is_ours)? else {
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
    // Which of them: the first error of all says nothing of the others. And optimised, as it is meant to be compiled:
    // what must be known when compiling may be so only then.
    let mut errors: Vec<(Diagnosis, Vec<String>)> = Vec::new();
    for arch in &all {
        if let Some(error) = once(number, job, &[arch], false, compiler, work, is_ours)? {
            match errors.iter_mut().find(|(known, _)| *known == error) {
                Some((_, archs)) => archs.push((*arch).to_owned()),
                None => errors.push((error, vec![(*arch).to_owned()])),
            }
        }
    }
    Ok(if errors.is_empty() {
        Outcome::Clean
    } else {
        Outcome::Wrong(errors)
    })
}

/// Whether a header that is missing was to be a file of the same Markdown, and not of a library.
fn includes_quoted(documents: &[&Document], error: &Diagnosis, header: &str) -> bool {
    let Some((file, line)) = &error.place else {
        return false;
    };
    let wanted = format!("\"{header}\"");
    let includes = |(text, first): (&String, usize)| {
        let at = line.checked_sub(first);
        at.and_then(|at| text.lines().nth(at))
            .is_some_and(|line| line.contains(&wanted))
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

/// One run of nvcc; none where it has nothing to say.
fn once(
    number: usize,
    job: &Job<'_>,
    archs: &[&str],
    quick: bool,
    compiler: &Compiler,
    work: &Work,
    is_ours: &dyn Fn(&str) -> bool,
) -> Result<Option<Diagnosis>> {
    // A folder a run, so that what one keeps is not another's.
    let out = work.folder(&format!("out/{number}-{}-{quick}", archs.join("-")))?;
    check_path(&out)?;
    let mut command = Command::new(&compiler.toolchain.nvcc);
    clean(&mut command)
        .current_dir(&job.folder)
        .env("TMPDIR", &out)
        .arg("-c")
        // Never an option, whatever it begins with.
        .arg(Path::new(".").join(&job.source))
        .arg("-o")
        .arg(out.join("object.o"))
        .args([
            "-std=c++17",
            "-Werror",
            "all-warnings",
            "-I",
            ".",
            "-I",
            "../builder",
        ])
        .args(
            job.includes
                .iter()
                .flat_map(|folder| [Path::new("-I"), folder]),
        )
        .arg("-ccbin")
        .arg(&compiler.host.path);
    if job.is_cuda {
        // The lines of inline assembly are known by it.
        command
            .args(["-lineinfo", "--keep", "--keep-dir"])
            .arg(&out);
        if quick && compiler.toolchain.release() >= Some((13, 0)) {
            // A quarter of the time: what is thrown away need not be fast.
            command.arg("--Ofast-compile=max");
        }
        for arch in archs {
            command
                .arg("-gencode")
                .arg(format!("arch=compute_{arch},code=sm_{arch}"));
        }
    }
    if let Some(python) = &compiler.python {
        command.arg("-isystem").arg(python);
    }
    if let (true, Ok(torch)) = (job.reach.torch, &compiler.torch) {
        for folder in torch.includes() {
            check_path(&folder)?;
            command.arg("-isystem").arg(folder);
        }
        command.args([
            "-DTORCH_EXTENSION_NAME=_block",
            "-DUSE_CUDA=1",
            "-DCUDA_KERNEL",
        ]);
        if !job.reach.unstable {
            let Version { major, minor } = torch.release;
            let version = u64::from(major) << 56 | u64::from(minor) << 48;
            command.arg(format!("-DTORCH_TARGET_VERSION=0x{version:016x}"));
        }
    }
    let ran = process::run(&mut command, &[], SECONDS)?;
    if ran.is_late {
        return Ok(Some(Diagnosis {
            message: format!("nvcc was not done after {SECONDS} s"),
            ..Diagnosis::default()
        }));
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
        && Path::new(file)
            .extension()
            .is_some_and(|ending| ending == "ptx")
    {
        let name = Path::new(file).file_name().unwrap_or_default();
        let ptx = fs::read_to_string(out.join(name)).unwrap_or_default();
        found.place =
            diagnosis::source_of(&ptx, *line).map(|(file, line)| (work.hide(&file), line));
        if let Some((file, _)) = &mut found.place
            && let Some(inside) =
                file.strip_prefix(&work.hide(&format!("{}/", job.folder.display())))
        {
            *file = inside.to_owned();
        }
    }
    Ok(Some(found))
}
