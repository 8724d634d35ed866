//! Skills from repositories and sites that mean harm: what they ask of git, of this machine's network and time, and of a terminal.

use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::site::{Answer, Repository, Site};
use crate::support::{Ran, Test, exists, picture, sha256, write_skill};

#[track_caller]
fn refused(test: &Test, typed: &str, words: &[&str]) {
    let before = picture(&test.project);
    test.run(typed).expect(1, words);
    assert!(picture(&test.project) == before, "{typed} changed something");
}

/// A commit whose tree is that of the folder, with these lines of `git mktree -z` more.
fn with_entry(repository: &Repository, entry: &str) {
    let tree = repository.git("ls-tree -z HEAD") + entry + "\0";
    let mut command = Command::new("sh");
    command.current_dir(&repository.folder);
    let text = tree.replace('\0', "\\000").replace('\n', "\\n");
    let tree = Ran::ok(command.args(["-c", "printf \"$0\" | git mktree -z", &text])).out.trim().to_owned();
    let commit = repository.git(&format!("commit-tree -m x {tree}"));
    repository.git(&format!("update-ref refs/heads/trap {commit}"));
}

#[test]
fn names_that_git_itself_would_not_write_are_refused_or_left_out() {
    let test = Test::new();
    let repository = Repository::new(&test, "demo");
    write_skill(&repository.folder, "demo", "1");
    repository.write("config", "[core]\nfsmonitor = touch /tmp/kernels-trap\n");
    repository.commit();
    let blob = repository.git("hash-object -w config");
    for (name, why) in
        [("a\nb", "control character"), ("a\u{7f}b", "control character"), ("..", "'..'"), ("ab:c", "colon")]
    {
        with_entry(&repository, &format!("100644 blob {blob}\t{name}"));
        refused(&test, "skills add acme/demo@trap --claude -y", &[why]);
    }
    // A folder that git would take for its own, with a setting that names a program.
    repository.write("x/config", "[core]\nfsmonitor = touch /tmp/kernels-trap\n");
    repository.commit();
    let folder = repository.git("rev-parse HEAD:x");
    for name in [".git", ".GIT", ".Git", "git~1"] {
        with_entry(&repository, &format!("040000 tree {folder}\t{name}"));
        test.ok(&format!("skills add acme/demo@trap --dest ../{} -y", name.len()));
        let to = test.root().join(name.len().to_string()).join("demo");
        assert!(exists(to.join("SKILL.md")) && !exists(to.join(name)), "{name}");
        fs::remove_dir_all(to).unwrap();
    }
}

#[test]
fn a_server_of_git_without_an_end_fills_neither_memory_nor_time() {
    let (test, site) = (Test::new(), Site::new());
    let path = "/x.git/info/refs?service=git-upload-pack";
    site.answer(path, Answer { body: vec![b'x'; 1 << 20], endless: true, ..Answer::default() });
    let start = Instant::now();
    refused(&test, &format!("skills add {} --claude -y", site.url("/x.git")), &["git cannot fetch it"]);
    assert!(start.elapsed() < Duration::from_secs(60));
}

#[test]
fn an_index_leads_to_no_server_of_this_machine_or_its_network() {
    let (test, site, other) = (Test::new(), Site::new(), Site::new());
    let page = "---\nname: page\ndescription: One file. Use when tested.\n---\n# Page\n";
    other.put("/page.md", page);
    let digest = format!("sha256:{}", sha256(page));
    for url in [other.url("/page.md"), "http://192.0.2.1/page.md".to_owned(), "file:///etc/passwd".to_owned()] {
        let entry = json!({"name": "page", "type": "skill-md", "url": url, "digest": digest});
        site.put("/.well-known/agent-skills/index.json", json!({"skills": [entry]}).to_string());
        refused(
            &test,
            &format!("skills add {} --claude -y", site.url("")),
            &["neither on the host of the index nor https"],
        );
    }
    assert!(other.asked().is_empty(), "{:?}", other.asked());
}

/// Each answer is in time, and all of them are not.
#[test]
fn all_answers_together_have_one_limit_of_time() {
    let (test, site) = (Test::new(), Site::new());
    let files: Vec<String> = (0..200).map(|n| format!("{n}.md")).chain(["SKILL.md".to_owned()]).collect();
    let index = json!({"skills": [{"name": "page", "description": "d", "files": files}]});
    site.put("/.well-known/skills/index.json", index.to_string());
    for file in &files {
        let slow = Answer { body: b"x".to_vec(), after: Duration::from_millis(10), ..Answer::default() };
        site.answer(&format!("/.well-known/skills/page/{file}"), slow);
    }
    let mut command = test.command();
    command.env("KERNELS_FETCH_SECONDS", "0.4").args(["skills", "add", &site.url(""), "--claude", "-y"]);
    assert_eq!(Ran::of(&mut command).code, 1);
    assert!(site.asked().len() < 150, "{} answers", site.asked().len());
}

/// What YAML's escapes hide from a look at the bytes.
#[test]
fn a_description_controls_no_terminal() {
    let test = Test::new();
    let repository = Repository::new(&test, "demo");
    write_skill(&repository.folder, "demo", "1");
    let head = "---\nname: demo\ndescription: \"Does \\e[2J\\e[8m\\u202e a thing. Use when tested.\"\n---\n# Demo\n";
    repository.write("SKILL.md", head);
    repository.commit();
    for typed in
        ["skills add acme/demo --list", "skills find thing --in acme/demo", "skills add acme/demo --claude --dry-run"]
    {
        let ran = test.run(typed);
        assert!(!ran.out.contains(['\u{1b}', '\u{202e}']) && !ran.err.contains(['\u{1b}', '\u{202e}']), "{ran:#?}");
    }
}

#[test]
fn restore_without_a_backup_installs_what_is_pinned() {
    let test = Test::new();
    let repository = Repository::new(&test, "demo");
    write_skill(&repository.folder, "demo", "1");
    repository.commit();
    test.ok("skills add acme/demo --agents -y");
    write_skill(&repository.folder, "demo", "2");
    repository.commit();
    fs::remove_dir_all(test.at(".agents")).unwrap();
    test.ok("skills restore --dry-run").expect(0, &["demo"]);
    assert!(!exists(test.at(".agents/skills/demo")));
    test.ok("skills restore").expect(0, &["installed", "demo 1"]);
    assert!(exists(test.at(".agents/skills/demo/SKILL.md")));
    test.ok("skills status");
}
