//! `kernels publish` and `kernels hub` against a Hub that lies, somebody else who writes at the same time, and a project with
//! traps: nothing is written outside of the cache, nothing of the user's is sent elsewhere, nothing grows without an end.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use serde_json::{Value, json};

use crate::support::hub::{Demo, Server, VARIANTS, base64};
use crate::support::{Ran, exists, picture, write};

/// A Hub with `acme/demo`, version 1.
fn published() -> (Server, Demo) {
    let (server, demo) = (Server::new(), Demo::new());
    demo.publish(&server, "");
    (server, demo)
}

/// The command fails with these words while the Hub lies, and leaves nothing but the library's cache.
#[track_caller]
fn refused(server: &Server, demo: &Demo, lie: &Value, typed: &str, words: &[&str]) {
    let cache = demo.test.home.join(".cache/huggingface/hub/kernels--acme--demo");
    let before = (picture(&demo.test.project), picture(&demo.test.outside()));
    server.lie(lie);
    demo.run(server, typed).expect(1, words);
    server.lie(&json!({}));
    assert!((picture(&demo.test.project), picture(&demo.test.outside())) == before, "{typed}: {lie}");
    let home: Vec<_> = crate::support::list(&demo.test.home.join(".cache/huggingface/hub"));
    assert!(home.iter().all(|path| *path == cache), "{typed}: {lie}: {home:?}");
}

const DOWNLOAD: &str = "hub download acme/demo@1 --all-variants";

#[test]
fn a_hub_that_lies_about_commits_sizes_and_contents_is_not_believed() {
    let (server, demo) = published();
    let state = server.state();
    let commit = state["repos"]["acme/demo"]["branches"]["v1"]["commit"].as_str().unwrap().to_owned();
    let lie = |of: &str, old: &str, new: &str| json!({"of": format!("GET {of}"), "replace": {old: new}});
    let of_refs = |to: &str| lie("/api/kernels/acme/demo/refs", &commit, to);
    for to in ["../../../../../../planted", "/tmp/kernels-planted", "", "main"] {
        refused(&server, &demo, &of_refs(to), DOWNLOAD, &["as the commit of \"v1\"", "which is none"]);
        refused(&server, &demo, &of_refs(to), "publish --unproved", &["which is none"]);
    }
    let size = fs::metadata(demo.root.join(format!("build/{}/__init__.py", VARIANTS[0]))).unwrap().len();
    let (size, less) = (format!("\"size\": {size}"), "\"size\": 3");
    let words = ["sends more than 3 bytes"];
    refused(&server, &demo, &lie("/api/kernels/acme/demo/tree", &size, less), DOWNLOAD, &words);
    let contents = lie("/kernels/acme/demo/resolve", "return 2 * x", "return 3 * x");
    refused(&server, &demo, &contents, DOWNLOAD, &["does not match its digest"]);
    refused(&server, &demo, &lie("/_cdn", "PyInit", "pyInit"), DOWNLOAD, &["does not match its digest"]);
    // A path that leads out is no part of a variant.
    let up = "/../../../../../../planted.py";
    let path =
        lie("/api/kernels/acme/demo/tree", &format!("{}/__init__.py", VARIANTS[0]), &format!("{}{up}", VARIANTS[0]));
    server.lie(&path);
    demo.run(&server, DOWNLOAD).expect(0, &["2 variants"]);
    demo.run(&server, "hub verify acme/demo --all-variants").expect(1, &["__init__.py is listed but does not exist"]);
    server.lie(&json!({}));
    assert!(!demo.test.root().join("planted.py").exists() && !demo.test.home.join("planted.py").exists());
    demo.run(&server, DOWNLOAD).expect(0, &["2 variants"]);
    // A lock file of a repository that somebody cloned.
    for bad in ["../../../../planted", "main", ""] {
        let rows = json!([{"dependency": {"repo-id": "acme/demo", "version": 1}, "lock": {"commit": bad}}]);
        write(&demo.root.join("kernels.lock"), rows.to_string());
        demo.run(&server, "hub download .").expect(1, &["kernels.lock", "which is none"]);
    }
    // A clone's link leads to files of the user's, and a pipe to nothing.
    fs::write(demo.test.home.join("token"), "a secret\n").unwrap();
    for (name, typed) in [("kernels.lock", "hub download ."), ("pyproject.toml", "hub lock .")] {
        let _ = fs::remove_file(demo.root.join(name));
        symlink(demo.test.home.join("token"), demo.root.join(name)).unwrap();
        let ran = demo.run(&server, typed);
        ran.expect(1, &[name, "is a link out of its folder"]);
        assert!(!ran.err.contains("a secret"), "{ran:#?}");
        fs::remove_file(demo.root.join(name)).unwrap();
        Ran::ok(demo.test.command_of("mkfifo").arg(demo.root.join(name)));
        demo.run(&server, typed).expect(1, &[name, "a regular file"]);
    }
}

