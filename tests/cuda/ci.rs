//! `kernels ci` of a project for torch, and the steps of the workflow that it prints, run in a repository of somebody else.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::hub::Server;
use crate::support::torch::{self, Torches};
use crate::support::yaml::yaml;
use crate::support::{Ran, Test, cuda, executable, program, script, write};
use serde_json::Value;

/// A repository with one project that `kernels init` wrote, and a cache with the compilers and the objects of all tests.
struct Repository {
    test: Test,
    torches: Torches,
}

impl Repository {
    fn new(torches: Torches) -> Self {
        let test = Test::without_git();
        test.ok("init demo --op blank --owner acme --no-git");
        // One test, which is quick.
        for file in ["test_softcap.py", "cases_softcap.py", "test_ops.py"] {
            fs::remove_file(test.at("demo/tests").join(file)).unwrap();
        }
        test.write("demo/tests/test_it.py", "def test_it(kernel):\n    assert kernel.softcap\n");
        let repository = Self { test, torches };
        let cache = repository.cache();
        cuda::share_objects(&cache);
        symlink(torch::headers(), cache.join("torch-2.11.0")).unwrap();
        fs::create_dir_all(cache.join("toolchain-13.0.88/nvidia")).unwrap();
        symlink(cuda::home(), cache.join("toolchain-13.0.88/nvidia/cu13")).unwrap();
        repository
    }

    fn cache(&self) -> PathBuf {
        self.test.root().join("cache")
    }

    fn python(&self) -> PathBuf {
        self.torches.newest().get_program().into()
    }

    fn command(&self, program: &str, python: &Path) -> Command {
        let mut command = self.test.command_of(program);
        command.env("KERNELS_CACHE", self.cache()).env("KERNELS_PYTHON", python).env("OMP_NUM_THREADS", "1");
        command.env("PYTHONPATH", self.torches.packages());
        command
    }

    /// The checks for torch, with stand-ins for torch and the Hub's library: name, status, and what is said of it.
    fn checks(&self, python: &Path, options: &str, code: i32) -> Vec<(String, String, String)> {
        let mut command = self.command(program(), python);
        command.env("PYTHONPATH", self.test.outside()).args(["ci", "demo", "--json"]).args(options.split_whitespace());
        let ran = Ran::of(&mut command);
        ran.expect(code, &[]);
        let report = ran.json();
        let checks = report["projects"][0]["checks"].as_array().unwrap().iter();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let of = |check: &Value| {
            let said = ["detail", "text", "reason"].map(|key| text(&check[key])).concat();
            (text(&check["name"]), text(&check["status"]), said)
        };
        checks.filter(|check| check["group"] == "torch").map(of).collect()
    }
}

/// Stand-ins, since an import of torch takes seconds: the library knows one kernel, or says what a file beside it says.
const TORCH: &str = "class version:\n    cuda = '13.9'\n__version__ = '2.99'\n";
const LIBRARY: &str = "import pathlib, types\n__version__ = '0.99'\ndef get_local_kernel(folder):
    fault = pathlib.Path(__file__).with_name('fault').read_text()
    if fault == 'raise':
        raise RuntimeError('not here')
    package = next(folder.glob('torch-*')) / '__init__.py'
    return types.SimpleNamespace(__file__=str(package), __all__=['softcap', fault], softcap=1)
";

#[track_caller]
fn expect(checks: &[(String, String, String)], wanted: [(&str, &str, &str); 3]) {
    assert_eq!(checks.len(), wanted.len(), "{checks:#?}");
    for ((name, status, said), wanted) in checks.iter().zip(wanted) {
        assert!((name.as_str(), status.as_str()) == (wanted.0, wanted.1) && said.contains(wanted.2), "{checks:#?}");
    }
}

/// A release as `./package` writes it, of a program that runs this one: its name and folder.
fn released(test: &Test) -> (String, PathBuf) {
    let name = format!("kernels-1.2.3-{}-unknown-linux-gnu", std::env::consts::ARCH);
    let release = test.outside().join("releases/download/v1.2.3");
    let program = release.join(&name).join("kernels");
    script(&program, format!("exec '{}' \"$@\"", crate::support::program()));
    let pack = format!("tar -czf {name}.tar.gz {name} && sha256sum {name}.tar.gz >{name}.tar.gz.sha256");
    Ran::ok(test.command_of("sh").current_dir(&release).args(["-c", &pack]));
    (name, release)
}

