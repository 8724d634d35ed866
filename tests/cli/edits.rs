//! Edits that outlive an update: `kernels skills update --merge`, `backups`, `restore`, and what git makes of a clone.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::Value;

use crate::support::{Ran, Test, exists, list, snapshot};

const DEMO: &str = ".claude/skills/demo";
const LINES: &str = "one\ntwo\nthree\nfour\nfive\n";

/// A version of the skill `demo` in the project, with these lines in its guide.
fn source(test: &Test, version: &str, guide: &str) {
    let header = "---\nname: demo\ndescription: Does it. Use when asked.\nmetadata:\n  version:";
    test.write("src/demo/SKILL.md", format!("{header} \"{version}\"\n---\n# Demo\n"));
    test.write("src/demo/guide.md", guide);
}

fn guide(test: &Test) -> String {
    fs::read_to_string(test.at(DEMO).join("guide.md")).unwrap()
}

/// A version installed for Claude Code, with the third line edited, and another version in its place.
fn edited(test: &Test) {
    source(test, "1", LINES);
    test.ok("skills add src/demo --claude");
    test.write(&format!("{DEMO}/guide.md"), LINES.replace("five", "FIVE"));
    test.write(&format!("{DEMO}/mine.md"), "mine\n");
    source(test, "2", &LINES.replace("one", "ONE"));
}

fn backups(test: &Test) -> Vec<Value> {
    test.json("skills backups")["backups"].as_array().unwrap().clone()
}

/// The project as its first commit.
fn commit(test: &Test) {
    fs::remove_dir(test.at(".git")).unwrap();
    test.git(&test.project, ["init", "--quiet"]);
    test.git(&test.project, ["add", "--all"]);
    test.git(&test.project, ["commit", "--quiet", "--message", "skills"]);
}

/// The same home, in a clone of the project under this configuration.
fn cloned(mut test: Test, configuration: &[&str]) -> Test {
    let clone = test.project.with_file_name(format!("of-{}", test.project.file_name().unwrap().display()));
    let mut arguments = vec!["clone", "--quiet"];
    for setting in configuration {
        arguments.extend(["--config", setting]);
    }
    test.git(&test.project, [&arguments[..], &[".", clone.to_str().unwrap()]].concat());
    test.project = clone;
    test
}

#[test]
fn update_merge_brings_edits_into_another_version() {
    let test = Test::new();
    edited(&test);
    let before = snapshot(test.at(DEMO));
    test.run("skills update").expect(3, &["M guide.md", "--merge"]);
    test.ok("skills update --merge --dry-run").expect(0, &["back up, merge"]);
    assert_eq!(snapshot(test.at(DEMO)), before);
    // The text of version 1 is nowhere but in the area.
    let report = test.json("skills diff");
    assert_eq!(report["installs"][0]["base_is_exact"], true);
    assert!(!report["installs"][0]["diff"].as_str().unwrap().contains("ONE"), "{report:#}");

    test.ok("skills update --merge").expect(0, &["merged", "kept in"]);
    assert_eq!(guide(&test), LINES.replace("one", "ONE").replace("five", "FIVE"));
    test.run("skills status").expect(1, &["modified", "2; from src/demo; Claude", "M guide.md", "A mine.md"]);
    let [backup] = backups(&test).try_into().unwrap();
    assert_eq!(snapshot(backup["path"].as_str().unwrap()), before);
    test.ok("skills update --merge").expect(0, &["unchanged"]);
    // Both versions' texts are kept, as long as a receipt names them.
    assert_eq!(list(&test.at(".claude/.kernels/base")).len(), 2);
    fs::remove_dir_all(backup["path"].as_str().unwrap()).unwrap();
    test.run("skills status");
    assert_eq!(list(&test.at(".claude/.kernels/base")).len(), 1);
    fs::remove_dir_all(test.at(DEMO)).unwrap();
    test.run("skills status");
    assert!(!exists(test.at(".claude/.kernels")));
}

#[test]
fn add_merge_takes_a_source_that_no_receipt_names() {
    let test = Test::new();
    let folder = test.skill("demo", "1");
    test.ok(&format!("skills add {} --claude", folder.display()));
    test.write(&format!("{DEMO}/mine.md"), "mine\n");
    let folder = test.skill("demo", "2");
    test.ok(&format!("skills add {} --claude --merge", folder.display())).expect(0, &["merged"]);
    assert_eq!(fs::read_to_string(test.at(DEMO).join("references/guide.md")).unwrap(), "guide 2\n");
    assert!(exists(test.at(DEMO).join("mine.md")));
    let older = test.skill("demo", "1");
    test.run(&format!("skills add {} --claude --merge", older.display())).expect(3, &["newer than 1"]);
    test.run("skills update --merge --force").expect(2, &["--force"]);
    test.run("skills update --conflicts").expect(2, &["--merge"]);
}