#[test]
fn an_answer_without_an_end_is_given_up() {
    let (server, demo) = published();
    let endless = |of: &str| json!({"of": of, "endless": true});
    let of_file = endless("GET /kernels/acme/demo/resolve");
    refused(&server, &demo, &of_file, DOWNLOAD, &["sends more than"]);
    refused(&server, &demo, &of_file, "hub info acme/demo", &["sends more than"]);
    refused(&server, &demo, &endless("GET /_cdn"), DOWNLOAD, &["sends more than"]);
    refused(&server, &demo, &endless("GET /api"), "hub info acme/demo", &["sends more than 67 MB"]);
    demo.variant(VARIANTS[0], "\"scale\", \"more\"");
    refused(&server, &demo, &endless("POST /api/kernels/acme/demo/preupload"), "publish --unproved", &["67 MB"]);
}

#[test]
fn a_redirection_leads_to_no_file_and_takes_no_token_along() {
    let (server, demo, other) = (Server::new(), Demo::new(), Server::new());
    demo.publish(&server, "");
    let to = |of: &str, to: &str| json!({"of": of, "status": 302, "headers": {"Location": to}});
    for address in ["file:///etc/passwd", "ftp://127.0.0.1/x", "gopher://127.0.0.1/x"] {
        refused(&server, &demo, &to("GET /kernels/acme/demo/resolve", address), DOWNLOAD, &["rotocol"]);
        refused(&server, &demo, &to("GET /api", address), "publish --unproved", &["rotocol"]);
    }
    refused(&server, &demo, &to("GET /api", "/api/kernels/acme/demo"), DOWNLOAD, &["redirects"]);
    for of in ["GET /api", "POST /api", "DELETE /api", "GET /kernels"] {
        demo.variant(VARIANTS[0], &format!("\"scale\", \"{}\"", of.len()));
        server.lie(&to(of, &format!("{}/caught", other.endpoint())));
        demo.run(&server, "publish --unproved");
        demo.run(&server, DOWNLOAD);
    }
    let asked = other.state()["log"].as_array().unwrap().clone();
    assert!(asked.iter().any(|one| one["request"] == "GET /caught"), "{asked:?}");
    assert!(asked.iter().all(|one| one["token"].is_null() && one["request"] == "GET /caught"), "{asked:?}");
}

#[test]
fn large_files_go_to_no_other_place_and_take_no_file_along() {
    let (server, demo) = (Server::new(), Demo::new());
    let batch = "POST /kernels/acme/demo.git/info/lfs/objects/batch";
    let lie = |old: &str, new: &str| json!({"of": batch, "replace": {old: new}});
    let localhost = format!("http://localhost:{}", server.port);
    for (lie, why) in [
        (lie(&localhost, "http://192.0.2.1"), "an address without https"),
        (lie(&localhost, "file:///tmp"), "an address without https"),
        (lie(&localhost, "http://localhost@192.0.2.1"), "an address without https"),
        (lie("\"X-Amz\"", "\"@/etc/passwd\""), "is no name of a header"),
        (lie("\"X-Amz\": \"1\"", "\"X-Amz\": \"1\\r\\nX-Other: 2\""), "control character"),
    ] {
        refused(&server, &demo, &lie, "publish --unproved", &[why]);
        assert_eq!(server.state()["repos"]["acme/demo"]["branches"]["v1"], Value::Null);
    }
    demo.publish(&server, "");
}

#[test]
fn a_servers_words_control_no_terminal_and_repeat_no_token() {
    let (server, demo) = published();
    let words = r#""error": "hf_secret \u001b[8mhidden\u001b[2J\r\u202e", "branches""#;
    server.lie(&json!({"of": "GET /api/kernels/acme/demo/refs", "status": 403, "replace": {"\"branches\"": words}}));
    let ran = demo.run(&server, "hub info acme/demo");
    ran.expect(1, &["answered 403", "hidden"]);
    assert!(!ran.err.contains("hf_secret") && !ran.err.contains(['\u{1b}', '\u{202e}', '\r']), "{ran:?}");
    server.lie(&json!({}));
    let top = format!("build/{}", VARIANTS[0]);
    server.put("v1", &format!("{top}/\u{1b}[8m\u{1b}[1A\u{202e}.py"), Some("x"));
    let ran = demo.run(&server, "hub verify acme/demo --all-variants");
    ran.expect(1, &["is not in the list of digests"]);
    assert!(!ran.out.contains(['\u{1b}', '\u{202e}']), "{ran:?}");
    let ran = demo.run(&server, "publish --unproved --dry-run");
    ran.expect(3, &["(added)"]);
    assert!(!ran.err.contains(['\u{1b}', '\u{202e}']), "{ran:?}");
}