/// Runs the steps of a job as GitHub's runner does, up to the first that fails; programs of the tests' own come first.
fn steps(repository: &Repository, workflow: &Value, job: &str, runner: &[(&str, &str)]) -> Result<String, String> {
    let (paths, variables) = (repository.test.at("paths"), repository.test.at("variables"));
    write(&paths, "");
    write(&variables, "");
    let mut said = String::new();
    for step in workflow["jobs"][job]["steps"].as_array().unwrap() {
        let Some(script) = step["run"].as_str() else { continue };
        let mut command = repository.command("bash", Path::new(""));
        command.args(["-e", "-c", script]).env("GITHUB_PATH", &paths).env("GITHUB_ENV", &variables);
        command.env("KERNELS_FROM", workflow["env"]["KERNELS_FROM"].as_str().unwrap()).envs(runner.iter().copied());
        let own = step["env"].as_object().into_iter().flatten();
        command.envs(own.map(|(name, value)| (name, value.as_str().unwrap())));
        // Nothing is fetched: what pip is asked for is there.
        command.env("PIP_NO_INDEX", "1").env("PIP_NO_DEPS", "1");
        for line in fs::read_to_string(&variables).unwrap().lines() {
            let (name, value) = line.split_once('=').unwrap();
            command.env(name, value);
        }
        let first = fs::read_to_string(&paths).unwrap().lines().rev().collect::<Vec<_>>().join(":");
        let bin = repository.test.outside().join("bin");
        command.env("PATH", format!("{first}:{}:/usr/bin:/bin", bin.display()));
        let ran = Ran::of(&mut command);
        said = format!("{said}$ {script}\n{}{}\n", ran.out, ran.err);
        if ran.code != 0 {
            return Err(said);
        }
    }
    Ok(said)
}

