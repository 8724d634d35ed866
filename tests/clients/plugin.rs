//! What `kernels skills pack --as` writes, installed by the real clients from the folder.

use crate::agents::Agent;
use crate::install::programs;
use crate::support::{Ran, Test, write_skill};
use crate::{SKILL, project};

/// The folder of the embedded skill in all layouts.
fn packed(test: &Test) -> String {
    let layouts = "claude-plugin,codex-plugin,gemini-extension,gh";
    test.run(&format!("skills pack {SKILL} --as {layouts} --owner Ada -o plugin")).expect(0, &[]);
    test.at("plugin").to_str().unwrap().to_owned()
}

#[test]
fn claude_code_validates_and_installs_it() {
    let Some(programs) = programs() else { return };
    let test = project();
    let folder = packed(&test);
    let claude = |typed: &str| {
        let mut command = test.command_of(&programs.claude);
        command.env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1").args(typed.split(' '));
        Ran::ok(&mut command)
    };
    claude(&format!("plugin validate {folder}")).expect(0, &["Validation passed", &format!("{SKILL}:{SKILL}")]);
    claude(&format!("plugin marketplace add {folder}"));
    claude(&format!("plugin install {SKILL}@{SKILL}"));
    claude("plugin list").expect(0, &[&format!("{SKILL}@{SKILL}"), "enabled"]);
}

#[test]
fn codex_installs_it_and_lists_the_skill() {
    let Some(programs) = programs() else { return };
    let test = project();
    let folder = packed(&test);
    for typed in [format!("plugin marketplace add {folder}"), format!("plugin add {SKILL}@{SKILL}")] {
        Ran::ok(test.command_of(&programs.codex).args(typed.split(' ')));
    }
    let listed = Agent::Codex.listing(programs, &test, &test.project, SKILL);
    assert!(listed.iter().any(|entry| entry.name == format!("{SKILL}:{SKILL}")), "{listed:#?}");
}

#[test]
fn gemini_cli_validates_and_installs_it_and_lists_the_skill() {
    let Some(programs) = programs() else { return };
    let test = project();
    let folder = packed(&test);
    for typed in [format!("extensions validate {folder}"), format!("extensions install {folder} --consent")] {
        let mut command = test.command_of(&programs.node);
        command.arg(&programs.gemini).args(typed.split(' '));
        command.env("GEMINI_API_KEY", "dummy").env("GEMINI_CLI_TRUST_WORKSPACE", "true");
        Ran::ok(command.env("GEMINI_CLI_NO_RELAUNCH", "true"));
    }
    let listed = Agent::Gemini.listing(programs, &test, &test.project, SKILL);
    let one = listed.iter().find(|entry| entry.name == SKILL).unwrap_or_else(|| panic!("{listed:#?}"));
    assert!(one.file.as_ref().is_some_and(|file| file.starts_with(test.home.join(".gemini/extensions"))), "{one:#?}");
}

/// A version that is no version of npm's kind, a text with quotes: the manifests are JSON whatever the skill says.
#[test]
fn claude_code_accepts_what_a_new_skill_becomes() {
    let Some(programs) = programs() else { return };
    let test = project();
    write_skill(&test.at("review"), "review", "0.1.0");
    let file = test.at("review/SKILL.md");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("Does a thing.", "Reads \"all\" \\\\ of it.")).unwrap();
    test.run("skills pack review --as claude-plugin --owner Ada").expect(0, &[]);
    let mut command = test.command_of(&programs.claude);
    command.env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1").args(["plugin", "validate", "review-plugin"]);
    Ran::ok(&mut command).expect(0, &["Validation passed"]);
}
