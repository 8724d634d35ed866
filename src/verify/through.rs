//! Verifies an operation through a published function instead of a launcher, with the same cases, inputs, oracles and
//! findings. Nothing is recorded or replayed: the slot after the call is judged, but not which kernels ran.

use anyhow::Result;
use serde::Serialize;

use super::case::{CaseOutcome, Prepared};
use super::finding::{Finding, Kind, OperationReport};
use super::function::{Call, Unanswered};
use super::random::{Random, fresh_seed};
use super::run::Findings;
use super::select;
use super::verdict::Verdicts;
use crate::project::{Inputs, Operation, Project};
use crate::worker::Choice;

/// The result for an operation.
#[derive(Debug, Serialize)]
pub(crate) struct Verified {
    #[serde(flatten)]
    pub(crate) report: OperationReport,
    /// How many calls were judged.
    pub(crate) calls: u64,
    /// The largest error in units of its budget.
    pub(crate) worst: f64,
    /// Cases that the function refused, and the first reason.
    pub(crate) refused: u64,
    pub(crate) refusal: Option<String>,
    /// Why there is nothing to verify.
    pub(crate) absent: Option<String>,
    pub(crate) findings: Vec<Finding>,
    /// The card or the process is lost: nothing more can be called.
    pub(crate) lost: bool,
}

impl Verified {
    /// Why nothing was compared.
    pub(crate) fn unverified(&self) -> Option<&str> {
        let why = self.absent.as_deref().or(self.refusal.as_deref()).unwrap_or("no case of it was chosen");
        (self.calls == 0 && self.findings.is_empty()).then_some(why)
    }
}

/// Verifies an operation; the findings name `path`.
pub(crate) fn verify(
    (project, operation): (&Project, &Operation),
    choice: &Choice,
    seed: u64,
    path: &str,
    call: &mut Call,
) -> Result<Verified> {
    let mut verified = Verified {
        report: OperationReport::new(operation),
        calls: 0,
        worst: 0.0,
        refused: 0,
        refusal: None,
        absent: None,
        findings: Vec::new(),
        lost: false,
    };
    let mut findings = Findings::new(operation, path.to_owned());
    let random = &mut Random::new(fresh_seed(), 0);
    for chosen in select::verified(choice, operation, (seed, false), random)? {
        let Some(prepared) = Prepared::new(project, operation, &chosen, seed)? else { continue };
        let outcome = match prepared.call(operation, &chosen.case, call)? {
            Ok(called) => called.judge((project, operation, &chosen), (&Verdicts::Apart, (0, 0)))?,
            Err(Unanswered::Absent(why)) => {
                verified.absent = Some(why);
                break;
            }
            Err(Unanswered::Lost(why)) => {
                CaseOutcome { faults: vec![(Kind::LaunchFailed, why)], lost: true, ..CaseOutcome::default() }
            }
            Err(Unanswered::Refused(why)) => {
                verified.refused += 1;
                verified.refusal.get_or_insert(format!("{}: {why}", chosen.case.label));
                continue;
            }
        };
        verified.report.cases += 1;
        verified.report.elements += outcome.elements;
        verified.report.non_finite += u64::from(chosen.case.inputs == Inputs::NonFinite);
        verified.calls += outcome.launches;
        // JSON has no infinity.
        verified.worst = verified.worst.max(outcome.worst).min(1e300);
        outcome.faults.into_iter().for_each(|fault| findings.add(&chosen.case, fault));
        if outcome.lost {
            verified.lost = true;
            break;
        }
    }
    verified.findings = findings.shortened();
    Ok(verified)
}
