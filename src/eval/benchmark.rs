//! skill-creator's `benchmark.json`, which its viewer reads: every run as `with_skill` or `without_skill`.

use serde_json::{Value, json};

use super::report::Report;
use super::row::Row;
use crate::report::statistics::{deviation, mean};

/// The file. Arms other than `with` and `without` have no place in it.
pub(crate) fn render(Report { header, rows, .. }: &Report) -> Value {
    let configuration = |row: &Row| match row.arm.as_str() {
        "with" => Some("with_skill"),
        "without" => Some("without_skill"),
        _ => None,
    };
    let counted: Vec<(&Row, &str)> =
        rows.iter().filter(|row| row.outcome().counts()).filter_map(|row| Some((row, configuration(row)?))).collect();
    let runs: Vec<Value> = counted.iter().map(|(row, configuration)| run(row, configuration)).collect();
    let of = |configuration: &str| {
        let rows: Vec<&Row> = counted.iter().filter(|(_, own)| *own == configuration).map(|(row, _)| *row).collect();
        let figure = |value: &dyn Fn(&Row) -> Option<f64>| {
            rows.iter().map(|row| value(row)).collect::<Option<Vec<_>>>().as_deref().map(spread)
        };
        json!({
            "pass_rate": figure(&|row| Some(row.passed())),
            "time_seconds": figure(&|row| Some(row.took.seconds)),
            "tokens": figure(&Row::tokens),
            "n": rows.len(),
        })
    };
    let (with, without) = (of("with_skill"), of("without_skill"));
    let delta = |name: &str| {
        let mean = |side: &Value| side[name]["mean"].as_f64();
        mean(&with).zip(mean(&without)).map(|(with, without)| format!("{:+.2}", with - without))
    };
    json!({
        "metadata": {
            "skill_name": header.skills.values().next().map(|pin| &pin.name),
            "skill_path": header.skill.to_string_lossy(),
            "executor_model": header.agents.join(", "),
            "evals_run": header.digests.keys().collect::<Vec<_>>(),
            "runs_per_configuration": header.runs,
        },
        "runs": runs,
        "run_summary": {
            "delta": {
                "pass_rate": delta("pass_rate"),
                "time_seconds": delta("time_seconds"),
                "tokens": delta("tokens"),
            },
            "with_skill": with,
            "without_skill": without,
        },
        "notes": [],
    })
}

fn run(row: &Row, configuration: &str) -> Value {
    let gates = || row.verdict.gates.iter().filter(|(name, _)| !matches!(name.as_str(), "harm" | "cheat" | "roof"));
    let passed = gates().filter(|(_, value)| **value >= 1.0).count();
    let text =
        |(name, value): (&String, &f64)| json!({"text": name, "passed": *value >= 1.0, "evidence": value.to_string()});
    json!({
        "eval_id": row.task,
        "eval_name": row.task,
        "configuration": configuration,
        "run_number": row.run,
        "agent": row.agent,
        "result": {
            "pass_rate": row.passed(),
            "passed": passed,
            "failed": gates().count() - passed,
            "total": gates().count(),
            "time_seconds": row.took.seconds,
            "tokens": row.tokens(),
            "tool_calls": row.took.calls,
            "errors": row.took.failed_calls,
        },
        "expectations": gates().map(text).collect::<Vec<_>>(),
        "notes": row.verdict.harm,
    })
}

fn spread(values: &[f64]) -> Value {
    let of = |choose: fn(f64, f64) -> f64| values.iter().copied().reduce(choose);
    json!({ "mean": mean(values), "stddev": deviation(values), "min": of(f64::min), "max": of(f64::max) })
}
