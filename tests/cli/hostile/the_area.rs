//! A malicious `.claude/.kernels`.

use super::*;

#[test]
fn is_a_file() {
    let test = Test::hostile();
    test.write(".claude/.kernels", "mine\n");
    test.refuses("skills add V1 --claude", 1, &[".claude/.kernels"]);
}

#[test]
fn is_a_link() {
    for to in ["empty", "folder", "ignored", "nowhere"] {
        let test = Test::hostile();
        test.ok("skills add V1 --codex");
        test.link(Path::new("../../outside").join(to), ".claude/.kernels");
        let before = test.untouchable();
        test.run("skills add V1 --claude").expect(1, &[".claude/.kernels"]);
        test.run("skills update").expect_any(&[0, 1]);
        test.run("skills remove demo").expect_any(&[0, 1]);
        test.look();
        assert_unchanged(&before, &test.untouchable());
    }
}

/// A killed run leaves an empty one; what else stands in its place is nobody's to delete.
#[test]
fn has_another_gitignore() {
    for (text, after) in [("", "*\n"), ("mine\n", "mine\n")] {
        let test = Test::hostile();
        test.write(".claude/.kernels/.gitignore", text);
        test.ok("skills add V1 --claude");
        test.write(&format!("{CLAUDE}/SKILL.md"), "edited\n");
        test.ok("skills add V2 --claude --force");
        assert_eq!(fs::read_to_string(test.at(".claude/.kernels/.gitignore")).unwrap(), after);
    }
    let test = Test::hostile();
    test.write(".claude/.kernels/.gitignore/mine", "mine\n");
    test.refuses("skills add V1 --claude", 1, &[".claude/.kernels/.gitignore", "is in the way; remove it"]);
}

#[test]
fn has_links_for_what_it_writes() {
    for name in [".gitignore", "base", "backups", "txn-x", "txn-x/journal.json", "txn-x/old"] {
        for to in ["empty", "folder", "ignored", "secret", "nowhere"] {
            let test = Test::hostile();
            let path = format!(".claude/.kernels/{name}");
            fs::create_dir_all(test.at(".claude/.kernels/other")).unwrap();
            test.link(test.outside().join(to), &path);
            let before = test.untouchable();
            test.run("skills add V1 --claude").expect_any(&[0, 1]);
            if test.at(CLAUDE).exists() {
                test.write(&format!("{CLAUDE}/SKILL.md"), "edited\n");
            }
            test.run("skills add V2 --claude --force").expect_any(&[0, 1]);
            test.run("skills update").expect_any(&[0, 1, 3]);
            test.run("skills remove demo --force").expect_any(&[0, 1]);
            assert_unchanged(&before, &test.untouchable());
        }
    }
}

/// A journal that came with a repository, with trees and links.
fn plant(test: &Test, journal: impl AsRef<[u8]>) {
    test.write(".claude/.kernels/txn-x/journal.json", journal);
    test.write(".claude/.kernels/txn-x/old/SKILL.md", "planted\n");
    test.write(".claude/.kernels/txn-x/new/SKILL.md", "planted\n");
}

/// Whatever the commands report, nothing outside changes, nor any user's file in the project.
fn is_harmless(test: &Test) {
    test.write(".claude/mine", "mine\n");
    test.write("mine/mine", "mine\n");
    let (before, home) = (test.untouchable(), picture(&test.home));
    for typed in [
        "skills status",
        "skills update",
        "skills add V1 --claude",
        "skills add V2 --claude --force",
        "skills remove demo --force",
        "skills update --force --json",
    ] {
        test.run(typed).expect_any(&[0, 1, 3]);
        assert_unchanged(&before, &test.untouchable());
        assert_unchanged(&home, &picture(&test.home));
        for mine in [".claude/mine", "mine/mine"] {
            assert_eq!(fs::read_to_string(test.at(mine)).unwrap(), "mine\n");
        }
    }
}

