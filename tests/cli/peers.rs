//! benches/gpu/peers.py gets its cases from the program. It must call the launchers with the same arguments as the
//! harness.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use kernels::project::{BoundArgument, DType, Project};
use serde_json::{Value, json};

#[test]
fn peers_py_times_the_bench_cases_with_the_arguments_of_the_harness() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = |arguments: &[&str]| {
        Command::new("python3")
            .args(arguments)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("KERNELS_PROGRAM", env!("CARGO_BIN_EXE_kernels"))
            .output()
            .expect("python3")
    };
    if !python(&["-c", "import tomllib"]).status.success() {
        use std::io::Write;
        let _ = writeln!(std::io::stderr(), "\nnot run: peers.py --list, which needs Python 3.11 or later");
        return;
    }
    let ran = python(&[root.join("benches/gpu/peers.py").to_str().unwrap(), "--list"]);
    let said = String::from_utf8(ran.stdout).unwrap();
    assert!(ran.status.success(), "{said}{}", String::from_utf8_lossy(&ran.stderr));
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
