//! `kernels skills show`, `validate`, `pack`; `kernels doctor`, `completions`, `--version`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::support::{Ran, Test, exists, program, script, snapshot, write, write_skill};

const EMBEDDED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/skills/cuda-kernels");

#[test]
fn show_prints_skill_md_byte_for_byte() {
    let test = Test::new();
    let text = fs::read_to_string(format!("{EMBEDDED}/SKILL.md")).unwrap();
    assert_eq!(test.ok("skills show").out, text);
    assert_eq!(test.ok("skills show cuda-kernels --quiet").out, text);
    assert_eq!(test.json("skills show")["skill_md"], text);
}

#[test]
fn skill_md_costs_an_agent_at_most_550_tokens() {
    let test = Test::new();
    let report = test.json("skills show --tokens");
    let tokens = report["files"]["SKILL.md"].as_u64().unwrap();
    assert!(tokens <= 550, "{tokens} tokens");
    assert_eq!(report["encoding"], "o200k_base");
    test.ok("skills show --tokens").expect(0, &["SKILL.md", "references/troubleshooting.md"]);
}

#[test]
fn the_embedded_skill_is_valid_to_the_last_warning() {
    let test = Test::new();
    test.ok(&format!("skills validate {EMBEDDED} --strict")).expect(0, &["valid"]);
    test.ok("skills pack");
    test.ok("skills validate cuda-kernels.skill --strict");
    // An install with its receipt is valid if its source is.
    test.ok("skills add --claude");
    test.ok("skills validate .claude/skills/cuda-kernels --strict");
}

#[test]
fn validate_points_at_file_and_line_and_exits_1() {
    let test = Test::new();
    let folder = test.project.join("demo");
    write_skill(&folder, "demo", "1");
    write(
        &folder.join("SKILL.md"),
        "---\nname: demo\ndescription: Does <it>. Use when asked.\nmodel: opus\n---\n[x](../secret)\n[y](none.md)\n",
    );
    let ran = test.run("skills validate demo");
    ran.expect(
        1,
        &["demo/SKILL.md:3", "demo/SKILL.md:4", "demo/SKILL.md:6", "[link-outside]", "[key-unknown]", "not valid"],
    );
    let report = test.json("skills validate demo demo/SKILL.md");
    assert_eq!(report["skills"].as_array().unwrap().len(), 2);
    let first = &report["skills"][0];
    assert_eq!(first["valid"], false);
    let rules: Vec<_> = first["findings"].as_array().unwrap().iter().map(|f| f["rule"].as_str().unwrap()).collect();
    assert_eq!(rules, ["description-angle", "key-unknown", "link-outside", "link-broken"]);

    write(&folder.join("SKILL.md"), "---\nname: demo\ndescription: Does it.\n---\ntext\n");
    test.ok("skills validate demo").expect(0, &["description-when", "valid"]);
    test.run("skills validate demo --strict").expect(1, &["not valid"]);
    fs::rename(folder.join("SKILL.md"), folder.join("skill.md")).unwrap();
    test.run("skills validate demo").expect(1, &["skill-md-missing", "rename"]);
    symlink("/etc/passwd", folder.join("passwd")).unwrap();
    test.run("skills validate demo").expect(1, &["symbolic link", "skill-md-missing"]);
    test.run("skills validate nowhere").expect(1, &["nowhere"]);
    test.run("skills validate").expect(2, &["PATH"]);
    test.ok("skills validate --rules").expect(0, &["name-folder", "link-outside"]);
}

