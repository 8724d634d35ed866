//! `kernels skills add` of a skill that lies where it would go: its author's only copy.

use std::fs;

use serde_json::{Value, json};

use crate::support::{Picture, Test, exists, picture, write, write_skill};

/// A skill that somebody wrote in an agent's folder, with a file that no agent would miss.
fn written(test: &Test, path: &str) -> Picture {
    let folder = test.at(path);
    write_skill(&folder, folder.file_name().unwrap().to_str().unwrap(), "1");
    write(&folder.join("notes.md"), "precious\n");
    write(&folder.join(".env"), "SECRET=1\n");
    picture(&folder)
}

#[test]
fn add_leaves_it_as_it_is_and_remove_does_not_delete_it() {
    for (path, flags, also) in [
        (".claude/skills/mine", "--claude", None),
        (".agents/skills/mine", "--codex", Some(".codex/skills/mine")),
        (".codex/skills/mine", "--codex --agents", None),
        (".opencode/skills/mine", "--claude --opencode --link", Some(".claude/skills/mine")),
        ("s/mine", "--dest s", None),
        ("s/mine", "--dest s --force", None),
        ("../home/.claude/skills/mine", "--claude --global", None),
    ] {
        let test = Test::new();
        let before = written(&test, path);
        let added = test.ok(&format!("skills add {path} {flags}"));
        added.expect(0, &["unchanged", "is the source itself"]);
        assert_eq!(picture(&test.at(path)), before, "{flags}");
        if let Some(also) = also {
            assert!(test.at(also).is_symlink() && exists(test.at(also).join("notes.md")), "{flags}");
        }
        let places = if path.starts_with("s/") { " --dest s" } else { "" };
        let global = if flags.contains("--global") { " --global" } else { "" };
        test.ok(&format!("skills update{places}{global}"));
        test.run(&format!("skills remove mine{places}{global}")).expect(3, &["was not installed by kernels"]);
        assert_eq!(picture(&test.at(path)), before, "{flags}");
        let removed = test.json(&format!("skills remove mine{places}{global} --force"));
        let backups: Vec<&str> =
            removed["removed"].as_array().unwrap().iter().filter_map(|one| one["backup"].as_str()).collect();
        assert_eq!(backups.len(), 1, "{flags}: {removed:#}");
        assert_eq!(picture(backups[0].as_ref()), before, "{flags}");
    }
}

/// Beside the original, other places get copies, which `remove` takes away as ever.
#[test]
fn other_places_get_copies() {
    let test = Test::new();
    let before = written(&test, ".claude/skills/mine");
    test.ok("skills add .claude/skills/mine --claude --opencode").expect(0, &["unchanged", "installed"]);
    test.ok("skills remove mine --opencode");
    assert!(!exists(test.at(".opencode")));
    assert_eq!(picture(&test.at(".claude/skills/mine")), before);
}

/// Such receipts were written by earlier versions.
#[test]
fn remove_keeps_what_its_receipt_names_as_its_own_source() {
    for (path, whole) in [("mine", false), ("../../.claude/skills/mine", false), ("", true)] {
        let test = Test::new();
        write_skill(&test.at("s/mine"), "mine", "1");
        test.ok("skills add s/mine --claude");
        let install = test.at(".claude/skills/mine");
        let file = install.join(".kernels.json");
        let mut receipt: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        let named = if whole { install.to_str().unwrap() } else { path };
        receipt["source"] = json!({ "kind": "folder", "path": named });
        write(&file, receipt.to_string());
        fs::remove_dir_all(test.at("s")).unwrap();
        let before = picture(&install);
        write_skill(&test.at("s/mine"), "mine", "2");
        let kept = |typed: &str| {
            let report = test.json(typed);
            let backup = report["steps"][0]["backup"].as_str().unwrap_or_else(|| panic!("{report:#}"));
            assert_eq!(picture(backup.as_ref()), before);
            fs::remove_dir_all(&install).unwrap_or_else(|_| fs::remove_file(&install).unwrap());
            fs::rename(backup, &install).unwrap();
        };
        kept("skills add s/mine --claude");
        kept("skills add s/mine --agents --claude --link");
        let removed = test.json("skills remove mine");
        let backup = removed["removed"][0]["backup"].as_str().unwrap_or_else(|| panic!("{removed:#}"));
        assert_eq!(picture(backup.as_ref()), before);
        assert!(!exists(&install));
    }
}

/// Each update would copy the last install into the next one.
#[test]
fn add_to_a_place_inside_the_source_is_refused() {
    let test = Test::new();
    write_skill(&test.at("s/alpha"), "alpha", "1");
    write_skill(&test.project, "project", "1");
    let before = picture(&test.root());
    for typed in ["s/alpha --dest s/alpha/sub", "s/alpha --dest s/alpha/sub --force --dry-run", ". --claude"] {
        test.run(&format!("skills add {typed}"))
            .expect(3, &["refused", "lies inside its source", "outside of the source"]);
        assert_eq!(picture(&test.root()), before, "{typed}");
    }
    test.ok("skills add s/alpha --dest s/alpha-2");
    assert!(exists(test.at("s/alpha-2/alpha/SKILL.md")));
}
