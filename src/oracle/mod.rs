//! Reference results of operations, computed in double precision.
//!
//! An oracle computes one row at a time, so that the comparison uses all cores and never holds a whole tensor of
//! doubles. For each element it returns the exact value and the *slack*: the absolute error that the arithmetic of a
//! correct kernel may add to the final rounding of the output.

mod adaln;
mod arguments;
mod attention;
mod bundled;
mod column_sum;
mod cross_entropy;
mod elementwise;
mod exp;
mod gate_residual;
mod gated;
#[allow(clippy::module_inception)]
mod oracle;
pub(crate) mod python;
mod rms_norm;
mod rms_norm_backward;
mod rope;
mod rope3d;
mod rope3d_table;
pub(crate) mod rounding;
mod server;
mod softmax;
pub(crate) mod threads;
mod transpose;
pub mod view;
pub(crate) mod wide;

pub(crate) use bundled::check_names;
pub use bundled::{BUNDLED, bundled};
pub use oracle::Expected;
pub(crate) use oracle::Oracle;
pub use view::{Tensors, View};
