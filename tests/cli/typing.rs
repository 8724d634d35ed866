//! What is typed by people who know other programs, and what a shell completes.

use std::process::Command;

use crate::support::{Ran, Test, exists, program, write_skill};

#[test]
fn the_commands_of_npms_skills_work() {
    let test = Test::new();
    write_skill(&test.at("sources/one"), "one", "1");
    for typed in [
        "skills add ./sources/one -a claude-code -y",
        "skills install ./sources -s one -a codex",
        "skills ls",
        "skills update -y",
        "skills upgrade one --check",
        "skills rm one -a codex -y",
        "skills uninstall one",
        "skills install ./sources --all",
        "skills remove --all -y",
        "skills search cuda",
        "skills preview",
        "skills init two",
    ] {
        test.ok(typed);
    }
    assert!(!exists(test.at(".claude/skills")));
}

#[test]
fn what_is_unknown_is_told_what_it_is_here() {
    let test = Test::new();
    for (typed, instead) in [
        ("install cuda-kernels", "kernels skills add"),
        ("list", "kernels skills list"),
        ("upload", "kernels publish"),
        ("download", "kernels hub download"),
        ("benchmark", "kernels bench"),
        ("bilud", "kernels build"),
        ("skills check", "kernels skills update --check"),
        ("skills use", "kernels skills show"),
        ("skills build", "kernels build"),
        ("skills instal cuda-kernels", "kernels skills add"),
        ("skills publish", "kernels skills pack --as gh"),
        ("skills experimental_install", "kernels skills sync"),
        ("skills add --claude-code", "--claude"),
        ("skills add --windsurf", "--agent windsurf"),
        ("skills add --kiro-cli", "--agent kiro"),
        ("skills add --github-copilot", "--copilot"),
    ] {
        test.run(typed).expect(2, &[&format!("did you mean `{instead}`?")]);
    }
    for typed in ["xyzzy", "skills xyzzy"] {
        assert!(!test.run(typed).err.contains("did you mean"), "{typed}");
    }
    test.run("skills add cuda_kernels --claude").expect(1, &["did you mean cuda-kernels?"]);
    test.ok("skills add --claude");
    for typed in ["skills remove cuda_kernels", "skills status cudakernels", "skills diff cuda-kernel"] {
        test.run(typed).expect(1, &["did you mean cuda-kernels?"]);
    }
    // What no skill is called like gets no advice that would fail.
    let ran = test.run("skills update nothing-like-it");
    assert!(ran.code == 1 && !ran.err.contains("skills add nothing-like-it"), "{ran:#?}");
}

/// What the program offers a shell for the last of these words.
fn offered(test: &Test, typed: &str) -> Vec<String> {
    let words: Vec<&str> = typed.split(' ').collect();
    let mut command = test.command();
    command.env("KERNELS_COMPLETE", "bash").env("_CLAP_IFS", "\n").env("_CLAP_COMPLETE_INDEX", words.len().to_string());
    let ran = Ran::ok(command.args(["--", "kernels"]).args(words));
    let options = typed.ends_with(' ');
    ran.out.lines().filter(|word| !options || !word.starts_with('-')).map(str::to_owned).collect()
}

#[test]
fn names_of_skills_agents_and_backups_are_completed() {
    let test = Test::new();
    test.ok("skills add --claude");
    write_skill(&test.at("sources/own-one"), "own-one", "1");
    test.ok("skills add sources/own-one --codex");
    test.write(".claude/skills/cuda-kernels/SKILL.md", "mine");
    test.ok("skills add --claude --force");
    for (typed, wanted) in [
        ("skills remove ", &["cuda-kernels", "own-one"][..]),
        ("skills update o", &["own-one"]),
        ("skills status cuda", &["cuda-kernels"]),
        ("skills add cuda", &["cuda-kernels"]),
        ("skills add sourc", &["sources/"]),
        ("build sourc", &["sources/"]),
        ("skills show cu", &["cuda-kernels"]),
        ("skills add --agent wind", &["windsurf"]),
        ("skills add --agent claude,wind", &["claude,windsurf"]),
        ("skills rm own", &["own-one"]),
        ("skills uni", &["uninstall"]),
        ("skills pack --as cl", &["claude-plugin"]),
    ] {
        assert_eq!(offered(&test, typed), wanted, "{typed}");
    }
    // A shell would run what a folder of a cloned repository is called.
    for name in ["own$(touch x)", "own;x", "own\u{1b}[2J", "Own x"] {
        write_skill(&test.at(".claude/skills").join(name), "own", "1");
    }
    assert_eq!(offered(&test, "skills remove o"), ["own-one"]);
    let backups = offered(&test, "skills restore cuda");
    assert!(backups.len() == 1 && backups[0].starts_with("cuda-kernels-2"), "{backups:?}");
}

/// The script itself, in the shell that most have.
#[test]
fn bash_completes_with_the_script() {
    let test = Test::new();
    test.ok("skills add --claude");
    let script = test.at("kernels.bash");
    std::fs::write(&script, test.ok("completions bash").out).unwrap();
    let typed = "source $1; COMP_WORDS=(kernels skills remove cu); COMP_CWORD=3; COMP_TYPE=9; _clap_complete_kernels kernels cu remove; \
                 echo \"${COMPREPLY[@]}\"";
    let mut command = Command::new("bash");
    let bin = std::path::Path::new(program()).parent().unwrap();
    command.env_clear().env("HOME", &test.home).env("PATH", format!("{}:/usr/bin:/bin", bin.display()));
    let ran = Ran::ok(command.current_dir(&test.project).args(["-c", typed, "bash"]).arg(&script));
    assert_eq!(ran.out.trim(), "cuda-kernels", "{ran:#?}");
}
