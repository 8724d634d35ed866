//! Writes a report atomically, replacing only a regular file.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::base::disk;

/// Writes `content` to `path` atomically. An existing regular file is replaced; a folder, a link or a device is
/// an error that names it, and so is a folder that does not exist.
pub(crate) fn write(path: &Path, content: &[u8]) -> Result<()> {
    match fs::symlink_metadata(path) {
        Ok(meta) if !meta.is_file() => {
            bail!("cannot write {}: it is there and no regular file; choose another name", path.display())
        }
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(error).with_context(|| format!("cannot write {}", path.display()));
        }
        _ => {}
    }
    disk::write_atomic(path, content, 0o644).with_context(|| format!("cannot write {}", path.display()))
}
