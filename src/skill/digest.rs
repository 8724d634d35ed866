//! What identifies a file and a tree: SHA-256 over length-prefixed fields, so that no two
//! different trees can spell the same bytes.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::path::RelPath;
use super::tree::{Entry, Tree, mode};
use crate::base::text;

/// A SHA-256, written as 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Digest([u8; 32]);

/// The digests of all files of a tree, by path.
pub(crate) type FileDigests = BTreeMap<RelPath, Digest>;

impl Digest {
    /// SHA-256 of `len(path) ‖ path ‖ mode ‖ len(content) ‖ content`; lengths are 8 bytes and the
    /// mode (0o644 or 0o755) 4, big-endian. A text whose lines all end with `\r\n` counts with `\n`: git may translate either
    /// to the other in a clone.
    pub(crate) fn of_file(path: &RelPath, entry: &Entry) -> Self {
        let lf = text::with_lf(&entry.content);
        let content = lf.as_deref().unwrap_or(&entry.content);
        let mut hash = Self::start_file(path, entry.executable, content.len() as u64);
        hash.update(content);
        Self::finish(hash)
    }

    /// The start of a file's digest, up to its content, for files too large to hold in memory.
    pub(crate) fn start_file(path: &RelPath, executable: bool, length: u64) -> Sha256 {
        let mut hash = Sha256::new();
        let path = path.as_str().as_bytes();
        hash.update((path.len() as u64).to_be_bytes());
        hash.update(path);
        hash.update(mode(executable).to_be_bytes());
        hash.update(length.to_be_bytes());
        hash
    }

    /// The digest of a finished hash.
    pub(crate) fn finish(hash: Sha256) -> Self {
        Self(hash.finalize().into())
    }

    /// SHA-256 of the number of files (8 bytes, big-endian) and their digests in path order. A
    /// file's digest covers its path and mode, so the tree's does as well.
    pub(crate) fn of_files(files: &FileDigests) -> Self {
        let mut hash = Sha256::new();
        hash.update((files.len() as u64).to_be_bytes());
        for digest in files.values() {
            hash.update(digest.0);
        }
        Self(hash.finalize().into())
    }

    /// The digest of a whole tree.
    pub(crate) fn of_tree(tree: &Tree) -> Self {
        Self::of_files(&file_digests(tree))
    }
}

/// The digest of every file of `tree`.
pub(crate) fn file_digests(tree: &Tree) -> FileDigests {
    tree.iter().map(|(path, entry)| (path.clone(), Digest::of_file(path, entry))).collect()
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

impl FromStr for Digest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || format!("'{text}' is not a SHA-256 of 64 hexadecimal digits");
        if text.len() != 64 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        let mut bytes = [0; 32];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).map_err(|_| wrong())?;
        }
        Ok(Self(bytes))
    }
}

impl TryFrom<String> for Digest {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, bool, &str)]) -> Tree {
        let mut tree = Tree::default();
        for (path, executable, content) in files {
            let content = content.as_bytes().to_vec().into();
            let path = RelPath::parse(path).unwrap();
            tree.insert(path, Entry { executable: *executable, content }).unwrap();
        }
        tree
    }

    #[test]
    fn what_differs_has_another_digest() {
        let trees = [
            tree(&[]),
            tree(&[("a", false, "bc")]),
            tree(&[("ab", false, "c")]),
            tree(&[("a", true, "bc")]),
            tree(&[("a", false, ""), ("bc", false, "")]),
            tree(&[("a", false, "b"), ("c", false, "")]),
        ];
        for (at, one) in trees.iter().enumerate() {
            for other in &trees[at + 1..] {
                assert_ne!(Digest::of_tree(one), Digest::of_tree(other), "{one:?} {other:?}");
            }
        }
    }

    #[test]
    fn the_documented_bytes_are_what_is_hashed() {
        let one = tree(&[("a", true, "bc")]);
        let mut bytes = vec![0, 0, 0, 0, 0, 0, 0, 1, b'a', 0, 0, 1, 0o355, 0, 0, 0, 0, 0, 0, 0, 2];
        bytes.extend(b"bc");
        let file: [u8; 32] = Sha256::digest(&bytes).into();
        let mut all = vec![0, 0, 0, 0, 0, 0, 0, 1];
        all.extend(file);
        let expected: [u8; 32] = Sha256::digest(&all).into();
        assert_eq!(Digest::of_tree(&one), Digest(expected));
        assert_eq!(Digest::of_tree(&one).to_string().parse(), Ok(Digest(expected)));
    }

    #[test]
    fn only_64_hexadecimal_digits_are_a_digest() {
        for text in ["", "00", &"0".repeat(63), &"g".repeat(64), &"é".repeat(32)] {
            assert!(text.parse::<Digest>().is_err(), "{text}");
        }
    }
}
