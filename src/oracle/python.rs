//! An oracle in Python: a function in a file of the project, run with torch on the CPU in a separate process.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;

use super::{Expected, Oracle, Tensors, View, server};
use crate::oracle::rounding::ulp;
use crate::project::{BoundTensor, DType, EXACT, Tolerance, source_digest};

/// The tolerance in ulps if kernel.toml sets none.
const ULPS: f64 = 2.0;
/// An additional tolerance relative to the largest element of the row, for fp32 sums that cancel.
const OF_LARGEST: f64 = 64.0 / 16_777_216.0;

/// A function to call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    /// The project's folder.
    pub(crate) project: &'a Path,
    /// The file in it that defines the function.
    pub(crate) file: &'a Path,
    /// Its name.
    pub(crate) function: &'a str,
    /// Input tensors that are absent in this case; the function gets None.
    pub(crate) absent: &'a [&'a str],
    /// How many threads torch may use.
    pub(crate) threads: usize,
}

/// The results of one call of the reference.
#[derive(Debug)]
pub(crate) struct Python {
    outputs: Vec<Output>,
    tolerance: Tolerance,
}

/// What the function returned for one output.
#[derive(Debug)]
struct Output {
    name: String,
    dtype: DType,
    numbers: Vec<f64>,
    /// Elements per row.
    length: u64,
    /// Numbers per element, any of which is right.
    alternatives: u64,
}

/// The shape that the function must return for an output. If several numbers are right for an element, they lie along
/// an additional last dimension.
fn shape(tensor: &BoundTensor) -> Vec<u64> {
    let several = (tensor.alternatives > 1).then_some(tensor.alternatives);
    tensor.shape.iter().copied().chain(several).collect()
}

impl Python {
    /// Calls a function with every input tensor (float64; int64 or bool for integer types) and every scalar, by name.
    /// If a tensor and the scalar that says whether it is present have the same name, the function gets the tensor.
    ///
    /// # Errors
    /// Python or torch is missing, the function raises, or its results do not have the shapes of the outputs.
    pub(crate) fn run(
        call: &Call,
        declared: &[BoundTensor],
        inputs: &Tensors,
        values: &BTreeMap<String, f64>,
        tolerance: Tolerance,
    ) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("kernels-reference-").tempdir()?;
        let mut described = Vec::new();
        for tensor in declared.iter().filter(|tensor| tensor.role.is_given()) {
            let view = inputs.need(&tensor.name, call.function)?;
            let path = folder.path().join(format!("{}.in", tensor.name));
            if tensor.elements() == 0 {
                std::fs::write(&path, [])?;
            } else {
                write(view, &path)?;
            }
            let integers = match tensor.dtype {
                DType::Bool => Some("bool"),
                dtype => (!dtype.is_float()).then_some("int64"),
            };
            described.push(json!({"name": tensor.name, "shape": tensor.shape, "path": path, "dtype": integers}));
        }
        let wanted: Vec<(&BoundTensor, PathBuf)> = declared
            .iter()
            .filter(|tensor| tensor.role.is_result())
            .map(|tensor| (tensor, folder.path().join(format!("{}.out", tensor.name))))
            .collect();
        // Files that the project's digest does not cover are not there for it.
        let copy = folder.path().join("project");
        for file in source_digest::beside(call.project, call.file)? {
            let to = copy.join(&file);
            std::fs::create_dir_all(to.parent().unwrap_or(&copy))?;
            std::fs::copy(call.project.join(&file), &to)
                .with_context(|| format!("cannot copy {}", call.project.join(&file).display()))?;
        }
        let request = json!({
            "file": copy.join(call.file),
            "function": call.function,
            "inputs": described,
            "absent": call.absent,
            "values": values,
            "threads": call.threads,
            "outputs": wanted.iter()
                .map(|(tensor, path)| json!({"name": tensor.name, "shape": shape(tensor), "path": path}))
                .collect::<Vec<_>>(),
        });
        let named = |error: anyhow::Error| {
            let (ours, theirs) = (copy.display().to_string(), call.project.display().to_string());
            anyhow::anyhow!("{}", format!("{error:#}").replace(&ours, &theirs))
        };
        server::call(&request).map_err(named)?;
        let outputs = wanted
            .iter()
            .map(|(tensor, path)| {
                let length = tensor.shape.last().copied().unwrap_or(1);
                let numbers = read(call, tensor, path)?;
                Ok(Output {
                    name: tensor.name.clone(),
                    dtype: tensor.dtype,
                    numbers,
                    length,
                    alternatives: tensor.alternatives,
                })
            })
            .collect::<Result<_>>()?;
        Ok(Self { outputs, tolerance })
    }
}

/// Writes a tensor's elements as doubles.
fn write(view: &View, path: &Path) -> Result<()> {
    let mut out = std::io::BufWriter::new(std::fs::File::create(path)?);
    let mut row = Vec::new();
    for index in 0..view.rows() {
        view.row(index, &mut row);
        let bytes: Vec<u8> = row.iter().flat_map(|value| value.to_le_bytes()).collect();
        out.write_all(&bytes)?;
    }
    Ok(out.flush()?)
}

