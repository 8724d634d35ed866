//! A reference in Python: a function of the project's own file, run with torch on the CPU in its own process.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde_json::json;

use super::{Expected, Oracle, Tensors};
use crate::oracle::rounding::ulp;
use crate::project::{BoundTensor, DType, Tolerance};

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
        for tensor in declared.iter().filter(|tensor| tensor.role.is_given()) {
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
            .filter(|tensor| tensor.role.is_result())
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
        call(&request)?;
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

/// A Python process that serves references: importing torch takes seconds, which are spent once.
struct Server {
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    errors: std::fs::File,
}

/// What the driver says to a request.
#[derive(Deserialize)]
struct Answer {
    ok: bool,
    #[serde(default)]
    error: String,
}

impl Server {
    /// Starts the interpreter that is active, without the card and without a way to reach it.
    fn start() -> Result<Self> {
        let python = std::env::var_os("KERNELS_PYTHON")
            .map_or_else(|| PathBuf::from("python3"), PathBuf::from);
        let errors = tempfile::tempfile()?;
        let mut child = Command::new(&python)
            .args(["-c", DRIVER])
            .env("CUDA_VISIBLE_DEVICES", "")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors.try_clone()?)
            .spawn()
            .with_context(|| {
                format!(
                    "starting {} for the Python reference; set KERNELS_PYTHON to a Python with torch",
                    python.display()
                )
            })?;
        let (Some(requests), Some(answers)) = (child.stdin.take(), child.stdout.take()) else {
            bail!("the Python reference has no pipes");
        };
        Ok(Self {
            child,
            requests,
            answers: BufReader::new(answers),
            errors,
        })
    }

    fn ask(&mut self, request: &serde_json::Value) -> Result<()> {
        let sent = writeln!(self.requests, "{request}").and_then(|()| self.requests.flush());
        let mut line = String::new();
        if sent.is_err() || self.answers.read_line(&mut line).unwrap_or(0) == 0 {
            let status = self.child.wait()?;
            let mut said = String::new();
            self.errors.rewind()?;
            self.errors.read_to_string(&mut said)?;
            bail!(
                "the Python reference died ({status}); KERNELS_PYTHON must name a Python with torch:\n{}",
                said.trim_end()
            );
        }
        let answer: Answer =
            serde_json::from_str(&line).context("reading the Python reference's answer")?;
        ensure!(
            answer.ok,
            "the Python reference failed:\n{}",
            answer.error.trim_end()
        );
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

thread_local! {
    /// One server a thread, for as long as the thread lives.
    static SERVER: RefCell<Option<Server>> = const { RefCell::new(None) };
}

fn call(request: &serde_json::Value) -> Result<()> {
    SERVER.with_borrow_mut(|kept| {
        let mut server = match kept.take() {
            Some(server) => server,
            None => Server::start()?,
        };
        let outcome = server.ask(request);
        // One that died is not asked again.
        if matches!(server.child.try_wait(), Ok(None)) {
            *kept = Some(server);
        }
        outcome
    })
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
        let torch = Command::new(python).args(["-c", "import torch"]).output();
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
             def dies(x):\n    import os; os._exit(3)\n",
        )
        .unwrap();
        let declared = [tensor("y", Role::Output), tensor("x", Role::Input)];
        let bytes: Vec<u8> = (0..8u8).flat_map(|n| f32::from(n).to_le_bytes()).collect();
        let mut given = Tensors::default();
        given
            .views
            .insert("x".to_owned(), View::new(&declared[1], &bytes));
        let values = BTreeMap::from([("factor".to_owned(), 2.5), ("unused".to_owned(), 1.0)]);
        let run = |function: &str| {
            let file = Path::new("reference.py");
            Python::run(
                folder.path(),
                file,
                function,
                &declared,
                &given,
                &values,
                Tolerance::default(),
            )
        };
        let mut expected = Expected::default();
        for _ in 0..2 {
            let oracle = run("double").unwrap();
            assert_eq!(
                (oracle.rows(0), oracle.outputs()),
                (2, vec!["y".to_owned()])
            );
            oracle.row(&given, 0, 1, &mut expected);
            // The second row begins after a gap of two.
            assert_eq!(expected.values, [12.5, 15.0, 17.5]);
        }
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
    }
}
