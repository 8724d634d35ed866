//! `.skill` files: a deflated zip with one folder, named like the skill, on top.

use std::fs::File;
use std::io::{Cursor, Read, Seek, Write};
use std::path::Path;

use thiserror::Error;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, System, ZipArchive, ZipWriter};

use super::path::{PathError, RelPath};
use super::tree::{Entry, MAX_BYTES, MAX_FILES, Tree, TreeError, is_left_behind, is_secret};

/// The extension of a skill archive.
pub(crate) const EXTENSION: &str = "skill";

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
    let mut top: Option<String> = None;
    let mut tree = Tree::default();
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
        let folder = name.ends_with('/');
        let whole = RelPath::parse(name.strip_suffix('/').unwrap_or(&name))?;
        let (first, rest) = match whole.as_str().split_once('/') {
            Some((first, rest)) => (first, Some(rest)),
            None => (whole.as_str(), None),
        };
        if top.get_or_insert_with(|| first.to_owned()) != first || (rest.is_none() && !folder) {
            return Err(ArchiveError::Top(name));
        }
        let Some(rest) = rest.filter(|_| !folder) else {
            continue;
        };
        if rest.split('/').any(|part| is_left_behind(part) || part == super::tree::RECEIPT) {
            continue;
        }
        if rest.split('/').any(is_secret) {
            tree.leave_out(rest.to_owned());
            continue;
        }
        // The size in the archive's directory is only a claim; limit the bytes that are inflated.
        let left = MAX_BYTES - tree.bytes();
        let mut content = Vec::new();
        let file = zip.by_index(index)?;
        file.take(left + 1)
            .read_to_end(&mut content)
            .map_err(|error| ArchiveError::Entry { name: name.clone(), error })?;
        let executable = mode.is_some_and(|mode| mode & 0o100 != 0);
        tree.insert(RelPath::parse(rest)?, Entry { executable, content: content.into() })?;
    }
    match top {
        Some(name) if !tree.is_empty() => Ok((name, tree)),
        _ => Err(ArchiveError::Empty),
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn zip_of(entries: &[(&str, Option<u32>, &[u8])]) -> Vec<u8> {
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        for (name, mode, content) in entries {
            let mut options = SimpleFileOptions::DEFAULT;
            if let Some(mode) = mode {
                options = options.external_attributes(mode << 16).system(System::Unix);
            }
            zip.start_file(*name, options).unwrap();
            zip.write_all(content).unwrap();
        }
        zip.finish().unwrap().into_inner()
    }

    fn refusal(entries: &[(&str, Option<u32>, &[u8])]) -> String {
        match read(Cursor::new(zip_of(entries))) {
            Ok((name, tree)) => panic!("{entries:?} was read as {name}: {tree:?}"),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn hostile_archives_are_refused() {
        for (entries, why) in [
            (vec![("/etc/passwd", None)], "absolute"),
            (vec![("C:/x/y", None)], "absolute"),
            (vec![("x/../../y", None)], ".."),
            (vec![("../x/y", None)], ".."),
            (vec![("x\\..\\y", None)], "backslash"),
            (vec![("x/SKILL.md", None), ("y/SKILL.md", None)], "one folder"),
            (vec![("SKILL.md", None)], "one folder"),
            (vec![("x/a", None), ("x/A", None)], "same name"),
            (vec![("x/link", Some(0o120_777))], "links are refused"),
            (vec![("x/pipe", Some(0o010_644))], "links are refused"),
            (vec![], "no file"),
        ] {
            let entries: Vec<(&str, Option<u32>, &[u8])> =
                entries.into_iter().map(|(name, mode)| (name, mode, b"x".as_slice())).collect();
            let said = refusal(&entries);
            assert!(said.contains(why), "{entries:?}: {said}");
        }
    }

    #[test]
    fn more_than_the_limits_is_refused_also_when_the_directory_lies() {
        let names: Vec<String> = (0..=MAX_FILES).map(|n| format!("x/{n}")).collect();
        let many: Vec<_> = names.iter().map(|n| (n.as_str(), None, b"".as_slice())).collect();
        assert!(refusal(&many).contains("more than"));
        let big = vec![0; 25_000_001];
        assert!(refusal(&[("x/big", None, &big)]).contains("25 MB"));
    }

    #[test]
    fn duplicate_names_are_refused() {
        let mut bytes = zip_of(&[("x/aa", None, b"1"), ("x/bb", None, b"2")]);
        let wanted = b"x/bb";
        let places: Vec<usize> = (0..bytes.len() - 4).filter(|&at| &bytes[at..at + 4] == wanted).collect();
        for at in places {
            bytes[at..at + 4].copy_from_slice(b"x/aa");
        }
        assert!(matches!(read(Cursor::new(bytes)), Err(ArchiveError::Duplicate)));
    }

    #[test]
    fn same_tree_same_bytes() {
        let entries: [(&str, bool); 3] = [("SKILL.md", false), ("a/b", true), ("a/c", false)];
        let build = |order: &[usize]| {
            let mut tree = Tree::default();
            for &at in order {
                let (path, executable) = entries[at];
                let content = path.repeat(50).into_bytes().into();
                tree.insert(RelPath::parse(path).unwrap(), Entry { executable, content }).unwrap();
            }
            tree
        };
        let one = pack("x", &build(&[0, 1, 2])).unwrap();
        assert_eq!(one, pack("x", &build(&[2, 1, 0])).unwrap());
        let (name, tree) = read(Cursor::new(one)).unwrap();
        assert_eq!((name.as_str(), &tree), ("x", &build(&[0, 1, 2])));
    }

    proptest! {
        #[test]
        fn damaged_archives_never_panic(at in 0usize..400, byte: u8, cut in 0usize..400) {
            let mut bytes = zip_of(&[("x/SKILL.md", Some(0o100_644), &[b'y'; 64]), ("x/b", None, b"z")]);
            if let Some(place) = bytes.get_mut(at) {
                *place = byte;
            }
            let _ = read(Cursor::new(&bytes));
            let _ = read(Cursor::new(&bytes[..cut.min(bytes.len())]));
        }
    }
}
