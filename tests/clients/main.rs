//! Do the real coding agents see what `kernels` installed? Each test runs the commands of a user
//! in a fresh home and project, and then asks Claude Code, Codex, `OpenCode`, Gemini CLI, Copilot CLI,
//! Qwen Code, Kimi Code CLI and Continue for their skills.
//!
//! `tests/clients/setup` installs the agents once from npm. If that is impossible, the tests print
//! `not run:` and pass; with `CI` set they fail.

// Test helpers panic to report the step that failed.
#![allow(clippy::panic, clippy::expect_used, clippy::unwrap_used, clippy::similar_names)]

mod agents;
mod install;
mod lock;
mod model;
mod plugin;
mod subjects;
#[path = "../support/mod.rs"]
mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use agents::{Agent, Listed};
use install::{Programs, programs};
use kernels::agent::table::ProjectRoots;
use serde_json::Value;
use support::{Ran, Test, files_with, write};

const SKILL: &str = "cuda-kernels";

/// A project that is a git repository, with a folder from which an agent may be started.
fn project() -> Test {
    let test = Test::without_git();
    test.git(&test.project, ["init", "--quiet"]);
    fs::create_dir_all(below(&test)).unwrap();
    test
}

fn below(test: &Test) -> PathBuf {
    test.at("src/deep")
}

fn read(file: &Path) -> String {
    fs::read_to_string(file).unwrap()
}

/// The entries of `agent` for `skill` and for anything that looks like a copy of it.
fn copies(agent: Agent, programs: &Programs, test: &Test, folder: &Path, skill: &str) -> Vec<Listed> {
    let mut listed = agent.listing(programs, test, folder, skill);
    listed.retain(|entry| entry.name.contains(skill) || in_backup(entry));
    listed
}

fn in_backup(entry: &Listed) -> bool {
    entry.file.as_deref().is_some_and(|file| file.to_string_lossy().contains("/.kernels/"))
}

/// `agent`, started in `folder`, lists the skill in `installed` once, with its description.
fn assert_listed_once(agent: Agent, programs: &Programs, test: &Test, folder: &Path, installed: &Path) {
    assert_listed_once_from(agent, programs, test, folder, &[installed.to_owned()]);
}

/// The same where `agent` sees several equal copies and may take any: `OpenCode` keeps the one that
/// it read last.
fn assert_listed_once_from(agent: Agent, programs: &Programs, test: &Test, folder: &Path, installed: &[PathBuf]) {
    let skill = installed[0].file_name().expect("a skill's folder has a name").to_string_lossy();
    let files: Vec<PathBuf> = installed.iter().map(|folder| folder.join("SKILL.md").canonicalize().unwrap()).collect();
    let description = description(&read(&files[0]));
    let listed = copies(agent, programs, test, folder, &skill);
    let case = format!("{agent:?} in {}, expected one of {files:?}", folder.display());

    assert_eq!(listed.len(), 1, "{case}: listed {} times: {listed:#?}", listed.len());
    assert_eq!(listed[0].name, skill, "{case}");
    match listed[0].description.strip_suffix("...").or(listed[0].description.strip_suffix('…')) {
        // Kimi Code CLI cuts long ones.
        Some(start) if agent == Agent::Kimi => assert!(description.starts_with(start), "{case}: {start}"),
        _ => assert_eq!(words(&listed[0].description), words(&description), "{case}"),
    }
    if !agent.names_files() {
        return;
    }
    let seen = listed[0].file.as_deref().unwrap_or_else(|| panic!("{case}: not loaded"));
    assert!(files.contains(&seen.canonicalize().unwrap()), "{case}: wrong file, {}", seen.display());
}

/// The options that install for every agent, each into its own folder.
fn every_option() -> String {
    Agent::ALL.map(Agent::option).join(" ")
}