/// Reads the doubles of a result.
fn read(call: &Call, tensor: &BoundTensor, path: &Path) -> Result<Vec<f64>> {
    let bytes = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    let (eights, _) = bytes.as_chunks::<8>();
    let numbers: Vec<f64> = eights.iter().map(|eight| f64::from_le_bytes(*eight)).collect();
    ensure!(
        numbers.len() as u64 == tensor.elements() * tensor.alternatives,
        "{} of {} gave {} elements for {}, which has {}",
        call.function,
        call.file.display(),
        numbers.len(),
        tensor.name,
        tensor.elements()
    );
    #[allow(clippy::cast_precision_loss, reason = "a power of two")]
    let most = EXACT as f64;
    let large = numbers.iter().find(|number| number.is_finite() && number.abs() >= most);
    if let (false, Some(number)) = (tensor.dtype.is_float(), large) {
        bail!(
            "{} of {} gave {number} for {}; integers from 2^53 on are not compared exactly",
            call.function,
            call.file.display(),
            tensor.name
        );
    }
    Ok(numbers)
}

impl Oracle for Python {
    fn outputs(&self) -> Vec<String> {
        self.outputs.iter().map(|output| output.name.clone()).collect()
    }

    fn rows(&self, output: usize) -> u64 {
        let Output { numbers, length, alternatives, .. } = &self.outputs[output];
        numbers.len() as u64 / (length * alternatives).max(1)
    }

    fn row(&self, tensors: &Tensors, output: usize, row: u64, expected: &mut Expected) {
        let Output { name, dtype, numbers, length, alternatives } = &self.outputs[output];
        let place = |elements: u64| usize::try_from(elements * alternatives).unwrap_or(usize::MAX);
        let all = &numbers[place(row * length)..place((row + 1) * length)];
        let chosen = (*alternatives > 1).then(|| chosen(all, place(1), name, row, tensors));
        let values = chosen.as_deref().unwrap_or(all);
        // An infinite element says nothing of the others: their budget is that of a row without it.
        let finite = values.iter().filter(|value| value.is_finite());
        let largest = finite.fold(0f64, |most, value| most.max(value.abs()));
        let absolute = self.tolerance.absolute.unwrap_or(largest * OF_LARGEST);
        // The comparison itself allows half an ulp. Integers and 8-bit floats are rounded from an fp32 value: their
        // budget is that of the fp32 value.
        let (unit, ulps) = match self.tolerance.ulps {
            Some(ulps) if dtype.is_float() => (*dtype, ulps - 0.5),
            _ if dtype.is_stepped() => (DType::F32, ULPS),
            ulps => (*dtype, ulps.unwrap_or(ULPS) - 0.5),
        };
        expected.clear();
        for value in values {
            expected.push(*value, ulps.max(0.0) * ulp(unit, *value) + absolute);
        }
    }

    /// A tolerance for elements in kernel.toml replaces the default bound for the whole output.
    fn relative_norm(&self, _output: usize) -> Option<f64> {
        let elements = self.tolerance.ulps.is_some() || self.tolerance.absolute.is_some();
        let whole = self.tolerance.relative_norm;
        whole.or(elements.then_some(f64::INFINITY))
    }
}

