//! A reference in Python: a function of the project's own file, run with torch on the CPU in its own process.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::{Expected, Oracle, Tensors, server};
use crate::oracle::rounding::ulp;
use crate::project::{BoundTensor, DType, Tolerance};

/// How many units in the last place a result may be off where kernel.toml says nothing.
const ULPS: f64 = 2.0;
/// And besides, relative to the largest element of the row: fp32 sums that cancel.
const OF_LARGEST: f64 = 64.0 / 16_777_216.0;

/// A function that gives the results.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    /// The project's folder.
    pub project: &'a Path,
    /// The file in it that has the function.
    pub file: &'a Path,
    /// Its name.
    pub function: &'a str,
    /// Input tensors that this case leaves out: the function gets None for each.
    pub absent: &'a [&'a str],
    /// How many threads torch may use.
    pub threads: usize,
}

/// The results of one call of the reference.
#[derive(Debug)]
pub(crate) struct Python {
    outputs: Vec<(String, DType, Vec<f64>, u64)>,
    tolerance: Tolerance,
}

impl Python {
    /// Runs a function on the inputs; it is given every input tensor as float64, and every scalar, by name. A tensor comes
    /// before a scalar of its name, which a formula for its presence may be.
    ///
    /// # Errors
    /// No Python with torch, a reference that raises, or results of other shapes than the outputs'.
    pub(crate) fn run(
        call: &Call,
        declared: &[BoundTensor],
        inputs: &Tensors,
        values: &BTreeMap<String, f64>,
        tolerance: Tolerance,
    ) -> Result<Self> {
        let Call { file, function, .. } = call;
        let folder = tempfile::Builder::new()
            .prefix("kernels-reference-")
            .tempdir()?;
        let mut described = Vec::new();
        for tensor in declared.iter().filter(|tensor| tensor.role.is_given()) {
            let view = inputs.need(&tensor.name, function)?;
            let path = folder.path().join(format!("{}.in", tensor.name));
            let mut out = std::io::BufWriter::new(std::fs::File::create(&path)?);
            let (mut row, mut bytes) = (Vec::new(), Vec::new());
            for index in 0..if tensor.elements() == 0 {
                0
            } else {
                view.rows()
            } {
                view.row(index, &mut row);
                bytes.clear();
                bytes.extend(row.iter().flat_map(|value| value.to_le_bytes()));
                out.write_all(&bytes)?;
            }
            out.flush()?;
            described.push(json!({"name": tensor.name, "shape": tensor.shape, "path": path}));
        }
        let wanted: Vec<&BoundTensor> = declared
            .iter()
            .filter(|tensor| tensor.role.is_result())
            .collect();
        let results: Vec<PathBuf> = (0..wanted.len())
            .map(|index| folder.path().join(format!("{index}.out")))
            .collect();
        let request = json!({
            "file": call.project.join(file),
            "function": function,
            "inputs": described,
            "absent": call.absent,
            "values": values,
            "threads": call.threads,
            "outputs": wanted.iter().zip(&results)
                .map(|(tensor, path)| json!({"name": tensor.name, "shape": tensor.shape, "path": path}))
                .collect::<Vec<_>>(),
        });
        server::call(&request)?;
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
        Ok(Self { outputs, tolerance })
    }
}

impl Oracle for Python {
    fn outputs(&self) -> Vec<String> {
        self.outputs.iter().map(|(name, ..)| name.clone()).collect()
    }

    fn rows(&self, output: usize) -> u64 {
        let (_, _, numbers, length) = &self.outputs[output];
        numbers.len() as u64 / (*length).max(1)
    }

    fn row(&self, _tensors: &Tensors, output: usize, row: u64, expected: &mut Expected) {
        let (_, dtype, numbers, length) = &self.outputs[output];
        let start = usize::try_from(row * length).unwrap_or(usize::MAX);
        let values = &numbers[start..start + usize::try_from(*length).unwrap_or(0)];
        let largest = values
            .iter()
            .fold(0f64, |most, value| most.max(value.abs()));
        let absolute = self.tolerance.absolute.unwrap_or(largest * OF_LARGEST);
        // Half a unit is the comparison's own.
        let ulps = (self.tolerance.ulps.unwrap_or(ULPS) - 0.5).max(0.0);
        expected.clear();
        for value in values {
            expected.push(*value, ulps * ulp(*dtype, *value) + absolute);
        }
    }