type Content = Option<&'static [u8]>;
type Merged = Result<Content, &'static [u8]>;

/// Of each: the file as it was installed, as the user left it, as the new version has it; the merged one, or where it
/// conflicts what `--conflicts` leaves.
#[test]
fn merging_a_file_does_what_git_does() {
    let conflict = "a\n<<<<<<< your edit\nB\n=======\nbb\n>>>>>>> demo 2\n";
    let both: &'static [u8] = b"\0\x01";
    let cases: [(Content, Content, Content, Merged); 12] = [
        (Some(b"a\nb\nc\n"), Some(b"A\nb\nc\n"), Some(b"a\nb\nC\n"), Ok(Some(b"A\nb\nC\n"))),
        (Some(b"a\nb\nc\n"), Some(b"A\r\nb\r\nc\r\n"), Some(b"a\nb\nC\n"), Ok(Some(b"A\nb\nC\n"))),
        (Some(b"a\nb\n"), Some(b"a\nB\n"), Some(b"a\nB\n"), Ok(Some(b"a\nB\n"))),
        (Some(b"a\n"), Some(b"b\n"), None, Err(b"b\n")),
        (Some(b"a\n"), None, Some(b"b\n"), Err(b"b\n")),
        (Some(b"a\n"), None, Some(b"a\n"), Ok(None)),
        (Some(b"a\n"), None, None, Ok(None)),
        (None, Some(b"a\n"), Some(b"a\n"), Ok(Some(b"a\n"))),
        (Some(both), Some(b"\0mine"), Some(both), Ok(Some(b"\0mine"))),
        (Some(both), Some(b"\0mine"), Some(b"\0new"), Err(b"\0mine")),
        (Some(b"a\n"), Some(b""), Some(b"b\n"), Ok(Some(b"b\n"))),
        (Some(b"a\nb\n"), Some(b"a\nB\n"), Some(b"a\nbb\n"), Err(conflict.as_bytes())),
    ];
    for (n, (base, mine, theirs, expected)) in cases.into_iter().enumerate() {
        let test = Test::new();
        let set = |path: &str, content: Content| match content {
            Some(content) => test.write(path, content),
            None => drop(fs::remove_file(test.at(path))),
        };
        source(&test, "1", "guide\n");
        set("src/demo/x", base);
        test.ok("skills add src/demo --claude");
        test.write(&format!("{DEMO}/mine.md"), "mine\n");
        set(&format!("{DEMO}/x"), mine);
        source(&test, "2", "guide\n");
        set("src/demo/x", theirs);
        let before = snapshot(test.at(DEMO));
        let left = match expected {
            Ok(left) => {
                test.ok("skills update --merge");
                left
            }
            Err(left) => {
                test.run("skills update --merge").expect(3, &[" x\n", "--conflicts"]);
                assert_eq!(snapshot(test.at(DEMO)), before, "case {n}");
                let ran = test.run("skills update --merge --conflicts --json");
                ran.expect(1, &["\"conflicts\"", "\"path\": \"x\""]);
                Some(left)
            }
        };
        assert_eq!(fs::read(test.at(DEMO).join("x")).ok().as_deref(), left, "case {n}");
        assert_eq!(snapshot(backups(&test)[0]["path"].as_str().unwrap()), before, "case {n}");
    }
}

#[test]
fn an_executable_bit_is_an_edit() {
    let test = Test::new();
    source(&test, "1", LINES);
    test.ok("skills add src/demo --claude");
    let guide = test.at(DEMO).join("guide.md");
    let bit = |mode| fs::set_permissions(&guide, fs::Permissions::from_mode(mode)).unwrap();
    bit(0o755);
    assert_eq!(test.state(DEMO), "modified");
    test.run("skills diff demo").expect(0, &["guide.md: old mode 644, new mode 755"]);
    source(&test, "2", &LINES.replace("one", "ONE"));
    test.run("skills update").expect(3, &["demo"]);
    test.ok("skills update --merge");
    assert_eq!(fs::metadata(&guide).unwrap().permissions().mode() & 0o111, 0o111);
    assert!(fs::read_to_string(&guide).unwrap().starts_with("ONE"));
    bit(0o644);
    assert_eq!(test.state(DEMO), "current");
}

