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
        test.run(&format!("skills remove mine{places}{global}"))
            .expect(3, &["was not installed by kernels", "then removes it"]);
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

/// A skill with a receipt that names itself as its source, as earlier versions wrote it.
fn adopted_from_itself(test: &Test, path: &str, named: &str) -> Picture {
    let folder = test.at(path);
    test.ok(&format!("skills add s/mine --dest {}", path.rsplit_once('/').unwrap().0));
    let file = folder.join(".kernels.json");
    let mut receipt: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let named = if named.is_empty() { folder.to_str().unwrap() } else { named };
    receipt["source"] = json!({ "kind": "folder", "path": named });
    write(&file, receipt.to_string());
    picture(&folder)
}

#[test]
fn what_its_receipt_names_as_its_own_source_is_kept() {
    for named in ["mine", "../../.codex/skills/mine", ""] {
        for (typed, steps) in [
            ("skills remove mine --codex", "removed"),
            ("skills add s/mine --codex", "steps"),
            ("skills add s/mine --codex --agents", "steps"),
            ("skills add s/mine --codex --claude --link", "steps"),
        ] {
            let test = Test::new();
            write_skill(&test.at("s/mine"), "mine", "1");
            let before = adopted_from_itself(&test, ".codex/skills/mine", named);
            // A copy in another place, to which this one becomes a link.
            if let Some(other) = ["--agents", "--claude"].into_iter().find(|other| typed.contains(other)) {
                test.ok(&format!("skills add s/mine {other}"));
            }
            write_skill(&test.at("s/mine"), "mine", "2");
            let report = test.json(typed);
            let backups: Vec<&str> =
                report[steps].as_array().unwrap().iter().filter_map(|step| step["backup"].as_str()).collect();
            assert_eq!(backups.len(), 1, "{typed}: {report:#}");
            assert_eq!(picture(backups[0].as_ref()), before, "{typed}");
        }
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
