//! What holds across the bundled projects.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "a test")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

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
