//! `kernels build`.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use serde_json::{Value, json};

use super::failure::Usage;
use crate::base::arch;
use crate::base::plural;
use crate::base::text::numbers;
use crate::cli::project::Build as Arguments;
use crate::compile::{self, Build, Kernel, Target, name};
use crate::gpu;
use crate::project::Project;
use crate::report::{Output, style};
use crate::toolchain::{Known, Toolchain};

/// Above this many kernels, print one row per template.
const MANY: usize = 30;

/// Compiles a project and reports on each kernel; exit 1 when a budget is exceeded.
pub(crate) fn run(arguments: &Arguments, output: Output) -> Result<ExitCode> {
    let wanted = wanted(&arguments.compile.arch)?;
    let project = Project::open(&arguments.compile.dir)?;
    let archs = project.of_archs(wanted.as_deref().unwrap_or(&arch::defaults()))?;
    let toolchain = Toolchain::find()?;
    let (archs, others) = toolchain.divide(&archs, &Known::nothing());
    if wanted.is_some() || archs.is_empty() {
        toolchain.must_compile_for(&others, &Known::nothing())?;
    }
    if !others.is_empty() {
        let names = arch::named(&others);
        output.note(format!("left out: {names}, for which nvcc {} does not compile", toolchain.version));
    }
    let started = Instant::now();
    let progress = output.is_talkative() && std::io::stderr().is_terminal();
    let tell = |line: &str| {
        if progress {
            output.note(style::faint(line));
        }
    };
    let build = compile::build(&project, &archs, &toolchain, arguments.force, &tell)?;
    let seconds = started.elapsed().as_secs_f64();
    for target in &build.targets {
        output.line(style::strong(target.name()));
        for line in table(target) {
            output.line(line);
        }
    }
    let units: usize = build.targets.iter().map(|target| target.units.len()).sum();
    output.line(format!(
        "{} {}: {} compiled, {} from the cache, {} {}",
        style::strong(&project.name),
        plural(units, "unit"),
        build.compiled,
        units - build.compiled,
        duration(seconds),
        style::faint(format!("nvcc {}", build.compiler)),
    ));
    let overruns = build.over_budget(&project);
    for overrun in &overruns {
        output.error(format!("{} {overrun}", style::bad("over budget:")));
    }
    let left: Vec<String> = build
        .not_compared(&project)
        .iter()
        .filter(|one| one.nowhere)
        .map(|one| format!("{} {}", one.name(), one.why()))
        .collect();
    for one in &left {
        output.note(format!("{} {one}", style::warning("not compared:")));
    }
    output.json(&report(&project, &build, seconds, (&others, &overruns, &left))?);
    Ok(if overruns.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The architectures to compile for: those asked for, else the first card's. None: the usual ones.
fn wanted(asked: &[u32]) -> Result<Option<Vec<u32>>> {
    if !asked.is_empty() {
        must_be_known(asked)?;
        return Ok(Some(asked.to_vec()));
    }
    let card = gpu::probe().ok().and_then(|cards| Some(cards.first()?.arch));
    Ok(card.filter(|arch| arch::known().contains(arch)).map(|arch| vec![arch]))
}

/// An error if one of the architectures is not known.
pub(super) fn must_be_known(asked: &[u32]) -> Result<()> {
    let known = arch::known();
    if let Some(arch) = asked.iter().find(|arch| !known.contains(arch)) {
        let known = numbers(&known);
        return Err(Usage(format!("--arch {arch} is not known; it is one of {known}")).into());
    }
    Ok(())
}

/// A table row: the name, then figures.
struct Row {
    name: String,
    cells: Vec<String>,
    /// Highlight the row: spills, a stack.
    alarm: bool,
}

const COLUMNS: [&str; 7] = ["kernel", "regs", "spill B", "stack B", "smem B", "occupancy (block)", "16-byte ld/st"];

fn table(target: &Target) -> Vec<String> {
    let kernels: Vec<&Kernel> = target.units.iter().flat_map(|unit| &unit.kernels).collect();
    if kernels.is_empty() {
        return vec![style::faint("  no kernels")];
    }
    let rows: Vec<Row> = if kernels.len() > MANY {
        let mut groups: BTreeMap<&str, Vec<&Kernel>> = BTreeMap::new();
        for kernel in &kernels {
            groups.entry(name::template(&kernel.name)).or_default().push(kernel);
        }
        groups.iter().map(|(name, group)| worst(name, group)).collect()
    } else {
        kernels.iter().map(|kernel| one(kernel)).collect()
    };
    let mut widths: Vec<usize> = COLUMNS.iter().map(|column| column.chars().count()).collect();
    for row in &rows {
        widths[0] = widths[0].max(row.name.chars().count());
        for (width, cell) in widths[1..].iter_mut().zip(&row.cells) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |name: &str, cells: &[String]| {
        let mut text = format!("  {name:width$}", width = widths[0]);
        for (cell, width) in cells.iter().zip(&widths[1..]) {
            let _ = write!(text, "  {cell:>width$}");
        }
        text
    };
    let heads: Vec<String> = COLUMNS[1..].iter().map(|&head| head.to_owned()).collect();
    let mut lines = vec![style::faint(line(COLUMNS[0], &heads))];
    for row in &rows {
        let text = line(&row.name, &row.cells);
        lines.push(if row.alarm { style::warning(text) } else { text });
    }
    if kernels.len() > MANY {
        lines.push(style::faint(format!(
            "  {} kernels, one row a template with its worst figures; --json has each kernel",
            kernels.len()
        )));
    }
    lines
}

fn one(kernel: &Kernel) -> Row {
    row(name::short(&kernel.name).to_owned(), &[kernel])
}

fn worst(name: &str, group: &[&Kernel]) -> Row {
    if let [kernel] = group {
        return one(kernel);
    }
    row(format!("{name} × {}", group.len()), group)
}

/// The worst figures of some kernels.
fn row(name: String, group: &[&Kernel]) -> Row {
    let most = |figure: fn(&Kernel) -> u32| group.iter().map(|kernel| figure(kernel)).max().unwrap_or(0);
    let spills = group.iter().map(|kernel| kernel.spilled()).max().unwrap_or(0);
    let stack = most(|kernel| kernel.stack);
    let occupancy = group
        .iter()
        .map(|kernel| (kernel.occupancy, kernel.max_threads))
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .unwrap_or_default();
    let (least, registers) =
        (group.iter().map(|kernel| kernel.registers).min().unwrap_or_default(), most(|kernel| kernel.registers));
    let wide = if let [kernel] = group {
        let (loads, stores) = (kernel.loads, kernel.stores);
        format!("{}/{} {}/{}", loads.wide, loads.all, stores.wide, stores.all)
    } else {
        let both = |kernel: &&&Kernel| kernel.loads.wide > 0 && kernel.stores.wide > 0;
        format!("in {} of {}", group.iter().filter(both).count(), group.len())
    };
    Row {
        name,
        cells: vec![
            if least == registers { registers.to_string() } else { format!("{least}–{registers}") },
            spills.to_string(),
            stack.to_string(),
            most(|kernel| kernel.shared).to_string(),
            format!("{:.0} % ({threads})", occupancy.0 * 100.0, threads = occupancy.1),
            wide,
        ],
        alarm: spills > 0 || stack > 0,
    }
}

fn report(
    project: &Project,
    build: &Build,
    seconds: f64,
    (left_out, overruns, not_compared): (&[u32], &[String], &[String]),
) -> Result<Value> {
    let path = |path: &Path| path.to_string_lossy().into_owned();
    let units: usize = build.targets.iter().map(|target| target.units.len()).sum();
    Ok(json!({
        "project": project.name,
        "compiler": build.compiler,
        "device_digest": build.device_digest()?,
        "source_digest": project.source_digest,
        "seconds": seconds,
        "compiled": build.compiled,
        "cached": units - build.compiled,
        "targets": build.targets.iter().map(|target| json!({
            "arch": target.arch,
            "code": target.name(),
            "library": path(&target.library),
            "units": target.units.iter().map(|unit| json!({
                "source": path(&unit.source),
                "cubin": path(&unit.cubin),
                "ptx": path(&unit.ptx),
                "kernels": unit.kernels,
            })).collect::<Vec<_>>(),
        })).collect::<Vec<_>>(),
        "archs_left_out": left_out,
        "over_budget": overruns,
        "budgets_not_compared": not_compared,
    }))
}

pub(super) fn duration(seconds: f64) -> String {
    if seconds < 1.0 { format!("{:.0} ms", seconds * 1000.0) } else { format!("{seconds:.1} s") }
}
