//! Records that still have to be made on a GPU: `evidence/pending.toml`. The test that needs a record prints its entry, and
//! fails once the record exists.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The records that are known to be missing or stale, each with the reason: the name of the file without `.json`, or that of an
/// operation that no card has a record of.
pub fn pending() -> BTreeMap<String, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("evidence/pending.toml");
    match fs::read_to_string(&path) {
        Ok(text) => toml::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display())),
        Err(_) => BTreeMap::new(),
    }
}

/// The name of a record in `pending.toml`: `rms_norm-h100`.
pub fn stem(file: &Path) -> String {
    file.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}
