//! `kernels publish` against a Hub on loopback.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::hub::{Demo, Server, VARIANTS};
use crate::support::{Ran, script, write};

#[test]
fn a_project_is_published_and_the_same_again_is_no_commit() {
    let (server, demo) = (Server::new(), Demo::new());
    let plan = demo.publish(&server, "--dry-run --tag v1.0");
    assert_eq!(plan["status"], "dry_run");
    assert_eq!(plan["plan"]["creates_repository"], true);
    assert_eq!(plan["plan"]["branches"][0]["adds"].as_array().unwrap().len(), 8, "{plan:#}");
    assert_eq!(server.state()["repos"], json!({}));
    let report = demo.publish(&server, "--tag v1.0");
    assert_eq!(report["status"], "uploaded");
    assert_eq!(report["repo_id"], "acme/demo");
    assert_eq!(report["branch"], "v1");
    assert_eq!(report["proved"], false);
    assert_eq!(report["read_back"], 8);
    let state = server.state();
    let repo = &state["repos"]["acme/demo"];
    assert_eq!(repo["tags"]["v1.0"], report["commit"]);
    assert_eq!(repo["branches"].as_object().unwrap().keys().collect::<Vec<_>>(), ["main", "v1"]);
    let files = server.files("v1");
    for variant in VARIANTS {
        for path in ["__init__.py", "layers/__init__.py", "metadata.json", "_demo_cuda_0123abc.abi3.so"] {
            assert!(files.contains_key(&format!("build/{variant}/{path}")), "{path}: {files:?}");
        }
    }
    // The module offers no function of the operation in kernel.toml, and benchmark.py has no class for upstream's command.
    assert!(!files.keys().any(|path| path.starts_with("benchmarks/")), "{files:?}");
    assert!(server.files("main").contains_key("README.md"));
    assert!(!server.files("main").keys().any(|path| path.starts_with("build")));
    // The token goes to the Hub, and not to where it keeps large files.
    for one in state["log"].as_array().unwrap() {
        let other = one["host"].as_str().unwrap().starts_with("localhost");
        assert_eq!(one["token"].is_null(), other, "{one}");
    }
    let again = demo.publish(&server, "--tag v1.0");
    assert_eq!(again["status"], "no_changes");
    assert_eq!(again["commit"], report["commit"]);
    assert_eq!(server.state()["repos"], state["repos"]);
    demo.run(&server, "publish --unproved").expect(0, &["unchanged", "/kernels/acme/demo/tree/v1"]);
}

/// The least of three runs: other tests run beside it.
#[test]
fn three_variants_take_less_than_3_s_beyond_their_transfer() {
    assert!((0..3).any(|_| seconds_beyond_the_transfer() < 3.0));
}

/// Of three variants, beside the same bytes by curl alone: up once and down once.
fn seconds_beyond_the_transfer() -> f64 {
    let server = Server::new();
    let demo = Demo::of(&[VARIANTS[0], VARIANTS[1], "torch-stable-abi211-cu132-x86_64-linux"]);
    let start = std::time::Instant::now();
    demo.publish(&server, "--tag v1.0");
    let all = start.elapsed();
    let state = server.state();
    let requests = |method: &str| {
        let log = state["log"].as_array().unwrap();
        log.iter().filter(|one| one["request"].as_str().unwrap().starts_with(method)).count()
    };
    let start = std::time::Instant::now();
    let top = format!("{}/kernels/acme/demo/resolve/v1/build/{}/__init__.py", server.endpoint(), VARIANTS[0]);
    let transfers = requests("PUT /_lfs") + requests("GET /kernels");
    for _ in 0..transfers {
        Ran::ok(Command::new("curl").args(["--silent", "--fail", &top]));
    }
    let transfer = start.elapsed();
    let beyond = all.saturating_sub(transfer);
    let said =
        format!("publish of 3 variants: {all:.2?}, of them {transfers} transfers {transfer:.2?}; beyond: {beyond:.2?}");
    let _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("\n{said}\n"));
    beyond.as_secs_f64()
}

