//! Which evidence is of given machine code.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::Evidence;
use crate::compile::device_digest;
use crate::verify::SET;

/// What evidence says of machine code.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Coverage {
    /// Files of evidence that was recorded of this machine code.
    pub(crate) same: Vec<PathBuf>,
    /// The same, of an older set of cases.
    pub(crate) same_before: Vec<PathBuf>,
    /// Files of the same project's evidence that is of other machine code.
    pub(crate) other: Vec<PathBuf>,
}

/// Compares the evidence of a project in `dir` with the machine code that was linked: sources and cubins by architecture, `90` or
/// `90a`.
pub(crate) fn coverage(
    dir: &Path,
    project: &str,
    device: &BTreeMap<String, Vec<(PathBuf, PathBuf)>>,
) -> Result<Coverage> {
    let mut coverage = Coverage::default();
    let mut digests: BTreeMap<Vec<u32>, Option<String>> = BTreeMap::new();
    for (path, evidence) in Evidence::read_all(dir)? {
        if evidence.project != project {
            continue;
        }
        let digest = match digests.get(&evidence.archs) {
            Some(known) => known.clone(),
            None => digest_of(&evidence.archs, device)?,
        };
        digests.insert(evidence.archs.clone(), digest.clone());
        let list = if digest.as_ref() != Some(&evidence.device_digest) {
            &mut coverage.other
        } else if evidence.verification.set < SET {
            &mut coverage.same_before
        } else {
            &mut coverage.same
        };
        list.push(path);
    }
    Ok(coverage)
}

/// The digest of these architectures; none where one is missing. Of a source's code for `90` and `90a` that with the suffix counts,
/// which a card prefers and the harness compiles.
fn digest_of(archs: &[u32], device: &BTreeMap<String, Vec<(PathBuf, PathBuf)>>) -> Result<Option<String>> {
    let mut targets = Vec::new();
    for arch in archs {
        let of = |key: &String| key.trim_end_matches(char::is_alphabetic) == arch.to_string();
        // In rising order of the keys, so that `90a` replaces `90`.
        let units: BTreeMap<_, _> =
            device.iter().filter(|(key, _)| of(key)).flat_map(|(_, units)| units.clone()).collect();
        if units.is_empty() {
            return Ok(None);
        }
        targets.push((*arch, units.into_iter().collect()));
    }
    device_digest(&targets).map(Some)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn evidence_of_other_projects_covers_nothing() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("evidence");
        // Without machine code, none is of it.
        let found = coverage(&dir, "transpose", &BTreeMap::new()).unwrap();
        assert!(found.same.is_empty() && found.same_before.is_empty());
        let names: Vec<_> = found.other.iter().map(|path| path.file_name().unwrap().to_string_lossy()).collect();
        assert!(!names.is_empty() && names.iter().all(|name| name.starts_with("transpose-")), "{names:?}");
    }
}
