//! A malicious `.claude/.kernels`.

use super::*;

#[test]
fn is_a_file() {
    let place = Place::new();
    place.write(".claude/.kernels", "mine\n");
    place.refuses("skills add V1 --claude", 1, &[".claude/.kernels"]);
}

#[test]
fn is_a_link() {
    for to in ["empty", "folder", "ignored", "nowhere"] {
        let place = Place::new();
        place.ok("skills add V1 --codex");
        place.link(Path::new("../../outside").join(to), ".claude/.kernels");
        let before = place.untouchable();
        place.run("skills add V1 --claude").expect(1, &[".claude/.kernels"]);
        place.run("skills update").expect_any(&[0, 1]);
        place.run("skills remove demo").expect_any(&[0, 1]);
        place.look();
        assert_unchanged(&before, &place.untouchable());
    }
}

#[test]
fn has_links_for_what_it_writes() {
    for name in [".gitignore", "backups", "txn-x", "txn-x/journal.json", "txn-x/old"] {
        for to in ["empty", "folder", "ignored", "secret", "nowhere"] {
            let place = Place::new();
            let path = format!(".claude/.kernels/{name}");
            fs::create_dir_all(place.at(".claude/.kernels/other")).unwrap();
            place.link(place.outside.join(to), &path);
            let before = place.untouchable();
            place.run("skills add V1 --claude").expect_any(&[0, 1]);
            if place.at(CLAUDE).exists() {
                place.write(&format!("{CLAUDE}/SKILL.md"), "edited\n");
            }
            place.run("skills add V2 --claude --force").expect_any(&[0, 1]);
            place.run("skills update").expect_any(&[0, 1, 3]);
            place.run("skills remove demo --force").expect_any(&[0, 1]);
            assert_unchanged(&before, &place.untouchable());
        }
    }
}

/// A journal that came with a repository, with trees and links.
fn plant(place: &Place, journal: impl AsRef<[u8]>) {
    place.write(".claude/.kernels/txn-x/journal.json", journal);
    place.write(".claude/.kernels/txn-x/old/SKILL.md", "planted\n");
    place.write(".claude/.kernels/txn-x/new/SKILL.md", "planted\n");
}

/// Whatever the commands report, nothing outside changes, nor any user's file in the project.
fn is_harmless(place: &Place) {
    place.write(".claude/mine", "mine\n");
    place.write("mine/mine", "mine\n");
    let (before, home) = (place.untouchable(), picture(&place.home));
    for typed in [
        "skills status",
        "skills update",
        "skills add V1 --claude",
        "skills add V2 --claude --force",
        "skills remove demo --force",
        "skills update --force --json",
    ] {
        place.run(typed).expect_any(&[0, 1, 3]);
        assert_unchanged(&before, &place.untouchable());
        assert_unchanged(&home, &picture(&place.home));
        for mine in [".claude/mine", "mine/mine"] {
            assert_eq!(fs::read_to_string(place.at(mine)).unwrap(), "mine\n");
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
            let place = Place::new();
            let journal = json!({
                "id": "x", "change": change, "skill": skill, "folder": folder,
                "keep": true, "old": null,
            });
            plant(&place, journal.to_string());
            is_harmless(&place);
        }
    }
}

#[test]
fn has_a_planted_journal_and_backups_that_lead_outside() {
    for change in ["install", "remove"] {
        let place = Place::new();
        let journal = json!({
            "id": "x", "change": change, "skill": "demo", "folder": "skills",
            "keep": true, "old": null,
        });
        plant(&place, journal.to_string());
        place.link("../../../outside/empty", ".claude/.kernels/backups");
        is_harmless(&place);
    }
}

#[test]
fn has_a_planted_journal_and_trees_that_are_links() {
    for name in ["old", "new", "trash", "receipt"] {
        for change in [json!("install"), json!("remove"), json!({"link": {"to": "../../../../outside/folder"}})] {
            let place = Place::new();
            let journal = json!({
                "id": "x", "change": change, "skill": "demo", "folder": "skills",
                "keep": false, "old": "link ../../../../outside/folder",
            });
            place.write(".claude/.kernels/txn-x/journal.json", journal.to_string());
            place.link("../../../../outside/folder", &format!(".claude/.kernels/txn-x/{name}"));
            is_harmless(&place);
        }
    }
}

#[test]
fn has_a_planted_journal_that_is_no_journal() {
    let deep = "[".repeat(100_000);
    let long = format!("{{\"id\": \"{}\"}}", "x".repeat(2_000_000));
    for text in ["", "{}", "null", "[]", "\"x\"", "{\"id\":1}", "\u{0}", &deep, &long] {
        let place = Place::new();
        plant(&place, text);
        is_harmless(&place);
    }
    let place = Place::new();
    plant(&place, b"\xff\xfe".as_slice());
    is_harmless(&place);
}

#[test]
fn has_a_planted_journal_without_an_end() {
    let place = Place::new();
    place.link("/dev/zero", ".claude/.kernels/txn-x/journal.json");
    is_harmless(&place);
    let place = Place::new();
    plant(&place, "");
    let huge = File::create(place.at(".claude/.kernels/txn-x/journal.json")).unwrap();
    huge.set_len(20_000_000_000).unwrap();
    is_harmless_unread(&place);
    let place = Place::new();
    pipe_at(&place.at(".claude/.kernels/txn-x/journal.json"));
    is_harmless(&place);
}

/// The same without a snapshot of a file that is too large to read.
fn is_harmless_unread(place: &Place) {
    for typed in ["skills status", "skills add V1 --claude", "skills update"] {
        place.run(typed).expect_any(&[0, 1, 3]);
    }
}
