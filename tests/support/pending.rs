//! Records that still have to be made on a GPU: `evidence/pending.toml`. The test that needs a record prints its entry, and
//! fails once the record exists.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The records that are known to be missing, each with the reason.
pub fn pending() -> BTreeMap<String, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("evidence/pending.toml");
    match fs::read_to_string(&path) {
        Ok(text) => toml::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display())),
        Err(_) => BTreeMap::new(),
    }
}
