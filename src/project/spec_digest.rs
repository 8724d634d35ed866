//! A digest of what kernel.toml means: its operations, with every case that their tables give, and its budgets.
//!
//! How the cases are written does not count, nor in which order, nor that one is given twice: what was recorded of them
//! holds as long as the same ones are checked and timed.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result};
use serde::Serialize;
use sha2::{Digest as _, Sha256};

use super::{Case, CaseSet, Formula, Operation, Spec};
use crate::base::hex;

/// One thing that is said, digested.
type Parts = BTreeSet<[u8; 32]>;

/// SHA-256, in hexadecimal.
pub(super) fn of(spec: &Spec) -> Result<String> {
    let mut parts = Parts::new();
    for operation in &spec.operations {
        let (bytes, flops) = (Formula::number(0.0), Formula::number(0.0));
        let (verify, bench, reject) = (Vec::new(), Vec::new(), Vec::new());
        let bare = Operation { bytes, flops, verify, bench, reject, ..operation.clone() };
        add(&mut parts, ("operation", &bare))?;
        for (kind, sets) in [("verify", &operation.verify), ("bench", &operation.bench), ("reject", &operation.reject)]
        {
            for set in sets {
                if set.draw.is_some() {
                    add(&mut parts, (&operation.name, kind, drawn(set)))?;
                    continue;
                }
                for case in operation.cases(std::slice::from_ref(set), 0)? {
                    add(&mut parts, (&operation.name, kind, expanded(&case)))?;
                    if kind == "bench" {
                        // What a record has of them beside their times.
                        let bound = operation.bind(&case)?;
                        let cost = (bound.bytes, bound.flops.to_bits());
                        add(&mut parts, (&operation.name, "timed", &case.label, cost))?;
                    }
                }
            }
        }
    }
    for budget in &spec.budgets {
        add(&mut parts, ("budget", budget))?;
    }
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part);
    }
    Ok(hex(&hash.finalize()))
}

fn add(parts: &mut Parts, part: impl Serialize) -> Result<()> {
    let text = serde_json::to_vec(&part).context("kernel.toml cannot be digested")?;
    parts.insert(Sha256::digest(text).into());
    Ok(())
}

/// A case's numbers by their bits: JSON has no infinity.
fn expanded(case: &Case) -> impl Serialize + use<'_> {
    let values: BTreeMap<&String, u64> = case.values.iter().map(|(name, value)| (name, value.to_bits())).collect();
    (case.dtype, values, &case.offsets, case.inputs, case.refused, &case.refusal)
}

/// A table that is drawn from gives other cases in each run; what it says is what they are drawn from.
fn drawn(set: &CaseSet) -> CaseSet {
    CaseSet { name: None, ..set.clone() }
}
