//! The rounds of a timed case: kept in its record, which is read only if its figures are those of the rounds.

use anyhow::{Result, ensure};

use crate::bench::{CaseBench, Samples, Spread};
use crate::report::figure;

/// The format of a record that keeps every round.
pub(super) const FORMAT: u32 = 2;
/// Formats that are read. Records of format 1 keep no rounds, and nothing can be computed anew from them.
pub(super) const KNOWN: [u32; 2] = [1, FORMAT];

/// Significant digits of recorded figures; the rest is noise, and would fill diffs.
pub(super) const DIGITS: usize = 4;

pub(super) fn rounded(value: f64) -> f64 {
    figure::significant(value, DIGITS)
}

/// A case as a record keeps it: rounds with few digits, and the figures of these.
pub(super) fn kept(case: &CaseBench) -> CaseBench {
    let few = |times: &[f64]| times.iter().map(|time| rounded(*time)).collect::<Vec<f64>>();
    let rounds = case.rounds.as_ref().map(|all| Samples { kernel: few(&all.kernel), copy: few(&all.copy) });
    let figures = rounds.as_ref().map(figures);
    let [kernel, copy] = figures.unwrap_or([case.kernel, case.copy]);
    CaseBench { kernel, copy, rounds, ..case.clone() }
}

/// The figures of the kernel and of the copy.
fn figures(rounds: &Samples) -> [Spread; 2] {
    [&rounds.kernel, &rounds.copy].map(|times| {
        let spread = Spread::of(times);
        Spread {
            median: rounded(spread.median),
            p10: rounded(spread.p10),
            p90: rounded(spread.p90),
            min: rounded(spread.min),
            samples: spread.samples,
        }
    })
}

/// An error if a case's figures are not those of its rounds, or if a record that must keep them has none.
pub(super) fn check(case: &CaseBench, format: u32) -> Result<()> {
    let Some(rounds) = &case.rounds else {
        ensure!(format < FORMAT, "{} {} has no rounds", case.operation, case.case);
        return Ok(());
    };
    ensure!(
        !rounds.kernel.is_empty() && figures(rounds) == [case.kernel, case.copy],
        "the figures of {} {} are not those of its rounds",
        case.operation,
        case.case
    );
    Ok(())
}