/// After `every_option()` at `top`: each agent, started in `folder`, lists `skill` once, from its own
/// folder. `OpenCode` reads Claude Code's too; so does Copilot CLI, which prefers its own.
fn assert_listed_once_by_all(programs: &Programs, test: &Test, top: &Path, folder: &Path, skill: &str) {
    for agent in Agent::ALL {
        let mut folders = vec![agent.folder()];
        if agent == Agent::OpenCode {
            folders.push(Agent::Claude.folder());
        }
        let places: Vec<PathBuf> = folders.into_iter().map(|folder| top.join(folder).join(skill)).collect();
        let from = if agent.looks_above() { folder } else { top };
        assert_listed_once_from(agent, programs, test, from, &places);
    }
}

/// The deepest folder from which `agent` sees the project's skills.
fn lowest(agent: Agent, test: &Test) -> PathBuf {
    if agent.looks_above() { below(test) } else { test.project.clone() }
}

/// The same at the top of the project and below.
fn assert_listed_once_everywhere(agent: Agent, programs: &Programs, test: &Test, installed: &Path) {
    for folder in [&test.project, &below(test)] {
        assert_listed_once(agent, programs, test, folder, installed);
    }
}

fn assert_not_listed(agent: Agent, programs: &Programs, test: &Test, folder: &Path) {
    let listed = copies(agent, programs, test, folder, SKILL);
    let folder = folder.display();
    assert!(listed.is_empty(), "{agent:?} in {folder} lists {listed:#?}");
}

/// The description in a `SKILL.md`: one line, quoted or not, or folded with `>` or `>-`.
fn description(text: &str) -> String {
    let mut lines = text.lines().skip_while(|line| !line.starts_with("description:"));
    let first = lines.next().unwrap_or_else(|| panic!("no description in {text}"));
    let value = first["description:".len()..].trim();
    if value.starts_with('>') {
        let folded: Vec<&str> = lines.take_while(|line| line.starts_with(' ')).collect();
        return folded.join(" ");
    }
    value.trim_matches('"').to_owned()
}

fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

/// Adds with `options`, looks with `agent`, removes with `options`, looks again.
fn add_look_remove(options: &str, agent: Agent, folder: &str) {
    let Some(programs) = programs() else { return };
    let test = project();
    test.run(&format!("skills add {SKILL} {options}")).expect(0, &[]);
    // A user-level folder (`~/…`) is visible from every folder.
    let of_user = folder.strip_prefix("~/");
    let installed = match of_user {
        Some(rest) => test.home.join(rest),
        None => test.project.join(folder),
    }
    .join(SKILL);
    let (top, below) = (&test.project, &below(&test));
    assert_listed_once(agent, programs, &test, top, &installed);
    if of_user.is_none() && agent.looks_above() {
        assert_listed_once(agent, programs, &test, below, &installed);
    } else if of_user.is_none() {
        assert_not_listed(agent, programs, &test, below);
    }

    test.run(&format!("skills remove {SKILL} {options}")).expect(0, &[]);
    assert!(!installed.exists(), "{} is still there", installed.display());
    assert_not_listed(agent, programs, &test, top);
}

/// Adds with `options` and looks once, from the deepest folder where it is visible, with an agent that reads
/// the folder of another.
fn add_look_below(options: &str, agent: Agent, folder: &str) {
    let Some(programs) = programs() else { return };
    let test = project();
    test.run(&format!("skills add {SKILL} {options}")).expect(0, &[]);
    let installed = test.project.join(folder).join(SKILL);
    let from = &lowest(agent, &test);
    assert_listed_once(agent, programs, &test, from, &installed);
}

