//! `kernels skills eval`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::failure::Usage;
use crate::cli::eval::{Cli, Eval, Pictures};
use crate::eval::chart::chart;
use crate::eval::desk;
use crate::eval::lab::Lab;
use crate::eval::plan::{Header, Plan};
use crate::eval::report::Report;
use crate::eval::row::Row;
use crate::eval::summary::{Lift, Summary};
use crate::eval::tables::{self, CELLS};
use crate::eval::verdict::Outcome;
use crate::eval::{self, benchmark, page};
use crate::install::Refusal;
use crate::install::receipt::now;
use crate::report::check::{Check, Status, Suite, total};
use crate::report::table::{Cell, Column, Table, window};
use crate::report::{Output, Progress, file, junit, style};
use crate::skill::bundled;
use crate::subject::{self, Subject};

/// Where runs are kept.
pub(super) const RUNS: &str = ".kernels/evals";
const COMMAND: &str = "kernels skills eval";

/// An error in a run of `skills eval`, whose subjects have the skill of their arm and no other.
pub(super) fn skills_are_offered() -> Result<()> {
    if std::env::var_os(desk::SKILLS).is_some_and(|value| value == "off") {
        bail!(
            "`kernels skills` is switched off here ({}=off): `kernels skills eval` measures this task with the skills that are \
             installed in the workspace, or without; go on without this command",
            desk::SKILLS
        );
    }
    Ok(())
}

