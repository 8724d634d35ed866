//! `kernels hub` against a Hub on loopback.

use std::fs;

use serde_json::{Value, json};

use crate::support::hub::{Demo, Server, VARIANTS};
use crate::support::{Ran, script, write};

/// A Hub with `acme/demo`, version 1.
fn published() -> (Server, Demo) {
    let (server, demo) = (Server::new(), Demo::new());
    demo.publish(&server, "--tag v1.0");
    (server, demo)
}

fn json(server: &Server, demo: &Demo, typed: &str, code: i32) -> Value {
    let ran = demo.run(server, &format!("hub {typed} --json"));
    assert_eq!(ran.code, code, "{typed}: {ran:#?}");
    ran.json()
}

#[test]
fn a_kernel_is_described_by_version_branch_tag_and_commit() {
    let (server, demo) = published();
    let info = json(&server, &demo, "info acme/demo", 0);
    assert_eq!(info["revision"], "v1");
    assert_eq!(info["version"], 1);
    assert_eq!(info["backends"], json!(["cuda"]));
    let commit = info["commit"].as_str().unwrap();
    for revision in ["1", "v1", "v1.0", commit] {
        assert_eq!(json(&server, &demo, &format!("info acme/demo@{revision}"), 0)["commit"], commit);
    }
    demo.run(&server, "hub info acme/demo@2").expect(1, &["no v2", "versions are: 1"]);
    demo.run(&server, "hub info acme/demo@main").expect(1, &["no variants at main"]);
    demo.run(&server, "hub info acme/none").expect(1, &["acme/none", "look at the name"]);
    demo.run(&server, "hub info acme").expect(2, &["OWNER/NAME"]);
    let versions = json(&server, &demo, "versions acme/demo", 0);
    assert_eq!(versions["versions"][0]["commit"], commit);
    assert_eq!(versions["versions"][0]["variants"].as_array().unwrap().len(), 2);
    demo.run(&server, "hub versions acme/demo").expect(0, &["1 ", VARIANTS[0]]);
    let torch = demo.test.root().join("venv/lib/python3.12/site-packages/torch");
    write(&torch.join("version.py"), "__version__ = '2.12.0+cu130'\ncuda: Optional[str] = '13.0'\n");
    let variants = |options: &str| {
        let mut command = demo.command(&server, &format!("hub variants acme/demo{options} --json"));
        let ran = Ran::of(command.env("VIRTUAL_ENV", demo.test.root().join("venv")));
        let report = ran.json();
        report["variants"].as_array().unwrap().clone()
    };
    let (all, fit) = (variants(" --all-versions"), variants(" --only-compatible"));
    assert_eq!(all.len(), 2, "{all:?}");
    assert_eq!(fit.len(), usize::from(cfg!(target_arch = "x86_64")), "{all:?}");
}

#[test]
#[cfg(target_arch = "x86_64")]
fn a_variant_that_the_library_would_choose_and_then_refuse_is_named_with_the_reason() {
    let (server, demo) = (Server::new(), Demo::new());
    let metadata = demo.root.join("build").join(VARIANTS[0]).join("metadata.json");
    let text = fs::read_to_string(&metadata).unwrap();
    write(&metadata, text.replacen('{', "{\"kernels-minver\": \"0.18.0\", ", 1));
    demo.publish(&server, "");
    let packages = demo.test.root().join("venv/lib/python3.12/site-packages");
    write(&packages.join("torch/version.py"), "__version__ = '2.12.0+cu130'\ncuda: Optional[str] = '13.0'\n");
    let variants = |options: &str| {
        let mut command = demo.command(&server, &format!("hub variants acme/demo{options}"));
        Ran::of(command.env("VIRTUAL_ENV", demo.test.root().join("venv")))
    };
    variants("").expect(0, &["compatible, preferred", "no library `kernels` lies beside torch"]);
    write(&packages.join("kernels-0.17.2.dist-info/METADATA"), "");
    variants("").expect(
        0,
        &["chosen by the library, which then refuses it", "needs version 0.18.0", "here is 0.17.2", "pip install"],
    );
    let report: Value = serde_json::from_str(&variants(" --json").out).unwrap();
    let (first, second) = (&report["variants"][0], &report["variants"][1]);
    assert_eq!((&first["compatible"], &first["preferred"]), (&json!(false), &json!(true)), "{report:#}");
    assert!(second["reason"].as_str().unwrap().contains("built with CUDA 12.6"), "{report:#}");
    assert_eq!(report["library"], "0.17.2");
    let fit: Value = serde_json::from_str(&variants(" --only-compatible --json").out).unwrap();
    assert_eq!(fit["variants"], json!([]));
    // What has no readable metadata.json does not load either.
    server.put("v1", &format!("build/{}/metadata.json", VARIANTS[0]), Some("{}"));
    variants("").expect(0, &["which then refuses it", "metadata.json"]);
}

