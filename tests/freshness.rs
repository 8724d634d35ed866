//! The bundled projects' evidence is of the code that is here. Needs no card; compiles with the pinned toolchain, which
//! it installs into the user's cache (`kernels toolchain install`) when it is not there.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test"
)]

use std::fs;
use std::path::Path;

use kernels::compile;
use kernels::evidence::{self, Freshness};
use kernels::project::Project;
use kernels::toolchain::{self, Toolchain};

fn pinned() -> Toolchain {
    let found = toolchain::candidates()
        .into_iter()
        .filter_map(|candidate| candidate.found.ok())
        .find(Toolchain::is_pinned);
    found.unwrap_or_else(|| {
        toolchain::install(Path::new("python3"), false, false, &|_| {})
            .expect("the pinned toolchain is needed, and cannot be installed")
            .toolchain
    })
}

/// Every bundled project has evidence, and none of it is stale.
#[test]
fn the_evidence_of_every_bundled_project_is_of_its_code() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut projects: Vec<_> = fs::read_dir(root.join("kernels"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("kernel.toml").is_file())
        .collect();
    projects.sort();
    assert!(!projects.is_empty(), "there is no project in kernels/");
    let mut wrong = Vec::new();
    for dir in projects {
        let shown = dir.strip_prefix(root).unwrap().display().to_string();
        let project = Project::open(&dir).unwrap_or_else(|error| panic!("{shown}: {error:#}"));
        let operations: Vec<String> = project
            .spec
            .operations
            .iter()
            .map(|operation| operation.name.clone())
            .collect();
        let standings = evidence::check(
            &root.join("evidence"),
            &project.name,
            &operations,
            &project.spec_digest,
            Some(&mut |archs: &[u32]| {
                compile::build(&project, archs, &pinned(), false, &|_| {})?.device_digest()
            }),
        )
        .unwrap_or_else(|error| panic!("{shown}: {error:#}"));
        for standing in standings {
            let what = match (standing.freshness, standing.file) {
                (Freshness::Fresh, _) => continue,
                (Freshness::Stale { what }, Some(file)) => {
                    format!(
                        "{} is stale: {what}",
                        file.strip_prefix(root).unwrap().display()
                    )
                }
                _ => format!("evidence/ has nothing of {}", standing.operation),
            };
            wrong.push(format!("{what}; on a card: kernels bench {shown} --record"));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