/// Somebody else commits between the plan and the commit.
#[test]
fn a_branch_that_moves_meanwhile_is_planned_anew() {
    let (server, demo) = published();
    let top = format!("build/{}", VARIANTS[0]);
    let put = |of: &str, path: &str, text: &str| {
        let files = json!({path: base64(text.as_bytes())});
        server.lie(&json!({"of": of, "put": {"repo": "acme/demo", "branch": "v1", "files": files}}));
    };
    // A file beside the variants stays, also where the branch has moved at the last moment.
    for (number, of) in
        ["POST /api/kernels/acme/demo/preupload", "POST /api/kernels/acme/demo/commit"].into_iter().enumerate()
    {
        demo.variant(VARIANTS[0], &format!("\"scale\", \"n{number}\""));
        put(of, &format!("note{number}.txt"), "mine");
        demo.publish(&server, "");
        assert!(server.files("v1").contains_key(&format!("note{number}.txt")));
    }
    // One in the variant is refused, and not lost.
    demo.variant(VARIANTS[0], "\"scale\", \"last\"");
    put("POST /api/kernels/acme/demo/commit", &format!("{top}/__init__.py"), "theirs");
    demo.run(&server, "publish --unproved").expect(3, &["__init__.py (edited)", "--force"]);
    assert_eq!(server.text("v1", &format!("{top}/__init__.py")), "theirs");
    // The first version, which somebody else makes while this one is on its way.
    let (server, demo) = (Server::new(), Demo::new());
    let files = json!({format!("{top}/theirs.py"): base64(b"theirs"), format!("{top}/metadata.json"): base64(b"{}")});
    let put = json!({"repo": "acme/demo", "branch": "v1", "files": files});
    server.lie(&json!({"of": "POST /api/kernels/acme/demo/branch/v1", "put": put}));
    demo.run(&server, "publish --unproved").expect(3, &["without digests: another program's"]);
    assert_eq!(server.text("v1", &format!("{top}/theirs.py")), "theirs");
}

#[test]
fn two_publish_a_first_version_at_once_and_both_are_in_it() {
    let demos = [Demo::of(&VARIANTS[..1]), Demo::of(&VARIANTS[1..])];
    for _ in 0..2 {
        let server = Server::new();
        std::thread::scope(|scope| {
            for demo in &demos {
                scope.spawn(|| demo.run(&server, "publish --unproved"));
            }
        });
        for demo in &demos {
            demo.run(&server, "publish --unproved --force").expect(0, &["v1"]);
        }
        let files = server.files("v1");
        for variant in VARIANTS {
            assert!(files.contains_key(&format!("build/{variant}/metadata.json")), "{files:?}");
        }
        let state = server.state();
        assert_eq!(state["half"], json!([]));
        let branches: Vec<&String> = state["repos"]["acme/demo"]["branches"].as_object().unwrap().keys().collect();
        assert_eq!(branches, ["main", "v1"]);
    }
}

/// A link that somebody proposed for the project would publish what lies elsewhere on the machine of who publishes it.
#[test]
fn nothing_outside_of_the_project_is_published() {
    let (server, demo) = (Server::new(), Demo::new());
    let secret = demo.test.outside().join("token");
    write(&secret, "hf_of_somebody");
    for path in ["benchmarks/benchmark_more.py", "CARD.md"] {
        let path = demo.root.join(path);
        let kept = fs::read(&path).ok();
        let _ = fs::remove_file(&path);
        symlink(&secret, &path).unwrap();
        demo.run(&server, "publish --unproved --dry-run").expect(1, &["leads to", "token", "is not in the project"]);
        fs::remove_file(&path).unwrap();
        if let Some(bytes) = kept {
            fs::write(&path, bytes).unwrap();
        }
    }
    let link = demo.root.join(format!("build/{}/more.py", VARIANTS[0]));
    symlink(&secret, &link).unwrap();
    demo.run(&server, "publish --unproved").expect(1, &["is not a file"]);
    fs::remove_file(&link).unwrap();
    // Inside of it a link is a file.
    fs::rename(demo.root.join("CARD.md"), demo.root.join("page.md")).unwrap();
    symlink("page.md", demo.root.join("CARD.md")).unwrap();
    assert_eq!(server.state()["log"], json!([]));
    demo.publish(&server, "");
    assert!(!exists(demo.test.home.join(".cache/huggingface/hub")));
}

