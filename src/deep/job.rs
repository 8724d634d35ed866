//! Plans the compilations of a page's cuda and cpp blocks: each block alone, as a file, or in its harness.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::document::{Document, HOLE, Harness};
use super::fence::{Block, Language};
use super::layout::{Work, write};
use super::report::Gathered;
use crate::base::arch::{self, Capability};

/// Prefixes of torch headers.
const TORCH: [&str; 4] = ["torch/", "ATen/", "c10/", "caffe2/"];
/// Prefixes of the stable ABI's headers, which need the target version as a macro.
const STABLE: [&str; 3] = ["torch/csrc/stable/", "torch/headeronly/", "torch/csrc/inductor/aoti_torch/c/"];
/// `registration.h` as `kernels build --torch` and kernel-builder provide it.
const REGISTRATION: &str = include_str!("../variant/registration.h");

pub(super) struct Job<'d> {
    /// The block's document, and its base.
    pub(super) documents: Vec<&'d Document>,
    pub(super) block: &'d Block,
    pub(super) is_cuda: bool,
    /// Relative to `folder`.
    pub(super) source: PathBuf,
    pub(super) folder: PathBuf,
    pub(super) archs: Vec<String>,
    /// Include folders, below `folder`.
    pub(super) includes: Vec<PathBuf>,
    pub(super) included: Included<'d>,
}

/// Headers that a block includes directly, through its harness or through files of its page.
#[derive(Default)]
pub(super) struct Included<'d> {
    /// File names without folders.
    pub(super) names: BTreeSet<&'d str>,
    pub(super) torch: bool,
    /// Whether a torch header outside the stable ABI is included.
    pub(super) unstable: bool,
}

#[derive(Default)]
pub(super) struct Jobs<'d> {
    pub(super) all: Vec<Job<'d>>,
    /// Headers compiled through a job that includes them: the first possible job, the block, the header's name.
    pub(super) carried: Vec<(usize, &'d Block, &'d str)>,
}

struct Page<'d, 'p> {
    document: &'d Document,
    /// The document whose files are laid out first.
    base: Option<&'d Document>,
    folder: PathBuf,
    /// Include folders, below `folder`.
    includes: Vec<PathBuf>,
    jobs: &'p mut Jobs<'d>,
    gathered: &'p mut Gathered,
}

impl<'d> Jobs<'d> {
    /// Writes the sources of a document, and adds its jobs.
    pub(super) fn add(
        &mut self,
        number: usize,
        documents: &'d [Document],
        work: &Work,
        gathered: &mut Gathered,
    ) -> Result<()> {
        let document = &documents[number];
        misused(document, gathered);
        if !document.blocks.iter().any(is_code) {
            return Ok(());
        }
        let folder = work.folder(&format!("{number}/files"))?;
        let files = &work.files[number];
        work.lay_out(number, documents, &folder, |block| is_code(block).then(|| located(block)))?;
        if !files.keys().any(|path| path.ends_with("registration.h")) {
            write(&folder.join("../builder/registration.h"), REGISTRATION)?;
        }
        let mut page = Page {
            document,
            base: work.base(number, documents),
            folder,
            includes: header_folders(number, documents, work),
            jobs: self,
            gathered,
        };
        let first = page.jobs.all.len();
        let mut headers: Vec<(usize, &Block, &str)> = Vec::new();
        let blocks = document.blocks.iter().enumerate();
        for (at, block) in blocks.filter(|(_, block)| is_code(block)) {
            let path = block.path().filter(|path| files.get(*path) == Some(&at));
            match path {
                Some(path) if block.attribute("harness").is_none() && is_header(path) => {
                    headers.push((at, block, path));
                }
                _ => page.block(at, block, path)?,
            }
        }
        // A header is compiled through a file that includes it, else alone.
        for (at, block, path) in headers {
            let name = last(path);
            let mut jobs = page.jobs.all[first..].iter();
            if jobs.any(|job| job.included.names.contains(name)) {
                page.jobs.carried.push((first, block, name));
                continue;
            }
            let text = format!("#include \"{path}\"\n");
            let source = page.unit(at, is_cuda(block), &text)?;
            page.push(block, is_cuda(block), source);
        }
        Ok(())
    }
}

/// Include folders of a document: every folder with a header, since build.toml need not be shown.
fn header_folders(number: usize, documents: &[Document], work: &Work) -> Vec<PathBuf> {
    let headers = work.blocks(number, documents).filter(|(path, block)| is_code(block) && is_header(path));
    let folders: BTreeSet<PathBuf> = headers
        .filter_map(|(path, _)| Path::new(path).parent().map(Path::to_owned))
        .filter(|folder| !folder.as_os_str().is_empty())
        .collect();
    folders.into_iter().collect()
}

