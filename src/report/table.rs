//! Aligned text tables for the terminal: figures right-aligned, colour by meaning, no wider than the window.

use std::fmt::Display;
use std::io::IsTerminal;

use super::style;

/// The minimum width of a column of names; below it, lines overflow.
const NARROWEST: usize = 12;

/// One column.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    title: String,
    right: bool,
    shrinks: bool,
}

impl Column {
    /// Text, left-aligned, at full width.
    pub(crate) fn text(title: &str) -> Self {
        Self { title: title.to_owned(), right: false, shrinks: false }
    }

    /// Names, cut with an ellipsis if the window is too narrow for the table.
    pub(crate) fn name(title: &str) -> Self {
        Self { shrinks: true, ..Self::text(title) }
    }

    /// Figures, right-aligned.
    pub(crate) fn figure(title: &str) -> Self {
        Self { right: true, ..Self::text(title) }
    }
}

/// The text of a cell, and its meaning.
#[derive(Clone, Debug)]
pub struct Cell {
    text: String,
    paint: Option<fn(&str) -> String>,
}

impl Cell {
    /// Neither good nor bad.
    pub(crate) fn plain(text: impl Display) -> Self {
        Self { text: text.to_string(), paint: None }
    }

    /// As it should be.
    pub(crate) fn good(text: impl Display) -> Self {
        Self::painted(text, |text| style::good(text))
    }

    /// Worth a look.
    pub(crate) fn warning(text: impl Display) -> Self {
        Self::painted(text, |text| style::warning(text))
    }

    /// Wrong.
    pub(crate) fn bad(text: impl Display) -> Self {
        Self::painted(text, |text| style::bad(text))
    }

    /// What the row is about.
    pub(crate) fn strong(text: impl Display) -> Self {
        Self::painted(text, |text| style::strong(text))
    }

    /// What can be skipped.
    pub(crate) fn faint(text: impl Display) -> Self {
        Self::painted(text, |text| style::faint(text))
    }

    fn painted(text: impl Display, paint: fn(&str) -> String) -> Self {
        Self { text: text.to_string(), paint: Some(paint) }
    }
}

impl<T: Display> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::plain(text)
    }
}

/// A table.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    /// An empty one.
    pub(crate) fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        Self { columns: columns.into_iter().collect(), rows: Vec::new() }
    }

    /// Adds a row; missing cells are empty, extra cells are dropped.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let mut cells: Vec<Cell> = cells.into_iter().collect();
        cells.resize_with(self.columns.len(), || Cell::plain(""));
        self.rows.push(cells);
    }

    /// Whether it has no rows.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The lines, titles first, each indented by two spaces; `width` is the width of the window, `None`: no limit.
    pub fn lines(&self, width: Option<usize>) -> Vec<String> {
        let widths = self.widths(width);
        let titles: Vec<Cell> = self.columns.iter().map(|column| Cell::faint(&column.title)).collect();
        std::iter::once(&titles).chain(&self.rows).map(|row| self.line(row, &widths)).collect()
    }

    fn line(&self, row: &[Cell], widths: &[usize]) -> String {
        let mut line = String::new();
        let mut gap = 0;
        for ((cell, column), width) in row.iter().zip(&self.columns).zip(widths) {
            let text = fit(&cell.text, *width);
            let space = width - length(&text);
            let (before, after) = if column.right { (space, 0) } else { (0, space) };
            gap += 2 + before;
            if !text.is_empty() {
                line.push_str(&" ".repeat(gap));
                gap = 0;
                line.push_str(&cell.paint.map_or_else(|| text.clone(), |paint| paint(&text)));
            }
            gap += after;
        }
        line
    }

    fn widths(&self, window: Option<usize>) -> Vec<usize> {
        let mut widths: Vec<usize> = self
            .columns
            .iter()
            .enumerate()
            .map(|(at, column)| {
                let cells = self.rows.iter().filter_map(|row| row.get(at));
                cells.map(|cell| length(&cell.text)).chain([length(&column.title)]).max().unwrap_or(0)
            })
            .collect();
        let Some(window) = window else { return widths };
        let mut total: usize = widths.iter().map(|width| width + 2).sum();
        while total > window {
            // Shrink the widest column by one character at a time: they end up alike.
            let widest = (0..widths.len())
                .filter(|at| self.columns[*at].shrinks && widths[*at] > NARROWEST)
                .max_by_key(|at| widths[*at]);
            let Some(widest) = widest else { break };
            widths[widest] -= 1;
            total -= 1;
        }
        widths
    }
}

fn length(text: &str) -> usize {
    text.chars().count()
}

/// Truncates with an ellipsis.
fn fit(text: &str, width: usize) -> String {
    if length(text) <= width {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(width.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

/// The width of the terminal on stdout in columns; `None` if there is none, and nothing is cut.
pub(crate) fn window() -> Option<usize> {
    let stdout = std::io::stdout();
    if !stdout.is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(&stdout).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new([Column::name("case"), Column::figure("µs"), Column::text("state")]);
        table.row([Cell::plain("rows=8192 width=4096"), Cell::good("46.7"), Cell::plain("cold")]);
        table.row([Cell::plain("short"), Cell::plain("2.31")]);
        table
    }

    fn stripped(lines: &[String]) -> Vec<String> {
        let plain = |line: &String| anstream::adapter::strip_str(line).to_string();
        lines.iter().map(plain).collect()
    }

    #[test]
    fn figures_stand_under_each_other_and_lines_end_with_their_text() {
        assert_eq!(
            stripped(&table().lines(None)),
            [
                "  case                    µs  state",
                "  rows=8192 width=4096  46.7  cold",
                "  short                 2.31",
            ]
        );
    }

    #[test]
    fn a_narrow_window_cuts_names_and_never_figures() {
        let lines = stripped(&table().lines(Some(30)));
        assert_eq!(lines[1], "  rows=8192 widt…  46.7  cold");
        assert!(lines.iter().all(|line| length(line) <= 30));
        let lines = stripped(&table().lines(Some(5)));
        assert_eq!(lines[1], "  rows=8192 w…  46.7  cold");
    }
}
