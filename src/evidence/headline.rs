//! README's table: a line per named model and operation, with a link to all figures.

use std::fmt::Write as _;

use anyhow::{Result, ensure};

use super::records::Records;
use super::summary::{NOTHING, best_peer, compiled};
use crate::bench::{CaseBench, Residency};
use crate::end_to_end::EndToEnd;
use crate::project::DType;
use crate::report::figure;
use crate::report::markdown::{cell, row, titles};

/// The most lines in the table.
const MOST: usize = 12;
/// The generated pages, relative to README.
const MODELS: &str = "docs/generated/models.md";
const OPERATIONS: &str = "docs/generated/operations.md";

/// For a model its first case; for an operation its largest bf16 case in device memory.
pub(super) fn table(records: &Records, names: &[&str]) -> Result<String> {
    ensure!(names.len() <= MOST, "the headline names {} operations and models, and {MOST} are the most", names.len());
    let mut text = titles(["", "case", ">time", "beside it"]);
    for name in names {
        if let Some(model) = records.model(name) {
            text += &model_row(model);
        } else if let Some(case) = records.operation(name).and_then(|one| largest(&one.cases)) {
            text += &operation_row(records, case);
        } else {
            text += &row([cell(name).as_str(), "not recorded yet", NOTHING, NOTHING]);
        }
    }
    if let Some(one) = records.operations.first() {
        let _ = write!(
            text,
            "\n{}. Medians. Operations in bf16, buffers in device memory; roof: a copy of the bytes that must move, on the \
             same card in the same run. Models with random weights.\n",
            one.made_on()
        );
    }
    Ok(text)
}

fn largest(cases: &[CaseBench]) -> Option<&CaseBench> {
    cases
        .iter()
        .filter(|case| case.residency == Residency::Cold && case.dtype == DType::BF16)
        .max_by_key(|case| case.bytes)
}

fn operation_row(records: &Records, case: &CaseBench) -> String {
    let row_of_peers = records.peers.as_ref().and_then(|peers| peers.row(case));
    let mut beside = vec![match case.tflops() {
        Some(tera) => format!("{} TFLOP/s", figure::gbs(tera)),
        None => format!("{} % of the roof", figure::percent(case.of_roof())),
    }];
    beside.extend(compiled(row_of_peers).map(|times| format!("{times} × torch.compile")));
    let best = best_peer(row_of_peers).filter(|(name, _)| !name.starts_with("torch.compile"));
    beside.extend(best.map(|(name, times)| format!("{times} × {}", cell(&name))));
    let name = &case.operation;
    row([
        format!("[`{name}`]({OPERATIONS}#{name})"),
        cell(&figure::sizes(case)),
        format!("{} µs", figure::micros(case.kernel.median)),
        beside.join(", "),
    ])
}

fn model_row(model: &EndToEnd) -> String {
    let case = model.cases.iter().find(|case| case.median("kernels").is_some());
    let beside: Vec<String> = [("eager", "eager"), ("compile", "torch.compile")]
        .iter()
        .filter_map(|(base, shown)| {
            let times = case?.times_faster("kernels", base)?;
            Some(format!("{} × {shown}", figure::times(times)))
        })
        .collect();
    let time = case.and_then(|case| case.median("kernels"));
    row([
        format!("[{}]({MODELS}#{})", cell(&model.title), model.name),
        case.map_or_else(|| "not timed".to_owned(), |case| cell(&case.label)),
        time.map_or_else(|| NOTHING.to_owned(), |time| format!("{} ms", figure::micros(time))),
        beside.join(", "),
    ])
}