/// docs/agents.md states the tested versions, where they look and from where, as tested here.
#[test]
fn the_table_says_what_is_asked() {
    let pins = [include_str!("package.json"), include_str!("more/package.json")];
    let pins = pins.map(|text| serde_json::from_str::<Value>(text).unwrap());
    for agent in Agent::ALL.into_iter().chain(Agent::MORE) {
        let id = agent.option().trim_start_matches("-a ").trim_start_matches('-');
        let row = kernels::agent::table::find(id).unwrap();
        let kinds = ["dependencies", "optionalDependencies"];
        let pin = pins.iter().find_map(|pins| kinds.iter().find_map(|kind| pins[kind][agent.package()].as_str()));
        let walks = row.project_roots == ProjectRoots::Walk;
        assert_eq!(row.source, "run", "{agent:?}");
        assert_eq!(Some(row.seen.as_str()), pin, "{agent:?}");
        assert_eq!(row.project.as_deref(), Some(agent.folder()), "{agent:?}");
        assert_eq!(walks, agent.looks_above(), "{agent:?}");
    }
}

#[test]
fn skills_add_claude() {
    add_look_remove("--claude", Agent::Claude, ".claude/skills");
}

#[test]
fn skills_add_codex() {
    add_look_remove("--codex", Agent::Codex, ".codex/skills");
}

#[test]
fn skills_add_opencode() {
    add_look_remove("--opencode", Agent::OpenCode, ".opencode/skills");
}

#[test]
fn skills_add_gemini() {
    add_look_remove("--gemini", Agent::Gemini, ".gemini/skills");
}

#[test]
fn skills_add_copilot() {
    add_look_remove("--copilot", Agent::Copilot, ".github/skills");
}

#[test]
fn skills_add_a_qwen() {
    add_look_remove("-a qwen", Agent::Qwen, ".qwen/skills");
}

#[test]
fn skills_add_a_kimi() {
    add_look_remove("-a kimi", Agent::Kimi, ".kimi-code/skills");
}

#[test]
fn skills_add_a_continue() {
    add_look_remove("-a continue", Agent::Continue, ".continue/skills");
}

/// One real copy and a link to it: Continue, which reads both folders, lists real copies twice.
#[test]
fn skills_add_claude_a_continue() {
    add_look_below("--claude -a continue", Agent::Continue, ".claude/skills");
}

/// Each agent finds what `'*'` installs, and once.
#[test]
fn skills_add_a_star() {
    let Some(programs) = programs() else { return };
    let test = project();
    // Continue reads .claude; Gemini CLI, Kimi Code CLI and Qwen Code read .agents.
    for folder in [".gemini", ".qwen", ".kimi-code", ".continue", ".codex"] {
        fs::create_dir(test.home.join(folder)).unwrap();
    }
    test.run(&format!("skills add {SKILL} -a *")).expect(0, &[]);
    for agent in Agent::ALL.into_iter().chain(Agent::MORE) {
        let listed = copies(agent, programs, &test, &test.project, SKILL);
        assert_eq!(listed.len(), 1, "{agent:?}: {listed:#?}");
    }
}

/// Gemini CLI reports a second copy as a conflict, a link too. With both options it gets none.
#[test]
fn skills_add_gemini_agents() {
    let Some(programs) = programs() else { return };
    let test = project();
    let conflict = |test: &Test| agents::gemini_said(programs, test, &test.project).to_lowercase().contains("conflict");
    test.run(&format!("skills add {SKILL} --gemini --agents")).expect(0, &["left out"]);
    assert_listed_once(Agent::Gemini, programs, &test, &test.project, &test.at(".agents/skills").join(SKILL));
    assert!(!conflict(&test));
    // The other way about a copy is there already: the note says how to take it away.
    test.run(&format!("skills remove {SKILL} --agents")).expect(0, &[]);
    test.run(&format!("skills add {SKILL} --gemini")).expect(0, &[]);
    let way_out = format!("kernels skills remove {SKILL} --agent gemini");
    test.run(&format!("skills add {SKILL} --agents")).expect(0, &["reports a conflict", &way_out]);
    assert!(conflict(&test));
    test.run(way_out.trim_start_matches("kernels ")).expect(0, &[]);
    assert!(!conflict(&test));
}

#[test]
fn skills_add_agents_for_codex() {
    add_look_remove("--agents", Agent::Codex, ".agents/skills");
}

#[test]
fn skills_add_agents_for_opencode() {
    add_look_below("--agents", Agent::OpenCode, ".agents/skills");
}

