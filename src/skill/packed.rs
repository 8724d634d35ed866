//! Files that this binary carries, as build.rs packs them.

use std::collections::BTreeMap;
use std::io::Read as _;

use flate2::read::DeflateDecoder;

/// The files by their path; none where the bytes are no such pack.
pub(crate) fn unpack(packed: &[u8]) -> Option<BTreeMap<String, Vec<u8>>> {
    let mut bytes = Vec::new();
    DeflateDecoder::new(packed).read_to_end(&mut bytes).ok()?;
    let mut files = BTreeMap::new();
    let mut rest = bytes.as_slice();
    while !rest.is_empty() {
        let path = take(&mut rest)?;
        let content = take(&mut rest)?;
        files.insert(String::from_utf8(path.to_vec()).ok()?, content.to_vec());
    }
    Some(files)
}

fn take<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, after) = rest.split_first_chunk::<4>()?;
    let (part, after) = after.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    *rest = after;
    Some(part)
}