#[test]
fn a_change_replaces_its_variant_alone_and_names_what_users_lose() {
    let (server, demo) = (Server::new(), Demo::new());
    demo.publish(&server, "");
    let before = server.files("v1");
    // Another machine's variants stay.
    server.put("v1", "build/torch-stable-abi211-cu130-aarch64-linux/__init__.py", Some("theirs"));
    server.put("v1", "notes.txt", Some("mine"));
    demo.variant(VARIANTS[0], "\"scaled\"");
    let plan = demo.publish(&server, "--dry-run");
    // The other variant comes first, and is as it was.
    assert_eq!(plan["plan"]["public_api"], json!({"names": ["scale"], "gained": [], "lost": []}));
    demo.variant(VARIANTS[1], "\"scaled\"");
    let ran = demo.run(&server, "publish --unproved --dry-run --repo acme/demo");
    ran.expect(
        0,
        &["v1: 4 unchanged", "replace build/torch-stable-abi211-cu130-x86_64-linux/__init__.py", "lose scale"],
    );
    demo.variant(VARIANTS[1], "\"scale\"");
    demo.publish(&server, "");
    let after = server.files("v1");
    for (path, digest) in &before {
        let changes =
            path.ends_with("cu130-x86_64-linux/__init__.py") || path.ends_with("cu130-x86_64-linux/metadata.json");
        assert_eq!(after[path] != *digest, changes, "{path}");
    }
    assert!(after.contains_key("notes.txt") && after.len() == before.len() + 2, "{after:?}");
    // A file that is gone from the variant goes, and nothing else.
    let stale = format!("build/{}/stale.py", VARIANTS[1]);
    let metadata = demo.root.join(format!("build/{}/metadata.json", VARIANTS[1]));
    let text = fs::read_to_string(&metadata).unwrap();
    let listed =
        text.replace("\"files\":{", "\"files\":{\"stale.py\":\"LCa0a2j/xo/5m0U8HTBBNBNCLXBkg7+g+YpeiGJm564=\",");
    server.put("v1", &format!("build/{}/metadata.json", VARIANTS[1]), Some(&listed));
    server.put("v1", &stale, Some("foo"));
    let report = demo.publish(&server, "");
    assert_eq!(report["plan"]["branches"][0]["deletes"], json!([stale]));
    assert_eq!(server.files("v1"), after);
}

#[test]
fn what_somebody_else_put_there_is_never_lost() {
    let (server, demo) = (Server::new(), Demo::new());
    demo.publish(&server, "");
    let top = format!("build/{}", VARIANTS[0]);
    let init = fs::read_to_string(demo.root.join(&top).join("__init__.py")).unwrap();
    let refused = |path: &str, text: Option<&str>, says: &str, undo: Option<&str>| {
        server.put(if path.contains('/') { "v1" } else { "main" }, path, text);
        let before = server.state()["repos"].clone();
        for options in ["", " --dry-run"] {
            let ran = demo.run(&server, &format!("publish --unproved{options}"));
            ran.expect(3, &["refused", says, "--force"]);
        }
        assert_eq!(server.state()["repos"], before);
        server.put(if path.contains('/') { "v1" } else { "main" }, path, undo);
    };
    refused(&format!("{top}/notes.txt"), Some("mine"), "notes.txt (added)", None);
    refused(&format!("{top}/__init__.py"), Some("mine"), "__init__.py (edited)", Some(&init));
    refused(&format!("{top}/metadata.json"), Some("{}"), "without digests: another program's", Some("{}"));
    let forced = demo.publish(&server, "--force");
    assert_eq!(forced["status"], "uploaded");
    let page = server.files("main")["README.md"].clone();
    refused("README.md", Some("# my own words"), "README.md (edited, or somebody else's)", Some("# x"));
    demo.publish(&server, "--force");
    assert_eq!(server.files("main")["README.md"], page);
    assert_eq!(demo.publish(&server, "")["status"], "no_changes");
    // A removed file comes back.
    server.put("v1", &format!("{top}/__init__.py"), None);
    demo.publish(&server, "");
    assert!(server.files("v1").contains_key(&format!("{top}/__init__.py")));
}