#[test]
fn skills_add_agents_for_gemini() {
    add_look_below("--agents", Agent::Gemini, ".agents/skills");
}

#[test]
fn skills_add_agents_for_copilot() {
    add_look_below("--agents", Agent::Copilot, ".agents/skills");
}

#[test]
fn skills_add_claude_for_copilot() {
    add_look_below("--claude", Agent::Copilot, ".claude/skills");
}

#[test]
fn skills_add_claude_for_opencode() {
    add_look_below("--claude", Agent::OpenCode, ".claude/skills");
}

#[test]
fn skills_add_claude_global() {
    add_look_remove("--claude -g", Agent::Claude, "~/.claude/skills");
}

#[test]
fn skills_add_codex_global() {
    add_look_remove("--codex -g", Agent::Codex, "~/.codex/skills");
}

#[test]
fn skills_add_opencode_global() {
    add_look_remove("--opencode -g", Agent::OpenCode, "~/.config/opencode/skills");
}

#[test]
fn skills_add_gemini_global() {
    add_look_remove("--gemini -g", Agent::Gemini, "~/.gemini/skills");
}

#[test]
fn skills_add_copilot_global() {
    add_look_remove("--copilot -g", Agent::Copilot, "~/.copilot/skills");
}

#[test]
fn skills_add_agents_global() {
    add_look_remove("--agents -g", Agent::Codex, "~/.agents/skills");
}

/// Codex reads both folders and lists every real copy, so that one of them must be a link.
#[test]
fn skills_add_codex_agents() {
    add_look_remove("--codex --agents", Agent::Codex, ".codex/skills");
}

#[test]
fn skills_add_agents_then_skills_add_codex() {
    let Some(programs) = programs() else { return };
    let test = project();
    test.run("skills add cuda-kernels --agents").expect(0, &[]);
    test.run("skills add cuda-kernels --codex").expect(0, &[]);
    let installed = test.project.join(".agents/skills").join(SKILL);
    assert_listed_once_everywhere(Agent::Codex, programs, &test, &installed);

    // Codex's is a link to it: removing the real one alone would leave a link to nothing.
    test.run("skills remove cuda-kernels --agents").expect(3, &[]);
    assert_listed_once_everywhere(Agent::Codex, programs, &test, &installed);
    test.run("skills remove cuda-kernels --codex").expect(0, &[]);
    assert_listed_once_everywhere(Agent::Codex, programs, &test, &installed);
    test.run("skills remove cuda-kernels --agents").expect(0, &[]);
    assert_not_listed(Agent::Codex, programs, &test, &test.project);
}

#[test]
fn skills_add_a_kimi_global() {
    add_look_remove("-a kimi -g", Agent::Kimi, "~/.kimi-code/skills");
}

#[test]
fn skills_add_a_continue_global() {
    add_look_remove("-a continue -g", Agent::Continue, "~/.continue/skills");
}

#[test]
fn skills_add_agents_global_for_qwen() {
    add_look_remove("--agents -g", Agent::Qwen, "~/.agents/skills");
}

#[test]
fn skills_add_codex_agents_global() {
    add_look_remove("--codex --agents -g", Agent::Codex, "~/.codex/skills");
}

#[test]
fn skills_add_every_agent() {
    let Some(programs) = programs() else { return };
    let test = project();
    let options = format!("{} --agents", every_option());
    test.run(&format!("skills add {SKILL} {options}")).expect(0, &[]);
    for agent in Agent::ALL {
        let from = &lowest(agent, &test);
        let listed = copies(agent, programs, &test, from, SKILL);
        assert_eq!(listed.len(), 1, "{agent:?}: {listed:#?}");
        // OpenCode sees three places and keeps whichever it read last: all must be the same skill.
        let seen = listed[0].file.as_deref().expect("every agent says which file");
        let own = test.project.join(".claude/skills").join(SKILL).join("SKILL.md");
        assert_eq!(read(seen), read(&own), "{agent:?} reads another skill: {}", seen.display());
    }

    test.run(&format!("skills remove {SKILL} {options}")).expect(0, &[]);
    for agent in Agent::ALL {
        assert_not_listed(agent, programs, &test, &test.project);
    }
}