#[test]
fn a_project_for_torch_is_built_loaded_and_tested_and_what_is_missing_is_named() {
    let torches = match torch::torches() {
        Ok(torches) => torches,
        Err(why) => return crate::support::not_run(&why),
    };
    let repository = Repository::new(torches);
    let (test, python) = (&repository.test, repository.python());
    write(&test.outside().join("torch/__init__.py"), TORCH);
    let fault = test.outside().join("kernels/fault");
    write(&fault.with_file_name("__init__.py"), LIBRARY);
    write(&fault, "softcap");
    let tests = |status: &'static str, said: &'static str| ("tests", status, said);
    let built = ("build", "passed", "torch-stable-abi211-cu130-x86_64-linux");
    let loaded = ("load", "passed", "torch 2.99, kernels 0.99");
    // What fails is shown; a test that only a card could run has not passed.
    fs::remove_file(test.at("demo/tests/conftest.py")).unwrap();
    test.write("demo/tests/test_it.py", "def test_it():\n    assert 6 * 7 == 43, 'the answer'\n");
    expect(&repository.checks(&python, "", 1), [built, loaded, tests("failed", "the answer")]);
    let skip = "import pytest\n\n@pytest.mark.skip(reason='no card: none')\ndef test_it():\n    pass\n";
    test.write("demo/tests/test_it.py", skip);
    expect(&repository.checks(&python, "", 0), [built, loaded, tests("skipped", "skipped: no card: none")]);
    test.write("demo/tests/test_other.py", "def test_other():\n    pass\n");
    let some = repository.checks(&python, "--require-torch", 0);
    expect(&some, [built, loaded, tests("passed", "1 passed, 1 skipped in")]);
    assert!(some[2].2.ends_with("s; skipped: no card: none"), "{some:#?}");
    fs::remove_dir_all(test.at("demo/tests")).unwrap();
    expect(&repository.checks(&python, "--require-torch", 0), [built, loaded, tests("skipped", "there is no")]);
    for (name, says) in [("raise", "not here"), ("nothing", "names that are not there: nothing")] {
        write(&fault, name);
        expect(&repository.checks(&python, "", 1), [built, ("load", "failed", says), tests("skipped", "not loaded")]);
    }
    write(&test.outside().join("torch/__init__.py"), TORCH.replace("'13.9'", "None"));
    expect(&repository.checks(&python, "", 0), [built, ("load", "skipped", "not for CUDA 13"), tests("skipped", "")]);
    fs::remove_dir_all(test.outside().join("kernels")).unwrap();
    // Without a torch, without its headers: skipped by name, or failed.
    let none = Path::new("/usr/bin/python3");
    expect(&repository.checks(none, "", 0), [built, ("load", "skipped", "has no `kernels`"), tests("skipped", "")]);
    expect(
        &repository.checks(none, "--require-torch", 1),
        [built, ("load", "failed", "--require-torch, and "), tests("skipped", "")],
    );
    fs::remove_file(repository.cache().join("torch-2.11.0")).unwrap();
    let nothing = ("build", "skipped", "kernels toolchain install --torch");
    expect(&repository.checks(none, "", 0), [nothing, ("load", "skipped", "nothing was built"), tests("skipped", "")]);
    // What is for kernel-builder alone is no fault.
    let toml = fs::read_to_string(test.at("demo/build.toml")).unwrap();
    test.write("demo/build.toml", toml.replace("stable-abi = \"2.11\"", ""));
    let other = ("build", "skipped", "build it with kernel-builder");
    expect(&repository.checks(none, "", 0), [other, ("load", "skipped", ""), tests("skipped", "")]);
    test.write("demo/build.toml", toml);
    // Nobody's files are replaced.
    symlink(torch::headers(), repository.cache().join("torch-2.11.0")).unwrap();
    test.write(&format!("demo/build/{}/mine.txt", built.2), "mine");
    expect(
        &repository.checks(none, "", 1),
        [("build", "failed", "mine.txt (added)"), ("load", "skipped", ""), tests("skipped", "")],
    );
}

#[test]
fn the_workflows_steps_pass_in_a_repository_of_somebody_else() {
    let torches = match torch::torches() {
        Ok(torches) => torches,
        Err(why) => return crate::support::not_run(&why),
    };
    let repository = Repository::new(torches);
    let test = &repository.test;
    let (name, release) = released(test);
    // The environment that the workflow would make, with the oldest torch by PYTHONPATH.
    let python = repository.python();
    let made = test.home.join(".cache/kernels-ci/torch-2.11.0");
    fs::create_dir_all(made.parent().unwrap()).unwrap();
    symlink(python.parent().unwrap().parent().unwrap(), made).unwrap();

    let workflow = |from: &str| yaml(&test.ok(&format!("ci demo --workflow{from}")).out);
    let unset = steps(
        &repository,
        &{
            let mut unset = workflow("");
            unset["env"]["KERNELS_FROM"] = "".into();
            unset
        },
        "build",
        &[],
    );
    assert!(
        unset.as_ref().is_err_and(|said| said.contains("::error::Set the repository's variable KERNELS_FROM")),
        "{unset:?}"
    );
    let from = workflow(&format!(" --from file://{}@v1.2.3", test.outside().display()));
    let said = steps(&repository, &from, "build", &[]).unwrap_or_else(|said| panic!("{said}"));
    for check in ["✓ build    sm_90", "✓ torch    build", "✓ torch    load  torch 2.11", "✓ torch    tests", "0 failed"]
    {
        assert!(said.contains(check), "no {check} in {said}");
    }
    assert!(test.at("kernels-build.xml").is_file());
    // The other job installs the same, and wants a card.
    let runs = |job: &str| -> Vec<String> {
        let steps = from["jobs"][job]["steps"].as_array().unwrap().iter();
        steps
            .filter_map(|step| Some(step["run"].as_str()?.replace(" --require-card", "").replace("card", "build")))
            .collect()
    };
    assert_eq!(runs("card"), runs("build"));
    // A release that is not what its checksum says is not run.
    fs::remove_dir_all(test.home.join(".cache/kernels-ci/program")).unwrap();
    write(&release.join(format!("{name}.tar.gz")), "other");
    assert!(steps(&repository, &from, "build", &[]).unwrap_err().contains("FAILED"));
}

