//! A reference in Python: a function of the project's own file, run with torch on the CPU in its own process.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;

use super::{Expected, Oracle, Tensors};
use crate::oracle::rounding::ulp;
use crate::project::{BoundTensor, DType, Role, Tolerance};

/// What runs in the Python process.
const DRIVER: &str = include_str!("driver.py");

/// How many units in the last place a result may be off where kernel.toml says nothing.
const ULPS: f64 = 2.0;
/// And besides, relative to the largest element of the row: fp32 sums that cancel.
const OF_LARGEST: f64 = 64.0 / 16_777_216.0;

/// The results of one call of the reference.
#[derive(Debug)]
pub struct Python {
    outputs: Vec<(String, DType, Vec<f64>, u64)>,
    rows: u64,
    tolerance: Tolerance,
}

impl Python {
    /// Runs `function` of `file` on the inputs; it is given every input tensor as float64, and every scalar, by name.
    ///
    /// # Errors
    /// No Python with torch, a reference that raises, or results of other shapes than the outputs'.
    pub fn run(
        project: &Path,
        file: &Path,
        function: &str,
        declared: &[BoundTensor],
        inputs: &Tensors,
        values: &BTreeMap<String, f64>,
        tolerance: Tolerance,
    ) -> Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("kernels-reference-")
            .tempdir()?;
        let mut described = Vec::new();
        for tensor in declared.iter().filter(|tensor| tensor.role != Role::Output) {
            let view = inputs.need(&tensor.name, function)?;
            let path = folder.path().join(format!("{}.in", tensor.name));
            let mut out = std::io::BufWriter::new(std::fs::File::create(&path)?);
            let mut row = Vec::new();
            for index in 0..if tensor.elements() == 0 {
                0
            } else {
                view.rows()
            } {
                view.row(index, &mut row);
                for value in &row {
                    out.write_all(&value.to_le_bytes())?;
                }
            }
            out.flush()?;
            described.push(json!({"name": tensor.name, "shape": tensor.shape, "path": path}));
        }
        let wanted: Vec<&BoundTensor> = declared
            .iter()
            .filter(|tensor| tensor.role != Role::Input)
            .collect();
        let results: Vec<PathBuf> = (0..wanted.len())
            .map(|index| folder.path().join(format!("{index}.out")))
            .collect();
        let request = json!({
            "file": project.join(file),
            "function": function,
            "inputs": described,
            "values": values,
            "outputs": wanted.iter().zip(&results)
                .map(|(tensor, path)| json!({"name": tensor.name, "shape": tensor.shape, "path": path}))
                .collect::<Vec<_>>(),
        });
        call(project, &request)?;
        let mut outputs = Vec::new();
        for (tensor, path) in wanted.iter().zip(&results) {
            let bytes =
                std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
            let numbers: Vec<f64> = bytes
                .chunks_exact(8)
                .map(|c| f64::from_le_bytes([c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7]]))
                .collect();
            ensure!(
                numbers.len() as u64 == tensor.elements(),
                "{function} of {} gave {} elements for {}, which has {}",
                file.display(),
                numbers.len(),
                tensor.name,
                tensor.elements()
            );
            let length = tensor.shape.last().copied().unwrap_or(1);
            outputs.push((tensor.name.clone(), tensor.dtype, numbers, length));
        }
        let rows: Vec<u64> = outputs
            .iter()
            .map(|(_, _, n, length)| n.len() as u64 / (*length).max(1))
            .collect();
        // Outputs of different row counts are compared as one row each.
        let rows = if rows.windows(2).all(|pair| pair[0] == pair[1]) {
            rows.first().copied().unwrap_or(0)
        } else {
            bail!(
                "outputs with different numbers of rows are not supported by a Python oracle: {rows:?}"
            );
        };
        Ok(Self {
            outputs,
            rows,
            tolerance,
        })
    }
}