/// An agent started in a subfolder sees what was installed from another subfolder.
#[test]
fn skills_add_in_a_subfolder() {
    let Some(programs) = programs() else { return };
    let test = project();
    let typed = format!("skills add {SKILL} {}", every_option());
    test.run_in(&below(&test), &typed).expect(0, &[]);
    let top = &test.project;
    assert_listed_once_by_all(programs, &test, top, top, SKILL);
}

/// Agents read the installed file each time, not a cache.
#[test]
fn skills_add_then_an_edit_of_the_description() {
    let Some(programs) = programs() else { return };
    let test = project();
    let top = &test.project;
    test.run(&format!("skills add {SKILL} {}", every_option())).expect(0, &[]);
    assert_listed_once_by_all(programs, &test, top, top, SKILL);
    for agent in Agent::ALL {
        let file = top.join(agent.folder()).join(SKILL).join("SKILL.md");
        let text = read(&file);
        let edited = text.replace(&description(&text), "Knows the edit. Use when asked for it.");
        assert_ne!(text, edited, "{}: not edited", file.display());
        write(&file, &edited);
    }
    assert_listed_once_by_all(programs, &test, top, top, SKILL);
}

/// Agents read the folders of a worktree, not those of the main checkout.
#[test]
fn skills_add_in_a_worktree() {
    let Some(programs) = programs() else { return };
    let test = project();
    test.git(&test.project, ["commit", "--quiet", "--allow-empty", "-m", "first"]);
    test.git(&test.project, ["worktree", "add", "--quiet", ".worktrees/topic"]);
    let worktree = test.project.join(".worktrees/topic");
    let below = worktree.join("src");
    fs::create_dir(&below).unwrap();
    test.run_in(&below, &format!("skills add {SKILL} {}", every_option())).expect(0, &[]);
    assert_listed_once_by_all(programs, &test, &worktree, &below, SKILL);
}

#[test]
fn skills_add_without_git() {
    let Some(programs) = programs() else { return };
    let test = Test::without_git();
    test.run(&format!("skills add {SKILL} {}", every_option())).expect(0, &[]);
    let top = &test.project;
    assert_listed_once_by_all(programs, &test, top, top, SKILL);
}

/// The agents must not list the backup that replacing an edited install leaves.
#[test]
fn skills_add_force_over_an_edit() {
    const EDIT: &str = "A line of my own.";
    let Some(programs) = programs() else { return };
    let test = project();
    let options = format!("{} --agents", every_option());
    test.run(&format!("skills add {SKILL} {options}")).expect(0, &[]);
    let places = Agent::ALL.map(Agent::folder).into_iter();
    // Gemini reads `.agents`: beside it, its own folder gets no copy.
    let places: Vec<&str> = places.filter(|place| *place != ".gemini/skills").chain([".agents/skills"]).collect();
    for place in &places {
        let file = test.project.join(place).join(SKILL).join("SKILL.md");
        let text = read(&file);
        if !text.contains(EDIT) {
            write(&file, format!("{text}\n{EDIT}\n"));
        }
    }

    test.run(&format!("skills add {SKILL} {options}")).expect(3, &[]);
    test.run(&format!("skills add {SKILL} {options} --force")).expect(0, &[]);
    for place in places {
        let folder = test.project.join(place);
        assert_eq!(files_with(&folder, EDIT), 0, "{place}: not replaced");
    }
    let kept = files_with(&test.project.join(".claude/.kernels/backups"), EDIT);
    assert_eq!(kept, 1, "the edited file is kept once beside .claude/skills");

    for agent in Agent::ALL {
        let listed = copies(agent, programs, &test, &lowest(agent, &test), SKILL);
        assert_eq!(listed.len(), 1, "{agent:?}: {listed:#?}");
    }
}