#[test]
fn each_refusal_of_the_hub_names_the_next_step_and_passing_ones_are_tried_again() {
    let (server, demo) = (Server::new(), Demo::new());
    let with_token = |token: &str| Ran::of(demo.command(&server, "publish --unproved").env("HF_TOKEN", token));
    Ran::of(demo.command(&server, "publish --unproved").env_remove("HF_TOKEN")).expect(1, &["token with write access"]);
    let ran = with_token("hf_wrong");
    ran.expect(1, &["creating acme/demo", "answered 401", "/settings/tokens"]);
    assert!(!ran.err.contains("hf_wrong"), "the server repeats the token: {ran:?}");
    with_token("hf_reader").expect(1, &["answered 403", "kernels-community"]);
    with_token("two words").expect(1, &["HF_TOKEN is not a token"]);
    let commit = "POST /api/kernels/acme/demo/commit";
    for (status, says) in [(403, "--create-pr"), (409, "in a minute"), (412, "somebody else"), (429, "9999 seconds")] {
        server.fault(&json!({"status": status, "of": commit, "times": 99, "retry": 9999}));
        demo.run(&server, "publish --unproved").expect(1, &["committing", &format!("answered {status}"), says]);
        // Nothing of it can be seen.
        assert_eq!(server.state()["repos"]["acme/demo"]["branches"]["v1"], Value::Null);
    }
    // Those that pass.
    for (status, of) in
        [(429, commit), (500, commit), (412, commit), (503, "PUT /_lfs"), (502, "GET /api"), (409, commit)]
    {
        server.fault(&json!({"status": status, "of": of, "times": 2, "retry": 0}));
        demo.variant(VARIANTS[0], &format!("\"scale\", \"{status}\""));
        let ran = demo.run(&server, "publish --unproved");
        ran.expect(0, &["published"]);
    }
    server.fault(&json!({}));
    assert_eq!(demo.publish(&server, "")["status"], "no_changes");
    assert_eq!(server.state()["half"], json!([]));
}

#[test]
fn a_hub_that_wants_large_files_in_another_way_is_told_of_before_any_is_sent() {
    let (server, demo) = (Server::new(), Demo::new());
    // tests/cuda/xet.rs has a Python that can send them.
    for (lfs, words) in [
        ("xet", ["large files by Xet", "python3 cannot send them", "hf_xet", "--python"]),
        ("parts", ["preparing 2 large files", "`multipart`", "nothing was sent", "kernel-builder upload"]),
    ] {
        server.fault(&json!({"lfs": lfs}));
        demo.run(&server, "publish --unproved").expect(1, &words);
        assert_eq!(server.state()["repos"]["acme/demo"]["branches"]["v1"], Value::Null);
    }
    server.fault(&json!({}));
    demo.run(&server, "publish --unproved --tag v1").expect(1, &["`v1` is the name of a version's branch", "v1.0"]);
    demo.run(&server, "publish --unproved --tag v1.0").expect(0, &["published"]);
    assert!(!server.state()["log"].to_string().contains("_lfs/part"));
}

