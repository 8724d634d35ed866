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

/// A project stands on its own, so each has a copy of the headers that all share; there is one text of each.
#[test]
fn headers_of_one_name_are_the_same_in_every_project() {
    let mut texts: BTreeMap<String, (PathBuf, String)> = BTreeMap::new();
    for project in projects() {
        for entry in fs::read_dir(project.join("kernel_src")).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|e| e != "cuh") {
                continue;
            }
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let text = fs::read_to_string(&path).unwrap();
            let (first, known) = texts
                .entry(name)
                .or_insert_with(|| (path.clone(), text.clone()));
            assert!(
                *known == text,
                "{} and {} differ: a shared header is changed in all projects at once",
                first.display(),
                path.display()
            );
        }
    }
    for name in ["element.cuh", "pack.cuh", "reduce.cuh"] {
        assert!(texts.contains_key(name), "{name} is nowhere");
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