/// Whenever `kernels` is killed, an agent sees one complete skill or none.
#[test]
fn skills_add_killed_then_skills_add() {
    const KILLS: u32 = 12;
    let Some(programs) = programs() else { return };
    let test = project();
    let typed = format!("skills add {SKILL} --claude --codex --force");
    let claude = test.project.join(".claude/skills").join(SKILL);
    let codex = test.project.join(".codex/skills").join(SKILL);
    let started = Instant::now();
    test.run(&typed).expect(0, &[]);
    let whole = started.elapsed();

    for kill in 0..KILLS {
        if kill % 2 == 0 {
            // A first install: half of it would be seen as a skill.
            for folder in [&claude, &codex] {
                fs::remove_dir_all(folder).ok();
            }
        } else {
            // An edited install: --force moves it away, so there are two trees for a moment.
            test.run(&typed).expect(0, &[]);
            for folder in [&claude, &codex] {
                write(&folder.join("SKILL.md"), format!("{}edited\n", read(&folder.join("SKILL.md"))));
            }
        }
        let delay = whole * kill / KILLS;
        Ran::killed_after(test.command().args(test.words(&typed)), delay);
        // Codex is asked every time, because it answers ten times as fast.
        let agents = if kill % 4 < 2 { &[Agent::Codex, Agent::Claude][..] } else { &[Agent::Codex] };
        for &agent in agents {
            let listed = copies(agent, programs, &test, &test.project, SKILL);
            assert!(listed.len() <= 1, "{agent:?} after a kill at {delay:?}: {listed:#?}");
        }
        for folder in [&claude, &codex] {
            if folder.exists() {
                assert!(folder.join("scripts").is_dir(), "half a skill in {}", folder.display());
            }
        }
    }

    test.run(&typed).expect(0, &[]);
    assert_listed_once(Agent::Codex, programs, &test, &test.project, &codex);
    assert_listed_once(Agent::Claude, programs, &test, &test.project, &claude);
}

#[test]
fn skills_add_twice() {
    let Some(programs) = programs() else { return };
    let test = project();
    for _ in 0..2 {
        test.run(&format!("skills add {SKILL} {}", every_option())).expect(0, &[]);
    }
    let top = &test.project;
    assert_listed_once_by_all(programs, &test, top, top, SKILL);
}

/// A user's skill from a folder.
fn own_skill(test: &Test) -> PathBuf {
    let folder = test.project.join("drafts/word-count");
    write(
        &folder.join("SKILL.md"),
        "---\nname: word-count\ndescription: Counts the words of a file. Use when asked how long a \
         text is.\n---\n\n# Word count\n\nRun `wc -w` on the file.\n",
    );
    folder
}

#[test]
fn skills_add_path() {
    let Some(programs) = programs() else { return };
    let test = project();
    own_skill(&test);
    test.run(&format!("skills add ./drafts/word-count {}", every_option())).expect(0, &[]);
    let (top, below) = (&test.project, &below(&test));
    assert_listed_once_by_all(programs, &test, top, below, "word-count");
}

#[test]
fn skills_add_path_link() {
    let Some(programs) = programs() else { return };
    let test = project();
    let source = own_skill(&test);
    let options = every_option();
    test.run(&format!("skills add ./drafts/word-count --link {options}")).expect(0, &[]);
    let top = &test.project;
    let places = Agent::ALL.map(|agent| top.join(agent.folder()));
    let real = places.iter().filter(|place| !place.join("word-count").is_symlink()).count();
    assert_eq!(real, 1, "one real copy, and links to it");
    assert_listed_once_by_all(programs, &test, top, top, "word-count");

    test.run(&format!("skills remove word-count {options}")).expect(0, &[]);
    for place in places {
        let left = fs::symlink_metadata(place.join("word-count"));
        assert!(left.is_err(), "{} is left", place.join("word-count").display());
    }
    assert!(source.join("SKILL.md").is_file(), "the source is not ours to remove");
}