#[test]
fn validate_refuses_headers_that_parsers_of_agents_refuse_or_read_otherwise() {
    let test = Test::new();
    let header = |extra: &str| format!("---\nname: demo\ndescription: Does it. Use when asked.\n{extra}---\n# Demo\n");
    for (text, found) in [
        (header("metadata: !!python/object/apply:os.system\n  command: id\n"), "SKILL.md:4: error: anchors and tags"),
        (header("metadata: &all\n  a: b\n"), "SKILL.md:4: error: anchors and tags"),
        (
            header("metadata:\n  a: b\n").replace("Does it.", "\"a\u{b}b").replace("asked.", "asked.\""),
            "SKILL.md:3: error: not valid YAML: U+000B",
        ),
        (
            header("").replace("Does it.", "'a\u{7}b").replace("asked.", "asked.'"),
            "SKILL.md:3: error: not valid YAML: U+0007",
        ),
        (header("metadata:\n  version: 2024-01-01\n"), "SKILL.md:5: error: version must be a string"),
        (header("metadata:\n  on: x\n"), "SKILL.md:5: error: the key on must be a string"),
        (header("metadata:\n  time: 12:30:45\n"), "SKILL.md:5: error: time must be a string"),
        (header("license: no\n"), "SKILL.md:4: error: must be one string"),
        (header("").replace("demo", "yes"), "SKILL.md:2: error: the name must be a string"),
    ] {
        write(&test.at("demo/SKILL.md"), &text);
        test.run("skills validate demo").expect(1, &[found]);
    }
    write(&test.at("demo/SKILL.md"), header("metadata:\n  version: \"2024-01-01\"\n  'on': 'yes'\n"));
    test.ok("skills validate demo --strict");
}

#[test]
fn pack_gives_the_same_bytes_from_the_binary_a_folder_and_a_clone() {
    let test = Test::new();
    test.ok("skills pack cuda-kernels -o one.skill");
    test.ok(&format!("skills pack {EMBEDDED} -o two.skill"));
    let copy = test.project.join("elsewhere/cuda-kernels");
    fs::create_dir_all(copy.parent().unwrap()).unwrap();
    // Different times, order of creation and umask.
    let copied = Command::new("sh")
        .args(["-c", "umask 077; cp -R \"$0\" \"$1\" && touch -d 2001-02-03 \"$1\"/*", EMBEDDED])
        .arg(&copy)
        .status()
        .unwrap();
    assert!(copied.success());
    test.ok("skills pack elsewhere/cuda-kernels -o three.skill");
    let read = |name: &str| fs::read(test.project.join(name)).unwrap();
    assert_eq!(read("one.skill"), read("two.skill"));
    assert_eq!(read("one.skill"), read("three.skill"));
    // Python's zip reader finds the same files in it.
    let listed = Command::new("python3")
        .args(["-c", "import sys,zipfile; z=zipfile.ZipFile(sys.argv[1]); assert z.testzip() is None; print('\\n'.join(z.namelist()))"])
        .arg(test.project.join("one.skill"))
        .output()
        .unwrap();
    let names = String::from_utf8(listed.stdout).unwrap();
    assert!(names.lines().any(|name| name == "cuda-kernels/SKILL.md"), "{names}");
}

#[test]
fn pack_never_overwrites_another_file_unasked() {
    let test = Test::new();
    write(&test.project.join("cuda-kernels.skill"), "mine");
    test.run("skills pack").expect(3, &["cuda-kernels.skill", "--force"]);
    assert_eq!(fs::read_to_string(test.project.join("cuda-kernels.skill")).unwrap(), "mine");
    test.ok("skills pack --force");
    test.ok("skills pack");
    test.run("skills pack -o nowhere/x.skill").expect(1, &["nowhere/x.skill"]);
}

#[test]
fn doctor_shows_what_agents_see_and_what_is_wrong() {
    let test = Test::new();
    test.ok("doctor").expect(0, &["no problems", "git root"]);
    fs::create_dir(test.home.join(".codex")).unwrap();
    fs::create_dir(test.home.join(".claude")).unwrap();
    test.ok("skills add --codex --claude");
    test.ok("doctor").expect(0, &["Codex", "Claude Code", ".codex/skills/cuda-kernels", "no problems"]);
    // Listed twice by one agent, hidden from another.
    test.ok("skills add --codex --global");
    write(
        &test.home.join(".claude/skills/cuda-kernels/SKILL.md"),
        "---\nname: cuda-kernels\ndescription: old\n---\nx\n",
    );
    write(&test.project.join(".claude/skills/broken/SKILL.md"), "\u{feff}---\nname: broken\n---\n");
    symlink("nowhere", test.project.join(".claude/skills/gone")).unwrap();
    let ran = test.run("doctor");
    ran.expect(
        1,
        &[
            "Codex lists cuda-kernels 2 times",
            "hides the project's different one",
            "byte-order mark",
            "gone is a link to nothing",
            "foreign",
        ],
    );
    let report = test.json("doctor");
    assert!(report["problems"].as_array().unwrap().len() >= 5);
}

