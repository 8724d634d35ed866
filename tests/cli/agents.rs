//! `--agent`: which agents there are, what they are called, and what `'*'` and `--all` mean.

use std::fs;
use std::os::unix::fs::symlink;

use crate::support::{Test, exists, snapshot, write_skill};

const NAME: &str = "cuda-kernels";

/// The project's folders with this skill, sorted.
fn folders(test: &Test, name: &str) -> Vec<String> {
    let all = snapshot(&test.project);
    let ends = format!("/skills/{name}");
    let at = |path: &String| path.trim_end_matches('/').strip_suffix(&ends).map(str::to_owned);
    let mut found: Vec<String> = all.keys().filter(|path| !path.contains("/.kernels/")).filter_map(at).collect();
    found.sort();
    found
}

#[test]
fn agents_lists_all_and_says_which_are_here() {
    let test = Test::new();
    fs::create_dir(test.home.join(".windsurf-not")).unwrap();
    fs::create_dir_all(test.home.join(".codeium/windsurf")).unwrap();
    test.ok("skills agents").expect(0, &["claude", "windsurf", "zencoder", "1 of "]);
    let here = test.ok("skills agents --here");
    here.expect(0, &["windsurf", ".windsurf/skills", "~/.codeium/windsurf/skills"]);
    assert!(!here.out.contains("zencoder"), "{here:#?}");
    let report = test.json("skills agents");
    let rows = report["agents"].as_array().unwrap();
    assert!(rows.len() > 75, "{}", rows.len());
    for row in rows {
        assert_eq!(row["here"], row["id"] == "windsurf", "{row}");
    }
}

#[test]
fn an_agent_is_found_by_the_name_that_others_give_it() {
    for (typed, folder) in [
        ("-a claude-code", ".claude"),
        ("-a github-copilot", ".github"),
        ("--agent gemini-cli", ".gemini"),
        ("-a universal", ".agents"),
        ("-a windsurf", ".windsurf"),
        ("-a claude-code,kiro-cli", ".kiro"),
        ("-a zed", ".agents"),
    ] {
        let test = Test::new();
        test.ok(&format!("skills add {typed}"));
        assert!(exists(test.at(folder).join("skills").join(NAME)), "{typed}");
        test.ok(&format!("skills remove {NAME} {typed}"));
        assert!(folders(&test, NAME).is_empty(), "{typed}");
    }
}

#[test]
fn an_agent_that_is_not_known_is_an_error_with_a_close_one_and_not_with_all() {
    let test = Test::new();
    for (typed, close) in [("claude-cod", "claude"), ("windsrf", "windsurf"), ("copilot-cli", "copilot")] {
        let ran = test.run(&format!("skills add -a {typed}"));
        ran.expect(2, &[typed, &format!("'{close}'"), "kernels skills agents"]);
        assert!(!ran.err.contains("zencoder"), "{ran:#?}");
    }
    assert!(!test.ok("skills add --help").out.contains("zencoder"));
    assert!(folders(&test, NAME).is_empty());
}

#[test]
fn an_agent_without_a_folder_of_its_own_in_a_project_says_so() {
    let test = Test::new();
    // The sources of skills lie there in many repositories.
    write_skill(&test.at("skills/cuda-kernels"), NAME, "1");
    let before = snapshot(&test.project);
    test.run("skills add -a openclaw").expect(1, &["OpenClaw", "--global"]);
    test.ok("skills status").expect(0, &["nothing is installed"]);
    test.ok("doctor");
    assert_eq!(snapshot(&test.project), before);
    test.ok("skills add -a openclaw --global");
    assert!(exists(test.home.join(".openclaw/skills").join(NAME)));
    test.run("skills add -a promptscript --global").expect(1, &["PromptScript", "no user-level folder"]);
}