#[test]
fn what_is_downloaded_lies_in_the_librarys_cache_and_a_lock_holds_its_commit() {
    let (server, demo) = published();
    let project = demo.test.project.join("app");
    write(&project.join("pyproject.toml"), "[tool.kernels.dependencies]\n\"acme/demo\" = 1\n");
    demo.run(&server, "hub lock").expect(1, &["pyproject.toml"]);
    let here = |typed: &str| Ran::of(demo.command(&server, typed).current_dir(&project));
    here("hub download").expect(1, &["kernels.lock", "kernels hub lock"]);
    here("hub lock").expect(0, &["wrote", "acme/demo"]);
    let lock: Value = serde_json::from_str(&fs::read_to_string(project.join("kernels.lock")).unwrap()).unwrap();
    let commit = server.state()["repos"]["acme/demo"]["branches"]["v1"]["commit"].clone();
    assert_eq!(lock, json!([{"dependency": {"repo-id": "acme/demo", "version": 1}, "lock": {"commit": commit}}]));
    // A later version 1 does not change what is locked.
    demo.variant(VARIANTS[0], "\"other\"");
    demo.publish(&server, "");
    here("hub download . --all-variants").expect(0, &["2 variants"]);
    let cache = demo.test.home.join(".cache/huggingface/hub/kernels--acme--demo");
    assert!(!cache.join("refs/v1").exists(), "a project's file does not say what version 1 is");
    let top = cache.join("snapshots").join(commit.as_str().unwrap()).join("build").join(VARIANTS[0]);
    assert!(fs::read_to_string(top.join("__init__.py")).unwrap().contains("\"scale\""));
    assert!(fs::read_link(top.join("layers/__init__.py")).unwrap().starts_with("../../../../../blobs"));
    // A damaged file is fetched again, and a server that sends something else is not believed.
    let blob = fs::canonicalize(top.join("__init__.py")).unwrap();
    write(&blob, "damaged");
    here("hub download . --variant torch-stable-abi211-cu130-x86_64-linux").expect(0, &["1 variant"]);
    assert!(fs::read_to_string(&blob).unwrap().contains("\"scale\""));
    here("hub download acme/demo@v1.0 --variant torch-cuda").expect(1, &["no such variant", VARIANTS[1]]);
}

#[test]
fn a_file_that_is_not_the_one_that_was_built_fails_verification() {
    let (server, demo) = published();
    let report = json(&server, &demo, "verify acme/demo --all-variants", 0);
    assert_eq!(report["ok"], true);
    assert_eq!(report["variants"][0]["signature"]["signature"], "none");
    let top = format!("build/{}", VARIANTS[0]);
    server.put("v1", &format!("{top}/__init__.py"), Some("import os"));
    server.put("v1", &format!("{top}/more.py"), Some("import os"));
    server.put("v1", &format!("{top}/layers/__init__.py"), None);
    let ran = demo.run(&server, &format!("hub verify acme/demo --variant {}", VARIANTS[0]));
    ran.expect(
        1,
        &["3 differences", "__init__.py has another digest", "more.py is not in", "layers/__init__.py is listed"],
    );
    demo.run(&server, &format!("hub verify acme/demo --variant {}", VARIANTS[1]))
        .expect(0, &["verified", "not signed"]);
    demo.run(&server, "hub verify acme/demo@v1.0 --all-variants").expect(0, &["verified"]);
    // Somebody must have signed, and nobody has; somebody has, and nobody can look.
    demo.run(&server, "hub verify acme/demo@v1.0 --all-variants --signer ^https").expect(1, &["not signed"]);
    server.put("v1", &format!("build/{}/metadata.json.sigstore", VARIANTS[1]), Some("{}"));
    let of_one = format!("hub verify acme/demo --variant {}", VARIANTS[1]);
    demo.run(&server, &of_one).expect(0, &["was not checked", "cosign"]);
    demo.run(&server, &format!("{of_one} --signer ^https")).expect(1, &["was not checked"]);
    // A signature stays with what it signs.
    let kept = demo.run(&server, "publish --unproved --force --json");
    assert_eq!(kept.code, 0, "{kept:#?}");
    assert!(server.files("v1").contains_key(&format!("build/{}/metadata.json.sigstore", VARIANTS[1])));
    demo.variant(VARIANTS[1], "\"other\"");
    demo.publish(&server, "");
    assert!(!server.files("v1").contains_key(&format!("build/{}/metadata.json.sigstore", VARIANTS[1])));
}

#[test]
fn what_it_takes_to_run_a_variants_functions_is_said_before_anything_is_fetched() {
    let (server, demo) = published();
    let python = demo.test.root().join("python");
    script(&python, "echo True True");
    let verify = |options: &str| {
        let mut command = demo.command(&server, "hub verify acme/demo");
        Ran::of(command.env("CUDA_VISIBLE_DEVICES", "").env("KERNELS_PYTHON", &python).args(options.split(' ')))
    };
    verify("--seed 1").expect(2, &["--kernel-toml"]);
    verify("--python x").expect(2, &["--kernel-toml"]);
    verify("--kernel-toml nowhere.toml").expect(1, &["cannot read nowhere.toml"]);
    write(&demo.root.join("wrong.toml"), "format = 1\n[[operation]]\nname = 3\n");
    verify("--kernel-toml wrong.toml").expect(1, &["wrong.toml", "name"]);
    // That Python has no torch after all.
    verify("--kernel-toml kernel.toml").expect(1, &["no variant whose functions could be run here", "hub variants"]);
    let fetched = |server: &Server| server.state()["log"].to_string().matches("resolve/").count();
    let before = fetched(&server);
    let of_card = format!("--kernel-toml kernel.toml --variant {}", VARIANTS[0]);
    verify(&of_card).expect(1, &[VARIANTS[0], "no card to run on"]);
    verify("--kernel-toml kernel.toml --variant torch-cuda").expect(1, &["no variant whose functions"]);
    assert_eq!(fetched(&server), before);
}
