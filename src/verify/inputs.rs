//! The contents of input tensors.

use crate::oracle::view::encode;
use crate::project::{BoundTensor, DType, Inputs};

use super::random::Random;

/// The elements of a tensor in row-major order, without the gaps of its strides, as bytes.
///
/// Tensors of one dimension (weights, scales) are normal whatever the distribution: it is about rows.
pub fn draw(tensor: &BoundTensor, inputs: Inputs, random: &mut Random) -> Vec<u8> {
    let length = tensor.shape.last().copied().unwrap_or(1).max(1);
    let rows = tensor.elements() / length;
    let mut bytes = Vec::with_capacity(usize::try_from(tensor.elements()).unwrap_or(0) * tensor.dtype.size());
    let inputs = if tensor.shape.len() < 2 { Inputs::Normal } else { inputs };
    let mut row = Vec::new();
    for index in 0..rows {
        fill(&mut row, index, length, tensor.dtype, inputs, random);
        for value in &row {
            encode(tensor.dtype, *value, &mut bytes);
        }
    }
    bytes
}

/// One row.
fn fill(row: &mut Vec<f64>, index: u64, length: u64, dtype: DType, inputs: Inputs, random: &mut Random) {
    row.clear();
    if !dtype.is_float() {
        row.extend((0..length).map(|_| {
            let number = u32::try_from(random.below(2001)).unwrap_or(0);
            f64::from(number) - 1000.0
        }));
        return;
    }
    while (row.len() as u64) < length {
        row.extend(random.normals());
    }
    row.truncate(usize::try_from(length).unwrap_or(usize::MAX));
    let half = dtype == DType::F16;
    match inputs {
        Inputs::Normal => {}
        Inputs::Wide => {
            // f16 holds 2^-24 to 2^16, of which a row needs some at either side.
            let (least, range) = if half { (-8, 15) } else { (-12, 25) };
            let exponent = least + i32::try_from(random.below(range)).unwrap_or(0);
            scale(row, 2f64.powi(exponent));
        }
        Inputs::Tiny => scale(row, 2f64.powi(if half { -14 } else { -30 })),
        Inputs::Sparse => {
            let whole = index % 3 == 1;
            for value in row.iter_mut() {
                if whole || random.below(3) == 0 {
                    *value = 0.0;
                }
            }
        }
        Inputs::Constant => {
            let value = random.normals()[0];
            row.fill(value);
        }
        Inputs::Spike => {
            scale(row, 2f64.powi(-6));
            let at = usize::try_from(random.below(length)).unwrap_or(0);
            row[at] = 64.0 + random.unit();
        }
    }
}

fn scale(row: &mut [f64], factor: f64) {
    for value in row {
        *value *= factor;
    }
}