#[test]
fn merging_keeps_modes_and_refuses_what_no_skill_can_hold() {
    let test = Test::new();
    edited(&test);
    fs::set_permissions(test.at(DEMO).join("guide.md"), fs::Permissions::from_mode(0o755)).unwrap();
    test.ok("skills update --merge");
    assert_eq!(fs::metadata(test.at(DEMO).join("guide.md")).unwrap().permissions().mode() & 0o111, 0o111);
    for odd in ["a link", "a:colon"] {
        let test = Test::new();
        edited(&test);
        match odd {
            "a link" => symlink("/etc/passwd", test.at(DEMO).join(odd)).unwrap(),
            _ => test.write(&format!("{DEMO}/{odd}"), "mine\n"),
        }
        let before = snapshot(&test.project);
        test.run("skills update --merge").expect(3, &["cannot be merged", odd]);
        assert_eq!(snapshot(&test.project), before);
    }
}

#[test]
fn a_clone_finds_the_base_in_git_and_without_it_nothing_is_guessed() {
    let test = Test::new();
    edited(&test);
    let edits = [guide(&test), LINES.to_owned()];
    test.write(&format!("{DEMO}/guide.md"), &edits[1]);
    fs::remove_file(test.at(DEMO).join("mine.md")).unwrap();
    commit(&test);
    let test = cloned(test, &[]);
    assert!(!exists(test.at(".claude/.kernels")), "the area is committed");
    test.write(&format!("{DEMO}/guide.md"), &edits[0]);
    test.git(&test.project, ["commit", "--quiet", "--all", "--message", "edit"]);
    assert_eq!(test.json("skills diff")["installs"][0]["base_is_exact"], true);
    let edit = snapshot(test.at(DEMO));
    fs::rename(test.at(".git"), test.root().join("git")).unwrap();
    fs::create_dir(test.at(".git")).unwrap();
    test.ok("skills diff").expect(0, &["whose text is not here"]);
    test.run("skills update --merge").expect(3, &["M guide.md"]);
    assert_eq!(snapshot(test.at(DEMO)), edit);
    fs::remove_dir(test.at(".git")).unwrap();
    fs::rename(test.root().join("git"), test.at(".git")).unwrap();
    test.ok("skills update --merge");
    assert_eq!(guide(&test), LINES.replace("one", "ONE").replace("five", "FIVE"));
}

#[test]
fn a_damaged_or_forged_base_is_not_believed() {
    let test = Test::new();
    edited(&test);
    let kept = list(&test.at(".claude/.kernels/base")).remove(0);
    let other = Test::new();
    source(&other, "1", "forged\n");
    other.ok("skills pack src/demo -o forged.skill");
    for content in [fs::read(other.at("forged.skill")).unwrap(), b"PK".to_vec(), Vec::new()] {
        fs::write(&kept, content).unwrap();
        test.ok("skills diff").expect(0, &["whose text is not here"]);
        test.run("skills update --merge").expect(3, &["M guide.md", "neither in .kernels/base"]);
    }
}