#[test]
fn a_star_is_the_folders_that_most_read_and_those_of_others_that_are_here() {
    let test = Test::new();
    test.ok("skills add -a *");
    assert_eq!(folders(&test, NAME), [".agents", ".claude"]);
    test.ok("skills status -a *").expect(0, &[".agents/skills", ".claude/skills"]);
    test.ok(&format!("skills remove {NAME} -a *"));
    assert!(folders(&test, NAME).is_empty());

    let test = Test::new();
    // Codex, Gemini and Cursor read .agents; Windsurf and Kiro have a folder of their own alone.
    for folder in [".codex", ".gemini", ".cursor", ".codeium/windsurf"] {
        fs::create_dir_all(test.home.join(folder)).unwrap();
    }
    fs::create_dir_all(test.at(".kiro/skills")).unwrap();
    test.ok("skills add --agent *");
    assert_eq!(folders(&test, NAME), [".agents", ".claude", ".kiro", ".windsurf"]);
    test.ok("doctor");

    let test = Test::new();
    fs::create_dir_all(test.home.join(".codeium/windsurf")).unwrap();
    test.ok("skills add --agent * --global");
    for folder in [".agents", ".claude", ".codeium/windsurf"] {
        assert!(exists(test.home.join(folder).join("skills").join(NAME)), "{folder}");
    }
    assert!(folders(&test, NAME).is_empty());
}

#[test]
fn all_is_every_skill_for_every_agent() {
    let test = Test::new();
    write_skill(&test.at("sources/one"), "one", "1");
    write_skill(&test.at("sources/two"), "two", "1");
    test.ok("skills add ./sources --all -y");
    for name in ["one", "two"] {
        assert_eq!(folders(&test, name), [".agents", ".claude"], "{name}");
    }
    test.ok("skills add ./sources/one --all --cursor");
    assert!(exists(test.at(".cursor/skills/one")));
    test.run("skills add ./sources --all -s one").expect(2, &["--all"]);
    // One that cannot be installed: nothing is.
    test.write("sources/zero/SKILL.md", "no header");
    test.run("skills add ./sources --all --kiro").expect(2, &["--agent kiro"]);
    test.run("skills add ./sources --all -a kiro").expect(1, &["zero"]);
    assert!(!exists(test.at(".kiro")));
}

#[test]
fn remove_all_takes_what_kernels_installed_and_leaves_the_rest() {
    let test = Test::new();
    test.ok("skills remove --all").expect(0, &["nothing is installed"]);
    write_skill(&test.at("sources/one"), "one", "1");
    write_skill(&test.at(".claude/skills/foreign"), "foreign", "1");
    let before = snapshot(test.at(".claude"));
    test.ok("skills add ./sources/one -a *");
    test.ok("skills add --claude --codex");
    test.run("skills remove --all one").expect(2, &["--all"]);
    test.run("skills remove").expect(2, &["NAME"]);
    test.ok("skills remove --all --codex").expect(0, &[".codex/skills/cuda-kernels"]);
    assert!(exists(test.at(".claude/skills/one")));
    test.run("skills remove --all --check").expect(1, &["would change"]);
    let edited = test.at(".claude/skills/one/SKILL.md");
    let text = fs::read_to_string(&edited).unwrap();
    fs::write(&edited, "mine").unwrap();
    test.run("skills remove --all").expect(3, &["M SKILL.md"]);
    fs::write(&edited, text).unwrap();
    test.ok("skills rm --all --yes");
    assert_eq!(snapshot(test.at(".claude")), before);
    assert!(!exists(test.at(".agents")));
}

#[test]
fn remove_all_leaves_a_link_of_the_user_s_with_the_name_of_the_embedded_skill() {
    let test = Test::new();
    write_skill(&test.at("sources/one"), "one", "1");
    write_skill(&test.at("own/cuda-kernels"), "cuda-kernels", "1");
    fs::create_dir_all(test.at(".cursor/skills")).unwrap();
    let link = test.at(".cursor/skills/cuda-kernels");
    symlink("../../own/cuda-kernels", &link).unwrap();
    test.ok("skills add ./sources/one --claude");
    test.ok("skills remove --all");
    assert!(!exists(test.at(".claude")) && link.is_symlink());
}
