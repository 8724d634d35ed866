//! The files that are embedded for `kernels init`: `kernels/` and `scaffold/`.

use std::sync::LazyLock;

use crate::base::bundle::{self, Files};

/// The text of the licence.
pub(super) const LICENCE: &[u8] = include_bytes!("../../LICENSE");

/// The files by their path in the repository.
static FILES: LazyLock<Files> = LazyLock::new(|| {
    let mut files = bundle::files("kernels");
    files.extend(bundle::files("scaffold"));
    for bytes in files.values_mut() {
        let unmarked = without_marks(bytes);
        if unmarked.len() < bytes.len() {
            *bytes = unmarked.leak();
        }
    }
    files
});

/// A file without the comments that mark what the skill quotes, which mean nothing outside this repository.
fn without_marks(file: &[u8]) -> Vec<u8> {
    let is_mark = |line: &&[u8]| {
        let text = line.trim_ascii();
        text.starts_with(b"// [quote ") || text == b"// [end quote]"
    };
    let lines = file.split_inclusive(|byte| *byte == b'\n');
    lines.filter(|line| !is_mark(line)).flatten().copied().collect()
}

/// The bytes of a file.
pub(super) fn file(path: &str) -> Option<&'static [u8]> {
    FILES.get(path).copied()
}

/// The files below a folder, by their path in it.
pub(super) fn below(folder: &str) -> impl Iterator<Item = (&'static str, &'static [u8])> {
    let folder = format!("{folder}/");
    FILES.range(folder.clone()..).map_while(move |(path, bytes)| Some((path.strip_prefix(&folder)?, *bytes)))
}
