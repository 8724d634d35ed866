//! A forged `.kernels.json`.

use super::*;

/// An install with this receipt; nothing outside is touched, and the files are complete or
/// kept afterwards.
fn says(change: impl Fn(&mut Value)) {
    let test = Test::hostile();
    test.ok("skills add V1 --claude");
    let file = test.at(CLAUDE).join(".kernels.json");
    let mut receipt = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    change(&mut receipt);
    fs::write(&file, receipt.to_string()).unwrap();
    is_harmless(&test);
}

fn is_harmless(test: &Test) {
    test.write(&format!("{CLAUDE}/mine.md"), "mine\n");
    let outside = test.untouchable();
    test.look();
    for typed in [
        "skills update",
        "skills add V2 --claude",
        "skills remove demo",
        "skills add V2 --claude --force",
        "skills remove demo --force",
    ] {
        test.run(typed).expect_any(&[0, 1, 3]);
        assert_unchanged(&outside, &test.untouchable());
        let mut trees = test.backups();
        trees.push(test.at(CLAUDE));
        assert!(trees.iter().any(|tree| tree.join("mine.md").exists()), "{typed}");
    }
    assert!(test.project.join(".git").is_dir());
}

#[test]
fn names_paths_outside() {
    for path in ["/etc/passwd", "../../../../outside/secret", "..", "a/../../b", ""] {
        says(|receipt| {
            receipt["files"] = json!({ path: "0".repeat(64) });
        });
        says(|receipt| receipt["source"] = json!({"kind": "folder", "path": path}));
        says(|receipt| receipt["source"] = json!({"kind": "archive", "path": path}));
        says(|receipt| receipt["id"] = json!(path));
        says(|receipt| receipt["skill"] = json!(path));
    }
}

#[test]
fn has_wrong_types_and_numbers() {
    for key in ["format", "skill", "version", "source", "tree", "files", "created_folders"] {
        for value in
            [json!(null), json!([]), json!({}), json!(-1), json!(1e300), json!(u64::MAX), json!("\u{1b}[31mred\u{0}")]
        {
            says(|receipt| receipt[key] = value.clone());
        }
    }
}

#[test]
fn has_a_later_format() {
    let test = Test::hostile();
    test.ok("skills add V1 --claude");
    test.write(&format!("{CLAUDE}/.kernels.json"), "{\"format\": 2, \"new\": true}");
    test.refuses("skills add V2 --claude", 3, &[CLAUDE, "later kernels"]);
    test.refuses("skills remove demo", 3, &[CLAUDE]);
    is_harmless(&test);
}

/// What cannot be read is no reason to say that nothing is there.
#[test]
fn is_listed_also_where_it_is_of_no_use() {
    let mark = |text: &str| format!("<<<<<<< HEAD\n{text}=======\n{text}>>>>>>> other\n");
    let conflict = |text: &str| mark(text).into_bytes();
    let later = |text: &str| text.replace("\"format\": 1", "\"format\": 2").into_bytes();
    let other = |text: &str| text.replace("\"skill\": \"demo\"", "\"skill\": \"other\"").into_bytes();
    for (n, why) in [
        ".kernels.json is damaged",
        "later kernels",
        ".kernels.json is of another skill, other",
        ".kernels.json is damaged",
    ]
    .into_iter()
    .enumerate()
    {
        let test = Test::hostile();
        test.ok("skills add V1 --claude");
        let file = test.at(CLAUDE).join(".kernels.json");
        let text = fs::read_to_string(&file).unwrap();
        let damaged = [conflict(&text), later(&text), other(&text), Vec::new()];
        fs::write(&file, &damaged[n]).unwrap();
        for flags in ["", " --claude", " --agent *"] {
            test.run(&format!("skills status{flags}")).expect(1, &["foreign", CLAUDE, why]);
        }
        test.run("doctor").expect(1, &["foreign", CLAUDE, why]);
        test.run("skills list").expect(0, &["foreign", CLAUDE, why]);
        test.run("skills update").expect(1, &[CLAUDE, "left as it is"]);
        test.refuses("skills remove --all", 3, &[CLAUDE, "--force"]);
        test.run("skills sync --init").expect(1, &[CLAUDE]);
        // What is not there, or belongs to nobody, is as before.
        test.write(".claude/skills/mine/SKILL.md", "mine\n");
        assert_eq!(test.json("skills status")["installs"].as_array().unwrap().len(), 1);
        test.ok("skills remove --all --force").expect(0, &["kept in"]);
        test.ok("skills status");
    }
}