    /// Who sets a tolerance for the elements means it for the whole as well.
    fn relative_norm(&self, _output: usize) -> Option<f64> {
        let elements = self.tolerance.ulps.is_some() || self.tolerance.absolute.is_some();
        let whole = self.tolerance.relative_norm;
        whole.or(elements.then_some(f64::INFINITY))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::oracle::View;
    use crate::project::Role;

    fn tensor(name: &str, role: Role) -> BoundTensor {
        BoundTensor {
            name: name.to_owned(),
            role,
            dtype: DType::F32,
            shape: vec![2, 3],
            strides: vec![5, 1],
            offset: 0,
            integers: None,
        }
    }

    /// With a Python that has torch: `KERNELS_PYTHON=… cargo test oracle::python`.
    #[test]
    fn a_reference_is_called_by_name_and_its_faults_are_told() {
        let python = std::env::var_os("KERNELS_PYTHON").unwrap_or_else(|| "python3".into());
        let torch = std::process::Command::new(python)
            .args(["-c", "import torch"])
            .output();
        if !torch.is_ok_and(|output| output.status.success()) {
            let line =
                "\nnot run: the Python oracle, for want of a Python with torch (KERNELS_PYTHON)";
            let _ = writeln!(std::io::stderr(), "{line}");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(
            folder.path().join("reference.py"),
            "print('noise')\ndef double(x, factor):\n    return x * factor\n\
             def two(x):\n    return x, x\ndef raises(x):\n    raise ValueError('no such thing')\n\
             def dies(x):\n    import os; os._exit(3)\n\
             def plain(x, weight, factor):\n    assert weight is None\n    return x * factor\n\
             def writes(x, factor):\n    x *= factor\n    return x\n\
             def turned(x, factor):\n    return (x * factor).t().contiguous().t().float()\n",
        )
        .unwrap();
        let declared = [tensor("y", Role::Output), tensor("x", Role::Input)];
        let bytes: Vec<u8> = (0..8u8).flat_map(|n| f32::from(n).to_le_bytes()).collect();
        let mut given = Tensors::default();
        given
            .views
            .insert("x".to_owned(), View::new(&declared[1], &bytes));
        let values = BTreeMap::from([("factor".to_owned(), 2.5), ("weight".to_owned(), 0.0)]);
        let run = |function: &str| {
            let call = Call {
                project: folder.path(),
                file: Path::new("reference.py"),
                function,
                absent: &["weight"],
                threads: 1,
            };
            Python::run(&call, &declared, &given, &values, Tolerance::default())
        };
        let mut expected = Expected::default();
        for function in ["double", "double", "plain", "writes", "turned"] {
            let oracle = run(function).unwrap();
            assert_eq!(
                (oracle.rows(0), oracle.outputs()),
                (2, vec!["y".to_owned()])
            );
            oracle.row(&given, 0, 1, &mut expected);
            // The second row begins after a gap of two.
            assert_eq!(expected.values, [12.5, 15.0, 17.5]);
        }
        // Several at once are answered by as many processes.
        std::thread::scope(|scope| {
            let asked: Vec<_> = (0..3).map(|_| scope.spawn(|| run("double"))).collect();
            for one in asked {
                let oracle = one.join().unwrap().unwrap();
                let mut expected = Expected::default();
                oracle.row(&given, 0, 0, &mut expected);
                assert_eq!(expected.values, [0.0, 2.5, 5.0]);
            }
        });
        for (function, word) in [
            ("two", "returned 2 tensors"),
            ("raises", "no such thing"),
            ("missing", "has no function missing"),
            ("dies", "died"),
        ] {
            let error = format!("{:#}", run(function).unwrap_err());
            assert!(error.contains(word), "{function}: {error}");
        }
        assert!(
            run("double").is_ok(),
            "a reference that died keeps others from running"
        );
        let mut none = declared.clone();
        for tensor in &mut none {
            tensor.shape[0] = 0;
        }
        let mut nothing = Tensors::default();
        nothing
            .views
            .insert("x".to_owned(), View::new(&none[1], &[]));
        let call = Call {
            project: folder.path(),
            file: Path::new("reference.py"),
            function: "double",
            absent: &[],
            threads: 1,
        };
        let oracle = Python::run(&call, &none, &nothing, &values, Tolerance::default()).unwrap();
        assert_eq!(oracle.rows(0), 0);
    }
}
