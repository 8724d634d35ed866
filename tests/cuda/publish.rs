//! `kernels publish` of a variant that was really built, with a record that covers it; the Hub's own library then loads
//! what was published.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use kernels::compile;
use kernels::project::Project;
use kernels::toolchain::Toolchain;
use serde_json::{Value, json};

use crate::support::hub::Server;
use crate::support::{Ran, Test, cuda, ssh_key, torch, write};

const LOAD: &str = r#"
import kernels
module = kernels.get_kernel("acme/demo", version=1)
print("loaded", sorted(module.__all__), module.__file__)
import pathlib
from kernels._rust import Digest, KernelLocks, Metadata
variant = pathlib.Path(module.__file__).parent
metadata = Metadata.read_from_file(variant / "metadata.json")
digest = metadata.digest
print("needs", metadata.kernels_minver)
digest.validate(Digest.hash_variant(digest.algorithm, variant))
locks = KernelLocks.from_json(open("kernels.lock").read())
print("locked", [(dependency.repo_id, lock.commit) for dependency, lock in locks.items()])
"#;

struct Demo {
    test: Test,
    root: PathBuf,
    server: Server,
}

impl Demo {
    fn new() -> Self {
        let test = Test::without_git();
        test.ok("init demo --op blank --owner acme --no-git");
        let demo = Self { root: test.project.join("demo"), test, server: Server::new() };
        cuda::share_objects(&demo.cache());
        std::os::unix::fs::symlink(torch::headers(), demo.cache().join("torch-2.11.0")).unwrap();
        demo
    }

    fn cache(&self) -> PathBuf {
        self.test.outside().join("cache")
    }

    fn run(&self, typed: &str) -> Ran {
        Ran::of(&mut self.command(typed))
    }

    fn command(&self, typed: &str) -> Command {
        let mut command = self.test.command();
        command.current_dir(&self.root).env("CUDA_HOME", cuda::home()).env("KERNELS_CACHE", self.cache());
        command.env("HF_ENDPOINT", self.server.endpoint()).env("HF_TOKEN", "hf_secret");
        command.args(typed.split(' '));
        command
    }
}

/// Writes records of all operations of a project into a folder, as of the code as it is now. The figures are another project's.
pub(super) fn record(root: &Path, evidence: &Path) {
    record_of(90, root, evidence);
}

fn record_of(arch: u32, root: &Path, evidence: &Path) {
    let project = Project::open(root).unwrap();
    let pinned = Toolchain {
        nvcc: cuda::home().join("bin/nvcc"),
        version: Toolchain::PINNED.to_owned(),
        origin: "the tests' cache".to_owned(),
        library_dirs: ["lib", "lib64"].map(|name| cuda::home().join(name)).to_vec(),
    };
    let build = compile::build(&project, &[arch], &pinned, false, &|_| {}).unwrap();
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("evidence/transpose-h100.json")).unwrap();
    let mut record: Value = serde_json::from_str(&text).unwrap();
    record["project"] = project.name.clone().into();
    record["device_digest"] = build.device_digest().unwrap().into();
    record["spec_digest"] = project.spec_digest.clone().into();
    record["source_digest"] = project.source_digest.clone().into();
    record["archs"] = json!([arch]);
    record["verification"]["set"] = kernels::verify::SET.into();
    for operation in &project.spec.operations {
        record["operation"] = operation.name.clone().into();
        for case in record["cases"].as_array_mut().unwrap() {
            case["operation"] = operation.name.clone().into();
        }
        write(&evidence.join(format!("{}-h100.json", operation.name)), record.to_string());
    }
}

/// With a suffix the code is other code: a record covers it if it was compiled so as well.
#[test]
fn evidence_covers_the_code_of_an_architecture_with_the_suffix_that_was_recorded() {
    let demo = Demo::new();
    let path = demo.root.join("build.toml");
    let text = fs::read_to_string(&path).unwrap();
    let list = |capabilities: &str| {
        let own = format!("backend = \"cuda\"\ncuda-capabilities = [{capabilities}]");
        write(&path, text.replacen("backend = \"cuda\"", &own, 1));
    };
    let evidence = demo.root.join("evidence");
    let publish = |code, words: &[&str]| _ = demo.run("publish --dry-run").expect(code, words);
    for same in ["\"8.0\", \"9.0\"", "\"8.0\", \"9.0a\"", "\"9.0\", \"9.0a\""] {
        list(same);
        record(&demo.root, &evidence);
        demo.run("build --torch --arch 90").expect(0, &["built", "of 1 record"]);
        publish(0, &[]);
    }
    list("\"8.0\", \"9.0\"");
    demo.run("build --torch --arch 90").expect(0, &["built"]);
    publish(1, &["its record is stale"]);
    // A card of 10.3 runs the code for 10.0f, and what was compiled for 10.3 was recorded.
    list("\"10.0f\"");
    record_of(103, &demo.root, &evidence);
    demo.run("build --torch --arch 100").expect(0, &["built"]);
    publish(1, &["has code for 10.0f, and the records are of 10.3"]);
}

