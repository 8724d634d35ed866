//! Whether recorded evidence still matches the code.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::Evidence;
use crate::project::Project;
use crate::toolchain::Toolchain;
use crate::verify::SET;

/// Evidence compared with the code.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Freshness {
    /// It matches the code and the cases.
    Fresh,
    /// The code or the cases changed.
    Stale {
        /// What differs.
        what: String,
    },
    /// It matches the code and kernel.toml, and was verified with an older set of cases than this program's.
    OlderSet {
        /// The set.
        set: u32,
    },
    /// The cases match; without the pinned compiler, the code cannot be compared.
    Unknown,
    /// There is no evidence.
    Missing,
}

/// The freshness of one operation on one card.
#[derive(Clone, Debug)]
pub struct Standing {
    /// The operation.
    pub operation: String,
    /// The file; none where evidence is missing.
    pub file: Option<PathBuf>,
    /// The card's name.
    pub(crate) card: Option<String>,
    /// Fresh or not.
    pub freshness: Freshness,
}

/// Digests of a project's files.
#[derive(Clone, Copy, Debug)]
pub struct Texts<'a> {
    /// `Project::spec_digest`.
    pub spec_digest: &'a str,
    /// `Project::source_digest`.
    pub source_digest: &'a str,
}

impl<'a> From<&'a Project> for Texts<'a> {
    fn from(project: &'a Project) -> Self {
        Self { spec_digest: &project.spec_digest, source_digest: &project.source_digest }
    }
}

/// Compiles a project with the pinned toolchain for some architectures, and returns `Build::device_digest`.
pub(crate) type Digest<'a> = &'a mut dyn FnMut(&[u32]) -> Result<String>;

/// Compares the evidence in `dir` with a project: each file of each of its `operations`, and one missing entry for
/// an operation without a file. `digest` is called once per set of architectures named by evidence; `None` without
/// a pinned compiler, and what only the code can decide is unknown.
/// Evidence of an operation that the project no longer has is stale.
pub fn check(
    dir: &Path,
    project: &str,
    operations: &[String],
    texts: Texts,
    mut digest: Option<Digest>,
) -> Result<Vec<Standing>> {
    let evidence: Vec<(PathBuf, Evidence)> =
        Evidence::read_all(dir)?.into_iter().filter(|(_, evidence)| evidence.project == project).collect();
    let mut digests: BTreeMap<Vec<u32>, String> = BTreeMap::new();
    let mut standings = Vec::new();
    for (path, evidence) in &evidence {
        let freshness = if operations.contains(&evidence.operation) {
            // Compiling is slow, and evidence with stale cases is stale already.
            match (evidence.stale_text(texts), &mut digest) {
                (Some(what), _) => Freshness::Stale { what },
                (None, None) => Freshness::Unknown,
                (None, Some(digest)) => {
                    let device = match digests.get(&evidence.archs) {
                        Some(device) => device.clone(),
                        None => digest(&evidence.archs)?,
                    };
                    digests.insert(evidence.archs.clone(), device.clone());
                    evidence.freshness(&device, texts)
                }
            }
        } else {
            Freshness::Stale { what: format!("{project} has no operation {}", evidence.operation) }
        };
        standings.push(Standing {
            operation: evidence.operation.clone(),
            file: Some(path.clone()),
            card: Some(evidence.card.name.clone()),
            freshness,
        });
    }
    for operation in operations {
        if !standings.iter().any(|standing| standing.operation == *operation) {
            standings.push(Standing {
                operation: operation.clone(),
                file: None,
                card: None,
                freshness: Freshness::Missing,
            });
        }
    }
    Ok(standings)
}

impl Evidence {
    /// Fresh when all digests are those recorded, the compiler is the pinned one, and it was verified as it would be now.
    pub fn freshness(&self, device_digest: &str, texts: Texts) -> Freshness {
        match self.stale_text(texts) {
            Some(what) => Freshness::Stale { what },
            None if self.device_digest != device_digest => {
                Freshness::Stale { what: "the compiled device code is not the recorded one".to_owned() }
            }
            None if self.verification.set < SET => Freshness::OlderSet { set: self.verification.set },
            None => Freshness::Fresh,
        }
    }

    /// What is stale without compiling.
    fn stale_text(&self, texts: Texts) -> Option<String> {
        if self.toolchain != Toolchain::PINNED {
            return Some(format!("recorded with nvcc {}, and {} is pinned now", self.toolchain, Toolchain::PINNED));
        }
        if self.spec_digest != texts.spec_digest {
            return Some("the operations, cases or budgets of kernel.toml are not the recorded ones".to_owned());
        }
        // Host code chooses the kernel of a launch, and is not part of the device digest.
        (self.source_digest != texts.source_digest)
            .then(|| "the sources, flags or oracles are not the recorded ones, comments apart".to_owned())
    }
}
