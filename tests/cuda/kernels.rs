//! What holds across the bundled projects.

use crate::support::cuda;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn projects() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels");
    let mut all: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    all.sort();
    assert!(!all.is_empty());
    all
}

/// The vocabulary that all projects share. A project stands on its own, so each has a copy of what it uses.
const SHARED: [&str; 3] = ["element.cuh", "pack.cuh", "reduce.cuh"];

#[test]
fn the_shared_headers_are_the_same_in_every_project() {
    for name in SHARED {
        let mut copies = projects()
            .into_iter()
            .map(|project| project.join("kernel_src").join(name))
            .filter_map(|path| Some((fs::read_to_string(&path).ok()?, path)));
        let (text, first) = copies.next().unwrap_or_else(|| panic!("{name} is nowhere"));
        for (other, path) in copies {
            assert!(
                text == other,
                "{} and {} differ: a shared header is changed in all projects at once",
                first.display(),
                path.display()
            );
        }
    }
}

/// No operation is in two projects, and its evidence has one name.
#[test]
fn every_operation_has_a_name_of_its_own() {
    let mut names = BTreeMap::new();
    for root in projects() {
        let project = kernels::project::Project::open(&root).unwrap_or_else(|e| panic!("{e}"));
        for operation in &project.spec.operations {
            if let Some(other) = names.insert(operation.name.clone(), root.clone()) {
                panic!(
                    "{} is in {} and {}",
                    operation.name,
                    other.display(),
                    root.display()
                );
            }
        }
    }
}

/// Two functions of one name that the linker may take for each other (inline ones, templates) would make one project
/// launch another one's kernels where both are linked into one library.
#[test]
fn projects_can_be_linked_into_one_library() {
    let mut owners: BTreeMap<String, String> = BTreeMap::new();
    let scratch = tempfile::tempdir().unwrap();
    for root in projects() {
        let project = kernels::project::Project::open(&root).unwrap_or_else(|e| panic!("{e}"));
        let owner = root.file_name().unwrap().to_string_lossy().into_owned();
        let mut own = BTreeMap::new();
        for source in &project.sources {
            // Without optimisation, so that nothing is inlined away; one element type stands for all.
            let name = source.file_stem().unwrap().to_string_lossy().into_owned();
            if name.ends_with("_f16") || name.ends_with("_f32") {
                continue;
            }
            let object = scratch.path().join(format!("{owner}-{name}.o"));
            let compiled = Command::new(cuda::home().join("bin/nvcc"))
                .args(["-std=c++17", "-O0", "-arch=sm_90", "-Xptxas", "-O0"])
                .args(["-Xcicc", "-O0", "-c", "-o"])
                .arg(&object)
                .arg(source)
                .current_dir(&root)
                .output()
                .unwrap();
            assert!(compiled.status.success(), "{compiled:?}");
            let symbols = Command::new("nm").arg(&object).output().unwrap();
            assert!(symbols.status.success(), "{symbols:?}");
            for line in String::from_utf8(symbols.stdout).unwrap().lines() {
                let mut words = line.split_whitespace().rev();
                let (Some(symbol), Some(kind)) = (words.next(), words.next()) else {
                    continue;
                };
                // What is defined and seen by other units; less the toolkits' own, which is the same everywhere.
                let toolkit = [
                    "_ZN4dim3",
                    "DW.ref.",
                    "_ZSt",
                    "_ZNSt",
                    "_ZNKSt",
                    "_ZN9__gnu_cxx",
                ]
                .iter()
                .any(|own| symbol.starts_with(own));
                if matches!(kind, "T" | "D" | "B" | "R" | "W" | "V" | "u") && !toolkit {
                    own.insert(symbol.to_owned(), kind.to_owned());
                }
            }
        }
        assert!(own.len() > 5, "{owner}: {own:?}");
        for (symbol, kind) in own {
            if let Some(other) = owners.insert(symbol.clone(), owner.clone()) {
                panic!("{symbol} ({kind}) is in {other} and in {owner}");
            }
        }
    }
}
