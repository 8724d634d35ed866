//! `.skill` files: a deflated zip with one folder, named like the skill, on top.

use std::fs::File;
use std::io::{Cursor, Read, Seek, Write};
use std::path::Path;

use flate2::read::GzDecoder;
use thiserror::Error;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, System, ZipArchive, ZipWriter};

use super::path::{PathError, RelPath};
use super::tree::{Entry, MAX_BYTES, MAX_FILES, SKILL_MD, Tree, TreeError};

/// The extension of a skill archive.
pub(crate) const EXTENSION: &str = "skill";

/// How gzip begins.
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The most bytes of an archive: what it unpacks to is limited as well.
pub(crate) const MAX_ARCHIVE: u64 = 2 * MAX_BYTES;

/// Why an archive is refused. Nothing is unpacked before the whole archive has been read.
#[derive(Debug, Error)]
pub(crate) enum ArchiveError {
    /// Not a zip, or a damaged one.
    #[error("not a readable zip archive: {0}")]
    Zip(#[from] zip::result::ZipError),
    /// An entry whose bytes do not inflate or whose checksum is wrong.
    #[error("'{name}' cannot be read: {error}")]
    Entry {
        /// The entry.
        name: String,
        /// What went wrong.
        error: std::io::Error,
    },
    /// Two entries of one name: readers disagree on which one counts.
    #[error("the same name is there twice; readers would disagree on which one counts")]
    Duplicate,
    /// Entries that share bytes, as in a zip bomb.
    #[error("entries overlap, as in a zip bomb")]
    Overlap,
    /// More entries than [`MAX_FILES`], folders counted.
    #[error("more than {MAX_FILES} entries")]
    TooMany,
    /// Over [`MAX_ARCHIVE`].
    #[error("more than {} MB", MAX_ARCHIVE / 1_000_000)]
    TooLarge,
    /// An encrypted entry.
    #[error("'{0}' is encrypted")]
    Encrypted(String),
    /// A name that is not UTF-8.
    #[error("an entry's name is not UTF-8")]
    NotUtf8,
    /// A link or a device.
    #[error("'{0}' is neither a file nor a folder; links are refused")]
    Special(String),
    /// A path that could leave the folder.
    #[error("{0}")]
    Path(#[from] PathError),
    /// Not exactly one folder on top.
    #[error("'{0}' lies outside the one folder that a .skill archive has on top")]
    Top(String),
    /// There is no file in it.
    #[error("there is no file in it")]
    Empty,
    /// The files are no skill tree.
    #[error("{0}")]
    Tree(#[from] TreeError),
}

/// Reads an archive into the name of its top folder and the tree below it.
pub(crate) fn read<R: Read + Seek>(source: R) -> Result<(String, Tree), ArchiveError> {
    read_zip(source, None)
}

/// Reads a zip or a tar.gz as sites have them: where SKILL.md itself lies on top, the whole is the folder `name`.
pub(crate) fn read_of_site(bytes: &[u8], name: &str) -> Result<(String, Tree), ArchiveError> {
    if !bytes.starts_with(&GZIP) {
        return read_zip(Cursor::new(bytes), Some(name));
    }
    // Twice what a skill may have, for its headers and what is left out of it.
    let unpacked = || tar::Archive::new(GzDecoder::new(bytes).take(2 * MAX_BYTES));
    let plain = |entry: &tar::Entry<_>| {
        let path = String::from_utf8(entry.path_bytes().into_owned()).map_err(|_| ArchiveError::NotUtf8)?;
        Ok::<_, ArchiveError>(path.strip_prefix("./").unwrap_or(&path).to_owned())
    };
    let error = |error| ArchiveError::Entry { name: "tar.gz".to_owned(), error };
    let (mut flat, mut size) = (false, 0);
    for (count, entry) in unpacked().entries().map_err(error)?.enumerate() {
        let entry = entry.map_err(error)?;
        flat |= plain(&entry)? == SKILL_MD;
        size += entry.size();
        if count == MAX_FILES {
            return Err(ArchiveError::TooMany);
        }
        if size > MAX_BYTES {
            return Err(TreeError::TooLarge.into());
        }
    }
    let mut unpacking = Unpacking::new(Some(name).filter(|_| flat));
    for entry in unpacked().entries().map_err(error)? {
        let entry = entry.map_err(error)?;
        let (path, kind) = (plain(&entry)?, entry.header().entry_type());
        if !kind.is_file() && !kind.is_dir() {
            return Err(ArchiveError::Special(path));
        }
        let executable = entry.header().mode().is_ok_and(|mode| mode & 0o100 != 0);
        if !path.is_empty() && unpacking.admits(&path, kind.is_dir())? {
            unpacking.add(&path, executable, entry)?;
        }
    }
    unpacking.end()
}

fn read_zip<R: Read + Seek>(source: R, flat: Option<&str>) -> Result<(String, Tree), ArchiveError> {
    let mut zip = ZipArchive::new(source)?;
    if zip.len() > MAX_FILES {
        return Err(ArchiveError::TooMany);
    }
    if zip.has_duplicate_names() {
        return Err(ArchiveError::Duplicate);
    }
    if zip.has_overlapping_entries()? {
        return Err(ArchiveError::Overlap);
    }
    let mut unpacking = Unpacking::new(flat.filter(|_| zip.index_for_name(SKILL_MD).is_some()));
    for index in 0..zip.len() {
        let entry = zip.by_index_data(index)?;
        let name = std::str::from_utf8(entry.name_raw()).map_err(|_| ArchiveError::NotUtf8)?.to_owned();
        if entry.encrypted() {
            return Err(ArchiveError::Encrypted(name));
        }
        let mode = entry.unix_mode();
        // The type bits of a Unix mode must be absent, a file or a folder.
        if !matches!(mode.unwrap_or(0) & 0o170_000, 0 | 0o100_000 | 0o040_000) {
            return Err(ArchiveError::Special(name));
        }
        if unpacking.admits(&name, name.ends_with('/'))? {
            unpacking.add(&name, mode.is_some_and(|mode| mode & 0o100 != 0), zip.by_index(index)?)?;
        }
    }
    unpacking.end()
}

/// A tree that is being made of an archive's entries.
struct Unpacking {
    /// Whether the archive has no folder on top.
    flat: bool,
    top: Option<String>,
    tree: Tree,
}

impl Unpacking {
    fn new(flat: Option<&str>) -> Self {
        Self { flat: flat.is_some(), top: flat.map(str::to_owned), tree: Tree::default() }
    }

    /// Whether an entry is a file of the skill.
    fn admits(&mut self, name: &str, folder: bool) -> Result<bool, ArchiveError> {
        let whole = RelPath::parse(name.strip_suffix('/').unwrap_or(name))?;
        if self.flat {
            return Ok(!folder && self.tree.admits(whole.as_str()));
        }
        let (first, rest) = whole.as_str().split_once('/').map_or((whole.as_str(), None), |(a, b)| (a, Some(b)));
        if self.top.get_or_insert_with(|| first.to_owned()) != first || (rest.is_none() && !folder) {
            return Err(ArchiveError::Top(name.to_owned()));
        }
        Ok(rest.is_some_and(|rest| !folder && self.tree.admits(rest)))
    }

    fn add(&mut self, name: &str, executable: bool, file: impl Read) -> Result<(), ArchiveError> {
        let rest = name.split_once('/').map_or(name, |(_, rest)| if self.flat { name } else { rest });
        // The size in the archive's directory is only a claim; limit the bytes that are inflated.
        let mut content = Vec::new();
        file.take(MAX_BYTES - self.tree.bytes() + 1)
            .read_to_end(&mut content)
            .map_err(|error| ArchiveError::Entry { name: name.to_owned(), error })?;
        Ok(self.tree.insert(RelPath::parse(rest)?, Entry { executable, content: content.into() })?)
    }

    fn end(self) -> Result<(String, Tree), ArchiveError> {
        let tree = Some(self.tree).filter(|tree| !tree.is_empty());
        self.top.zip(tree).ok_or(ArchiveError::Empty)
    }
}

/// Reads the archive at `path`.
pub(crate) fn open(path: &Path) -> anyhow::Result<(String, Tree)> {
    use anyhow::Context;
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    if file.metadata().is_ok_and(|meta| meta.len() > MAX_ARCHIVE) {
        return Err(ArchiveError::TooLarge).with_context(|| format!("{} is refused", path.display()));
    }
    read(std::io::BufReader::new(file)).with_context(|| format!("{} is refused", path.display()))
}

/// Packs a tree as small as it gets. The bytes depend only on the tree and the version of this program: sorted names, one
/// date, two modes, one compressor.
pub(crate) fn pack(name: &str, tree: &Tree) -> Result<Vec<u8>, ArchiveError> {
    pack_at(9, name, tree)
}

/// The same in a third of the time and a quarter larger.
pub(crate) fn pack_quickly(name: &str, tree: &Tree) -> Result<Vec<u8>, ArchiveError> {
    pack_at(1, name, tree)
}

fn pack_at(level: i64, name: &str, tree: &Tree) -> Result<Vec<u8>, ArchiveError> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (path, entry) in tree.iter() {
        let options = SimpleFileOptions::DEFAULT
            .compression_method(CompressionMethod::Deflated)
            .compression_level(Some(level))
            .last_modified_time(DateTime::DEFAULT)
            .system(System::Unix)
            .unix_permissions(entry.mode());
        zip.start_file(format!("{name}/{path}"), options)?;
        zip.write_all(&entry.content).map_err(|error| ArchiveError::Entry { name: path.to_string(), error })?;
    }
    Ok(zip.finish()?.into_inner())
}
