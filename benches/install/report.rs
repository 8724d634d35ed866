//! The table, the same as JSON, and whether the goal was reached.

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

use crate::contender::{Contender, Task};

/// The goal: ours under 10 ms, and 20 times as fast as every peer.
const GOAL_MS: f64 = 10.0;
const GOAL_RATIO: f64 = 20.0;

/// One contender's times, in milliseconds.
struct Line<'a> {
    contender: &'a Contender,
    samples: Vec<f64>,
    median: f64,
    min: f64,
    p90: f64,
    /// Its median as a multiple of ours.
    ratio: f64,
}

/// The lines of all contenders.
pub(crate) struct Report<'a> {
    lines: Vec<Line<'a>>,
}

impl<'a> Report<'a> {
    pub(crate) fn new(contenders: &'a [Contender], samples: &[Vec<Duration>]) -> Self {
        let mut lines: Vec<Line> =
            contenders.iter().zip(samples).map(|(contender, samples)| line(contender, samples)).collect();
        for task in Task::ALL {
            let own = lines
                .iter()
                .find(|line| line.contender.task == task && line.contender.reference)
                .expect("every task has a line of ours")
                .median;
            for line in lines.iter_mut().filter(|line| line.contender.task == task) {
                line.ratio = line.median / own;
            }
        }
        Self { lines }
    }

    fn of(&self, task: Task) -> impl Iterator<Item = &Line<'a>> {
        self.lines.iter().filter(move |line| line.contender.task == task)
    }

    /// Our median, and the ratio of the fastest peer.
    fn verdict(&self, task: Task) -> (f64, f64) {
        let own = self.of(task).find(|line| line.contender.reference);
        let peers = self.of(task).filter(|line| line.contender.peer);
        let own = own.map_or(f64::NAN, |line| line.median);
        (own, peers.map(|line| line.ratio).fold(f64::INFINITY, f64::min))
    }

    pub(crate) fn json(&self) -> Value {
        let lines: Vec<Value> = self
            .lines
            .iter()
            .map(|line| {
                json!({
                    "task": line.contender.task.title(),
                    "contender": line.contender.name,
                    "note": line.contender.note,
                    "calls": line.contender.calls.len(),
                    "median_ms": line.median,
                    "min_ms": line.min,
                    "p90_ms": line.p90,
                    "ratio_to_ours": line.ratio,
                    "samples_ms": line.samples,
                })
            })
            .collect();
        let verdicts: Vec<Value> = Task::ALL
            .iter()
            .map(|&task| {
                let (own, ratio) = self.verdict(task);
                json!({
                    "task": task.title(),
                    "ours_ms": own,
                    "fastest_peer_ratio": ratio,
                    "under_goal_ms": own < GOAL_MS,
                    "over_goal_ratio": ratio >= GOAL_RATIO,
                })
            })
            .collect();
        json!({
            "goal": { "ms": GOAL_MS, "ratio": GOAL_RATIO },
            "cores": std::thread::available_parallelism().map_or(0, std::num::NonZero::get),
            "system": format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            "lines": lines,
            "verdicts": verdicts,
        })
    }
}

fn line<'a>(contender: &'a Contender, samples: &[Duration]) -> Line<'a> {
    let samples: Vec<f64> = samples.iter().map(|time| time.as_secs_f64() * 1e3).collect();
    let mut sorted = samples.clone();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let median =
        if sorted.len().is_multiple_of(2) { f64::midpoint(sorted[middle - 1], sorted[middle]) } else { sorted[middle] };
    // The nearest rank: the smallest time that nine in ten runs did not exceed.
    let p90 = sorted[(sorted.len() * 9).div_ceil(10) - 1];
    Line { contender, median, min: sorted[0], p90, ratio: f64::NAN, samples }
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for task in Task::ALL {
            let runs = self.of(task).next().map_or(0, |line| line.samples.len());
            writeln!(f, "\n{}, {runs} runs each, whole process, ms", task.title())?;
            writeln!(f, "  {:<18} {:>8} {:>8} {:>8} {:>7}", "", "median", "min", "p90", "ratio")?;
            for Line { contender, median, min, p90, ratio, .. } in self.of(task) {
                let (name, note) = (contender.name, contender.note);
                let text = format!("  {name:<18} {median:>8.1} {min:>8.1} {p90:>8.1} {ratio:>6.1}x  {note}");
                writeln!(f, "{}", text.trim_end())?;
            }
            let (own, ratio) = self.verdict(task);
            let reached = |yes: bool| if yes { "reached" } else { "MISSED" };
            writeln!(
                f,
                "  goal under {GOAL_MS} ms: {}; goal {GOAL_RATIO}x the fastest peer: {} ({ratio:.1}x)",
                reached(own < GOAL_MS),
                reached(ratio >= GOAL_RATIO),
            )?;
        }
        Ok(())
    }
}
