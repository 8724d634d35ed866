//! What an operation should give, in double precision.
//!
//! An oracle works row by row, so that the comparison runs on all cores and never holds a whole tensor of doubles.
//! It says of each element the exact value, and how much the arithmetic of a right kernel may add to the one
//! rounding of its output: its *slack*.

mod adaln;
mod attention;
mod column_sum;
mod cross_entropy;
mod elementwise;
mod gate_residual;
mod gated;
pub(crate) mod python;
mod rms_norm;
mod rms_norm_backward;
mod rope;
mod rope3d;
mod rope3d_table;
pub(crate) mod rounding;
mod server;
mod softmax;
mod transpose;
pub mod view;

use std::collections::BTreeMap;

pub use view::{Tensors, View};

/// Expected elements of one row of one output.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    /// The exact values.
    pub values: Vec<f64>,
    /// How far each may be off besides half a unit in the last place of the output's type, absolute.
    pub slack: Vec<f64>,
}

impl Expected {
    /// Forgets the row before.
    pub fn clear(&mut self) {
        self.values.clear();
        self.slack.clear();
    }

    /// Adds an element.
    pub fn push(&mut self, value: f64, slack: f64) {
        self.values.push(value);
        self.slack.push(slack);
    }
}

/// The right answer of one operation.
pub trait Oracle: Send + Sync {
    /// The outputs it gives, by name.
    fn outputs(&self) -> Vec<String>;

    /// How many rows an output has, by its place in [`Oracle::outputs`]; a row is what lies along its last dimension.
    fn rows(&self, output: usize) -> u64;

    /// Fills in one row of one output.
    ///
    /// `tensors` holds the inputs as they were uploaded, and the outputs as the candidate left them: where an output
    /// is computed from another one's rounded values, the oracle starts from what the candidate stored there, which
    /// is held to its own budget.
    fn row(&self, tensors: &Tensors, output: usize, row: u64, expected: &mut Expected);

    /// How many elements it goes through for one row of an output, where these are more than the row's own.
    fn reads(&self, _output: usize) -> u64 {
        1
    }

    /// The largest ‖out − reference‖ / ‖reference‖ of an output, where it does not follow from the type.
    fn relative_norm(&self, _output: usize) -> Option<f64> {
        None
    }
}

/// The names of the bundled operations.
pub const BUNDLED: &[&str] = &[
    "adaln",
    "add_rms_norm",
    "attention",
    "bias_gelu_scale_residual",
    "bias_gelu_scale_residual_in_place",
    "column_sum",
    "cross_entropy",
    "cross_entropy_backward",
    "gate_residual",
    "gate_residual_adaln",
    "gate_residual_adaln_in_place",
    "gate_residual_in_place",
    "geglu",
    "geglu_backward",
    "layer_norm",
    "qk_norm_rope",
    "qk_norm_rope3d",
    "qk_norm_rope_in_place",
    "rms_norm",
    "rms_norm_backward",
    "rope",
    "rope3d",
    "rope3d_table",
    "rope_in_place",
    "softmax",
    "swiglu",
    "swiglu_backward",
    "swiglu_packed",
    "transpose",
];

/// The bundled oracle of that name for tensors of these sizes; none if there is no such operation.
///
/// # Errors
/// A tensor or a value that the operation needs is not declared.
pub fn bundled(
    name: &str,
    tensors: &Tensors,
    values: &BTreeMap<String, f64>,
) -> anyhow::Result<Option<Box<dyn Oracle>>> {
    let adaln = |kind| -> anyhow::Result<Option<Box<dyn Oracle>>> {
        Ok(Some(Box::new(adaln::AdaLn::new(tensors, values, kind)?)))
    };
    let elementwise = |in_place| -> anyhow::Result<Option<Box<dyn Oracle>>> {
        let oracle = elementwise::Elementwise::new(tensors, values, in_place)?;
        Ok(Some(Box::new(oracle)))
    };
    let gate_residual = |in_place| -> anyhow::Result<Option<Box<dyn Oracle>>> {
        let oracle = gate_residual::GateResidual::new(tensors, values, in_place)?;
        Ok(Some(Box::new(oracle)))
    };
    let rope = |norm, in_place| -> anyhow::Result<Option<Box<dyn Oracle>>> {
        let form = rope::Form { norm, in_place };
        Ok(Some(Box::new(rope::Rope::new(
            tensors, values, name, form,
        )?)))
    };
    Ok(match name {
        "adaln" => adaln(adaln::Kind::Modulated)?,
        "add_rms_norm" => Some(Box::new(rms_norm::RmsNorm::new(tensors, values, true)?)),
        "attention" => Some(Box::new(attention::Attention::new(tensors, values)?)),
        "bias_gelu_scale_residual" => elementwise(false)?,
        "bias_gelu_scale_residual_in_place" => elementwise(true)?,
        "column_sum" => Some(Box::new(column_sum::ColumnSum::new(tensors)?)),
        "cross_entropy" => Some(Box::new(cross_entropy::CrossEntropy::new(tensors, values)?)),
        "cross_entropy_backward" => Some(Box::new(cross_entropy::Backward::new(tensors, values)?)),
        "gate_residual" => gate_residual(false)?,
        "gate_residual_adaln" => adaln(adaln::Kind::Gated)?,
        "gate_residual_adaln_in_place" => adaln(adaln::Kind::GatedInPlace)?,
        "gate_residual_in_place" => gate_residual(true)?,
        "geglu" => Some(Box::new(gated::Gated::geglu(tensors, values, false)?)),
        "geglu_backward" => Some(Box::new(gated::Gated::geglu(tensors, values, true)?)),
        "layer_norm" => adaln(adaln::Kind::LayerNorm)?,
        "qk_norm_rope" => rope(true, false)?,
        "qk_norm_rope3d" => Some(Box::new(rope3d::Rope3d::new(tensors, values, true)?)),
        "qk_norm_rope_in_place" => rope(true, true)?,
        "rms_norm" => Some(Box::new(rms_norm::RmsNorm::new(tensors, values, false)?)),
        "rms_norm_backward" => Some(Box::new(rms_norm_backward::RmsNormBackward::new(
            tensors, values,
        )?)),
        "rope" => rope(false, false)?,
        "rope3d" => Some(Box::new(rope3d::Rope3d::new(tensors, values, false)?)),
        "rope3d_table" => Some(Box::new(rope3d_table::Rope3dTable::new(tensors, values)?)),
        "rope_in_place" => rope(false, true)?,
        "softmax" => Some(Box::new(softmax::Softmax::new(tensors, values)?)),
        "swiglu" => Some(Box::new(gated::Gated::swiglu(tensors, false)?)),
        "swiglu_backward" => Some(Box::new(gated::Gated::swiglu(tensors, true)?)),
        "swiglu_packed" => Some(Box::new(gated::Gated::swiglu_packed(tensors, values)?)),
        "transpose" => Some(Box::new(transpose::Transpose::new(tensors)?)),
        _ => None,
    })
}