/// For each element of a row, the alternative that equals the candidate's value, or else the first alternative.
fn chosen(all: &[f64], alternatives: usize, name: &str, row: u64, tensors: &Tensors) -> Vec<f64> {
    let mut got = Vec::new();
    if let Some(view) = tensors.get(name) {
        view.row(row, &mut got);
    }
    let element = |(column, right): (usize, &[f64])| {
        let got = got.get(column).copied();
        right.iter().copied().find(|one| Some(*one) == got).unwrap_or(right[0])
    };
    all.chunks_exact(alternatives).enumerate().map(element).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;
    use crate::project::Role;

    const REFERENCE: &str = "
print('noise')
def double(x, factor):
    return x * factor
def two(x):
    return x, x
def raises(x):
    raise ValueError('no such thing')
def dies(x):
    import os; os._exit(3)
def plain(x, weight, factor):
    assert weight is None
    return x * factor
def writes(x, factor):
    x *= factor
    return x
def turned(x, factor):
    return (x * factor).t().contiguous().t().float()
";

    /// Whether `KERNELS_PYTHON` has torch.
    fn has_torch() -> bool {
        let python = std::env::var_os("KERNELS_PYTHON").unwrap_or_else(|| "python3".into());
        let torch = std::process::Command::new(python).args(["-c", "import torch"]).output();
        let found = torch.is_ok_and(|output| output.status.success());
        if !found {
            let line = "\nnot run: the Python oracle, for want of a Python with torch (KERNELS_PYTHON)";
            let _ = writeln!(std::io::stderr(), "{line}");
        }
        found
    }

    /// Calls a function with `rows` rows of three numbers, five elements apart.
    fn run(function: &str, rows: u64) -> Result<Python> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("reference.py"), REFERENCE).unwrap();
        run_in(folder.path(), function, rows)
    }

    fn run_in(folder: &Path, function: &str, rows: u64) -> Result<Python> {
        let tensor = |name: &str, role| BoundTensor::of((name, role), DType::F32, ([rows, 3], [5, 1]));
        let declared = [tensor("y", Role::Output), tensor("x", Role::Input)];
        let bytes: Vec<u8> = (0..8u8).flat_map(|n| f32::from(n).to_le_bytes()).collect();
        let mut given = Tensors::default();
        let x = View::new(&declared[1], &bytes);
        given.views.insert("x".to_owned(), x);
        let values = BTreeMap::from([("factor".to_owned(), 2.5), ("weight".to_owned(), 0.0)]);
        let call = Call { project: folder, file: Path::new("reference.py"), function, absent: &["weight"], threads: 1 };
        Python::run(&call, &declared, &given, &values, Tolerance::default())
    }

    fn row(oracle: &Python, row: u64) -> Vec<f64> {
        let mut expected = Expected::default();
        oracle.row(&Tensors::default(), 0, row, &mut expected);
        expected.values
    }

    #[test]
    fn a_reference_is_called_by_name() {
        if !has_torch() {
            return;
        }
        for function in ["double", "double", "plain", "writes", "turned"] {
            let oracle = run(function, 2).unwrap();
            assert_eq!(oracle.outputs(), ["y"]);
            assert_eq!(oracle.rows(0), 2);
            // The second row begins after a gap of two.
            assert_eq!(row(&oracle, 1), [12.5, 15.0, 17.5]);
        }
        assert_eq!(run("double", 0).unwrap().rows(0), 0);
        // Concurrent calls get a process each.
        std::thread::scope(|scope| {
            let asked: Vec<_> = (0..3).map(|_| scope.spawn(|| run("double", 2))).collect();
            for one in asked {
                assert_eq!(row(&one.join().unwrap().unwrap(), 0), [0.0, 2.5, 5.0]);
            }
        });
    }

    #[test]
    fn a_reference_has_the_python_files_that_the_digest_covers_and_no_others() {
        if !has_torch() {
            return;
        }
        let project = |factor: &str| {
            let folder = tempfile::tempdir().unwrap();
            for name in ["build/lax.py", "__pycache__/helper.py", "helper.py", "factor.txt"] {
                let path = folder.path().join(name);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, format!("FACTOR = {factor}\n")).unwrap();
            }
            let text = "import os\n\n\ndef beside(x):\n    from helper import FACTOR\n\n    return x * FACTOR\n\n\n\
                        def built(x):\n    from build.lax import FACTOR\n\n    return x * FACTOR\n\n\n\
                        def read(x):\n    return x * float(open(os.path.dirname(__file__) + '/factor.txt').read()[9:])\n";
            std::fs::write(folder.path().join("reference.py"), text).unwrap();
            folder
        };
        let (two, three) = (project("2.0"), project("3.0"));
        // Projects that have files of the same name, in one process.
        for (folder, expected) in [(&two, [0.0, 2.0, 4.0]), (&three, [0.0, 3.0, 6.0])] {
            assert_eq!(row(&run_in(folder.path(), "beside", 2).unwrap(), 0), expected);
        }
        for function in ["built", "read"] {
            assert!(run_in(two.path(), function, 2).is_err(), "{function}");
        }
        let error = format!("{:#}", run_in(two.path(), "built", 2).unwrap_err());
        assert!(error.contains(&format!("{}/reference.py", two.path().display())), "{error}");
    }

    #[test]
    fn an_infinite_element_leaves_the_budget_of_its_row_as_it_is() {
        let slack = |numbers: [f64; 3]| {
            let output = Output {
                name: "y".to_owned(),
                dtype: DType::F32,
                numbers: numbers.to_vec(),
                length: 3,
                alternatives: 1,
            };
            let mut expected = Expected::default();
            let python = Python { outputs: vec![output], tolerance: Tolerance::default() };
            python.row(&Tensors::default(), 0, 0, &mut expected);
            expected.slack
        };
        let all_finite = slack([8.0, 1e-6, 0.0]);
        assert!(all_finite[1] > 8.0 * OF_LARGEST && all_finite[1] < 9.0 * OF_LARGEST);
        for other in [f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
            assert_eq!(slack([8.0, 1e-6, other])[..2], all_finite[..2]);
        }
    }

    #[test]
    fn faults_of_a_reference_are_reported() {
        if !has_torch() {
            return;
        }
        for (function, word) in [
            ("two", "returned 2 tensors"),
            ("raises", "no such thing"),
            ("missing", "has no function missing"),
            ("dies", "died"),
        ] {
            let error = format!("{:#}", run(function, 2).unwrap_err());
            assert!(error.contains(word), "{function}: {error}");
        }
        assert!(run("double", 2).is_ok(), "a reference that died keeps others from running");
    }
}