/// In place of cosign: what it signs, and that it has an identity to sign with.
const COSIGN: &str = "#!/bin/sh
[ $1 = sign-blob ] && [ -n \"$ACTIONS_ID_TOKEN_REQUEST_URL\" ] || exit 1
echo '{\"mediaType\": \"application/vnd.dev.sigstore.bundle.v0.3+json\"}' > \"$4\"
";

#[test]
fn the_workflows_publishing_job_needs_no_secret_and_publishes_what_was_built_signed_and_attested() {
    let torches = match torch::torches() {
        Ok(torches) => torches,
        Err(why) => return crate::support::not_run(&why),
    };
    let (repository, server) = (Repository::new(torches), Server::new());
    let test = &repository.test;
    released(test);
    let cosign = test.outside().join("bin/cosign");
    executable(&cosign, COSIGN);
    let from = format!("file://{}@v1.2.3", test.outside().display());
    let workflow = yaml(&test.ok(&format!("ci demo --workflow --publish --from {from}")).out);
    let job = &workflow["jobs"]["publish"];
    assert_eq!(job["needs"], serde_json::json!(["build", "card"]));
    // Nothing else of the workflow has the right to an identity.
    assert_eq!(workflow["permissions"], serde_json::json!({"contents": "read"}));
    assert_eq!(job["permissions"]["id-token"], "write");
    assert_eq!(job["permissions"]["attestations"], "write");
    assert!(job["if"].as_str().unwrap().contains("refs/tags/v"));

    crate::publish::record(&test.at("demo"), &test.at("evidence"));
    // What the repository holds of another build is not published as this job's.
    let other = test.at("demo/build/torch-stable-abi211-cu128-x86_64-linux/metadata.json");
    write(&other, "{}");
    let git = |typed: &str| test.git(&test.project, typed.split(' '));
    git("init -q");
    git("add -A .");
    git("add -f demo/build");
    git("commit -qm first");
    let endpoint = server.endpoint();
    let identity = format!("{endpoint}/github/identity?x=y");
    let runner = |secret: &'static str| {
        [
            ("HF_ENDPOINT", endpoint.clone()),
            ("ACTIONS_ID_TOKEN_REQUEST_URL", identity.clone()),
            ("ACTIONS_ID_TOKEN_REQUEST_TOKEN", secret.to_owned()),
            ("GITHUB_REF_NAME", "v1.0".to_owned()),
        ]
    };
    let run = |secret| {
        let runner = runner(secret);
        let runner: Vec<(&str, &str)> = runner.iter().map(|(name, value)| (*name, value.as_str())).collect();
        steps(&repository, &workflow, "publish", &runner)
    };
    let said = run("of-nobody").unwrap_err();
    assert!(said.contains("GitHub gave no identity to this job"), "{said}");
    assert_eq!(server.state()["repos"], serde_json::json!({}));
    let said = run("of-the-runner").unwrap_or_else(|said| panic!("{said}"));
    assert!(said.contains("published"), "{said}");
    assert!(!other.exists());
    let state = server.state();
    let repo = &state["repos"]["acme/demo"];
    assert_eq!(repo["tags"]["v1.0"], repo["branches"]["v1"]["commit"]);
    let files = server.files("v1");
    assert_eq!(files.keys().filter(|path| path.ends_with("/metadata.json.sigstore")).count(), 1, "{files:?}");
    // What is attested is what was published.
    let subjects =
        job["steps"].as_array().unwrap().iter().find_map(|step| step["with"]["subject-path"].as_str()).unwrap();
    for subject in subjects.lines() {
        let ending = subject.strip_prefix("demo/build/*/").unwrap().trim_start_matches('*');
        assert!(files.keys().any(|path| path.ends_with(ending)), "{subject}: {files:?}");
    }
    assert!(run("of-the-runner").unwrap().contains("unchanged"));
}
