//! The rounds of a timed case: kept in its record, which is read only if its figures are those of the rounds.

use anyhow::{Result, bail, ensure};

use crate::bench::{CaseBench, Samples, Spread};
use crate::report::figure;

/// The format of a record. An older one kept no rounds, from which figures are computed anew: it is not read, because whoever
/// changes a figure could call a record older.
pub(super) const FORMAT: u32 = 2;

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

/// An error if a case has no rounds, or other figures than theirs.
pub(super) fn check(case: &CaseBench) -> Result<()> {
    let Some(rounds) = &case.rounds else {
        bail!("{} {} has no rounds", case.operation, case.case);
    };
    ensure!(
        !rounds.kernel.is_empty() && figures(rounds) == [case.kernel, case.copy],
        "the figures of {} {} are not those of its rounds",
        case.operation,
        case.case
    );
    Ok(())
}
