//! What Nsight Compute measures of one launch of a finalist, where there is one and this user may profile. Its times are no
//! scores; its figures become a sentence of the feedback.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

use super::job;
use crate::project::Project;
use crate::verify::Choice;
use crate::worker::{Request, TuneCase, TuneJob};

/// By name, what is measured, and how a sentence says it.
const METRICS: [(&str, &str); 6] = [
    ("gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed", "memory busy {} %"),
    ("dram__throughput.avg.pct_of_peak_sustained_elapsed", "device memory {} %"),
    ("sm__throughput.avg.pct_of_peak_sustained_elapsed", "multiprocessors {} %"),
    ("sm__warps_active.avg.pct_of_peak_sustained_active", "warps resident {} %"),
    ("lts__t_sector_hit_rate.pct", "L2 hits {} %"),
    ("smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct", "bytes used of loaded sectors {} %"),
];
const LIMIT: Duration = Duration::from_secs(180);

/// The metrics of one launch on the project's first timed case.
pub(super) fn measure(project: &Project, ordinal: usize) -> Result<BTreeMap<String, f64>> {
    let program = program().context("there is no ncu in PATH, CUDA_HOME or /usr/local/cuda")?;
    permitted()?;
    let operation = project.spec.operations.first().context("the project has no operation")?;
    let case = Choice::default().cases(operation, &operation.bench, 0)?.into_iter().next();
    let case = case.context("the project times no case")?;
    let case = TuneCase {
        operation: operation.name.clone(),
        dtype: case.dtype,
        values: case.values,
        offsets: case.offsets,
        inputs: case.inputs.name().to_owned(),
        timed: false,
    };
    let request = Request::Tune(TuneJob { project: project.root.clone(), ordinal, cases: vec![case], rounds: None });
    let (own, arguments) = request.arguments()?;
    let log = tempfile::NamedTempFile::new()?;
    let names: Vec<&str> = METRICS.iter().map(|(name, _)| *name).collect();
    let mut command = Command::new(program);
    command.args(["--csv", "--page", "raw", "--clock-control", "none", "--target-processes", "application-only"]);
    // The first launch loads code and page tables.
    command.args(["--launch-skip", "1", "--launch-count", "1", "--metrics", &names.join(",")]);
    command.arg("--force-overwrite").arg("--log-file").arg(log.path()).arg(own).args(arguments);
    let ended = job::wait(job::scrubbed(&mut command), LIMIT)?;
    let text = fs::read_to_string(log.path())?;
    if let Some(metrics) = parse(&text) {
        return Ok(metrics);
    }
    let last = text.lines().rfind(|line| line.contains("==")).unwrap_or("it measured no launch").to_owned();
    bail!("ncu: {}", ended.filter(|death| !death.text.is_empty()).map_or(last, |death| death.text))
}

/// The first row of values, by the names of its columns.
fn parse(text: &str) -> Option<BTreeMap<String, f64>> {
    let mut rows = text.lines().filter(|line| line.starts_with('"'));
    let cells = |line: &str| -> Vec<String> { line.trim_matches('"').split("\",\"").map(str::to_owned).collect() };
    let names = cells(rows.next()?);
    // The row behind the names has units.
    let values = cells(rows.nth(1)?);
    let known = names.iter().zip(&values).filter(|(name, _)| METRICS.iter().any(|(metric, _)| metric == name));
    let read: BTreeMap<String, f64> =
        known.filter_map(|(name, value)| Some((name.clone(), value.replace(',', "").parse().ok()?))).collect();
    (!read.is_empty()).then_some(read)
}

/// The metrics in a sentence.
pub(crate) fn sentence(metrics: &BTreeMap<String, f64>) -> String {
    let said = METRICS
        .iter()
        .filter_map(|(name, words)| metrics.get(*name).map(|value| words.replace("{}", &format!("{value:.0}"))));
    format!("Nsight Compute, one launch: {}.", said.collect::<Vec<_>>().join(", "))
}

fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let home = std::env::var_os("CUDA_HOME").map(|home| Path::new(&home).join("bin"));
    let folders = std::env::split_paths(&path).chain(home).chain(["/usr/local/cuda/bin".into()]);
    folders.map(|folder| folder.join("ncu")).find(|file| file.is_file())
}

/// The driver may leave counters to the administrator.
fn permitted() -> Result<()> {
    let parameters = fs::read_to_string("/proc/driver/nvidia/params").unwrap_or_default();
    let limited = parameters.lines().any(|line| line.replace(' ', "") == "RmProfilingAdminOnly:1");
    ensure!(
        !limited || rustix::process::geteuid().is_root(),
        "the driver lets the administrator alone profile (RmProfilingAdminOnly: 1 in /proc/driver/nvidia/params)"
    );
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn the_row_behind_the_units_is_read_and_what_is_none_is_no_metric() {
        let text = "==PROF== Connected\n\"ID\",\"Kernel Name\",\"dram__throughput.avg.pct_of_peak_sustained_elapsed\",\"lts__t_sector_hit_rate.pct\"\n\
                    \"\",\"\",\"%\",\"%\"\n\"0\",\"f(float *, int)\",\"1,091.25\",\"n/a\"\n";
        let metrics = parse(text).unwrap();
        assert_eq!(metrics.len(), 1);
        assert_eq!(sentence(&metrics), "Nsight Compute, one launch: device memory 1091 %.");
        assert!(parse("==ERROR== ERR_NVGPUCTRPERM\n").is_none());
    }
}
