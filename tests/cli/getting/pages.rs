//! Names and addresses in pages, help and manifests.

use std::fs;
use std::path::Path;

use super::releases::{ROOT, Releases};
use crate::support::tree;
use crate::support::yaml::yaml;

/// The crate `kernels` on crates.io is somebody else's.
#[test]
fn no_page_and_no_help_names_the_crate_of_somebody_else() {
    let tops = [
        "README.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "AGENTS.md",
        "docs",
        "src",
        "skills",
        "scaffold",
        "python",
        "release",
        ".github",
        "install.sh",
        "action.yml",
        "examples",
    ];
    let mut read = 0;
    for (path, text) in tops.iter().flat_map(|top| {
        let path = Path::new(ROOT).join(top);
        let files =
            if path.is_dir() { tree(&path) } else { [(String::new(), fs::read_to_string(&path).unwrap())].into() };
        files.into_iter().map(move |(file, text)| (format!("{top}/{file}"), text))
    }) {
        read += 1;
        for line in text.lines() {
            let words: Vec<&str> = line.split(|c: char| c.is_whitespace() || "`\"'()".contains(c)).collect();
            let cargo =
                words.windows(2).any(|pair| pair[0] == "cargo" && matches!(pair[1], "install" | "binstall" | "add"));
            let named = words.iter().any(|word| word.split('@').next() == Some("kernels"));
            let ours = words.iter().any(|word| matches!(*word, "--path" | "--git" | "--manifest-path"));
            assert!(!(cargo && named && !ours), "{path}: {line}: this crate is somebody else's");
            assert!(!line.contains("crates.io/crates/kernels"), "{path}: {line}");
        }
    }
    assert!(read > 300, "{read} files");
}

#[test]
fn binstall_finds_what_package_makes() {
    let manifest: toml::Table = fs::read_to_string(Path::new(ROOT).join("Cargo.toml")).unwrap().parse().unwrap();
    let binstall = &manifest["package"]["metadata"]["binstall"];
    let rendered = |key: &str| {
        let values = [
            ("{ repo }", "https://x/y"),
            ("{ version }", "1.2.3"),
            ("{ target }", "T"),
            ("{ bin }", "kernels"),
            ("{ binary-ext }", ""),
        ];
        values.iter().fold(binstall[key].as_str().unwrap().to_owned(), |text, (name, value)| text.replace(name, value))
    };
    let archive = Releases::new().archive("1.2.3");
    let url = format!("https://x/y/releases/{}", archive.to_str().unwrap().split_once("/releases/").unwrap().1);
    let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    assert_eq!(rendered("pkg-url").replace('T', &target), url);
    assert_eq!(rendered("bin-dir"), "kernels-1.2.3-T/kernels");
}

/// Nothing runs the workflow before a release does.
#[test]
fn the_release_workflow_is_whole() {
    let workflow = yaml(&fs::read_to_string(Path::new(ROOT).join(".github/workflows/release.yml")).unwrap());
    let jobs = workflow["jobs"].as_object().unwrap();
    for (name, job) in jobs {
        let needed = [&job["needs"]].into_iter().chain(job["needs"].as_array().into_iter().flatten());
        assert!(needed.filter_map(|job| job.as_str()).all(|job| jobs.contains_key(job)), "{name}");
        for step in job["steps"].as_array().unwrap() {
            assert!(step["run"].is_string() != step["uses"].is_string(), "{name}: {step}");
            // What a stranger may have written, a tag or a branch, comes through the environment.
            let script = step["run"].as_str().unwrap_or_default();
            assert!(!script.contains("${{"), "{name}: {script}");
            let words = script.split([' ', '\n']).map(|word| word.trim_start_matches("./"));
            for file in
                words.filter(|word| word.starts_with("release/") || word.starts_with("python/") || *word == "package")
            {
                assert!(Path::new(ROOT).join(file).is_file(), "{name}: {file}");
            }
        }
        // Only these publish, each when the repository says so.
        if job["permissions"]["id-token"] == "write" || job["permissions"]["packages"] == "write" {
            assert!(name == "release" || job["if"] == format!("contains(vars.PUBLISH, '{name}')"), "{name}");
        }
    }
    // The installer asks for an attestation of this workflow, and the container is built from names of archives.
    let installer = fs::read_to_string(Path::new(ROOT).join("install.sh")).unwrap();
    assert!(installer.contains("/.github/workflows/release.yml"));
    assert_eq!(workflow["permissions"].to_string(), r#"{"contents":"read"}"#);
}
