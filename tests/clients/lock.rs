//! `skills-lock.json` beside npm's `skills`: each reads what the other wrote.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::install::programs;
use crate::support::site::Repository;
use crate::support::{Ran, Test, exists, not_run, sha256, tree, write_skill};

const URL: &str = "https://git.example.com/acme/skills.git";

/// npm's `skills` at the version that the benchmark pins, run by the clients' node.
fn npm(test: &Test, typed: &str) -> Option<Ran> {
    let node = &programs()?.node;
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let setup = Ran::of(Command::new(root.join("tests/clients/setup")).arg(root.join("benches/peers")));
    if setup.code != 0 {
        not_run(&format!("no npm skills to test with: {}", setup.err.trim_end()));
        return None;
    }
    let script = Path::new(setup.out.trim_end()).join("node_modules/skills/bin/cli.mjs");
    let mut command = test.command_of(node);
    command.env("DISABLE_TELEMETRY", "1").env("DO_NOT_TRACK", "1").arg(script).args(typed.split(' '));
    Some(Ran::ok(&mut command))
}

fn lock(test: &Test) -> Value {
    serde_json::from_str(&fs::read_to_string(test.at("skills-lock.json")).unwrap()).unwrap()
}

fn empty(test: &Test) {
    for folder in [".claude", ".agents", ".codex"] {
        let _ = fs::remove_dir_all(test.at(folder));
    }
}

#[test]
fn each_installs_what_the_other_locked() {
    let test = Test::new();
    let repository = Repository::new(&test, "skills");
    let source = repository.at("skills/review");
    write_skill(&source, "review", "1");
    // Names that JavaScript orders otherwise than bytes are.
    for name in ["B.md", "a-b.md", "a_b.md", "a b.md", "a2.md", "A10.md", "a/c.md", "zz(1).md"] {
        repository.write(&format!("skills/review/references/{name}"), name);
    }
    repository.commit();
    let Some(ran) = npm(&test, &format!("add {URL} -y -a claude-code")) else { return };
    let theirs = lock(&test);
    let (hash, entry) = (&theirs["skills"]["review"]["computedHash"], &theirs["skills"]["review"]);
    assert!(hash.is_string(), "{ran:#?}");
    // Ours reads theirs, checks the digest, and keeps all that they wrote.
    empty(&test);
    test.ok("skills sync").expect(0, &["installed"]);
    assert_eq!(tree(test.at(".agents/skills/review")), tree(&source));
    let ours = lock(&test);
    for (key, value) in entry.as_object().unwrap() {
        assert_eq!(&ours["skills"]["review"][key], value, "{key}");
    }
    // Theirs reads ours.
    empty(&test);
    fs::remove_file(test.at("skills-lock.json")).unwrap();
    test.ok(&format!("skills add {URL} --claude -y"));
    assert_eq!(&lock(&test)["skills"]["review"]["computedHash"], hash);
    empty(&test);
    npm(&test, "experimental_install");
    assert!(exists(test.at(".agents/skills/review/references/a/c.md")));
    test.ok("skills sync").expect(0, &["adopted"]);
    test.ok("skills status").expect(0, &["current"]);
}

/// A site's index, as both read it.
#[test]
fn each_reads_the_entry_of_a_site() {
    let (test, site) = (Test::new(), crate::support::site::Site::new());
    let page = "---\nname: page\ndescription: One file. Use when tested.\n---\n# Page\n";
    let digest = format!("sha256:{}", sha256(page));
    let index = serde_json::json!({
        "$schema": "https://schemas.agentskills.io/discovery/0.2.0/schema.json",
        "skills": [{"name": "page", "type": "skill-md", "description": "d", "url": "/page.md", "digest": digest}],
    });
    site.put("/.well-known/agent-skills/index.json", index.to_string());
    site.put("/page.md", page);
    let Some(_) = npm(&test, &format!("add {} -y -a claude-code", site.url(""))) else { return };
    let theirs = lock(&test);
    empty(&test);
    test.ok("skills sync").expect(0, &["installed"]);
    let ours = lock(&test);
    for key in ["source", "sourceUrl", "sourceType", "computedHash", "wellKnownDigest"] {
        assert_eq!(ours["skills"]["page"][key], theirs["skills"]["page"][key], "{key}");
    }
    empty(&test);
    npm(&test, "experimental_install");
    assert!(exists(test.at(".agents/skills/page/SKILL.md")));
}
