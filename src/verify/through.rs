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
        let Some(prepared) = Prepared::new((project, operation), &chosen, seed, false)? else { continue };
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;
    use crate::verify::function::Given;

    fn verified(answer: &dyn Fn(&Given) -> Result<(), Unanswered>) -> Verified {
        let toml = format!("{}rows = [3]\ncolumns = [4, 5, 6]\n", Project::TRANSPOSE);
        let project = Project::of(&toml).unwrap();
        let mut call = |given: &Given| {
            let transposed = || {
                let mut after = given.slot.to_vec();
                let [x, out] = [0, 1].map(|tensor| given.layout.range(given.bound, tensor));
                let columns = usize::try_from(given.bound.tensors[0].shape[2]).unwrap();
                for (at, element) in given.slot[x].chunks_exact(4).enumerate() {
                    let to = out.start + 4 * (at % columns * 3 + at / columns);
                    after[to..to + 4].copy_from_slice(element);
                }
                after
            };
            Ok(answer(given).map(|()| transposed()))
        };
        let operation = &project.spec.operations[0];
        verify((&project, operation), &Choice::default(), 7, "here", &mut call).unwrap()
    }

    fn columns(given: &Given) -> u64 {
        given.bound.tensors[0].shape[2]
    }

    #[test]
    fn what_a_function_answers_is_judged_and_counted() {
        // Each shape with normal inputs, and with NaN and infinity.
        let right = verified(&|_| Ok(()));
        let report = &right.report;
        assert!(right.findings.is_empty() && right.unverified().is_none(), "{:?}", right.findings);
        assert_eq!((report.cases, report.non_finite, right.refused, right.lost), (6, 3, 0, false));
        assert_eq!((right.calls, report.elements), (24, 3 * 2 * 3 * (4 + 5 + 6)));

        let some = verified(&|given| {
            if columns(given) == 5 { Err(Unanswered::Refused("no fives".to_owned())) } else { Ok(()) }
        });
        assert_eq!((some.report.cases, some.refused, some.calls), (4, 2, 16));
        assert_eq!(some.refusal.as_deref(), Some("rows=3 columns=5 f32: no fives"));
        assert_eq!(some.unverified(), None);
    }

    #[test]
    fn why_nothing_was_compared_is_said() {
        let refused = verified(&|_| Err(Unanswered::Refused("not here".to_owned())));
        assert_eq!(refused.unverified(), Some("rows=3 columns=4 f32: not here"));
        let absent = verified(&|_| Err(Unanswered::Absent("no such function".to_owned())));
        assert_eq!((absent.unverified(), absent.report.cases), (Some("no such function"), 0));
        let lost = verified(&|_| Err(Unanswered::Lost("the process ended".to_owned())));
        let found: Vec<_> =
            lost.findings.iter().map(|one| (one.kind, one.message.as_str(), one.path.as_str())).collect();
        assert_eq!(found, [(Kind::LaunchFailed, "the process ended", "here")]);
        assert!(lost.lost && lost.unverified().is_none() && lost.report.cases == 1);
    }
}
