//! Lays out each Markdown file's `// file:` blocks in a temporary folder.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::TempDir;

use super::document::Document;
use super::fence::{Block, Language};
use super::report::Gathered;
use crate::skill::RelPath;

/// The temporary folder, removed on drop.
pub(super) struct Work {
    dir: TempDir,
    /// Per document: file path to block index.
    pub(super) files: Vec<BTreeMap<String, usize>>,
    /// Per document: the document whose files are laid out first.
    base: Vec<Option<usize>>,
}

impl Work {
    /// Finds the blocks that are files, and reports invalid paths.
    pub(super) fn new(documents: &[Document], gathered: &mut Gathered) -> Result<Self> {
        let dir = TempDir::with_prefix("kernels-deep-").context("cannot make a temporary folder")?;
        let base = documents.iter().map(|document| base(document, documents, gathered)).collect();
        let files = documents.iter().map(|document| files(document, gathered));
        Ok(Self { files: files.collect(), base, dir })
    }

    /// Creates a subfolder if it does not exist.
    pub(super) fn folder(&self, name: &str) -> Result<PathBuf> {
        let folder = self.dir.path().join(name);
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(folder)
    }

    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Removes the temporary folder's path from a message.
    pub(super) fn hide(&self, text: &str) -> String {
        text.replace(&format!("{}/", self.dir.path().display()), "")
    }

    pub(super) fn base<'d>(&self, number: usize, documents: &'d [Document]) -> Option<&'d Document> {
        self.base[number].map(|base| &documents[base])
    }

    /// The files of a document and of its base, where its own take precedence.
    pub(super) fn blocks<'w>(
        &'w self,
        number: usize,
        documents: &'w [Document],
    ) -> impl Iterator<Item = (&'w String, &'w Block)> {
        let of = move |number: usize| {
            let files = self.files[number].iter();
            files.map(move |(path, block)| (path, &documents[number].blocks[*block]))
        };
        let own = &self.files[number];
        let below = self.base[number].into_iter().flat_map(of);
        below.filter(|(path, _)| !own.contains_key(*path)).chain(of(number))
    }

    /// Writes the files of a document with the content that `text` returns; skips those for which it returns `None`.
    pub(super) fn lay_out(
        &self,
        number: usize,
        documents: &[Document],
        below: &Path,
        text: impl Fn(&Block) -> Option<String>,
    ) -> Result<()> {
        for (path, block) in self.blocks(number, documents) {
            if let Some(text) = text(block) {
                write(&below.join(path), &text)?;
            }
        }
        Ok(())
    }
}

/// Writes a file and its parent folders.
pub(super) fn write(path: &Path, text: &str) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

/// Whether a path has only characters that are safe in a shell, and no component that looks like an option.
fn is_harmless(path: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-+".contains(&byte);
    path.split('/').all(|part| !part.starts_with('-') && part.bytes().all(plain))
}

fn base(document: &Document, documents: &[Document], gathered: &mut Gathered) -> Option<usize> {
    let (line, named) = document.base.as_ref()?;
    let found = documents.iter().position(|known| known.path == *named);
    if found.is_none_or(|base| documents[base].base.is_some()) {
        let message = format!("`<!-- files … -->` names a page beside this one with files of its own; {named} is none");
        gathered.find("fence", &document.path, *line, message);
        return None;
    }
    found
}

fn files(document: &Document, gathered: &mut Gathered) -> BTreeMap<String, usize> {
    let mut files: BTreeMap<String, usize> = BTreeMap::new();
    for (at, block) in document.blocks.iter().enumerate() {
        let Some(path) = block.path().filter(|_| Language::of(block).is_some()) else {
            continue;
        };
        let mut wrong = |message: String| {
            gathered.find("fence", &block.file, block.line + 1, message);
        };
        let sound = RelPath::parse(path).map_err(|error| error.to_string()).and_then(|sound| {
            if is_harmless(path) {
                Ok(sound)
            } else {
                Err(format!(
                    "'{path}': nvcc hands paths to a shell; name it with letters, digits and . _ - +, no - first"
                ))
            }
        });
        match sound {
            Err(error) => wrong(error),
            Ok(sound) => {
                let folder = |known: &String| {
                    known.starts_with(&format!("{path}/")) || sound.parents().any(|parent| parent == known)
                };
                if let Some(first) = files.get(path) {
                    wrong(format!("{path} is here twice; the first is at line {}", document.blocks[*first].line));
                } else if let Some(known) = files.keys().find(|known| folder(known)) {
                    wrong(format!("{path} and {known} cannot both be files"));
                } else {
                    files.insert(path.to_owned(), at);
                }
            }
        }
    }
    files
}
