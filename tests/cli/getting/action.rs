//! `action.yml`: its steps as GitHub's runner runs them.

use std::fs;
use std::path::Path;

use super::releases::{ROOT, Releases};
use crate::support::yaml::yaml;
use crate::support::{Ran, program, write};

/// The steps of action.yml with these inputs, as GitHub's runner runs them, with the program of a release on loopback.
fn action(releases: &Releases, with: &[(&str, &str)]) -> Ran {
    let action = yaml(&fs::read_to_string(Path::new(ROOT).join("action.yml")).unwrap());
    let input = |name: &str| {
        let given = with.iter().find(|(given, _)| *given == name).map(|(_, value)| (*value).to_owned());
        given.unwrap_or_else(|| action["inputs"][name]["default"].as_str().unwrap().to_owned())
    };
    let (paths, temp) = (releases.test.root().join("paths"), releases.test.root().join("temp"));
    write(&paths, "");
    // A runner empties it before each job.
    let _ = fs::remove_dir_all(&temp);
    let mut all = Ran { code: 0, out: String::new(), err: String::new() };
    for step in action["runs"]["steps"].as_array().unwrap().iter().filter(|step| step["run"].is_string()) {
        let script = step["run"].as_str().unwrap();
        assert!(step["shell"] == "bash" && !script.contains("${{"), "{step}");
        let mut command = releases.test.command_of("bash");
        command.args(["--noprofile", "--norc", "-eo", "pipefail", "-c", script]).env("GITHUB_PATH", &paths);
        for (name, value) in step["env"].as_object().into_iter().flatten() {
            let value = match value.as_str().unwrap().trim_start_matches("${{ ").split([' ', '}']).next().unwrap() {
                "inputs.from" => releases.url.clone(),
                "github.action_path" => ROOT.to_owned(),
                "runner.temp" => value.as_str().unwrap().replace("${{ runner.temp }}", temp.to_str().unwrap()),
                "github.token" => String::new(),
                other => input(other.strip_prefix("inputs.").unwrap()),
            };
            command.env(name, value);
        }
        command.env("PATH", format!("{}:/usr/bin:/bin", fs::read_to_string(&paths).unwrap().trim()));
        let ran = Ran::of(&mut command);
        all = Ran { code: ran.code, out: all.out + &ran.out, err: all.err + &ran.err };
        if all.code != 0 {
            break;
        }
    }
    all
}

#[test]
fn the_actions_steps_install_the_program_and_check_projects() {
    let releases = Releases::new();
    let (test, version) = (&releases.test, env!("CARGO_PKG_VERSION"));
    // What would be fetched is not; all else is this program's.
    let script = format!(
        "#!/bin/sh\ncase $1 in --version) echo 'kernels {version}' ;; toolchain) echo fetched $2 ;; *) exec '{}' \"$@\" ;; esac\n",
        program()
    );
    releases.release(version, script.as_bytes());
    test.ok("init demo --op blank");
    fs::rename(test.at("demo"), test.at("a demo")).unwrap();
    test.ok("init minus --op blank --dest ./-x");
    // There is no nvcc here, and no project passes.
    let said = action(&releases, &[("projects", "a demo\n  -x \n")]);
    said.expect(
        1,
        &[&format!("installed kernels {version}"), "checked: SHA-256", "fetched install", "no CUDA compiler"],
    );
    said.expect(1, &["demo a demo\n", "minus -x\n", "verify   all  skipped"]);
    let junit = fs::read_to_string(test.at("kernels.xml")).unwrap();
    assert_eq!(junit.matches("<testsuite ").count(), 2, "{junit}");
    // Inputs are words, never code; what must be there is required, and a typing mistake leaves nothing out.
    let strange = [("projects", "$(touch made)\n'; touch made; '")];
    action(&releases, &strange).expect(2, &["$(touch made) is not a kernel project"]);
    assert!(!test.at("made").exists());
    let all = [
        ("projects", "a demo"),
        ("require-card", "yes"),
        ("junit", "out.xml"),
        ("signers", "nobody"),
        ("python", "no"),
    ];
    action(&releases, &all).expect(1, &["--require-card"]);
    assert!(test.at("out.xml").is_file());
    action(&releases, &[("attested", "true")]).expect(1, &["the attestation cannot be checked"]);
    action(&releases, &[("version", "9.9.9")]).expect(1, &["kernels-9.9.9-", "404"]);
    // The pinned compiler is what is kept from run to run.
    let text = fs::read_to_string(Path::new(ROOT).join("action.yml")).unwrap();
    assert_eq!(text.matches(kernels::toolchain::Toolchain::PINNED).count(), 2);
    let inputs = yaml(&text)["inputs"].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let page = fs::read_to_string(Path::new(ROOT).join("docs/ci.md")).unwrap();
    assert!(inputs.iter().all(|name| page.contains(&format!("`{name}`"))), "docs/ci.md lacks one of {inputs:?}");
}