impl Oracle for Python {
    fn outputs(&self) -> Vec<String> {
        self.outputs.iter().map(|(name, ..)| name.clone()).collect()
    }

    fn rows(&self) -> u64 {
        self.rows
    }

    fn row(&self, _tensors: &Tensors, row: u64, expected: &mut [Expected]) {
        for ((_, dtype, numbers, length), expected) in self.outputs.iter().zip(expected) {
            let start = usize::try_from(row * length).unwrap_or(usize::MAX);
            let values = &numbers[start..start + usize::try_from(*length).unwrap_or(0)];
            let largest = values
                .iter()
                .fold(0f64, |most, value| most.max(value.abs()));
            let absolute = self.tolerance.absolute.unwrap_or(largest * OF_LARGEST);
            // Half a unit is the comparison's own.
            let ulps = (self.tolerance.ulps.unwrap_or(ULPS) - 0.5).max(0.0);
            expected.values.clear();
            expected.slack.clear();
            expected.values.extend(values);
            expected.slack.extend(
                values
                    .iter()
                    .map(|value| ulps * ulp(*dtype, *value) + absolute),
            );
        }
    }

    /// Who sets a tolerance for the elements means it for the whole as well.
    fn relative_norm(&self) -> Option<f64> {
        let elements = self.tolerance.ulps.is_some() || self.tolerance.absolute.is_some();
        let whole = self.tolerance.relative_norm;
        whole.or(elements.then_some(f64::INFINITY))
    }
}

/// Runs the driver in the interpreter that is active, without the card and without a way to reach it.
fn call(project: &Path, request: &serde_json::Value) -> Result<()> {
    let python =
        std::env::var_os("KERNELS_PYTHON").map_or_else(|| PathBuf::from("python3"), PathBuf::from);
    let mut child = Command::new(&python)
        .args(["-c", DRIVER])
        .current_dir(project)
        .env("CUDA_VISIBLE_DEVICES", "")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| {
            format!(
                "starting {} for the Python reference; set KERNELS_PYTHON to a Python with torch",
                python.display()
            )
        })?;
    if let Some(mut input) = child.stdin.take() {
        // A reference that dies early is reported by its exit.
        let _ = input.write_all(request.to_string().as_bytes());
    }
    let output = child.wait_with_output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!(
            "the Python reference failed ({}):\n{}",
            output.status,
            said.trim_end()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::View;
    use crate::verify::compare::compare;

    /// `(wrong elements, norm, bound)` of results that are all one in a thousand off, f32.
    fn judged(tolerance: Tolerance) -> (u64, f64, f64) {
        let oracle = Python {
            outputs: vec![("out".to_owned(), DType::F32, vec![1.0; 8], 4)],
            rows: 2,
            tolerance,
        };
        let bytes: Vec<u8> = [1.001_f32; 8]
            .iter()
            .flat_map(|v| v.to_le_bytes())
            .collect();
        let view = View {
            dtype: DType::F32,
            shape: vec![2, 4],
            strides: vec![4, 1],
            bytes: &bytes,
        };
        let got = Tensors {
            views: BTreeMap::from([("out".to_owned(), view)]),
        };
        let comparison = compare(&oracle, &got, &got);
        let (_, norm, bound) = comparison.norms[0].clone();
        (comparison.wrong, norm, bound)
    }

    #[test]
    fn a_tolerance_takes_the_place_of_the_bounds_that_follow_from_the_type() {
        let (wrong, norm, bound) = judged(Tolerance::default());
        assert!(wrong == 8 && norm > bound, "{norm} {bound}");
        let absolute = Tolerance {
            absolute: Some(0.01),
            ..Tolerance::default()
        };
        let (wrong, norm, bound) = judged(absolute);
        assert!(wrong == 0 && norm < bound, "{norm} {bound}");
        let (wrong, norm, bound) = judged(Tolerance {
            relative_norm: Some(1e-4),
            ..absolute
        });
        assert!(wrong == 0 && norm > bound, "{norm} {bound}");
    }
}
