//! Compares the oracles with the models' own libraries: each `tests/oracles/OPERATION.json` holds the results of the real
//! module in double precision, written once by the script beside it, and the oracle must agree.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use kernels::oracle::view::encode;
use kernels::oracle::{BUNDLED, Expected, Tensors, View, bundled};
use kernels::project::DType;
use serde::Deserialize;

#[derive(Deserialize)]
struct Fixture {
    operation: String,
    /// The library, its version, and the module or function.
    source: String,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    values: BTreeMap<String, f64>,
    tensors: BTreeMap<String, Tensor>,
    outputs: BTreeMap<String, Tensor>,
}

#[derive(Deserialize)]
struct Tensor {
    dtype: Option<String>,
    shape: Vec<u64>,
    data: Vec<f64>,
}

impl Tensor {
    fn dtype(&self) -> DType {
        match self.dtype.as_deref() {
            None | Some("f32") => DType::F32,
            Some("f16") => DType::F16,
            Some("bf16") => DType::BF16,
            Some("i32") => DType::I32,
            Some("i64") => DType::I64,
            Some(other) => panic!("dtype {other}"),
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for value in &self.data {
            encode(self.dtype(), *value, &mut bytes);
        }
        bytes
    }

    fn view<'a>(&self, bytes: &'a [u8]) -> View<'a> {
        let mut strides = vec![1; self.shape.len()];
        for i in (1..self.shape.len()).rev() {
            strides[i - 1] = strides[i] * self.shape[i];
        }
        View { dtype: self.dtype(), shape: self.shape.clone(), strides, bytes }
    }
}

fn fixtures() -> Vec<(PathBuf, Fixture)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracles");
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "json"))
        .collect();
    paths.sort();
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        let fixture = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        (path, fixture)
    };
    paths.into_iter().map(read).collect()
}

#[test]
fn every_bundled_oracle_was_held_against_a_library() {
    let held: BTreeSet<String> = fixtures().into_iter().map(|(_, f)| f.operation).collect();
    let missing: Vec<_> = BUNDLED
        .iter()
        // The same oracle under the name of the in-place operation.
        .filter(|name| !held.contains(name.trim_end_matches("_in_place")))
        .collect();
    assert!(missing.is_empty(), "no tests/oracles/OPERATION.json of {missing:?}");
}

#[test]
fn the_oracles_say_what_the_libraries_say() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracles");
    let scripts: String = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "py"))
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    for (path, fixture) in fixtures() {
        let label = format!("{} ({})", path.display(), fixture.source);
        assert!(!fixture.cases.is_empty() && !fixture.source.is_empty(), "{label}");
        assert!(scripts.contains(&format!("\"{}\"", fixture.operation)), "{label}: no script here names it");
        for (number, case) in fixture.cases.iter().enumerate() {
            // A tensor that is both input and output is changed in place: the oracle gets its original contents.
            let all = || case.outputs.iter().chain(&case.tensors);
            let bytes: BTreeMap<&String, Vec<u8>> = all().map(|(name, tensor)| (name, tensor.bytes())).collect();
            let mut tensors = Tensors::default();
            for (name, tensor) in all() {
                tensors.views.insert(name.clone(), tensor.view(&bytes[name]));
            }
            for (name, tensor) in &case.tensors {
                let mut row = Vec::new();
                let view = &tensors.views[name];
                let mut stored = Vec::new();
                for index in 0..view.rows() {
                    view.row(index, &mut row);
                    stored.append(&mut row);
                }
                assert_eq!(stored, tensor.data, "{label} case {number}: {name} is not exact in its type");
            }
            let oracle = bundled(&fixture.operation, &tensors, &case.values)
                .unwrap_or_else(|e| panic!("{label} case {number}: {e:#}"))
                .unwrap_or_else(|| panic!("{label}: no oracle {}", fixture.operation));
            let mut checked = BTreeSet::new();
            for (index, name) in oracle.outputs().iter().enumerate() {
                let Some(reference) = case.outputs.get(name) else {
                    continue;
                };
                checked.insert(name.clone());
                let length = usize::try_from(*reference.shape.last().unwrap()).unwrap();
                assert_eq!(
                    oracle.rows(index) * length as u64,
                    reference.data.len() as u64,
                    "{label} case {number}: {name}"
                );
                let largest = reference.data.iter().fold(0f64, |most, v| most.max(v.abs()));
                let mut expected = Expected::default();
                for (row, theirs) in reference.data.chunks(length).enumerate() {
                    oracle.row(&tensors, index, row as u64, &mut expected);
                    assert_eq!(expected.values.len(), length, "{label} case {number}: {name}");
                    for (column, (ours, slack)) in expected.values.iter().zip(&expected.slack).enumerate() {
                        let (off, allowed) = ((ours - theirs[column]).abs(), slack.max(1e-10 * largest));
                        assert!(
                            off <= allowed,
                            "{label} case {number}: {name}[{row}, {column}]: the library gives {}, the oracle {ours}: {off} \
                             apart where {allowed} is granted",
                            theirs[column]
                        );
                    }
                }
            }
            let given: BTreeSet<String> = case.outputs.keys().cloned().collect();
            assert_eq!(checked, given, "{label} case {number}: outputs that nobody checked");
        }
    }
}
