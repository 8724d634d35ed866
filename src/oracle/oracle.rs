//! What every oracle answers.

use super::Tensors;

/// Expected elements of one row of one output.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    /// The exact values.
    pub values: Vec<f64>,
    /// The absolute error that each may have in addition to half a unit in the last place of the output's type.
    pub slack: Vec<f64>,
}

impl Expected {
    pub(super) fn clear(&mut self) {
        self.values.clear();
        self.slack.clear();
    }

    pub(super) fn push(&mut self, value: f64, slack: f64) {
        self.values.push(value);
        self.slack.push(slack);
    }
}

/// The right answer of one case of an operation.
pub trait Oracle: Send + Sync {
    /// The names of the outputs that it computes.
    fn outputs(&self) -> Vec<String>;

    /// How many rows an output has, by its index in [`Oracle::outputs`]. A row lies along the last dimension.
    fn rows(&self, output: usize) -> u64;

    /// Computes one row of one output.
    ///
    /// `tensors` holds the inputs as uploaded, and the outputs as the candidate left them: an output that is defined by the
    /// rounded values of another is computed from the candidate's values of that one, which have a budget of their own.
    fn row(&self, tensors: &Tensors, output: usize, row: u64, expected: &mut Expected);

    /// How many elements it reads for one row of an output, where these are more than the row's own.
    fn reads(&self, _output: usize) -> u64 {
        1
    }

    /// The largest ‖out − reference‖ / ‖reference‖ of an output, where the type does not determine it.
    fn relative_norm(&self, _output: usize) -> Option<f64> {
        None
    }
}