#[test]
fn the_token_is_in_no_argument_and_goes_nowhere_unencrypted() {
    let (server, demo) = (Server::new(), Demo::new());
    // Tells what curl was called with.
    let bin = demo.test.root().join("bin");
    let log = demo.test.root().join("arguments");
    script(&bin.join("curl"), format!("echo \"$@\" >> {}\nexec /usr/bin/curl \"$@\"", log.display()));
    let path = format!("{}:/usr/bin:/bin", bin.display());
    Ran::of(demo.command(&server, "publish --unproved").env("PATH", &path)).expect(0, &["published"]);
    let said = fs::read_to_string(&log).unwrap();
    assert!(said.lines().all(|line| line == "--disable --config -"), "{said}");
    let http = || demo.command(&server, "publish --unproved");
    Ran::of(http().env("HF_ENDPOINT", "http://hub.example")).expect(1, &["a token is sent over https"]);
    Ran::of(http().env("HF_ENDPOINT", "hub.example")).expect(1, &["HF_ENDPOINT", "https://"]);
    Ran::of(http().env("HF_ENDPOINT", "http://127.0.0.1:1")).expect(1, &["127.0.0.1:1 cannot be reached"]);
    Ran::of(http().env("PATH", "/nowhere")).expect(1, &["install the package curl"]);
    // The file of `hf auth login`, and CI's identity.
    write(&demo.test.home.join(".cache/huggingface/token"), "hf_secret\n");
    Ran::of(http().env_remove("HF_TOKEN")).expect(0, &["unchanged"]);
    let oidc = |resource: &str, jwt: &str| {
        Ran::of(http().env_remove("HF_TOKEN").env("HF_OIDC_RESOURCE", resource).env("HF_OIDC_ID_TOKEN", jwt))
    };
    oidc("kernels/acme/demo", "jwt-of-the-job").expect(0, &["unchanged"]);
    oidc("kernels/acme/demo", "another").expect(1, &["trusted publisher", "no such publisher"]);
    oidc("kernels/acme/other", "jwt-of-the-job").expect(1, &["kernels/acme/other", "kernels/acme/demo"]);
    Ran::of(http().env_remove("HF_TOKEN").env("HF_OIDC_RESOURCE", "kernels/acme/demo")).expect(1, &["id-token: write"]);
}

#[test]
fn changes_are_proposed_where_a_branch_is_and_never_made() {
    let (server, demo) = (Server::new(), Demo::new());
    demo.run(&server, "publish --unproved --create-pr").expect(1, &["makes none"]);
    demo.publish(&server, "--private");
    assert_eq!(server.state()["repos"]["acme/demo"]["private"], true);
    demo.run(&server, "publish --unproved --create-pr --branch v2").expect(1, &["no branch v2"]);
    demo.variant(VARIANTS[0], "\"scale\", \"more\"");
    let before = server.content();
    let report = demo.publish(&server, "--create-pr");
    assert_eq!(report["status"], "pull_request_created");
    assert_eq!(report["pull_requests"][0]["branch"], "v1");
    assert!(report["pull_requests"][0]["url"].as_str().unwrap().ends_with("/discussions/1"), "{report:#}");
    assert_eq!(server.content(), before);
    demo.run(&server, "publish --unproved --tag v1.0").expect(0, &["published"]);
    demo.variant(VARIANTS[0], "\"scale\"");
    demo.run(&server, "publish --unproved --tag v1.0").expect(1, &["tag v1.0 for another commit"]);
}

