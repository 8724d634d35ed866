//! Writes a benchmark in the format of the file's extension.

pub(crate) mod csv;
mod json;
mod markdown;
mod svg;

use std::path::Path;

use anyhow::Result;
use thiserror::Error;

pub(crate) use csv::Csv;
pub(crate) use json::Json;
pub(crate) use markdown::Markdown;
pub(crate) use svg::Svg;

use super::file;
use crate::bench::BenchReport;

/// An output format of a benchmark.
pub trait Export {
    /// The whole file.
    fn render(&self, report: &BenchReport) -> Result<String>;
}

/// The formats, by file extension.
pub(crate) const KINDS: [(&str, &dyn Export); 4] = [("json", &Json), ("md", &Markdown), ("csv", &Csv), ("svg", &Svg)];

/// An unknown extension: wrong usage, found before anything is measured.
#[derive(Debug, Error)]
#[error("--export {file}: the ending says which format to write, and must be one of .json, .md, .csv, .svg")]
pub struct UnknownEnding {
    file: String,
}

/// The format of `path`.
pub fn of(path: &Path) -> Result<&'static dyn Export, UnknownEnding> {
    let ending = path.extension().and_then(|ending| ending.to_str());
    KINDS
        .iter()
        .find(|(name, _)| ending.is_some_and(|ending| ending.eq_ignore_ascii_case(name)))
        .map(|(_, kind)| *kind)
        .ok_or_else(|| UnknownEnding { file: path.display().to_string() })
}

/// Writes a benchmark in the format of the file's extension, atomically. Only a regular file is replaced.
pub fn write(report: &BenchReport, path: &Path) -> Result<()> {
    let text = of(path)?.render(report)?;
    file::write(path, text.as_bytes())
}