/// Kernels that name each other as what they depend on.
#[test]
fn dependencies_in_a_circle_are_locked_once() {
    let (server, demo) = published();
    let path = format!("build/{}/metadata.json", VARIANTS[0]);
    let text = server.text("v1", &path);
    let circle = text.replacen('{', "{\"kernel-depends\": [{\"repo-id\": \"acme/demo\", \"version\": 1}],", 1);
    server.put("v1", &path, Some(&circle));
    write(&demo.root.join("pyproject.toml"), "[tool.kernels.dependencies]\n\"acme/demo\" = 1\n");
    demo.run(&server, "hub lock").expect(0, &["acme/demo"]);
    let lock: Value = serde_json::from_str(&fs::read_to_string(demo.root.join("kernels.lock")).unwrap()).unwrap();
    assert_eq!(lock.as_array().unwrap().len(), 1);
}

/// What a Hub, or a project that somebody else wrote, has this machine run, write or wait for.
#[test]
fn a_strangers_project_runs_nothing_before_it_is_built() {
    let (server, demo) = published();
    // Python looks for modules in the current folder first.
    for name in ["warnings", "contextlib", "threading", "types", "abc"] {
        let ran = demo.root.join("ran");
        write(&demo.root.join(format!("{name}.py")), format!("open('{}', 'w')\nraise SystemExit(0)\n", ran.display()));
    }
    // A bare repository among the files of a clone, whose settings name a program that git is to run.
    let git = |arguments: &[&str]| demo.test.git(&demo.root, arguments);
    git(&["init", "-q", "--bare", "."]);
    let bare = ["--git-dir=.", "--work-tree=."];
    git(&[&bare[..], &["add", "-f", "build.toml"]].concat());
    git(&[&bare[..], &["commit", "-qm", "first"]].concat());
    let filter = format!("touch '{}'; cat", demo.root.join("ran").display());
    git(&["config", "--file", "config", "filter.x.clean", &filter]);
    git(&["config", "--file", "config", "core.bare", "false"]);
    git(&["config", "--file", "config", "core.worktree", "."]);
    write(&demo.root.join("info/attributes"), "* filter=x\n");
    fs::create_dir(demo.test.project.join(".git")).unwrap();
    write(&demo.root.join("build.toml"), fs::read_to_string(demo.root.join("build.toml")).unwrap());
    let path = std::env::var_os("PATH").unwrap();
    for (typed, code) in [
        ("publish --unproved --dry-run", 1),
        ("publish --unproved --dry-run --allow-dirty", 0),
        ("publish --unproved --dry-run --allow-dirty --python python3", 1),
        ("hub variants acme/demo@1", 0),
        ("hub variants acme/demo@1 --python python3", 0),
    ] {
        let ran = Ran::of(demo.command(&server, typed).env("PATH", &path));
        assert_eq!(ran.code, code, "{typed}: {ran:#?}");
        assert!(!demo.root.join("ran").exists(), "{typed}");
    }
}

