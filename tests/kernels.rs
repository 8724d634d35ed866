//! What holds across the bundled projects.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "a test")]

#[path = "support/cuda.rs"]
mod cuda;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use kernels::compile;
use kernels::project::Project;
use kernels::toolchain::Toolchain;

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

/// `kernels init` may put any of them into one project, with the small one that is a template.
#[test]
fn all_of_them_build_as_one_project_and_keep_their_symbols_apart() {
    let temp = tempfile::tempdir().unwrap();
    let folder = temp.path().join("everything");
    let made = Command::new(env!("CARGO_BIN_EXE_kernels"))
        .args(["init", "everything", "--no-git", "--for", "ltx-video,qwen3"])
        .args(["--op", "blank", "--dest"])
        .arg(&folder)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let project = Project::open(&folder).unwrap();
    let parts = project.sources.iter().map(|source| part(source));
    let there: BTreeSet<String> = parts.collect();
    for root in projects() {
        let name = root.file_name().unwrap().to_string_lossy().into_owned();
        assert!(there.contains(&name), "no family has {name}");
    }
    let home = cuda::home();
    let toolchain = Toolchain {
        nvcc: home.join("bin/nvcc"),
        version: Toolchain::PINNED.to_owned(),
        origin: "the tests' cache".to_owned(),
        library_dirs: vec![home.join("lib")],
    };
    let build = compile::build(&project, &[90], &toolchain, false, &|_| {}).unwrap();
    assert_eq!(build.over_budget(&project), Vec::<String>::new());
    // Of two functions of one name the linker takes either: the other part would run what is not its own.
    let mut owners: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for unit in &build.targets[0].units {
        for symbol in defined(&unit.cubin.with_file_name("unit.o")) {
            owners.entry(symbol).or_default().insert(part(&unit.source));
        }
    }
    assert!(
        owners.contains_key("rms_norm_launch"),
        "{:?}",
        owners.keys()
    );
    owners.retain(|symbol, parts| parts.len() > 1 && !symbol.starts_with("DW.ref."));
    assert!(
        owners.is_empty(),
        "symbols that several parts define: {owners:#?}"
    );
}

/// The folder of a source.
fn part(source: &Path) -> String {
    let folder = source.parent().unwrap().file_name().unwrap();
    folder.to_string_lossy().into_owned()
}

/// The symbols that other objects can see.
fn defined(path: &Path) -> Vec<String> {
    use object::{Object as _, ObjectSymbol as _};
    let bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let file = object::read::elf::ElfFile64::<object::Endianness>::parse(&*bytes).unwrap();
    file.symbols()
        .filter(|symbol| symbol.is_definition() && (symbol.is_global() || symbol.is_weak()))
        .map(|symbol| symbol.name().unwrap().to_owned())
        .collect()
}