/// Agents read no skill out of a folder that only groups skills, or holds something else.
#[test]
fn doctor_lists_no_folder_without_a_skill_md() {
    let test = Test::new();
    fs::create_dir(test.home.join(".claude")).unwrap();
    fs::create_dir_all(test.at(".claude/skills/empty")).unwrap();
    test.write(".claude/skills/group/one/SKILL.md", "x\n");
    test.write(".claude/skills/notes/README.md", "x\n");
    test.write(".claude/skills/lower/skill.md", "---\nname: lower\ndescription: Use when asked.\n---\nx\n");
    write_skill(&test.at(".claude/skills/mine"), "mine", "1");
    symlink("nowhere", test.at(".claude/skills/gone")).unwrap();
    let ran = test.run("doctor");
    ran.expect(1, &["mine", "gone is a link to nothing", "lower is hidden from some agents"]);
    let report = test.json("doctor");
    let claude = report["agents"].as_array().unwrap().iter().find(|agent| agent["id"] == "claude").unwrap();
    let names: Vec<_> = claude["sees"].as_array().unwrap().iter().map(|seen| seen["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["gone", "lower", "mine"]);
    for name in ["empty", "group", "notes"] {
        assert!(!ran.out.contains(&format!("skills/{name}")), "{ran:#?}");
    }
}

#[test]
fn doctor_reads_versions_without_running_anything() {
    let test = Test::new();
    let package = test.root().join("node_modules/codex");
    write(&package.join("package.json"), "{\"name\":\"codex\",\"version\":\"1.2.3\"}");
    let marker = test.root().join("was-run");
    script(&package.join("bin/codex.js"), format!("touch {}", marker.display()));
    let bin = test.root().join("bin");
    fs::create_dir(&bin).unwrap();
    symlink(package.join("bin/codex.js"), bin.join("codex")).unwrap();
    Ran::of(test.command().env("PATH", &bin).arg("doctor")).expect(0, &["Codex", "1.2.3"]);
    assert!(!marker.exists(), "doctor ran the agent");
}

#[test]
fn completions_are_scripts_that_their_shell_accepts() {
    let test = Test::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        test.ok(&format!("completions {shell}")).expect(0, &["kernels", "KERNELS_COMPLETE"]);
    }
    let script = test.project.join("kernels.bash");
    fs::write(&script, test.ok("completions bash").out).unwrap();
    let checked = Command::new("bash").arg("-n").arg(&script).status().unwrap();
    assert!(checked.success());
    // Bash inserts what the function answers: the name of a folder is one word, and no command.
    for name in ["a b", "q$(touch ran)", "q;touch ran;", "plain"] {
        fs::create_dir(test.at(name)).unwrap();
    }
    for (typed, word) in
        [("a", "a\\ b/"), ("q$", "q\\$\\(touch\\ ran\\)/"), ("q;", "q\\;touch\\ ran\\;/"), ("pl", "plain/")]
    {
        let asked = "source \"$1\"; COMP_WORDS=(kernels check \"$2\") COMP_CWORD=2 COMP_TYPE=9; \
                     _clap_complete_kernels kernels \"$2\" check 2>/dev/null; printf '%s\\n' \"${COMPREPLY[@]}\"";
        let mut bash = test.command_of("bash");
        bash.env("PATH", format!("{}:/usr/bin:/bin", Path::new(program()).parent().unwrap().display()));
        let ran = Ran::ok(bash.args(["-c", asked, "bash"]).arg(&script).arg(typed));
        assert_eq!(ran.out.trim(), word, "{ran:#?}");
    }
}

#[test]
fn every_command_that_help_shows_has_a_manual_page_of_its_own() {
    let test = Test::new();
    let list = test.ok("man --list").out;
    let names: Vec<&str> = list.lines().collect();
    assert_eq!(names[0], "kernels");
    for needed in ["kernels skills add", "kernels bench", "kernels toolchain install"] {
        assert!(names.contains(&needed), "{needed} is not in {list}");
    }
    assert!(!list.contains("__worker"), "{list}");
    for name in names {
        let page = test.ok(name.replacen("kernels", "man", 1).trim()).out;
        let title = format!(".TH {} 1", name.replace(' ', "-"));
        assert!(page.contains(&title), "{name}: {page}");
        // The page contains the text of the help, escaped for roff.
        let help = format!("{} --help", name["kernels".len()..].trim());
        let help = test.ok(help.trim()).out;
        let page = page.replace("\\-", "-").replace("\\*(Aq", "'");
        let first = help.lines().next().unwrap();
        assert!(page.contains(first), "{name}: {first}: {page}");
    }
    test.run("man skills nothing").expect(1, &["kernels skills has no command nothing", "kernels man --list"]);
    test.run("man --list skills").expect(2, &["--list"]);
}

#[test]
fn version_names_the_git_revision() {
    let test = Test::new();
    let version = test.ok("--version").out;
    assert!(version.starts_with(concat!("kernels ", env!("CARGO_PKG_VERSION"))), "{version}");
    let git = Command::new("git")
        .args(["-C", env!("CARGO_MANIFEST_DIR"), "rev-parse", "--short=10", "HEAD"])
        .output()
        .unwrap();
    if git.status.success() {
        let revision = String::from_utf8(git.stdout).unwrap();
        assert!(version.contains(revision.trim()), "{version} {revision}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let test = Test::new();
    let program = program();
    let ran = Ran::of(
        Command::new("bash")
            .args(["-c", &format!("set -o pipefail; {program} skills show | true")])
            .env("HOME", &test.home),
    );
    ran.expect(0, &[]);
}

#[test]
fn output_that_a_full_disk_swallows_is_a_failure() {
    let test = Test::new();
    write_skill(&test.at("demo"), "demo", "1");
    test.ok("init my-norms --op blank");
    test.ok("skills add demo --claude");
    for typed in [
        "skills show",
        "completions bash",
        "skills list --json",
        "skills list",
        "skills status",
        "skills validate demo",
        "skills agents",
        "skills backups",
        "skills find demo",
        "skills update --dry-run",
        "skills update --check",
        "skills remove demo --dry-run",
        "skills add demo --codex --dry-run",
        "check my-norms",
        "init --list",
        "doctor",
    ] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let ran = Ran::of_redirected(test.command().args(typed.split(' ')), full.into());
        ran.expect(1, &["stdout", "No space left"]);
    }
    // What changes installs says by its exit code that it was done.
    for typed in ["skills update", "skills add demo --codex", "skills add demo --codex", "skills remove demo"] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        Ran::of_redirected(test.command().args(typed.split(' ')), full.into()).expect(0, &[]);
    }
}

/// In the skill it would be packed by the next run.
#[test]
fn pack_writes_nothing_into_what_it_packs() {
    let test = Test::new();
    write_skill(&test.at("demo"), "demo", "1");
    let before = snapshot(test.at("demo"));
    for _ in 0..2 {
        test.run_in(&test.at("demo"), "skills pack .").expect(0, &["demo.skill"]);
        test.run_in(&test.at("demo/references"), "skills pack .. --as gh").expect(0, &["demo-plugin"]);
    }
    assert!(exists(test.at("demo.skill")) && exists(test.at("demo-plugin")));
    test.run("skills pack demo -o demo/references/x.skill").expect(2, &["lies in the skill", "-o"]);
    assert!(snapshot(test.at("demo")) == before);
}

/// A version of two lines would be two rows of a table.
#[test]
fn a_version_is_one_line() {
    let test = Test::new();
    let other = "current .claude/skills/other";
    write_skill(&test.at("demo"), "demo", &format!("1\\n  {other}"));
    let ran = test.ok("skills add demo --claude");
    assert!(!ran.out.lines().any(|line| line.trim_start().starts_with(other)), "{ran:#?}");
    let receipt = fs::read_to_string(test.at(".claude/skills/demo/.kernels.json")).unwrap();
    let (version, forged) = (format!("1 {other}"), format!("1\\n  {other}"));
    assert!(receipt.contains(&version), "{receipt}");
    test.write(".claude/skills/demo/.kernels.json", receipt.replace(&version, &forged));
    for typed in ["skills status", "skills list"] {
        let ran = test.run(typed);
        assert!(!ran.out.lines().any(|line| line.trim_start().starts_with(other)), "{ran:#?}");
    }
}