impl<'d> Page<'d, '_> {
    fn fault(&mut self, block: &Block, message: impl Into<String>) {
        self.gathered.find("fence", &block.file, block.line, message);
    }

    /// Adds the job of a block: as the file `path`, in its harness, or alone.
    fn block(&mut self, at: usize, block: &'d Block, path: Option<&str>) -> Result<()> {
        let document = self.document;
        let is_cuda = is_cuda(block);
        match (path, block.attribute("harness")) {
            (Some(_), Some(_)) => {
                self.fault(block, "a block is a file or stands in a harness, not both");
            }
            (Some(path), None) => self.push(block, path.ends_with(".cu"), path.into()),
            (None, Some(name)) => {
                let mut harnesses = document.harnesses.iter();
                if let Some(harness) = harnesses.find(|known| known.name == name) {
                    let source = self.unit(at, is_cuda, &composed(harness, block))?;
                    self.push(block, is_cuda, source);
                } else {
                    let message =
                        format!("there is no harness {name} in this file; it would be a comment `<!-- harness {name}`");
                    self.fault(block, message);
                }
            }
            (None, None) => {
                let source = self.unit(at, is_cuda, &located(block))?;
                self.push(block, is_cuda, source);
            }
        }
        Ok(())
    }

    /// Writes a source file under a generated name, never one from the skill.
    fn unit(&self, at: usize, is_cuda: bool, text: &str) -> Result<PathBuf> {
        let ending = if is_cuda { "cu" } else { "cpp" };
        let source = PathBuf::from(format!("../units/{at}.{ending}"));
        write(&self.folder.join(&source), text)?;
        Ok(source)
    }

    fn push(&mut self, block: &'d Block, is_cuda: bool, source: PathBuf) {
        let archs = match block.attribute("arch").map(archs) {
            None => arch::REPRESENTATIVE.iter().map(u32::to_string).collect(),
            Some(Some(archs)) => archs,
            Some(None) => {
                let message = "arch= is a list of compute capabilities without the point: arch=80,90a";
                self.fault(block, message);
                return;
            }
        };
        let documents: Vec<&Document> = std::iter::once(self.document).chain(self.base).collect();
        self.jobs.all.push(Job {
            included: Included::of(&documents, block),
            documents,
            block,
            is_cuda,
            source,
            folder: self.folder.clone(),
            archs,
            includes: self.includes.clone(),
        });
    }
}

impl<'d> Included<'d> {
    fn of(documents: &[&'d Document], block: &'d Block) -> Self {
        let mut queue: Vec<&str> = vec![&block.text];
        if let Some(name) = block.attribute("harness") {
            let harness = documents[0].harnesses.iter().find(|known| known.name == name);
            queue.extend(harness.map(|harness| harness.text.as_str()));
        }
        let mut included = Self::default();
        while let Some(text) = queue.pop() {
            for name in includes(text) {
                if TORCH.iter().any(|prefix| name.starts_with(prefix)) {
                    included.torch = true;
                    included.unstable |= !STABLE.iter().any(|prefix| name.starts_with(prefix));
                }
                let name = last(name);
                if included.names.insert(name) {
                    let mut blocks = documents.iter().flat_map(|document| &document.blocks);
                    let named = blocks.find(|block| is_code(block) && block.path().map(last) == Some(name));
                    queue.extend(named.map(|block| block.text.as_str()));
                }
            }
        }
        included
    }
}

fn is_code(block: &Block) -> bool {
    matches!(Language::of(block), Some(Language::Cuda | Language::Cpp))
}

pub(super) fn is_cuda(block: &Block) -> bool {
    Language::of(block) == Some(Language::Cuda)
}

fn is_header(path: &str) -> bool {
    ![".cu", ".cpp", ".cc", ".cxx"].iter().any(|ending| path.ends_with(ending))
}

fn last(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// The harness with the block inserted; `#line` directives map both to the Markdown.
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

/// Reports unused harnesses, and blocks of other languages that name one.
fn misused(document: &Document, gathered: &mut Gathered) {
    for block in document.blocks.iter().filter(|block| !is_code(block)) {
        if block.attribute("harness").is_some() {
            let message = "harness= is for cuda and cpp blocks";
            gathered.find("fence", &block.file, block.line, message);
        }
    }
    for harness in &document.harnesses {
        let uses = |block: &Block| block.attribute("harness") == Some(&harness.name);
        if !document.blocks.iter().any(uses) {
            let message = format!("no block of this file uses the harness {}", harness.name);
            gathered.find("fence", &document.path, harness.line, message);
        }
    }
}

/// The block's text with a `#line` directive that maps it to the Markdown.
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
    archs.iter().all(|arch| Capability::parse_bare(arch).is_some()).then_some(archs)
}

/// The header names that a text includes.
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