pub(super) fn run(arguments: &Eval, output: Output) -> Result<ExitCode> {
    if !arguments.check.is_empty() {
        return check(arguments, output);
    }
    if let Some(folder) = &arguments.prepare {
        return prepare(arguments, folder, output);
    }
    let limits = limits(&arguments.fail_under)?;
    let (plan, folder) = if let Some(folder) = &arguments.resume {
        let begun = eval::run::read(folder)?.0;
        check_agents(&begun.agents)?;
        (Plan::again(&begun, folder)?, folder.clone())
    } else {
        check_agents(&arguments.agents)?;
        let plan = Plan::open(header(arguments))?;
        let folder = arguments.out.clone().unwrap_or_else(|| fresh(&plan));
        (plan, folder)
    };
    let is_new = arguments.resume.is_none();
    if is_new {
        super::is_free(&folder, "go on with it: --resume RUN")?;
    }
    let all = plan.order().len();
    output.line(format!("{} {}", style::strong(plan.header.title()), style::faint(folder.display())));
    let progress = Progress::new(output);
    progress.tell(&format!("{all} runs"));
    let mut tell = |row: &Row, left: usize| {
        output.line(line(row));
        progress.tell(&format!("{left} of {all} runs left"));
    };
    let rows = eval::run(&plan, &folder, arguments.resume.is_some(), &mut tell)?;
    progress.done();
    let report = [Report::of(folder, plan.header, rows)];
    let [Report { folder, header, rows, summary }] = &report;
    show(summary, output);
    write(&arguments.pictures, &report)?;
    if let Some(path) = &arguments.junit {
        file::write(path, junit::render_as(COMMAND, &suites(rows)).as_bytes())?;
    }
    let below = below(&limits, summary);
    for why in &below {
        output.error(format!("{} {why}", style::bad("below the limit:")));
    }
    output.json(&json!({
        "run": folder.to_string_lossy(),
        "header": header,
        "summary": summary,
        "rows": rows,
        "below": below,
    }));
    Ok(if below.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// `--prepare`.
fn prepare(arguments: &Eval, folder: &Path, output: Output) -> Result<ExitCode> {
    if std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(Refusal::of(folder, "is not empty", &["name a new folder after --prepare"]).into());
    }
    let plan = Plan::open(header(arguments))?;
    let all = eval::prepared::lay_out(&plan, folder)?;
    for path in &all {
        output.line(format!("  {}  {}", path.display(), style::faint(format!("prompt: {}.md", path.display()))));
    }
    output.line(format!("when they are filled: kernels skills eval … --agent dir:{}", folder.display()));
    output.json(&json!({ "workspaces": all.iter().map(|path| path.to_string_lossy()).collect::<Vec<_>>() }));
    Ok(ExitCode::SUCCESS)
}

/// An agent that can be run; others are refused before anything is written.
pub(super) fn agent(text: &str, option: &str) -> Result<Subject> {
    let subject = text.parse::<Subject>().and_then(|subject| subject.ready(&subject::path()).map(|()| subject));
    subject.map_err(|error| Usage(format!("{option} {text}: {error:#}")).into())
}

fn check_agents(agents: &[String]) -> Result<()> {
    agents.iter().try_for_each(|text| agent(text, "--agent").map(drop))
}

fn header(arguments: &Eval) -> Header {
    let cli = match arguments.cli {
        Cli::On => vec![true],
        Cli::Off => vec![false],
        Cli::Both => vec![false, true],
    };
    Header {
        skill: arguments.skill.clone().unwrap_or_else(|| PathBuf::from(bundled::DEFAULT)),
        tasks: arguments.tasks.clone(),
        filter: arguments.filter.clone(),
        agents: arguments.agents.clone(),
        arms: arguments.arms.clone(),
        cli,
        runs: arguments.runs,
        timeout_s: arguments.timeout.as_secs_f64(),
        max_turns: arguments.max_turns,
        max_tokens: arguments.max_tokens,
        seed: arguments.seed,
        ..Header::default()
    }
}

/// A folder that does not exist yet.
fn fresh(plan: &Plan) -> PathBuf {
    let skill = plan.header.skills.values().next().map_or("none", |pin| pin.name.as_str());
    let name = format!("{skill}-{}", now().replace(['-', ':'], ""));
    let names = (1..).map(|count| if count == 1 { name.clone() } else { format!("{name}-{count}") });
    names.map(|name| Path::new(RUNS).join(name)).find(|path| !path.exists()).unwrap_or_else(|| PathBuf::from(RUNS))
}

/// A run that ended, on one line.
fn line(row: &Row) -> String {
    let word = format!("{:<14}", row.outcome().word());
    let word = match row.outcome() {
        Outcome::Pass => style::good(word),
        Outcome::Fail | Outcome::Cheat | Outcome::Timeout => style::bad(word),
        _ => style::warning(word),
    };
    let cli = if row.cli { "" } else { ", without kernels" };
    let harm = if row.verdict.harm.is_empty() { "" } else { "  harm" };
    let why = style::faint(&row.verdict.why);
    format!("  {word} {} {}/{} {}{cli}{}  {why}", row.task, row.arm, row.run, row.agent, style::bad(harm))
}

/// Prints the tables of arms and of lifts, what was harmed and what was not judged.
pub(super) fn show(summary: &Summary, output: Output) {
    let columns = CELLS.iter().enumerate();
    let mut arms =
        Table::new(columns.map(|(at, (title, _))| if at < 3 { Column::name(title) } else { Column::figure(title) }));
    for cell in &summary.cells {
        arms.row(CELLS.iter().map(|(_, text)| Cell::plain(text(cell))));
    }
    let figures = ["lift", "95 %", "p", "tasks", "pairs", "dropped"].map(Column::figure);
    let mut lifts = Table::new(["agent", "arm"].map(Column::name).into_iter().chain(figures));
    for lift in &summary.lifts {
        let points = tables::or_none(lift.lift.map(tables::points));
        let paint = match lift.lift {
            Some(lift) if lift > 0.0 => Cell::good(points),
            Some(lift) if lift < 0.0 => Cell::bad(points),
            _ => Cell::plain(points),
        };
        let (name, arm) = (Cell::plain(&lift.agent), Cell::plain(format!("{} beside {}", lift.arm, lift.against)));
        let figures = [tables::interval(lift), format!("{:.4}", lift.p)].map(Cell::plain);
        let counts = [lift.tasks, lift.pairs, lift.dropped].map(Cell::plain);
        lifts.row([name, arm, paint].into_iter().chain(figures).chain(counts));
    }
    for table in [arms, lifts].iter().filter(|table| !table.is_empty()) {
        output.line("");
        table.lines(window()).iter().for_each(|line| output.line(line));
    }
    for (agent, arm, task, run, what) in &summary.harm {
        output.line(format!("{} {task} {arm}/{run} {agent}: {what}", style::bad("harm")));
    }
    for (task, why) in &summary.skipped {
        output.line(format!("{} {task}: {why}", style::warning("skipped")));
    }
}

/// Writes the pictures of runs.
pub(super) fn write(wanted: &Pictures, runs: &[Report]) -> Result<()> {
    let one = |flag: &str| match runs {
        [one] => Ok(one),
        _ => Err(Usage(format!("{flag} draws one run, and there are {}; name one", runs.len()))),
    };
    if let Some(path) = &wanted.plot {
        file::write(path, chart(one("--plot")?).as_bytes())?;
    }
    if let Some(path) = &wanted.benchmark {
        let benchmark = benchmark::render(one("--benchmark")?);
        file::write(path, serde_json::to_string_pretty(&benchmark)?.as_bytes())?;
    }
    if let Some(path) = &wanted.html {
        file::write(path, page::page(runs).as_bytes())?;
    }
    Ok(())
}

/// Rows as checks: one suite per agent and arm.
fn suites(rows: &[Row]) -> Vec<Suite> {
    let mut suites: Vec<Suite> = Vec::new();
    for row in rows {
        let name = format!("{} {} kernels={}", row.agent, row.arm, tables::on(row.cli));
        let case = format!("{} run {}", row.task, row.run);
        let text = [row.verdict.why.clone(), row.verdict.harm.join("\n"), row.output.clone()].join("\n");
        let check = match row.outcome() {
            Outcome::Pass => Check::passed("task", case, format!("credit {:.2}", row.verdict.score)),
            Outcome::Skipped => Check::skipped("task", case, &row.verdict.why),
            outcome if outcome.counts() => Check::failed(outcome.word(), case, text),
            outcome => Check::skipped(outcome.word(), case, format!("{}: {}", outcome.word(), row.verdict.why)),
        };
        let at = suites.iter().position(|suite| suite.name == name).unwrap_or_else(|| {
            suites.push(Suite { name, dir: row.agent.clone(), ..Suite::default() });
            suites.len() - 1
        });
        suites[at].seconds += row.took.seconds;
        suites[at].checks.push(check.taking(row.took.seconds));
    }
    suites
}

/// `--fail-under`: the limits by name.
fn limits(texts: &[String]) -> Result<BTreeMap<&str, f64>> {
    let mut limits = BTreeMap::new();
    for text in texts {
        let (name, value) = text.split_once('=').unwrap_or_default();
        let value = value.parse().ok().filter(|number: &f64| number.is_finite() && ["lift", "harm"].contains(&name));
        let wrong = || Usage(format!("--fail-under {text}: the limits are lift=NUMBER and harm=NUMBER"));
        limits.insert(name, value.ok_or_else(wrong)?);
    }
    Ok(limits)
}

/// What is worse than the limits. A lift that could not be measured is below any; harm is counted in the arms with the skill.
fn below(limits: &BTreeMap<&str, f64>, summary: &Summary) -> Vec<String> {
    let mut below = Vec::new();
    let with_the_skill: Vec<_> = summary.cells.iter().filter(|cell| cell.arm != "without").collect();
    if limits.contains_key("lift") && summary.lifts.is_empty() {
        below.push("no arm was run with the skill and without it, so there is no lift".to_owned());
    }
    if limits.contains_key("harm") && with_the_skill.is_empty() {
        below.push("no arm was run with the skill, so there is no harm to count".to_owned());
    }
    if let Some(least) = limits.get("lift") {
        for Lift { agent, arm, lift, .. } in &summary.lifts {
            match lift {
                None => below.push(format!("{agent} {arm}: no pair of runs was judged, so there is no lift")),
                Some(lift) if lift < least => below.push(format!("{agent} {arm}: lift {lift:+.2}, at least {least}")),
                Some(_) => {}
            }
        }
    }
    for cell in with_the_skill {
        if limits.contains_key("harm") && cell.runs == 0 {
            below.push(format!("{} {}: no run was judged, so harm is not known", cell.agent, cell.arm));
        }
        #[allow(clippy::cast_precision_loss, reason = "a count of runs")]
        if limits.get("harm").is_some_and(|most| cell.harm as f64 > *most) {
            below.push(format!("{} {}: harm in {} of {} runs", cell.agent, cell.arm, cell.harm, cell.runs));
        }
    }
    below
}

/// `--check`.
fn check(arguments: &Eval, output: Output) -> Result<ExitCode> {
    let tasks = eval::tasks::read_all(&arguments.check)?;
    let tasks = eval::tasks::chosen(tasks, arguments.filter.as_deref()).map_err(Usage)?;
    let lab = Lab::find(tasks.iter().map(|task| &task.about))?;
    let mut tell = |task: &str, check: &Check| match &check.status {
        Status::Passed => {
            output.line(format!("  {} {task} {}  {}", style::good("✓"), check.name, style::faint(&check.detail)));
        }
        Status::Skipped { reason } => {
            output.line(format!("  {} {task}  {}", style::warning("–"), style::warning(reason)));
        }
        Status::Failed { text, .. } => {
            let text = text.lines().collect::<Vec<_>>().join("\n      ");
            output.error(format!("  {} {task} {}: {text}", style::bad("✗"), check.name));
        }
    };
    let suites = eval::check(&tasks, &lab, &mut tell);
    if let Some(path) = &arguments.junit {
        file::write(path, junit::render_as(COMMAND, &suites).as_bytes())?;
    }
    let counts = total(&suites);
    let checks = suites.iter().flat_map(|suite| suite.checks.iter().map(move |check| (&suite.name, &check.status)));
    let skipped = checks.filter_map(|(task, status)| match status {
        Status::Skipped { reason } => Some(json!({ "task": task, "reason": reason })),
        _ => None,
    });
    let skipped: Vec<Value> = skipped.collect();
    output.line(format!(
        "{} tasks: {} checks passed, {} failed, {} skipped",
        tasks.len(),
        counts.passed,
        counts.failed,
        counts.skipped
    ));
    output.json(&json!({ "ok": counts.failed == 0, "counts": counts, "skipped": skipped, "tasks": suites }));
    Ok(if counts.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The runs in a folder of runs, by name.
pub(super) fn kept(folder: &Path) -> Result<Vec<PathBuf>> {
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot look into {}", folder.display()))?;
    let mut runs: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    runs.sort();
    Ok(runs)
}
