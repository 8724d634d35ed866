//! Invariants across the bundled projects.

use crate::support::{cuda, generated, names};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn projects() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels");
    let mut all: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("build.toml").is_file())
        .collect();
    all.sort();
    assert!(!all.is_empty());
    all
}

fn common() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels/common")
}

/// The headers of kernels/common that the sources in a folder include, directly or indirectly.
fn included(folder: &Path) -> BTreeSet<String> {
    let common_names = names(&common());
    let own = |name: &String| !common_names.contains(name);
    let mut found = BTreeSet::new();
    let mut open: Vec<PathBuf> = names(folder).into_iter().filter(own).map(|name| folder.join(name)).collect();
    while let Some(path) = open.pop() {
        for line in fs::read_to_string(&path).unwrap().lines() {
            let quoted = line.strip_prefix("#include \"");
            let Some(name) = quoted.and_then(|rest| rest.strip_suffix('"')) else {
                continue;
            };
            if common_names.iter().any(|common| common == name) && found.insert(name.to_owned()) {
                open.push(common().join(name));
            }
        }
    }
    found
}

/// kernel-builder copies only what a project's build.toml lists below the project's own folder, so each project has
/// copies of the headers in kernels/common that it includes. `UPDATE=1` writes them.
#[test]
fn the_copies_of_common_are_what_common_says() {
    for project in projects() {
        let folder = project.join("kernel_src");
        let included = included(&folder);
        for name in names(&common()) {
            let path = folder.join(&name);
            let text = fs::read_to_string(common().join(&name)).unwrap();
            if included.contains(&name) {
                generated(&path, &format!("// Generated from kernels/common/{name}.\n{text}"), "cuda the_copies");
            } else {
                assert!(!path.exists(), "{} is not included: remove it", path.display());
            }
        }
    }
}

/// No operation is in two projects, because its evidence has one file name.
#[test]
fn every_operation_has_a_name_of_its_own() {
    let mut names = BTreeMap::new();
    for root in projects() {
        let project = kernels::project::Project::open(&root).unwrap_or_else(|e| panic!("{e}"));
        for operation in &project.spec.operations {
            if let Some(other) = names.insert(operation.name.clone(), root.clone()) {
                panic!("{} is in {} and {}", operation.name, other.display(), root.display());
            }
        }
    }
}

/// Two functions of one name that the linker may take for each other (inline ones, templates) would make one project
/// launch another one's kernels where both are linked into one library. What is in namespace `common` is the same in all.
#[test]
fn projects_can_be_linked_into_one_library() {
    let mut owners: BTreeMap<String, String> = BTreeMap::new();
    let scratch = tempfile::tempdir().unwrap();
    for root in projects() {
        let project = kernels::project::Project::open(&root).unwrap_or_else(|e| panic!("{e}"));
        let owner = root.file_name().unwrap().to_string_lossy().into_owned();
        let mut own = BTreeMap::new();
        let code = code(&root.join("kernel_src"));
        for source in &project.sources {
            // Without optimisation, so that nothing is inlined; one element type is enough.
            let name = source.file_stem().unwrap().to_string_lossy().into_owned();
            if name.ends_with("_f16") || name.ends_with("_f32") {
                continue;
            }
            let object = scratch.path().join(format!("{owner}-{name}.o"));
            let mut input: Vec<&[u8]> = vec![b"symbols 1", name.as_bytes()];
            input.extend(code.iter().map(Vec::as_slice));
            let symbols = cuda::remembered(&input, || symbols(&root, source, &object)).unwrap();
            for line in symbols.lines() {
                let mut words = line.split_whitespace().rev();
                let (Some(symbol), Some(kind)) = (words.next(), words.next()) else {
                    continue;
                };
                // What is defined and seen by other units; less kernels/common and the toolkits' own, which are the same
                // everywhere.
                let shared =
                    ["_ZN6common", "_ZNK6common", "_ZN4dim3", "DW.ref.", "_ZSt", "_ZNSt", "_ZNKSt", "_ZN9__gnu_cxx"]
                        .iter()
                        .any(|own| symbol.starts_with(own));
                if matches!(kind, "T" | "D" | "B" | "R" | "W" | "V" | "u") && !shared {
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

/// Every file below a folder, path and content in turn.
fn code(folder: &Path) -> Vec<Vec<u8>> {
    let files = walkdir::WalkDir::new(folder).sort_by_file_name();
    let files = files.into_iter().map(Result::unwrap);
    files
        .filter(|entry| entry.file_type().is_file())
        .flat_map(|entry| {
            let path = entry.path().strip_prefix(folder).unwrap();
            let path = path.as_os_str().as_encoded_bytes().to_vec();
            [path, fs::read(entry.path()).unwrap()]
        })
        .collect()
}

/// What `nm` lists of a source.
fn symbols(root: &Path, source: &Path, object: &Path) -> Result<String, String> {
    let run = |command: &mut Command| {
        let ran = command.output().unwrap();
        let out = String::from_utf8_lossy(&ran.stdout).into_owned();
        ran.status.success().then_some(out).ok_or(format!("{ran:?}"))
    };
    run(Command::new(cuda::home().join("bin/nvcc"))
        .args(["-std=c++17", "-O0", "-arch=sm_90", "-Xptxas", "-O0"])
        .args(["-Xcicc", "-O0", "-c", "-o"])
        .arg(object)
        .arg(source)
        .current_dir(root))?;
    run(Command::new("nm").arg(object))
}

/// The harness's own kernels are embedded as PTX, which the oldest supported driver must be able to read.
#[test]
fn the_ptx_of_the_harness_is_what_nvcc_makes_of_its_source() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/gpu");
    let scratch = tempfile::tempdir().unwrap();
    let made = scratch.path().join("contents.ptx");
    let compiled = Command::new(cuda::home().join("bin/nvcc"))
        .args(["-ptx", "-O3", "-std=c++17", "-arch=compute_75", "-Werror", "all-warnings", "-o"])
        .args([&made, &folder.join("contents.cu")])
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{compiled:?}");
    let lines = fs::read_to_string(&made).unwrap();
    let code = lines.lines().filter(|line| !line.is_empty() && !line.trim_start().starts_with("//"));
    let made: String = code
        .map(|line| if line.starts_with(".version") { ".version 7.8\n".to_owned() } else { format!("{line}\n") })
        .collect();
    let path = folder.join("contents.ptx");
    generated(&path, &made, "cuda the_ptx");
}