#[test]
fn backups_lists_what_was_edited_and_restore_puts_it_back() {
    let test = Test::new();
    test.ok("skills backups").expect(0, &["no backups"]);
    edited(&test);
    let edit = snapshot(test.at(DEMO));
    test.ok("skills update --force");
    let new = snapshot(test.at(DEMO));
    test.write(".claude/.kernels/backups/notes.md", "not a backup\n");
    test.ok("skills backups demo").expect(0, &["demo-2", "from .claude/skills/demo", "M guide.md", "A mine.md"]);
    test.ok("skills backups other").expect(0, &["no backups"]);
    let [backup] = backups(&test).try_into().unwrap();
    assert_eq!((&backup["version"], &backup["kind"]), (&"1".into(), &"install".into()));
    let id = backup["id"].as_str().unwrap();
    // When it was made is part of its name, without the separators.
    let made = backup["made"].as_str().unwrap();
    assert_eq!((made.len(), &made[4..5], &made[10..11], &made[13..14]), (20, "-", "T", ":"), "{made}");
    assert!(id.contains(&made.replace(['-', ':'], "")), "{id} {made}");

    let before = snapshot(test.root());
    test.ok(&format!("skills restore {id} --dry-run")).expect(0, &["moved to a backup first"]);
    assert_eq!(snapshot(test.root()), before);
    for other in ["demo", "../demo", "demo-20000101T000000Z", "", "/", "notes.md"] {
        test.run(&format!("skills restore {other}")).expect(1, &["no backup", "skills backups"]);
    }
    test.ok(&format!("skills restore {id}")).expect(0, &["restored", "kept in"]);
    assert_eq!(snapshot(test.at(DEMO)), edit);
    let [other] = backups(&test).try_into().unwrap();
    assert_eq!(snapshot(other["path"].as_str().unwrap()), new);
    // The text that the restored version was installed from is still known.
    test.ok("skills update --merge");
    assert_eq!(guide(&test), LINES.replace("one", "ONE").replace("five", "FIVE"));

    // Where the skill was removed, with the folder that held it; by the backup's path.
    test.ok("skills remove demo --force");
    assert!(!exists(test.at(".claude/skills")));
    let last = backups(&test).pop().unwrap();
    test.ok(&format!("skills restore {}", last["path"].as_str().unwrap()));
    assert_eq!(guide(&test), LINES.replace("one", "ONE").replace("five", "FIVE"));
}

#[test]
fn restore_takes_files_and_links_and_asks_which_of_two() {
    let test = Test::new();
    test.write("notes", "mine\n");
    for agent in ["claude", "codex"] {
        fs::create_dir_all(test.at(&format!(".{agent}/skills"))).unwrap();
    }
    fs::write(test.at(DEMO), "a file of mine\n").unwrap();
    symlink("../../notes", test.at(".codex/skills/demo")).unwrap();
    let before = [snapshot(test.at(".claude/skills")), snapshot(test.at(".codex/skills"))];
    source(&test, "1", LINES);
    test.ok("skills add src/demo --claude --codex --force");
    // Of the same second, whatever the clock says.
    for (agent, backup) in [("claude", &backups(&test)[0]), ("codex", &backups(&test)[1])] {
        let to = test.at(&format!(".{agent}/.kernels/backups/demo-20260101T000000Z"));
        fs::rename(backup["path"].as_str().unwrap(), to).unwrap();
    }
    let kinds: Vec<_> = backups(&test).iter().map(|backup| backup["kind"].clone()).collect();
    assert_eq!(kinds, ["file", "link"]);
    let id = "demo-20260101T000000Z";
    test.run(&format!("skills restore {id}")).expect(2, &["several places", ".codex/.kernels/backups"]);
    test.ok(&format!("skills restore {id} --codex"));
    test.ok(&format!("skills restore .claude/.kernels/backups/{id}"));
    assert_eq!([snapshot(test.at(".claude/skills")), snapshot(test.at(".codex/skills"))], before);
}

#[test]
fn a_clone_with_autocrlf_is_current_and_its_edits_merge() {
    let test = Test::new();
    source(&test, "1", LINES);
    test.ok("skills add src/demo --claude");
    test.ok("skills add cuda-kernels --claude");
    test.write(&format!("{DEMO}/mine.md"), "mine\r\n");
    assert!(!test.run("skills status").err.contains(".gitattributes"));
    fs::remove_file(test.at(DEMO).join("mine.md")).unwrap();
    commit(&test);
    let test = cloned(test, &["core.autocrlf=true"]);
    assert!(guide(&test).contains("\r\n"));
    test.ok("skills status").expect(0, &["current", "`.claude/skills/** -text` in .gitattributes"]);
    test.ok("skills update").expect(0, &["unchanged"]);
    test.write(&format!("{DEMO}/guide.md"), guide(&test).replace("five", "FIVE"));
    let diff = test.ok("skills diff").out;
    assert!(diff.contains("-five\n+FIVE\n") && !diff.contains("-one"), "{diff}");
    source(&test, "2", &LINES.replace("one", "ONE"));
    test.ok("skills update --merge");
    assert_eq!(guide(&test), LINES.replace("one", "ONE").replace("five", "FIVE"));
    // What is proposed helps.
    let test = cloned(test, &["core.autocrlf=true"]);
    test.write(".gitattributes", ".claude/skills/** -text\n");
    test.git(&test.project, ["rm", "--quiet", "--cached", "-r", "."]);
    test.git(&test.project, ["add", ".gitattributes"]);
    test.git(&test.project, ["reset", "--quiet", "--hard", "HEAD"]);
    // A mixture is an edit.
    test.write(&format!("{DEMO}/guide.md"), "one\r\ntwo\nthree\nfour\nfive\n");
    test.run("skills status").expect(1, &["M guide.md"]);
}

