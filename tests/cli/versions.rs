//! Two real versions of the bundled skill: the first release, kept as a fixture, and the one in this binary.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{Test, snapshot, tree, write};
use kernels::skill::{Digest, lineage, source::Skill};

/// Version 0.1.0, packed with `kernels skills pack`.
const FIRST: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/cuda-kernels-0.1.0.skill");
const EMBEDDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/skills/cuda-kernels");

/// The version in this binary.
fn here() -> String {
    Skill::read(Path::new(EMBEDDED)).unwrap().version.unwrap()
}

/// An install of 0.1.0 for an agent, with the receipt of that release, or without one, as after a manual copy.
fn install_first(test: &Test, agent: &str, receipt: bool) -> PathBuf {
    test.ok(&format!("skills add {FIRST} --{agent}"));
    let folder = test.project.join(format!(".{agent}/skills/cuda-kernels"));
    let file = folder.join(".kernels.json");
    if receipt {
        // The receipt says that it came from the binary, not from an archive.
        let mut text: serde_json::Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        assert_eq!(text["version"], "0.1.0");
        text["source"] = serde_json::json!({ "kind": "embedded" });
        fs::write(&file, text.to_string()).unwrap();
    } else {
        fs::remove_file(&file).unwrap();
    }
    folder
}

fn state_of(agent: &str) -> String {
    format!(".{agent}/skills/cuda-kernels")
}

#[test]
fn the_fixture_is_the_first_version_as_it_was_shipped() {
    let first = Skill::read(Path::new(FIRST)).unwrap();
    let shipped = lineage::of("cuda-kernels").next().unwrap();
    assert_eq!(first.version.as_deref(), Some("0.1.0"));
    assert_eq!(shipped.version, "0.1.0");
    assert_eq!(first.digest, shipped.tree);
    let other: Digest = Skill::read(Path::new(EMBEDDED)).unwrap().digest;
    assert_ne!(first.digest, other, "this binary carries version 0.1.0 itself");
}

#[test]
fn an_untouched_first_version_is_stale_and_update_brings_this_one() {
    let test = Test::new();
    for (agent, receipt) in [("claude", true), ("codex", false)] {
        let folder = install_first(&test, agent, receipt);
        assert_eq!(test.state(&state_of(agent)), "stale", "receipt: {receipt}");
        test.run(&format!("skills status --{agent}")).expect(1, &["stale", &format!("0.1.0, here is {}", here())]);
        let before = snapshot(&folder);
        test.ok(&format!("skills update --{agent} --dry-run")).expect(0, &["update"]);
        assert_eq!(snapshot(&folder), before);
        test.ok(&format!("skills update --{agent}")).expect(0, &["updated"]);
        assert_eq!(tree(&folder), tree(EMBEDDED));
        assert_eq!(test.state(&state_of(agent)), "current");
        test.ok(&format!("skills status --{agent}")).expect(0, &[&here()]);
    }
}

#[test]
fn add_replaces_an_untouched_first_version_as_well() {
    let test = Test::new();
    for receipt in [true, false] {
        let folder = install_first(&test, "claude", receipt);
        test.ok("skills add --claude");
        assert_eq!(tree(&folder), tree(EMBEDDED));
        test.ok("skills remove cuda-kernels --claude");
    }
}

#[test]
fn an_edited_first_version_is_modified_and_its_edits_are_kept() {
    let test = Test::new();
    let folder = install_first(&test, "claude", true);
    let mine = "mine\n";
    let edited = folder.join("references/troubleshooting.md");
    write(&edited, mine);
    assert_eq!(test.state(&state_of("claude")), "modified");
    test.run("skills status").expect(1, &["modified", "0.1.0", "M references/troubleshooting.md"]);
    let before = snapshot(&folder);
    for command in ["skills update", "skills add --claude", "skills remove cuda-kernels"] {
        test.run(command).expect(3, &["M references/troubleshooting.md", "--force"]);
        assert_eq!(snapshot(&folder), before, "{command}");
    }
    test.ok("skills update --force").expect(0, &["kept in"]);
    assert_eq!(tree(&folder), tree(EMBEDDED));
    let backups = test.project.join(".claude/.kernels/backups");
    let backup = fs::read_dir(backups).unwrap().next().unwrap().unwrap();
    assert_eq!(snapshot(backup.path()), before);
    assert_eq!(test.state(&state_of("claude")), "current");
}

/// Without a receipt the original of an edited tree is unknown; the tree is kept.
#[test]
fn an_edited_first_version_without_a_receipt_is_foreign_and_kept() {
    let test = Test::new();
    let folder = install_first(&test, "claude", false);
    write(&folder.join("references/troubleshooting.md"), "mine\n");
    let before = snapshot(&folder);
    assert_eq!(test.state(&state_of("claude")), "foreign");
    test.run("skills update").expect(3, &["--force"]);
    assert_eq!(snapshot(&folder), before);
    test.ok("skills update --force").expect(0, &["kept in"]);
    assert_eq!(tree(&folder), tree(EMBEDDED));
}

#[test]
fn a_first_version_with_files_gone_is_repaired_to_this_one() {
    let test = Test::new();
    let folder = install_first(&test, "claude", true);
    fs::remove_file(folder.join("SKILL.md")).unwrap();
    assert_eq!(test.state(&state_of("claude")), "missing files");
    test.ok("skills update");
    assert_eq!(tree(&folder), tree(EMBEDDED));
}

#[test]
fn this_version_is_current_with_a_receipt_and_without() {
    let test = Test::new();
    test.ok("skills add --claude");
    assert_eq!(test.state(&state_of("claude")), "current");
    fs::remove_file(test.project.join(".claude/skills/cuda-kernels/.kernels.json")).unwrap();
    assert_eq!(test.state(&state_of("claude")), "current");
    test.ok("skills status").expect(0, &["current", &here(), "without a receipt"]);
    test.ok("skills update");
    assert_eq!(test.state(&state_of("claude")), "current");
}
