//! `kernels skills pack --as`: a folder for marketplaces; tests/clients installs it with the real clients.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::Value;

use crate::support::{Test, exists, snapshot, tree, write_skill};

const ALL: &str = "claude-plugin,codex-plugin,gemini-extension,gh";

#[test]
fn a_folder_has_the_skill_and_what_each_client_reads() {
    let test = Test::new();
    write_skill(&test.at("review"), "review", "1.2.0");
    test.ok(&format!("skills pack review --as {ALL} --owner Ada -o out")).expect(0, &["out", "claude-plugin", "gh"]);
    assert_eq!(tree(test.at("out/skills/review")), tree(test.at("review")));
    for (file, pointer, value) in [
        (".claude-plugin/plugin.json", "/version", "1.2.0"),
        (".claude-plugin/plugin.json", "/author/name", "Ada"),
        (".claude-plugin/marketplace.json", "/plugins/0/source", "./"),
        (".claude-plugin/marketplace.json", "/owner/name", "Ada"),
        (".codex-plugin/plugin.json", "/skills", "./skills/"),
        (".agents/plugins/marketplace.json", "/plugins/0/source/path", "./"),
        ("gemini-extension.json", "/name", "review"),
        ("gemini-extension.json", "/version", "1.2.0"),
    ] {
        let json: Value = serde_json::from_str(&fs::read_to_string(test.at("out").join(file)).unwrap()).unwrap();
        assert_eq!(json.pointer(pointer).and_then(Value::as_str), Some(value), "{file} {pointer}");
    }
    // The same again is no change; without -o the folder is named after the skill.
    let before = snapshot(test.at("out"));
    test.ok(&format!("skills pack review --as {ALL} --owner Ada -o out"));
    assert_eq!(snapshot(test.at("out")), before);
    test.ok("skills pack review --as gh");
    assert!(snapshot(test.at("review-plugin")).keys().all(|path| path.starts_with("skills/")));
    test.ok("skills add review-plugin/skills -s review --claude");
}

#[test]
fn what_a_plugin_needs_and_the_skill_lacks_is_named() {
    let test = Test::new();
    write_skill(&test.at("review"), "review", "1");
    test.run("skills pack review --as claude-plugin").expect(1, &["--owner", "author"]);
    test.ok("skills pack review --as gemini-extension -o gemini");
    test.write("plain/SKILL.md", "---\nname: plain\ndescription: Does it. Use when asked.\n---\nbody\n");
    test.run("skills pack plain --as gemini-extension").expect(1, &["version", "metadata"]);
    test.ok("skills pack plain --as gh");
    test.run("skills pack review --as npm").expect(2, &["claude-plugin", "gh"]);
    test.run("skills pack review --owner Ada").expect(2, &["--as"]);
    assert!(!exists(test.at("review-plugin")));
}

#[test]
fn nothing_that_is_there_is_replaced() {
    let test = Test::new();
    write_skill(&test.at("review"), "review", "1");
    test.write("out/mine", "mine");
    test.write("file", "mine");
    symlink("elsewhere", test.at("link")).unwrap();
    let before = snapshot(&test.project);
    for place in ["out", "file", "link", "."] {
        test.run(&format!("skills pack review --as gh -o {place}")).expect(3, &["is there and differs"]);
    }
    test.run("skills pack review --as gh -o no/folder/out").expect(1, &["no/folder/out"]);
    assert_eq!(snapshot(&test.project), before);
}