#[test]
fn a_clone_without_links_is_mended_by_update() {
    let test = Test::new();
    source(&test, "1", LINES);
    test.ok("skills add src/demo --claude --agents --codex --link");
    commit(&test);
    let test = cloned(test, &["core.symlinks=false"]);
    assert!(!test.at(DEMO).is_symlink());
    assert_eq!(test.state(DEMO), "link file");
    test.run("skills status").expect(1, &["../../.agents/skills/demo", "core.symlinks", "`update`"]);
    test.run("doctor").expect(1, &["link file", "`kernels skills update`"]);
    test.ok("skills update").expect(0, &["linked", ".claude/skills/demo", ".codex/skills/demo"]);
    assert!(test.at(DEMO).is_symlink() && test.at(DEMO).join("guide.md").exists());
    assert!(backups(&test).is_empty());
    test.ok("skills status");
    assert_eq!(test.git(&test.project, ["status", "--porcelain"]), "");
    // Anything else in such a file is the user's.
    for text in ["../../.agents/skills/other", "../../.agents/skills/demo\n", "/etc/demo", "mine"] {
        fs::remove_file(test.at(DEMO)).unwrap();
        fs::write(test.at(DEMO), text).unwrap();
        test.run("skills add src/demo --claude").expect(3, &["is not a folder"]);
        test.run("skills remove demo --claude").expect(3, &["is not a folder"]);
        assert_eq!(fs::read_to_string(test.at(DEMO)).unwrap(), text);
    }
    let test = cloned(test, &["core.symlinks=false"]);
    test.ok("skills remove demo");
    assert!(!exists(test.at(".claude")) && !exists(test.at(".agents")));
}

#[test]
fn a_repair_changes_nothing_that_git_tracks() {
    let test = Test::new();
    source(&test, "1", LINES);
    test.ok("skills add src/demo --claude");
    commit(&test);
    fs::remove_file(test.at(DEMO).join("guide.md")).unwrap();
    test.ok("skills update").expect(0, &["repaired"]);
    test.write(&format!("{DEMO}/guide.md"), "mine\n");
    test.ok("skills update --force").expect(0, &["replaced"]);
    assert_eq!(test.git(&test.project, ["status", "--porcelain"]), "");
    let receipt = test.at(DEMO).join(".kernels.json");
    let before = fs::read(&receipt).unwrap();
    source(&test, "2", LINES);
    test.ok("skills update");
    assert_ne!(fs::read(&receipt).unwrap(), before);
}

#[test]
fn update_prints_one_heading() {
    let test = Test::new();
    source(&test, "1", LINES);
    test.ok("skills add src/demo --claude --codex --opencode");
    test.ok("skills add cuda-kernels --claude --codex --opencode");
    let said = test.ok("skills update").out;
    for heading in ["demo 1 from src/demo\n", "cuda-kernels 0", "\nproject /"] {
        assert_eq!(said.matches(heading).count(), 1, "{said}");
    }
    assert_eq!(said.matches("unchanged").count(), 6, "{said}");
}

/// `.opencode/skills` and `.opencode/skill` have one area.
#[test]
fn restore_puts_a_backup_into_the_folder_that_it_is_from() {
    let test = Test::new();
    source(&test, "1", LINES);
    let places = [".opencode/skill", ".opencode/skills", ".opencode"];
    for place in places {
        test.ok(&format!("skills add src/demo --dest {place}"));
        test.write(&format!("{place}/demo/mine.md"), place);
    }
    let before = places.map(|place| snapshot(test.at(place).join("demo")));
    for place in places {
        test.ok(&format!("skills remove demo --dest {place} --force"));
    }
    let all = backups(&test);
    for (backup, place) in all.iter().zip(places) {
        assert_eq!(backup["from"], test.at(place).join("demo").to_str().unwrap(), "{backup:#}");
    }
    // One that is there stays what it is while the others come back.
    test.ok("skills add src/demo --opencode");
    for ((backup, place), before) in all.iter().zip(places).zip(before) {
        test.ok(&format!("skills restore {}", backup["id"].as_str().unwrap())).expect(0, &[&format!("{place}/demo")]);
        assert_eq!(snapshot(test.at(place).join("demo")), before, "{place}");
    }
}

