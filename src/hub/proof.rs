//! Which evidence covers what is to be published: a record of each operation that matches the sources as they are, and
//! variants that were built from these sources.

use std::path::Path;

use anyhow::Result;

use super::built::Variant;
use crate::base::arch::Capability;
use crate::evidence::{self, Evidence, Freshness};
use crate::project::{KERNEL_TOML, Project, TorchProject};
use crate::session::machine::{Here, Lab};
use crate::variant;

/// What is known about the kernels.
#[derive(Debug)]
pub(crate) struct Proof {
    /// The records of the project's operations, by operation and card.
    pub(crate) records: Vec<Evidence>,
    /// What no record covers, and why; empty if everything is covered.
    pub(crate) gaps: Vec<String>,
}

impl Proof {
    pub(super) fn of(dir: &Path, torch: &TorchProject, variants: &[Variant], folder: Option<&Path>) -> Result<Self> {
        let mut proof = Self { records: Vec::new(), gaps: Vec::new() };
        if !dir.join(KERNEL_TOML).is_file() {
            proof.gaps.push(format!("the project has no {KERNEL_TOML}, which says what `kernels verify` checks"));
            return Ok(proof);
        }
        let project = Project::open(dir)?;
        let folder = evidence::folder(&project.root, folder);
        let operations: Vec<String> = project.spec.operations.iter().map(|one| one.name.clone()).collect();
        let all = Evidence::read_all(&folder)?.into_iter().map(|(_, one)| one);
        let records: Vec<Evidence> =
            all.filter(|one| one.project == project.name && operations.contains(&one.operation)).collect();
        if records.is_empty() {
            proof.gaps.push(format!("no record of {} lies in {}", project.name, folder.display()));
            return Ok(proof);
        }
        let pinned = Here.pinned();
        let mut digest;
        let digest: Option<evidence::Digest> = match &pinned {
            Ok(toolchain) => {
                digest = |archs: &[u32]| Here.device_digest(&Here.build(&project, archs, toolchain)?);
                Some(&mut digest)
            }
            Err(_) => None,
        };
        for standing in evidence::check(&folder, &project.name, &operations, (&project).into(), digest)? {
            let of = standing.card.as_ref().map_or_else(String::new, |card| format!(" on {card}"));
            let gap = match standing.freshness {
                Freshness::Fresh => continue,
                Freshness::Missing => "nothing is recorded".to_owned(),
                Freshness::Stale { what } => format!("its record is stale: {what}"),
                Freshness::OlderSet { set } => {
                    format!("its record was verified with set {set} of the cases, which is not the newest")
                }
                Freshness::Unknown => pinned.as_ref().err().cloned().unwrap_or_default(),
            };
            proof.gaps.push(format!("{}{of}: {gap}", standing.operation));
        }
        let sources = variant::sources(torch)?;
        for variant in variants {
            if variant.metadata.source_digest.as_ref() != Some(&sources) {
                let name = &variant.name;
                proof.gaps.push(format!("{name} was built from other sources: `kernels build --torch` builds it anew"));
            }
            proof.gaps.extend(other_code(&project, variant, &records));
        }
        proof.records = records;
        Ok(proof)
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.gaps.is_empty()
    }
}

/// The gap of a variant with code that a recorded card would prefer to the recorded one: `9.0a` instead of `9.0`, or `10.0f` instead
/// of `10.3`.
fn other_code(project: &Project, variant: &Variant, records: &[Evidence]) -> Option<String> {
    let archs = variant.metadata.backend.archs.iter().flatten().filter_map(|text| Capability::parse(text));
    let special = archs.map(|one| Capability { ptx: false, ..one }).filter(|one| one.suffix.is_some());
    let is_recorded =
        |one: &Capability| project.sources.iter().any(|source| project.capabilities.target(source, one.number) == *one);
    let (own, recorded) = special.into_iter().find_map(|one| {
        let recorded = records.iter().flat_map(|record| &record.archs).copied();
        let other = recorded.filter(|arch| one.covers(*arch)).find(|arch| *arch != one.number || !is_recorded(&one))?;
        Some((one, Capability::new(other)))
    })?;
    Some(format!(
        "{} has code for {own}, and the records are of {recorded}: write \"{recorded}\" into cuda-capabilities, and \
         `kernels build --torch` builds what was recorded",
        variant.name
    ))
}