#[test]
fn has_a_planted_journal_that_points_outside() {
    let outside = "../../outside/empty";
    for (folder, skill) in [
        ("../../outside", "empty"),
        (outside, "demo"),
        ("/tmp", "demo"),
        ("skills", "../../mine"),
        ("skills", "../mine"),
        ("skills", "."),
        ("skills", ""),
        ("skills", "/etc"),
        ("", ".."),
        (".", "mine"),
        ("skills/../..", "mine"),
        ("skills\0", "mine"),
    ] {
        for change in [json!("install"), json!("remove"), json!({"link": {"to": outside}})] {
            let test = Test::hostile();
            let journal = json!({
                "id": "x", "change": change, "skill": skill, "folder": folder,
                "keep": true, "old": null,
            });
            plant(&test, journal.to_string());
            is_harmless(&test);
        }
    }
}

#[test]
fn has_a_planted_journal_of_a_restore() {
    for backup in ["../../../../outside/empty", "..", "", "demo", "/tmp/demo-20260101T000000Z", "demo-20260101T000000Z"]
    {
        for identity in ["", "link ../../../../outside/folder"] {
            let test = Test::hostile();
            let journal = json!({
                "id": "x", "change": {"restore": {"backup": backup, "identity": identity}}, "skill": "demo", "folder": "skills",
                "keep": true, "old": null,
            });
            plant(&test, journal.to_string());
            is_harmless(&test);
        }
    }
}

#[test]
fn has_a_planted_journal_and_backups_that_lead_outside() {
    for change in ["install", "remove"] {
        let test = Test::hostile();
        let journal = json!({
            "id": "x", "change": change, "skill": "demo", "folder": "skills",
            "keep": true, "old": null,
        });
        plant(&test, journal.to_string());
        test.link("../../../outside/empty", ".claude/.kernels/backups");
        is_harmless(&test);
    }
}

#[test]
fn has_a_planted_journal_and_trees_that_are_links() {
    for name in ["old", "new", "trash", "receipt"] {
        for change in [json!("install"), json!("remove"), json!({"link": {"to": "../../../../outside/folder"}})] {
            let test = Test::hostile();
            let journal = json!({
                "id": "x", "change": change, "skill": "demo", "folder": "skills",
                "keep": false, "old": "link ../../../../outside/folder",
            });
            test.write(".claude/.kernels/txn-x/journal.json", journal.to_string());
            test.link("../../../../outside/folder", &format!(".claude/.kernels/txn-x/{name}"));
            is_harmless(&test);
        }
    }
}

#[test]
fn has_a_planted_journal_that_is_no_journal() {
    let deep = "[".repeat(100_000);
    let long = format!("{{\"id\": \"{}\"}}", "x".repeat(2_000_000));
    for text in ["", "{}", "null", "[]", "\"x\"", "{\"id\":1}", "\u{0}", &deep, &long] {
        let test = Test::hostile();
        plant(&test, text);
        is_harmless(&test);
    }
    let test = Test::hostile();
    plant(&test, b"\xff\xfe".as_slice());
    is_harmless(&test);
}

#[test]
fn has_a_planted_journal_without_an_end() {
    let test = Test::hostile();
    test.link("/dev/zero", ".claude/.kernels/txn-x/journal.json");
    is_harmless(&test);
    let test = Test::hostile();
    plant(&test, "");
    let huge = File::create(test.at(".claude/.kernels/txn-x/journal.json")).unwrap();
    huge.set_len(20_000_000_000).unwrap();
    is_harmless_unread(&test);
    let test = Test::hostile();
    pipe_at(&test.at(".claude/.kernels/txn-x/journal.json"));
    is_harmless(&test);
}

/// The same without a snapshot of a file that is too large to read.
fn is_harmless_unread(test: &Test) {
    for typed in ["skills status", "skills add V1 --claude", "skills update"] {
        test.run(typed).expect_any(&[0, 1, 3]);
    }
}
