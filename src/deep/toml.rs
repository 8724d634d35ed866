//! Checks toml blocks: build.toml by the rules of `kernels check`, kernel.toml by its reader; others are parsed.

use std::fs;
use std::path::Path;

use ::toml::Value;
use ::toml::de::DeTable;
use anyhow::{Context, Result};

use super::document::Document;
use super::fence::{Block, Language};
use super::layout::{Work, write};
use super::report::Gathered;
use crate::check::{self, Severity};
use crate::project::{self, BUILD_TOML, KERNEL_TOML};
use crate::skill::RelPath;

pub(super) fn check(documents: &[Document], work: &Work, gathered: &mut Gathered) -> Result<()> {
    for (number, document) in documents.iter().enumerate() {
        for (at, block) in document.blocks.iter().enumerate() {
            if Language::of(block) != Some(Language::Toml) {
                continue;
            }
            gathered.checked("toml block", 1);
            let table = match DeTable::parse(&block.text) {
                Ok(_) => ::toml::from_str::<Value>(&block.text).ok(),
                Err(error) => {
                    let start = error.span().map_or(0, |span| span.start);
                    let line = block.text[..start.min(block.text.len())].matches('\n').count() + 1;
                    let message = format!("{} is not TOML: {}", block.name(), one_line(error.message()));
                    gathered.find("toml", &block.file, block.at(line), message);
                    None
                }
            };
            let Some(table) = table else { continue };
            // One folder per block: the blocks of a page may belong to different projects.
            let folder = work.folder(&format!("{number}/toml-{at}"))?;
            let is_file = block.path().is_some_and(|path| work.files[number].get(path) == Some(&at));
            if table.get("general").is_some() {
                build_toml(number, documents, block, is_file, &table, &folder, work, gathered)?;
            } else if table.get("format").is_some() || table.get("operation").is_some() {
                kernel_toml(block, &table, &folder, gathered)?;
            }
        }
    }
    Ok(())
}

/// Applies the rules of `kernels check`. Findings about other files count only if the Markdown has those files.
#[expect(clippy::too_many_arguments, reason = "each is one thing")]
fn build_toml(
    number: usize,
    documents: &[Document],
    block: &Block,
    is_file: bool,
    table: &Value,
    folder: &Path,
    work: &Work,
    gathered: &mut Gathered,
) -> Result<()> {
    let files = &work.files[number];
    let document = &documents[number];
    // For `project/build.toml` the sources are in `project/csrc/`.
    let above = block.path().filter(|_| is_file).and_then(|path| path.strip_suffix(BUILD_TOML)).unwrap_or_default();
    let is_whole = is_file && sources(table).iter().any(|source| files.contains_key(&format!("{above}{source}")));
    if is_whole {
        work.lay_out(number, documents, folder, |block| Some(block.text.clone()))?;
    }
    let project = folder.join(above);
    write(&project.join(BUILD_TOML), &block.text)?;
    let report = check::check(&project)?;
    for finding in report.findings {
        let path = format!("{above}{}", finding.path);
        let is_of_file = finding.path == BUILD_TOML;
        // Without sources, only the rules about build.toml alone apply.
        let alone = ["build-toml", "depends"].iter().any(|group| finding.rule.split('/').next() == Some(*group))
            || finding.rule == "name/kernel";
        if finding.severity != Severity::Error || !(is_whole || is_of_file && alone) {
            continue;
        }
        let named = if is_of_file { Some(block) } else { files.get(&path).map(|at| &document.blocks[*at]) };
        let Some(named) = named else { continue };
        let message = format!("{}: {} [kernels check: {}]", named.name(), finding.message, finding.rule);
        gathered.find("toml", &named.file, named.at(finding.place.line), message);
    }
    Ok(())
}

/// The source files that a build.toml lists.
fn sources(table: &Value) -> Vec<String> {
    let of = |value: &Value| -> Vec<String> {
        let list = value.get("src").and_then(Value::as_array);
        list.into_iter().flatten().filter_map(|source| source.as_str().map(str::to_owned)).collect()
    };
    let mut all: Vec<String> = table.get("torch").map(of).unwrap_or_default();
    let kernels = table.get("kernel").and_then(Value::as_table);
    all.extend(kernels.into_iter().flatten().flat_map(|(_, kernel)| of(kernel)));
    all
}

/// Reads a kernel.toml as the project commands do.
fn kernel_toml(block: &Block, table: &Value, folder: &Path, gathered: &mut Gathered) -> Result<()> {
    let root = fs::canonicalize(folder).with_context(|| folder.display().to_string())?;
    // A Python reference is a separate file, which the page need not show.
    let operations = table.get("operation").and_then(Value::as_array);
    for operation in operations.into_iter().flatten() {
        let reference = operation.get("oracle").and_then(|oracle| oracle.get("python")).and_then(Value::as_str);
        if let Some(path) = reference.and_then(|path| RelPath::parse(path).ok()) {
            write(&root.join(path.as_str()), "")?;
        }
    }
    let Err(invalid) = project::read_kernel_toml(&block.text, &root) else {
        return Ok(());
    };
    // Each problem begins with `kernel.toml:LINE:COLUMN: `; its help follows ` = `.
    for problem in invalid.0.split("\n\n") {
        let mut lines = problem.lines();
        let first = lines.next().unwrap_or_default();
        let place = first.strip_prefix(KERNEL_TOML).and_then(|rest| rest.strip_prefix(':')).and_then(|rest| {
            let (line, rest) = rest.split_once(':')?;
            let (_, message) = rest.split_once(": ")?;
            Some((line.parse::<usize>().ok()?, message))
        });
        let (line, message) = place.unwrap_or((1, first));
        let help = lines.find_map(|line| line.trim_start().strip_prefix("= "));
        let help = help.map_or(String::new(), |help| format!("; {help}"));
        let message = format!("{}, as a kernel.toml: {message}{help}", block.name());
        gathered.find("toml", &block.file, block.at(line), message);
    }
    Ok(())
}

fn one_line(text: &str) -> String {
    text.lines().collect::<Vec<_>>().join(" ")
}
