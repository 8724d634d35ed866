//! The bundled oracles, by name.

use std::collections::BTreeMap;

use anyhow::{Result, bail};

use super::adaln::{self, AdaLn};
use super::arguments::Arguments;
use super::attention::Attention;
use super::column_sum::ColumnSum;
use super::cross_entropy::{Backward, CrossEntropy};
use super::elementwise::Elementwise;
use super::gate_residual::GateResidual;
use super::gated::Gated;
use super::rms_norm::RmsNorm;
use super::rms_norm_backward::RmsNormBackward;
use super::rope::{Form, Rope};
use super::rope3d::Rope3d;
use super::rope3d_table::Rope3dTable;
use super::softmax::Softmax;
use super::transpose::Transpose;
use super::{Oracle, Tensors};
use crate::base::text::nearest;
use crate::project::{KERNEL_TOML, OracleRef, Project};

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

/// Checks that every bundled oracle named by the project exists, before anything is compiled.
///
/// # Errors
/// An operation names an oracle that is not bundled.
pub(crate) fn check_names(project: &Project) -> Result<()> {
    for operation in &project.spec.operations {
        if let OracleRef::Bundled(name) = &operation.oracle
            && !BUNDLED.contains(&name.as_str())
        {
            let near = nearest(name, BUNDLED.iter().copied());
            let near = near.map(|near| format!(" Is it `{near}`?")).unwrap_or_default();
            bail!(
                "{}: operation `{}` has no oracle: none named `{name}` is bundled.{near} Name one of {}, or a function of \
                 your own: oracle = {{ python = \"reference.py\", function = \"…\" }}",
                project.root.join(KERNEL_TOML).display(),
                operation.name,
                BUNDLED.join(", ")
            );
        }
    }
    Ok(())
}

/// The bundled oracle of that name for these tensors and values; none if no oracle has the name.
///
/// # Errors
/// A required tensor or value is not declared, or shapes do not match.
pub fn bundled(name: &str, tensors: &Tensors, values: &BTreeMap<String, f64>) -> Result<Option<Box<dyn Oracle>>> {
    fn boxed(oracle: Result<impl Oracle + 'static>) -> Result<Option<Box<dyn Oracle>>> {
        Ok(Some(Box::new(oracle?)))
    }
    let given = Arguments { operation: name, tensors, values };
    let in_place = name.ends_with("_in_place");
    let rope = |norm| Rope::new(&given, Form { norm, in_place });
    match name {
        "adaln" => boxed(AdaLn::new(&given, adaln::Kind::Modulated)),
        "add_rms_norm" => boxed(RmsNorm::new(&given, true)),
        "attention" => boxed(Attention::new(&given)),
        "bias_gelu_scale_residual" | "bias_gelu_scale_residual_in_place" => boxed(Elementwise::new(&given, in_place)),
        "column_sum" => boxed(ColumnSum::new(&given)),
        "cross_entropy" => boxed(CrossEntropy::new(&given)),
        "cross_entropy_backward" => boxed(Backward::new(&given)),
        "gate_residual" | "gate_residual_in_place" => boxed(GateResidual::new(&given, in_place)),
        "gate_residual_adaln" => boxed(AdaLn::new(&given, adaln::Kind::Gated)),
        "gate_residual_adaln_in_place" => boxed(AdaLn::new(&given, adaln::Kind::GatedInPlace)),
        "geglu" => boxed(Gated::geglu(&given, false)),
        "geglu_backward" => boxed(Gated::geglu(&given, true)),
        "layer_norm" => boxed(AdaLn::new(&given, adaln::Kind::LayerNorm)),
        "qk_norm_rope" | "qk_norm_rope_in_place" => boxed(rope(true)),
        "qk_norm_rope3d" => boxed(Rope3d::new(&given, true)),
        "rms_norm" => boxed(RmsNorm::new(&given, false)),
        "rms_norm_backward" => boxed(RmsNormBackward::new(&given)),
        "rope" | "rope_in_place" => boxed(rope(false)),
        "rope3d" => boxed(Rope3d::new(&given, false)),
        "rope3d_table" => boxed(Rope3dTable::new(&given)),
        "softmax" => boxed(Softmax::new(&given)),
        "swiglu" => boxed(Gated::swiglu(&given, false)),
        "swiglu_backward" => boxed(Gated::swiglu(&given, true)),
        "swiglu_packed" => boxed(Gated::packed(&given, false)),
        "transpose" => boxed(Transpose::new(&given)),
        _ => Ok(None),
    }
}