#[test]
fn nothing_is_sent_of_a_project_that_is_not_in_order() {
    let (server, demo) = (Server::new(), Demo::new());
    let refused = |options: &str, says: &[&str]| demo.run(&server, &format!("publish{options}")).expect(1, says).code;
    refused("", &["no evidence covers", "no record of demo", "--unproved"]);
    let path = |name: &str| demo.root.join(name);
    let edit = |name: &str, from: &str, to: &str, says: &[&str]| {
        let text = fs::read_to_string(path(name)).unwrap();
        assert!(text.contains(from), "{text}");
        write(&path(name), text.replace(from, to));
        refused(" --unproved", says);
        write(&path(name), text);
    };
    edit("build.toml", "acme/demo", "your-name/demo", &["still `your-name/demo`", "--repo"]);
    edit("build.toml", "version = 1", "version = 2", &["is demo version 1, and build.toml says demo version 2"]);
    edit("CARD.md", "{{ repo_id }}", "{{ repo }}", &["CARD.md", "`repo` is not known"]);
    edit("build.toml", "Apache-2.0", "", &["kernels check", "finds 1 error", "license"]);
    let top = format!("build/{}", VARIANTS[0]);
    edit(&format!("{top}/__init__.py"), "scale", "stale", &["__init__.py has another digest"]);
    edit(&format!("{top}/metadata.json"), "sha256", "md5", &["md5, which is not known"]);
    edit(&format!("{top}/metadata.json"), "\"digest\"", "\"digests\"", &["has no digests"]);
    let provenance = |commit: &str| {
        let kernel = json!({"kernel-builder": {"version": "1"}, "kernel": {"commit": commit, "dirty": true}});
        format!("\"provenance\":{kernel},\"digest\"")
    };
    let dirty = provenance(&"5a".repeat(20));
    edit(&format!("{top}/metadata.json"), "\"digest\"", &dirty, &["changes that no commit held", "--allow-dirty"]);
    edit(&format!("{top}/metadata.json"), "\"digest\"", &provenance("5a5a"), &["`5a5a` is not a commit of 40 or 64"]);
    write(&path(&top).join("mine.txt"), "mine");
    refused(" --unproved", &["mine.txt is not in the list"]);
    fs::remove_file(path(&top).join("mine.txt")).unwrap();
    refused(" --unproved --branch main", &["and not to `main`"]);
    demo.run(&server, "publish --repo demo").expect(2, &["OWNER/NAME"]);
    // Git, where the project lies in a repository.
    let git = |typed: &str| demo.test.git(&demo.root, typed.split(' '));
    git("init -q");
    git("add -A .");
    git("commit -qm first");
    write(&path("notes.md"), "not committed");
    let path_of_git = std::env::var("PATH").unwrap();
    let dirty = |options: &str| {
        Ran::of(demo.command(&server, &format!("publish --unproved{options}")).env("PATH", &path_of_git))
    };
    dirty("").expect(1, &["1 change that no commit holds", "notes.md", "--allow-dirty"]);
    assert_eq!(server.state()["log"], json!([]), "nothing may be asked before all is in order");
    dirty(" --allow-dirty").expect(0, &["published"]);
    fs::remove_file(path("notes.md")).unwrap();
    dirty("").expect(0, &["unchanged"]);
}

/// No commit holds what git ignores: neither a benchmark nor the whole project.
#[test]
fn publish_of_files_that_git_ignores() {
    let (server, demo) = (Server::new(), Demo::new());
    let git = |folder: &std::path::Path, typed: &str| demo.test.git(folder, typed.split(' '));
    let path_of_git = std::env::var("PATH").unwrap();
    let publish = |options: &str| {
        Ran::of(demo.command(&server, &format!("publish --unproved{options}")).env("PATH", &path_of_git))
    };
    // A repository around it, which ignores it.
    let outer = demo.root.parent().unwrap();
    write(&outer.join(".gitignore"), "demo/\n");
    git(outer, "init -q");
    git(outer, "add .gitignore");
    git(outer, "commit -qm outer");
    publish("").expect(1, &["!! demo/", "`git add --force`", "--allow-dirty"]);
    // Its own, which tracks it.
    git(&demo.root, "init -q");
    git(&demo.root, "add -A .");
    git(&demo.root, "commit -qm first");
    publish(" --dry-run").expect(0, &[]);
    let private = "from kernels.benchmark import Benchmark\n\n\nclass Private(Benchmark):\n    pass\n";
    write(&demo.root.join("benchmarks/benchmark_private.py"), private);
    write(&demo.root.join(".git/info/exclude"), "benchmark_private.py\n");
    publish("").expect(1, &["1 change that no commit holds", "!! benchmarks/benchmark_private.py"]);
    assert_eq!(server.state()["log"].to_string().matches("POST").count(), 0);
    publish(" --allow-dirty").expect(0, &["published"]);
    assert!(server.files("v1").contains_key("benchmarks/benchmark_private.py"));
    git(&demo.root, "add --force benchmarks/benchmark_private.py");
    git(&demo.root, "commit -qm second");
    publish("").expect(0, &["published"]);
}