#[test]
fn what_a_project_says_is_no_branch_of_another_kind_and_no_version_of_the_cache() {
    let (server, demo) = published();
    let manifest = demo.root.join("build.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    for branch in
        ["refs/heads/main", "refs/pr/1", "Main", "HEAD", "a..b", "v1/", "-v1", "v1.lock", "v1\\u001b[8m", "v 1"]
    {
        let with = text.replace("repo-id", &format!("branch = \"{branch}\"\nrepo-id"));
        assert_ne!(with, text);
        write(&manifest, with);
        demo.run(&server, "publish --unproved --dry-run").expect(1, &["variants go to a branch of a version"]);
    }
    write(&manifest, &text);
    // A lock names any commit as that of a version: one that somebody proposed, for example.
    let commit = || server.state()["repos"]["acme/demo"]["branches"]["v1"]["commit"].as_str().unwrap().to_owned();
    let proposed = commit();
    demo.variant(VARIANTS[0], "\"scale\", \"more\"");
    demo.publish(&server, "");
    demo.run(&server, DOWNLOAD).expect(0, &["downloaded acme/demo at v1"]);
    let cache = demo.test.home.join(".cache/huggingface/hub/kernels--acme--demo");
    let version = || fs::read_to_string(cache.join("refs/v1")).unwrap();
    assert_eq!(version(), commit());
    for dependency in [
        json!({"repo-id": "acme/demo", "version": 1}),
        json!({"repo-id": "acme/demo", "revision": "v1"}),
        json!({"repo-id": "acme/demo", "revision": ".."}),
        json!({"repo-id": "acme/demo", "revision": "\u{1b}[8m"}),
    ] {
        write(
            &demo.root.join("kernels.lock"),
            json!([{"dependency": dependency, "lock": {"commit": proposed}}]).to_string(),
        );
        demo.run(&server, "hub download . --all-variants").expect(0, &["downloaded acme/demo at", &proposed]);
        assert_eq!((version(), crate::support::list(&cache.join("refs")).len()), (commit(), 1));
    }
    // A file that is to be written leads elsewhere.
    let secret = demo.test.outside().join("secret");
    write(&secret, "mine");
    write(&demo.root.join("pyproject.toml"), "[tool.kernels.dependencies]\n\"acme/demo\" = 1\n");
    fs::remove_file(demo.root.join("kernels.lock")).unwrap();
    symlink(&secret, demo.root.join("kernels.lock")).unwrap();
    demo.run(&server, "hub lock").expect(1, &["kernels.lock", "no regular file"]);
    assert_eq!(fs::read_to_string(secret).unwrap(), "mine");
}

#[test]
fn a_card_ends_whatever_it_asks_for() {
    let (server, demo) = published();
    let card = demo.root.join("CARD.md");
    let loops = [&*"{% for f in functions %}".repeat(30), &*"{% endfor %}".repeat(30)].concat();
    demo.variant(VARIANTS[0], "\"scale\", \"more\"");
    demo.variant(VARIANTS[1], "\"scale\", \"more\"");
    for (text, says) in [("{% if name %}".repeat(70_000), "inside of each other"), (loops, "steps")] {
        write(&card, text);
        demo.run(&server, "publish --unproved --dry-run").expect(1, &["CARD.md", says]);
    }
    // One that nobody writes to.
    fs::remove_file(&card).unwrap();
    assert!(Command::new("mkfifo").arg(&card).status().unwrap().success());
    demo.run(&server, "publish --unproved --dry-run").expect(1, &["CARD.md", "not a regular file"]);
}

#[test]
fn a_hubs_answers_to_a_commit_lead_nowhere_and_control_no_terminal() {
    let (server, demo) = published();
    let planted = demo.test.outside().join("planted");
    let of_commit = |old: &str, new: &str| {
        server.lie(&json!({"of": "POST /api/kernels/acme/demo/commit", "replace": {old: new}}));
    };
    for (number, to) in
        [format!("{}/", planted.display()), "../../../../".to_owned(), "x".to_owned()].iter().enumerate()
    {
        demo.variant(VARIANTS[0], &format!("\"scale\", \"n{number}\""));
        of_commit("\"commitOid\": \"", &format!("\"commitOid\": \"{to}"));
        demo.run(&server, "publish --unproved").expect(1, &["committing to v1", "as the commit"]);
        assert!(!planted.exists());
    }
    demo.variant(VARIANTS[0], "\"scale\", \"last\"");
    of_commit("/discussions/", "/\\u001b[8m\\u202e\\r");
    let ran = demo.run(&server, "publish --unproved --create-pr");
    ran.expect(0, &["proposed"]);
    assert!(!ran.out.contains(['\u{1b}', '\u{202e}', '\r']), "{ran:?}");
    server.lie(&json!({}));
    // A file that is a folder as well.
    let top = format!("build/{}", VARIANTS[0]);
    server.put("v1", &format!("{top}/__init__.py/more.py"), Some("x"));
    demo.run(&server, DOWNLOAD).expect(1, &["__init__.py"]);
    // The first variant by name tells of all.
    let top = format!("build/{}", VARIANTS[1]);
    let metadata = server.text("v1", &format!("{top}/metadata.json"));
    let hidden =
        metadata.replace("Apache-2.0", "MIT\\u001b[8m\\u202e").replacen('{', "{\"source\": \"\\u001b[2J\",", 1);
    server.put("v1", &format!("{top}/metadata.json"), Some(&hidden));
    let ran = demo.run(&server, "hub info acme/demo");
    ran.expect(0, &["MIT"]);
    assert!(!ran.out.contains(['\u{1b}', '\u{202e}']), "{ran:?}");
}
