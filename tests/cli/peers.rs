//! benches/gpu/peers.py gets its cases from the program. It must call the launchers with the same arguments as the
//! harness.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use kernels::project::{BoundArgument, DType, Project};
use serde_json::{Value, json};

use crate::support::program;

/// A script of benches/gpu; None where Python is too old for it, which is said.
fn script(name: &str, arguments: &[&str]) -> Option<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = |arguments: &[&str]| {
        Command::new("python3")
            .args(arguments)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("KERNELS_PROGRAM", program())
            .output()
            .expect("python3")
    };
    if !python(&["-c", "import tomllib"]).status.success() {
        use std::io::Write;
        let _ = writeln!(std::io::stderr(), "\nnot run: {name}, which needs Python 3.11 or later");
        return None;
    }
    let path = root.join("benches/gpu").join(name);
    let ran = python(&[&[path.to_str().unwrap()], arguments].concat());
    let said = String::from_utf8(ran.stdout).unwrap();
    assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
    Some(said)
}

#[test]
fn widths_py_draws_the_same_shapes_of_a_seed_and_every_one_can_be_bound() {
    let drawn = |arguments: &[&str]| script("widths.py", &[&["--list"], arguments].concat());
    let Some(said) = drawn(&["--seed", "7", "--shapes", "12"]) else { return };
    let mut rows = said.lines();
    assert_eq!(rows.next(), Some("seed 7"));
    let rows: Vec<Value> = rows.map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows.len(), 12 * 12);
    let size =
        |row: &Value| ["width", "inner", "head_dim"].iter().find_map(|name| row["shape"][name].as_u64()).unwrap();
    for row in &rows {
        assert!((64..=16384).contains(&size(row)), "{row}");
        assert!((0.04..450.0).contains(&row["mb"].as_f64().unwrap()), "{row}");
    }
    // Some are no whole number of 16 bytes.
    assert!((10..100).contains(&rows.iter().filter(|row| size(row) % 8 != 0).count()));
    // Fewer shapes are the first ones; another seed has others.
    let fewer = drawn(&["--seed", "7", "--shapes", "5", "--only", "softmax"]).unwrap();
    let first: Vec<&str> = said.lines().filter(|line| line.contains("\"softmax\"")).take(5).collect();
    assert_eq!(fewer.lines().skip(1).collect::<Vec<_>>(), first);
    assert_ne!(drawn(&["--seed", "8", "--shapes", "5", "--only", "softmax"]).unwrap(), fewer);
}

#[test]
fn widths_py_again_takes_the_rows_of_other_sources_as_they_were_drawn() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut record: Value =
        serde_json::from_str(&fs::read_to_string(root.join("evidence/widths-h200.json")).unwrap()).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("widths.json");
    let listed = |record: &Value| {
        fs::write(&path, record.to_string()).unwrap();
        let said = script("widths.py", &["--again", "--list", "--only", "swiglu", "--out", path.to_str().unwrap()])?;
        Some(said.lines().map(str::to_owned).collect::<Vec<_>>())
    };
    let rows = record["rows"].as_array().unwrap().len();
    let swiglu = |record: &Value| -> Vec<Value> {
        let rows = record["rows"].as_array().unwrap();
        rows.iter().filter(|row| row["operation"] == "swiglu").map(|row| row["shape"].clone()).collect()
    };
    // Of no sources, and of others.
    for (at, row) in record["rows"].as_array_mut().unwrap().iter_mut().enumerate() {
        row["sources"] = if at % 2 == 0 { Value::Null } else { json!("0123456789abcdef") };
    }
    let Some(said) = listed(&record) else { return };
    let shapes: Vec<Value> =
        said[1..].iter().map(|line| serde_json::from_str::<Value>(line).unwrap()["shape"].clone()).collect();
    assert_eq!(said[0], format!("{} of {rows} shapes were timed with other sources", shapes.len()));
    assert!(!shapes.is_empty());
    assert_eq!(shapes, swiglu(&record));
}

#[test]
fn peers_py_times_the_bench_cases_with_the_arguments_of_the_harness() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let Some(said) = script("peers.py", &["--list"]) else { return };
    let mut listed: BTreeMap<(String, String), Value> = BTreeMap::new();
    for line in said.lines() {
        let row: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}"));
        let text = |key: &str| row[key].as_str().unwrap().to_owned();
        let again = listed.insert((text("operation"), text("case")), row.clone());
        assert!(again.is_none(), "twice: {line}");
    }

    let mut projects: Vec<_> = fs::read_dir(root.join("kernels"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("kernel.toml").is_file())
        .collect();
    projects.sort();
    let mut compared = 0;
    for dir in projects {
        let project = Project::open(&dir).unwrap();
        for operation in &project.spec.operations {
            for case in operation.cases(&operation.bench, 0).unwrap() {
                let row = listed
                    .remove(&(operation.name.clone(), case.label.clone()))
                    .unwrap_or_else(|| panic!("peers.py has no {} {}", operation.name, case.label));
                let what = format!("{} {}", operation.name, case.label);
                let bound = operation.bind(&case).unwrap();
                assert_eq!(DType::from_name(row["dtype"].as_str().unwrap()), Some(case.dtype));
                assert_eq!(row["bytes"], json!(bound.bytes), "{what}");
                let values: BTreeMap<String, f64> = serde_json::from_value(row["values"].clone()).unwrap();
                assert_eq!(values, case.values, "{what}");
                let arguments: Vec<Value> = bound
                    .arguments
                    .iter()
                    .map(|argument| match *argument {
                        BoundArgument::Tensor(at) | BoundArgument::Beyond(at, _) => {
                            json!(bound.tensors[at].name)
                        }
                        BoundArgument::Null => Value::Null,
                        BoundArgument::I32(number) => json!(number),
                        BoundArgument::I64(number) => json!(number),
                        BoundArgument::F32(number) => json!(number),
                        BoundArgument::F64(number) => json!(number),
                        BoundArgument::Stream => json!("stream"),
                    })
                    .collect();
                let theirs = row["arguments"].as_array().unwrap();
                assert_eq!(theirs.len(), arguments.len(), "{what}");
                for (ours, theirs) in arguments.iter().zip(theirs) {
                    // The launcher gets a float; the binding still has the double of kernel.toml.
                    let same = match (ours.as_f64(), theirs.as_f64()) {
                        (Some(ours), Some(theirs)) => (ours as f32).to_bits() == (theirs as f32).to_bits(),
                        _ => ours == theirs,
                    };
                    assert!(same, "{what}: {ours} and {theirs}");
                }
                compared += 1;
            }
        }
    }
    assert!(compared > 20, "{compared} cases");
    assert!(listed.is_empty(), "only peers.py has: {listed:?}");
}