#[test]
fn a_proved_kernel_is_published_with_its_record_and_loads_through_get_kernel() {
    let demo = Demo::new();
    record(&demo.root, &demo.root.join("evidence"));
    demo.run("build --torch --arch 90").expect(0, &["built"]);
    let key = demo.test.outside().join("key");
    ssh_key(&key);
    let publish = format!("publish --tag v1.0 --sign={}", key.display());
    // The package that was really built is loaded before its branch is named.
    let torches = torch::torches();
    let mut command = demo.command(&publish);
    if let Ok(torches) = &torches {
        command.arg("--python").arg(torches.newest().get_program());
    }
    let loaded = if torches.is_ok() { "loaded torch-stable-abi211-cu130" } else { "not loaded" };
    Ran::of(command.env("CUDA_VISIBLE_DEVICES", "")).expect(0, &["published", "signed", "read back", loaded]);
    let page = demo.server.text("main", "README.md");
    for words in ["NVIDIA H100", "driver 580", "nvcc 13.0.88", "softcap", "Speed", "SHA-256"] {
        assert!(page.contains(words), "no {words} in {page}");
    }
    assert!(!page.contains("Not verified") && !page.contains("{{"), "{page}");
    write(&demo.root.join("pyproject.toml"), "[tool.kernels.dependencies]\n\"acme/demo\" = 1\n");
    demo.run("hub lock").expect(0, &["acme/demo"]);
    demo.run("hub verify acme/demo").expect(0, &["verified"]);
    if let Ok(torches) = &torches {
        let load = |home: &str, offline: &str| {
            let mut python: Command = torches.newest();
            python.current_dir(&demo.root).args(["-c", LOAD]).env("HF_HUB_OFFLINE", offline);
            python.env("HF_ENDPOINT", demo.server.endpoint());
            python.env_remove("KERNELS_CACHE").env("HF_HOME", demo.test.home.join(home)).env_remove("HF_TOKEN");
            Ran::of(&mut python)
        };
        load("theirs", "0").expect(0, &["loaded", "needs 0.14.0", "softcap", "locked", "acme/demo"]);
        // Its functions, against the oracles: on a card with `KERNELS_CARD=1 cargo test --test cuda publish::`.
        let card = std::env::var_os("KERNELS_CARD").is_some();
        let mut command = demo.command("hub verify acme/demo@1 --kernel-toml kernel.toml");
        command.env("KERNELS_PYTHON", torches.newest().get_program()).env_remove("PYTHONPATH");
        if card {
            Ran::of(&mut command).expect(0, &["functions on", "softcap: ", "elements compared, oracle", "were not"]);
        } else {
            let words = ["torch-stable-abi211-cu130-x86_64-linux: no card to run on"];
            Ran::of(command.env("CUDA_VISIBLE_DEVICES", "")).expect(1, &words);
        }
        // From the cache that our own download fills, without a connection.
        demo.run("hub download acme/demo@1").expect(0, &["1 variant"]);
        load(".cache/huggingface", "1").expect(0, &["loaded", "softcap"]);
    }
    // An edit of the kernel: its record is stale, whether the variant is built anew or not.
    let path = demo.root.join("build.toml");
    let text = fs::read_to_string(&path).unwrap();
    write(&path, text.replacen("backend = \"cuda\"", "backend = \"cuda\"\ncuda-flags = [\"-use_fast_math\"]", 1));
    demo.run("publish").expect(1, &["no evidence covers", "built from other sources"]);
    demo.run("build --torch --arch 90").expect(0, &["built"]);
    demo.run("publish").expect(1, &["no evidence covers", "sources, flags or oracles are not the recorded ones"]);
    demo.run("publish --unproved").expect(0, &["published", "not verified"]);
    assert!(demo.server.text("main", "README.md").contains("**Not verified**"));
}
