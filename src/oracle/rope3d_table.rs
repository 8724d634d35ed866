//! The cosines and sines of LTX-Video's rotary embedding (diffusers' `LTXVideoRotaryPosEmbed`), one row per position.
//!
//! A row is (1, 0), for the padding, and (cos, sin) of `frequency · (2 · coordinate − 1)` for every frequency. The fp32
//! roundings are part of the definition of the angle: it reaches 15,000 rad, where an ulp is 1e-3 rad. So the oracle
//! computes the angle in the same fp32 steps, and its cosine and sine in double precision.

use super::arguments::Arguments;
use super::rounding::{FP32, ulp};
use super::{Expected, Oracle, Tensors};
use crate::project::DType;

/// The oracle of one case.
#[derive(Debug)]
pub(super) struct Rope3dTable {
    rows: u64,
    frequencies: Vec<f32>,
    /// Whether the frequencies are computed from `theta` rather than given.
    computed: bool,
}

impl Rope3dTable {
    /// Needs the tensors `table` and `coords`, and the tensor `frequencies` or the value `theta`.
    pub(super) fn new(given: &Arguments) -> anyhow::Result<Self> {
        let (table, coords) = (given.tensor("table")?, given.tensor("coords")?);
        anyhow::ensure!(
            table.shape.len() == 3 && table.shape[..2] == coords.shape[..] && table.shape[2] >= 2,
            "the oracle rope3d_table: table has the shape {:?} for coords of {:?}",
            table.shape,
            coords.shape
        );
        let count = (table.row_length() - 2) / 2;
        let frequencies = given.tensors.get("frequencies");
        Ok(Self {
            rows: table.rows(),
            computed: frequencies.is_none(),
            #[allow(clippy::cast_possible_truncation)]
            frequencies: if let Some(view) = frequencies {
                let mut row = Vec::new();
                if count > 0 {
                    view.row(0, &mut row);
                }
                row.iter().map(|value| *value as f32).collect()
            } else {
                let theta = given.value("theta")? as f32;
                let all = (0..count).map(|index| frequency(index, count, theta));
                all.collect()
            },
        })
    }
}

/// `theta ** linspace(0, 1, count)[index] * pi / 2`, in fp32 steps; the power is exact and rounded once.
#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)]
fn frequency(index: u64, count: u64, theta: f32) -> f32 {
    let step = 1.0 / count.saturating_sub(1) as f32;
    // torch computes the second half from the end, with one rounding (its code is compiled to a fused multiply-add).
    let place = if count == 1 {
        0.0
    } else if index < count / 2 {
        step * index as f32
    } else {
        (-step).mul_add((count - 1 - index) as f32, 1.0)
    };
    let power = f64::from(theta).powf(f64::from(place)) as f32;
    power * std::f32::consts::PI / 2.0
}

impl Oracle for Rope3dTable {
    fn outputs(&self) -> Vec<String> {
        vec!["table".to_owned()]
    }

    fn rows(&self, _output: usize) -> u64 {
        self.rows
    }

    fn row(&self, tensors: &Tensors, _output: usize, row: u64, expected: &mut Expected) {
        expected.clear();
        let Some(coords) = tensors.get("coords") else {
            return;
        };
        let length = coords.row_length();
        let mut line = Vec::new();
        coords.row(row / length, &mut line);
        let column = usize::try_from(row % length).unwrap_or(0);
        #[allow(clippy::cast_possible_truncation)]
        let centred = line[column] as f32 * 2.0 - 1.0;
        expected.push(1.0, 0.0);
        expected.push(0.0, 0.0);
        for frequency in &self.frequencies {
            let angle = f64::from(frequency * centred);
            // The power of a correct kernel is accurate to an ulp. After the two roundings that follow, the angle may
            // be off by two.
            let off = if self.computed { 2.0 * ulp(DType::F32, angle) } else { 0.0 };
            for value in [angle.cos(), angle.sin()] {
                // Library cosines and sines are accurate to two ulps.
                expected.push(value, 4.0 * FP32 * value.abs() + off);
            }
        }
    }

    /// If the angle is off by an ulp at every frequency, a table for coordinates of a few units is off by 1e-3 of its
    /// norm.
    fn relative_norm(&self, _output: usize) -> Option<f64> {
        self.computed.then_some(2e-3)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::float_cmp)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::oracle::View;

    fn view(shape: &[u64], bytes: &'static [u8]) -> View<'static> {
        View::dense(DType::F32, shape, bytes)
    }

    /// One position, of coordinate 0.75, with four frequencies.
    fn tensors() -> Tensors<'static> {
        let mut all = Tensors::default();
        all.views.insert("table".to_owned(), view(&[1, 1, 10], &[0; 40]));
        let coordinate: &'static [u8] = &[0, 0, 0x40, 0x3f];
        all.views.insert("coords".to_owned(), view(&[1, 1], coordinate));
        all
    }

    #[test]
    fn the_frequencies_are_the_models() {
        // What torch 2.11 gives on a CPU: 10000.0 ** torch.linspace(0, 1, 341) * math.pi / 2.
        let expected = [(0, 1.570_796_4f32), (1, 1.613_929_6), (170, 157.079_64), (339, 15_288.156), (340, 15_707.964)];
        for (index, value) in expected {
            assert_eq!(frequency(index, 341, 10_000.0), value, "{index}");
        }
        assert_eq!(frequency(0, 1, 10_000.0), std::f32::consts::FRAC_PI_2);
    }

    #[test]
    fn a_row_is_the_padding_and_then_each_frequency() {
        let values = BTreeMap::from([("theta".to_owned(), 16.0)]);
        let all = tensors();
        let oracle = Rope3dTable::new(&Arguments::with("", &all, &values)).unwrap();
        let mut expected = Expected::default();
        oracle.row(&all, 0, 0, &mut expected);
        assert_eq!(expected.values[..2], [1.0, 0.0]);
        assert_eq!(expected.slack[..2], [0.0, 0.0]);
        // Half a turn less a quarter: the first angle is pi / 4, the last sixteen times that.
        let half = 0.5f64.sqrt();
        assert!((expected.values[2] - half).abs() < 1e-7);
        assert!((expected.values[3] - half).abs() < 1e-7);
        assert!((expected.values[8] - 1.0).abs() < 1e-6);
        // An angle in double precision throughout is another one where angles are large.
        let values = BTreeMap::from([("theta".to_owned(), 10_000.0)]);
        let oracle = Rope3dTable::new(&Arguments::with("", &all, &values)).unwrap();
        oracle.row(&all, 0, 0, &mut expected);
        let double = 0.5 * 10_000f64.powf(2.0 / 3.0) * std::f64::consts::FRAC_PI_2;
        assert!((double.cos() - expected.values[6]).abs() > 1e-6);
        // Sines without a reduction of the argument, as those of __sinf, are outside the slack.
        assert!(expected.slack[7] < 1e-3, "{}", expected.slack[7]);
    }
}
