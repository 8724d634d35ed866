//! Pictures of what a skill changed: the lift of each agent, pass rate against tokens, tasks by arms.

mod html;
mod svg;

pub(crate) use html::page;
pub(crate) use svg::chart;

/// What is drawn. Unknown figures are left out.
#[derive(Clone, Debug, Default)]
pub(crate) struct Picture {
    pub(crate) title: String,
    pub(crate) about: String,
    pub(crate) bars: Vec<Bar>,
    pub(crate) arrows: Vec<Arrow>,
    /// The heads of the map's columns.
    pub(crate) columns: Vec<String>,
    pub(crate) map: Vec<Line>,
}

/// A lift with its interval.
#[derive(Clone, Debug)]
pub(crate) struct Bar {
    pub(crate) label: String,
    pub(crate) lift: Option<f64>,
    pub(crate) interval: Option<(f64, f64)>,
    pub(crate) p: f64,
    pub(crate) tasks: usize,
    pub(crate) pairs: usize,
}

/// From the arm without the skill to another.
#[derive(Clone, Debug)]
pub(crate) struct Arrow {
    pub(crate) label: String,
    pub(crate) from: Point,
    pub(crate) to: Point,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    pub(crate) tokens: f64,
    pub(crate) pass: f64,
    pub(crate) runs: usize,
}

/// A task's cells: the pass rate, the number of runs, and how many did harm; `None` if no run was judged.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) task: String,
    pub(crate) cells: Vec<Option<(f64, usize, usize)>>,
}

/// A table of the page: its title, its heads, its rows.
#[derive(Clone, Debug)]
pub(crate) struct Grid {
    pub(crate) title: String,
    pub(crate) heads: Vec<&'static str>,
    pub(crate) rows: Vec<Vec<String>>,
}