/// The receipt claims that it created all parent folders; only empty ones below the project may be removed.
#[test]
fn claims_to_have_made_every_folder() {
    let test = Test::hostile();
    test.ok("skills add V1 --claude");
    let file = test.at(CLAUDE).join(".kernels.json");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("\"created_folders\": 2", "\"created_folders\": 99999")).unwrap();
    fs::remove_dir(test.at(".git")).unwrap();
    test.ok("skills remove demo");
    assert!(test.project.is_dir() && test.home.is_dir());
    assert!(!test.at(".claude").exists());
}

#[test]
fn of_a_dest_claims_to_have_made_every_folder() {
    let test = Test::hostile();
    let dest = test.outside().join("empty/a/b");
    fs::create_dir_all(&dest).unwrap();
    test.ok("skills add V1 --dest ../outside/empty/a/b");
    let file = dest.join("demo/.kernels.json");
    let text = fs::read_to_string(&file).unwrap();
    let more = text.replacen('{', "{\"created_folders\": 99999,", 1);
    fs::write(&file, more).unwrap();
    test.ok("skills remove demo --dest ../outside/empty/a/b");
    // The user made these folders; an install at --dest that created none must remove none.
    assert!(!dest.join("demo").exists());
    assert!(test.outside().join("folder").is_dir());
}

#[test]
fn is_no_text() {
    for bytes in [&b"\xff\xfe{"[..], b"", b"{", &vec![b'['; 200_000]] {
        let test = Test::hostile();
        test.ok("skills add V1 --claude");
        test.write(&format!("{CLAUDE}/.kernels.json"), bytes);
        is_harmless(&test);
    }
}

fn replaced_by(put: impl Fn(&Path)) {
    let test = Test::hostile();
    test.ok("skills add V1 --claude");
    let file = test.at(CLAUDE).join(".kernels.json");
    fs::remove_file(&file).unwrap();
    put(&file);
    is_harmless(&test);
}

#[test]
fn is_a_folder() {
    replaced_by(|file| write(&file.join("mine"), "mine\n"));
}

#[test]
fn is_a_pipe() {
    replaced_by(pipe_at);
}

#[test]
fn is_a_link_without_an_end() {
    replaced_by(|file| symlink("/dev/zero", file).unwrap());
    replaced_by(|file| symlink("/dev/tty", file).unwrap());
    replaced_by(|file| symlink(".kernels.json", file).unwrap());
    replaced_by(|file| symlink("nowhere", file).unwrap());
}

#[test]
fn cannot_write_to_the_terminal() {
    let test = Test::hostile();
    test.ok("skills add V1 --claude");
    let file = test.at(CLAUDE).join(".kernels.json");
    let mut receipt: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    receipt["version"] = json!("\u{1b}]0;title\u{7}\u{1b}[2J");
    receipt["by"] = json!("\u{1b}]0;title\u{7}");
    fs::write(&file, receipt.to_string()).unwrap();
    test.link("\u{1b}]0;title\u{7}", ".codex/skills/demo");
    test.write(&format!("{CLAUDE}/mine\u{1b}]0;title\u{7}.md"), "mine\n");
    for typed in [
        "skills status",
        "skills list",
        "skills diff",
        "skills update",
        "skills add V2 --claude --codex",
        "doctor",
        "skills add V2 --claude --codex --force",
        "skills remove demo",
    ] {
        let mut command = test.command();
        command.env("CLICOLOR_FORCE", "1").args(test.words(typed));
        let ran = Ran::of(&mut command);
        for said in [&ran.out, &ran.err] {
            assert!(!said.contains("\u{1b}]"), "{typed}: {said:?}");
            assert!(!said.contains("\u{1b}[2J"), "{typed}: {said:?}");
            assert!(!said.contains('\u{7}'), "{typed}: {said:?}");
        }
    }
}

/// `update` reads the source named in a receipt; a receipt that came with a repository must not make it
/// read files outside of that repository.
#[test]
fn of_a_project_does_not_fetch_from_outside() {
    let test = Test::hostile();
    test.ok("skills add V1 --claude");
    let file = test.at(CLAUDE).join(".kernels.json");
    for path in [test.outside().join("v2/demo"), "../../../outside/v2/demo".into()] {
        let mut receipt: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        receipt["source"] = json!({"kind": "folder", "path": path});
        fs::write(&file, receipt.to_string()).unwrap();
        test.run("skills update").expect_any(&[0, 1, 3]);
        assert!(test.holds_version(CLAUDE, "1"), "fetched from {}", path.display());
    }
}
