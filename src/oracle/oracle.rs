//! The interface of an oracle.

use super::Tensors;

/// Expected elements of one row of one output.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    /// The exact values.
    pub values: Vec<f64>,
    /// The absolute error that each element may have, in addition to half a unit in the last place of the output's
    /// type. A negative slack reduces that half unit.
    pub slack: Vec<f64>,
}

impl Expected {
    pub(super) fn clear(&mut self) {
        self.values.clear();
        self.slack.clear();
    }

    /// Makes it of `length` zeros, to be written: a loop that pushes is compiled for single numbers.
    pub(super) fn zeros(&mut self, length: usize) {
        self.clear();
        self.values.resize(length, 0.0);
        self.slack.resize(length, 0.0);
    }

    pub(super) fn push(&mut self, value: f64, slack: f64) {
        self.values.push(value);
        self.slack.push(slack);
    }
}

/// Computes the expected outputs of one case of an operation.
pub trait Oracle: Send + Sync {
    /// The names of the outputs that it computes.
    fn outputs(&self) -> Vec<String>;

    /// The number of rows of the output with this index in [`Oracle::outputs`]. A row lies along the last dimension.
    fn rows(&self, output: usize) -> u64;

    /// Computes one row of one output.
    ///
    /// `tensors` holds the inputs as uploaded and the outputs as the candidate wrote them. An output that is defined by
    /// the rounded values of another output is computed from the candidate's values of that one, which are compared
    /// separately.
    fn row(&self, tensors: &Tensors, output: usize, row: u64, expected: &mut Expected);

    /// How many elements are read to compute one row of an output, if more than the row has. The number of threads and
    /// of sampled rows depends on it.
    fn reads(&self, _output: usize) -> u64 {
        1
    }

    /// The upper bound of ‖out − reference‖ / ‖reference‖ for an output. None: the bound follows from the element type.
    fn relative_norm(&self, _output: usize) -> Option<f64> {
        None
    }
}