/// Names of backups did not always say the folder.
#[test]
fn restore_does_not_guess_the_folder_of_a_backup() {
    let test = Test::new();
    source(&test, "1", LINES);
    test.ok("skills add src/demo --dest .opencode/skill");
    test.write(".opencode/skill/demo/mine.md", "mine\n");
    let edited = snapshot(test.at(".opencode/skill/demo"));
    test.ok("skills add src/demo --opencode");
    test.ok("skills remove demo --dest .opencode/skill --force");
    fs::create_dir_all(test.at(".opencode/skill")).unwrap();
    let [backup] = backups(&test).try_into().unwrap();
    let id = backup["id"].as_str().unwrap();
    let old = id.strip_suffix("@skill").unwrap();
    fs::rename(backup["path"].as_str().unwrap(), test.at(".opencode/.kernels/backups").join(old)).unwrap();
    let before = snapshot(&test.project);
    let folders = ".opencode/skills or .opencode/skill";
    test.run(&format!("skills restore {old}")).expect(2, &[folders, "--dest .opencode/skills"]);
    assert_eq!(snapshot(&test.project), before);
    let [listed] = backups(&test).try_into().unwrap();
    assert_eq!(listed["or_from"][0], test.at(".opencode/skill/demo").to_str().unwrap());
    test.ok("skills backups").expect(0, &["from .opencode/skills/demo or .opencode/skill/demo"]);
    test.ok(&format!("skills restore {old} --dest .opencode/skill"));
    assert_eq!(snapshot(test.at(".opencode/skill/demo")), edited);
}

/// A clock that was ahead, or a clone, left backups that are not made yet.
#[test]
fn the_backup_just_made_stays_whatever_the_times_of_others() {
    let test = Test::new();
    edited(&test);
    for month in 1..=6 {
        test.write(&format!(".claude/.kernels/backups/demo-99990{month}01T000000Z/SKILL.md"), "later\n");
    }
    let ran = test.ok("skills add src/demo --claude --force");
    let kept = backups(&test).iter().map(|one| one["path"].as_str().unwrap().to_owned()).collect::<Vec<_>>();
    let mine = |path: &String| fs::read_to_string(test.at(path).join("mine.md")).is_ok_and(|text| text == "mine\n");
    assert!(kept.iter().any(mine) && kept.len() == 5, "{kept:?} {ran:#?}");
}

#[test]
fn merging_keeps_the_line_ends_of_the_new_version() {
    let test = Test::new();
    let dos = LINES.replace('\n', "\r\n");
    source(&test, "1", &dos);
    test.ok("skills add src/demo --claude");
    for edit in [dos.replace("five", "FIVE"), LINES.replace("five", "FIVE")] {
        test.write(&format!("{DEMO}/guide.md"), edit);
        source(&test, "2", &dos.replace("one", "ONE"));
        test.ok("skills update --merge");
        assert_eq!(guide(&test), dos.replace("five", "FIVE").replace("one", "ONE"));
        source(&test, "1", &dos);
        test.ok("skills add src/demo --claude --force");
    }
    // Lines of both kinds, as an editor on Linux leaves them.
    test.write(&format!("{DEMO}/guide.md"), format!("{dos}mine\n"));
    source(&test, "2", &dos.replace("one", "ONE"));
    test.ok("skills update --merge");
    assert_eq!(guide(&test), format!("{}mine\r\n", dos.replace("one", "ONE")));
}

/// A clone may carry a bare repository among a skill's files. Its configuration is not read: here that would wait for ever.
#[test]
fn a_repository_among_a_skills_files_is_not_gits() {
    let test = Test::new();
    source(&test, "1", LINES);
    test.ok("skills add src/demo --claude");
    fs::remove_dir_all(test.at(".claude/.kernels")).unwrap();
    source(&test, "2", &LINES.replace("one", "ONE"));
    let pipe = test.root().join("pipe");
    Ran::ok(test.command_of("mkfifo").arg(&pipe));
    test.git(&test.at(DEMO), ["init", "--quiet", "--bare", "."]);
    test.write(&format!("{DEMO}/guide.md"), "mine\n");
    let config = fs::read_to_string(test.at(DEMO).join("config")).unwrap();
    test.write(&format!("{DEMO}/config"), format!("{config}[include]\npath = {}\n", pipe.display()));
    test.ok("skills diff").expect(0, &["guide.md"]);
    test.run("skills update --merge").expect(3, &["edited"]);
}
