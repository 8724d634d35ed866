//! How a run is made: seed, proposers, budget, limits. Kept in its first event.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The options of `kernels search run`.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Settings {
    pub(crate) seed: u64,
    /// As on the command line, in its order.
    pub(crate) proposers: Vec<String>,
    /// The folder that the path of `dir:` begins in.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) base: String,
    pub(crate) budget: Budget,
    /// How many candidates are made at the same time.
    pub(crate) flight: u32,
    pub(crate) islands: u32,
    /// Stop after this many judged candidates without a new elite.
    pub(crate) stall: u32,
    /// Seconds for one stage in a child process, and for one answer of a proposer.
    pub(crate) patience: u32,
    /// The peers of the confirmation, as `kernels bench --against` names them.
    pub(crate) against: Vec<String>,
    /// Other runs whose best kernels `transplant` takes.
    pub(crate) donors: Vec<String>,
    /// The folder of models' answers, where it is not the run's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) answers: Option<String>,
    /// Where jobs are carried out: `local`, `slurm`, or `slurm:` and options of sbatch.
    pub(crate) engine: String,
    /// The most cards that another engine than `local` uses at once.
    #[serde(default)]
    pub(crate) cards: u32,
}

/// A run ends at the first of these that is reached.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct Budget {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) usd: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) minutes: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) evals: Option<u32>,
}

impl FromStr for Budget {
    type Err = String;

    /// `usd=5,minutes=60,evals=200`, each at most once.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut budget = Self::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').ok_or_else(|| format!("`{part}` has no `=`"))?;
            let number: f64 = value.parse().map_err(|_| format!("`{value}` of {key} is not a number"))?;
            if !number.is_finite() || number < 0.0 {
                return Err(format!("{key}={value}: a budget is zero or more"));
            }
            let twice = match key {
                "usd" => budget.usd.replace(number).is_some(),
                "minutes" => budget.minutes.replace(number).is_some(),
                "evals" => {
                    let whole = value.parse().map_err(|_| format!("`{value}` evals is not a whole number"))?;
                    budget.evals.replace(whole).is_some()
                }
                _ => return Err(format!("`{key}`: a budget has usd, minutes, evals")),
            };
            if twice {
                return Err(format!("{key} is there twice"));
            }
        }
        Ok(budget)
    }
}

impl Budget {
    /// What is used up, if anything is.
    pub(crate) fn spent(&self, usd: f64, seconds: f64, evals: u32) -> Option<String> {
        if let Some(limit) = self.usd.filter(|limit| usd >= *limit) {
            return Some(format!("the budget of {limit} US dollars is spent"));
        }
        if let Some(limit) = self.minutes.filter(|limit| seconds >= *limit * 60.0) {
            return Some(format!("the budget of {limit} minutes is spent"));
        }
        let limit = self.evals.filter(|limit| evals >= *limit)?;
        Some(format!("the budget of {limit} evaluations is spent"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_read_and_what_is_none_is_refused() {
        let budget: Budget = "usd=5,minutes=0.5,evals=20".parse().unwrap_or_default();
        assert_eq!(budget, Budget { usd: Some(5.0), minutes: Some(0.5), evals: Some(20) });
        for text in ["usd", "usd=x", "usd=-1", "evals=1.5", "usd=1,usd=2", "hours=1", "usd=inf"] {
            assert!(text.parse::<Budget>().is_err(), "{text}");
        }
        assert!(budget.spent(0.0, 31.0, 0).is_some_and(|why| why.contains("minutes")));
        assert!(budget.spent(4.9, 29.0, 19).is_none());
    }
}
