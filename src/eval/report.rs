//! A run as it stands: what was asked for, its rows, and what they come to.

use std::path::{Path, PathBuf};

use anyhow::Result;

use super::plan::Header;
use super::row::Row;
use super::run;
use super::summary::Summary;

pub(crate) struct Report {
    pub(crate) folder: PathBuf,
    pub(crate) header: Header,
    pub(crate) rows: Vec<Row>,
    pub(crate) summary: Summary,
}

impl Report {
    pub(crate) fn of(folder: PathBuf, header: Header, rows: Vec<Row>) -> Self {
        let summary = Summary::of(&header, &rows);
        Self { folder, header, rows, summary }
    }

    /// Of a run that was begun.
    pub(crate) fn read(folder: &Path) -> Result<Self> {
        let (header, rows) = run::read(folder)?;
        Ok(Self::of(folder.to_owned(), header, rows))
    }
}
