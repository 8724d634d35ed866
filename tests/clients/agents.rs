//! The real agents, asked which skills they see, without a network.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::install::Programs;
use crate::model::Model;
use crate::support::{Ran, Test, write};

/// A coding agent that the tests run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Agent {
    Claude,
    Codex,
    OpenCode,
    Gemini,
    Copilot,
    Qwen,
    Kimi,
    Continue,
}

/// One skill as an agent lists it.
#[derive(Debug)]
pub(crate) struct Listed {
    pub(crate) name: String,
    pub(crate) description: String,
    /// The skill's `SKILL.md`; Claude Code reports it only for a loaded skill, Qwen Code and Continue never.
    pub(crate) file: Option<PathBuf>,
}

impl Agent {
    /// Those that every test asks.
    pub(crate) const ALL: [Self; 5] = [Self::Claude, Self::Codex, Self::OpenCode, Self::Gemini, Self::Copilot];
    /// Those of `tests/clients/more`, which take 2 to 3 s for an answer.
    pub(crate) const MORE: [Self; 3] = [Self::Qwen, Self::Kimi, Self::Continue];

    /// The option of `kernels skills add` that installs for it.
    pub(crate) fn option(self) -> &'static str {
        match self {
            Self::Claude => "--claude",
            Self::Codex => "--codex",
            Self::OpenCode => "--opencode",
            Self::Gemini => "--gemini",
            Self::Copilot => "--copilot",
            Self::Qwen => "-a qwen",
            Self::Kimi => "-a kimi",
            Self::Continue => "-a continue",
        }
    }

    /// Whether it says where a skill lies.
    pub(crate) fn names_files(self) -> bool {
        !matches!(self, Self::Qwen | Self::Continue)
    }

    /// The folder of a project that this option writes to.
    pub(crate) fn folder(self) -> &'static str {
        match self {
            Self::Claude => ".claude/skills",
            Self::Codex => ".codex/skills",
            Self::OpenCode => ".opencode/skills",
            Self::Gemini => ".gemini/skills",
            Self::Copilot => ".github/skills",
            Self::Qwen => ".qwen/skills",
            Self::Kimi => ".kimi-code/skills",
            Self::Continue => ".continue/skills",
        }
    }

    /// The npm package that `tests/clients/package.json` pins.
    pub(crate) fn package(self) -> &'static str {
        match self {
            Self::Claude => "@anthropic-ai/claude-code",
            Self::Codex => "@openai/codex",
            Self::OpenCode => "opencode-linux-x64",
            Self::Gemini => "@google/gemini-cli",
            Self::Copilot => "@github/copilot",
            Self::Qwen => "@qwen-code/qwen-code",
            Self::Kimi => "@moonshot-ai/kimi-code",
            Self::Continue => "@continuedev/cli",
        }
    }

    /// Whether it also looks in the folders above the one that it is started in, up to the git
    /// root. Gemini CLI does not: it sees a project's skills only from the project's top. Nor does Qwen Code, which was
    /// made from it, nor Continue.
    pub(crate) fn looks_above(self) -> bool {
        !matches!(self, Self::Gemini | Self::Qwen | Self::Continue)
    }

    /// The skills that the agent, started in `folder`, offers to its model. `skill` is the one that
    /// being tested: Claude Code must load it, because only then does it report its path.
    pub(crate) fn listing(self, programs: &Programs, test: &Test, folder: &Path, skill: &str) -> Vec<Listed> {
        match self {
            Self::Claude => claude(&programs.claude, test, folder, skill),
            Self::Codex => codex(&programs.codex, test, folder),
            Self::OpenCode => opencode(&programs.opencode, test, folder),
            Self::Gemini => gemini(programs, test, folder),
            Self::Copilot => copilot(programs, test, folder),
            Self::Qwen => qwen(programs, test, folder),
            Self::Kimi => kimi(programs, test, folder),
            Self::Continue => continues(programs, test, folder),
        }
    }
}

/// Codex prints the prompt that it would send, with a list of skills in it.
fn codex(program: &Path, test: &Test, folder: &Path) -> Vec<Listed> {
    let mut command = test.command_of(program);
    command.current_dir(folder);
    // With its default provider it resolves its server's address first, and offline waits 5 s.
    command
        .args(["-c", "model_provider=\"none\""])
        .args(["-c", "model_providers.none={name=\"none\",base_url=\"http://127.0.0.1:9/v1\"}"])
        .args(["debug", "prompt-input", "hi"]);
    let finished = Ran::ok(&mut command);
    let prompt: Value = serde_json::from_str(&finished.out)
        .unwrap_or_else(|error| panic!("Codex did not print JSON: {error}\n{finished:#?}"));
    let text = strings(&prompt).join("\n");
    // Codex has built-in skills, so the list exists even when none is installed.
    let list = text
        .split_once("### Available skills\n")
        .unwrap_or_else(|| panic!("Codex's prompt has no list of skills\n{finished:#?}"));

    // Folders are abbreviated: "- `r0` = `/…/.codex/skills`" above the list.
    let roots: Vec<(&str, &str)> =
        list.0.lines().filter_map(|line| line.strip_prefix("- `")?.strip_suffix('`')?.split_once("` = `")).collect();
    list.1
        .lines()
        .take_while(|line| line.starts_with("- "))
        .map(|line| {
            let (name, rest) = line
                .trim_start_matches("- ")
                .split_once(": ")
                .unwrap_or_else(|| panic!("not a line of Codex's list: {line}"));
            let (description, file) = rest
                .strip_suffix(')')
                .and_then(|rest| rest.rsplit_once(" (file: "))
                .unwrap_or_else(|| panic!("a line of Codex's list without a file: {line}"));
            let file = match file.split_once('/') {
                Some((first, rest)) => match roots.iter().find(|(root, _)| *root == first) {
                    Some((_, root)) => Path::new(root).join(rest),
                    None => PathBuf::from(file),
                },
                None => PathBuf::from(file),
            };
            Listed { name: name.to_owned(), description: description.to_owned(), file: Some(file) }
        })
        .collect()
}

/// `OpenCode` prints its skills as JSON.
fn opencode(program: &Path, test: &Test, folder: &Path) -> Vec<Listed> {
    let mut command = test.command_of(program);
    command.current_dir(folder);
    command.args(["debug", "skill"]).env("OPENCODE_DISABLE_MODELS_FETCH", "1");
    let finished = Ran::ok(&mut command);
    let skills: Vec<Value> = serde_json::from_str(&finished.out)
        .unwrap_or_else(|error| panic!("OpenCode did not print JSON: {error}\n{finished:#?}"));
    assert!(!skills.is_empty(), "OpenCode does not even list its own skill\n{finished:#?}");
    skills
        .iter()
        .map(|skill| Listed {
            name: field(skill, "name"),
            description: field(skill, "description"),
            file: Some(PathBuf::from(field(skill, "location"))),
        })
        .collect()
}

/// Claude Code has no command for it: the list is in its requests to the server.
fn claude(program: &Path, test: &Test, folder: &Path, skill: &str) -> Vec<Listed> {
    const HEADING: &str = "The following skills are available for use with the Skill tool:";
    let server = Model::that_loads(skill);
    let mut command = test.command_of(program);
    command.current_dir(folder);
    command
        .args(["-p", "say pong", "--allowedTools", "Skill"])
        .env("ANTHROPIC_BASE_URL", &server.url)
        .env("ANTHROPIC_API_KEY", "dummy")
        .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1");
    let finished = Ran::ok(&mut command);
    let requests = server.messages();

    // Claude Code has built-in skills, so the list exists even when none is installed.
    let first = requests
        .iter()
        .map(strings)
        .find(|texts| texts.iter().any(|text| text.contains(HEADING)))
        .unwrap_or_else(|| panic!("Claude Code sent no list of skills\n{finished:#?}"));
    // The request after loading the skill contains its path.
    let loaded_from = requests.iter().rev().flat_map(strings).find_map(|text| {
        let (folder, _) = text.strip_prefix("Base directory for this skill: ")?.split_once('\n')?;
        Some(Path::new(folder).join("SKILL.md"))
    });
    first
        .iter()
        .filter_map(|text| text.split_once(HEADING))
        .flat_map(|(_, list)| list.lines())
        .filter_map(|line| line.strip_prefix("- ")?.split_once(": "))
        .map(|(name, description)| Listed {
            name: name.to_owned(),
            description: description.to_owned(),
            file: if name == skill { loaded_from.clone() } else { None },
        })
        .collect()
}

fn gemini_lists(programs: &Programs, test: &Test, folder: &Path) -> Ran {
    let mut command = test.command_of(&programs.node);
    command.current_dir(folder);
    command
        .arg(&programs.gemini)
        .args(["skills", "list", "--all"])
        .env("GEMINI_API_KEY", "dummy")
        // It looks for no skills in an untrusted folder.
        .env("GEMINI_CLI_TRUST_WORKSPACE", "true")
        // Otherwise it restarts itself with a larger heap.
        .env("GEMINI_CLI_NO_RELAUNCH", "true");
    Ran::ok(&mut command)
}

/// All that Gemini CLI says when it lists its skills.
pub(crate) fn gemini_said(programs: &Programs, test: &Test, folder: &Path) -> String {
    let ran = gemini_lists(programs, test, folder);
    ran.out + &ran.err
}

/// Gemini CLI prints its skills as text: three lines and an empty line per skill.
fn gemini(programs: &Programs, test: &Test, folder: &Path) -> Vec<Listed> {
    let finished = gemini_lists(programs, test, folder);
    let list = finished
        .out
        .split_once("Discovered Agent Skills:\n\n")
        .unwrap_or_else(|| panic!("Gemini CLI printed no list of skills\n{finished:#?}"))
        .1;
    let skills: Vec<Listed> = list
        .split("\n\n")
        .filter(|skill| !skill.trim().is_empty())
        .map(|skill| {
            let (name, rest) = skill
                .split_once(" [Enabled]")
                .unwrap_or_else(|| panic!("not an enabled skill of Gemini CLI's: {skill}"));
            let (description, file) = rest
                .split_once("\n  Description: ")
                .and_then(|(_, rest)| rest.split_once("\n  Location:"))
                .unwrap_or_else(|| panic!("a skill of Gemini CLI's without its file: {skill}"));
            Listed {
                name: name.to_owned(),
                description: description.to_owned(),
                file: Some(PathBuf::from(file.trim())),
            }
        })
        .collect();
    assert!(!skills.is_empty(), "Gemini CLI does not even list its own skills\n{finished:#?}");
    skills
}

/// Copilot CLI prints its skills as JSON, each with its folder.
fn copilot(programs: &Programs, test: &Test, folder: &Path) -> Vec<Listed> {
    let mut command = test.command_of(&programs.copilot);
    command.current_dir(folder);
    command
        .args(["skill", "list", "--json"])
        .env("COPILOT_OFFLINE", "true")
        .env("COPILOT_AUTO_UPDATE", "false")
        .env("COPILOT_PKG_CACHE_HOME", &programs.copilot_unpacked)
        // Compiled once: half of its processor time.
        .env("NODE_COMPILE_CACHE", programs.copilot_unpacked.join("compiled"));
    let finished = Ran::ok(&mut command);
    let skills: Vec<Value> = serde_json::from_str(&finished.out)
        .unwrap_or_else(|error| panic!("Copilot CLI did not print JSON: {error}\n{finished:#?}"));
    assert!(!skills.is_empty(), "Copilot CLI does not even list its own skills\n{finished:#?}");
    skills
        .iter()
        .map(|skill| {
            assert_eq!(skill["enabled"], true, "a skill of Copilot CLI's: {skill}");
            Listed {
                name: field(skill, "name"),
                description: field(skill, "description"),
                file: Some(Path::new(&field(skill, "path")).join("SKILL.md")),
            }
        })
        .collect()
}

/// Runs a script of `tests/clients/more` that asks a model something, and returns what it said of skills: all text that it
/// sent to the model's server, which `with` names to it.
fn sent(programs: &Programs, test: &Test, folder: &Path, script: &Path, with: &dyn Fn(&mut Command, &str)) -> String {
    let server = Model::that_loads("no skill of this name");
    let mut command = test.command_of(&programs.node);
    command.arg(script).current_dir(folder);
    with(&mut command, &server.url);
    let finished = Ran::ok(command.args(["-p", "say pong"]));
    let requests = server.messages();
    assert!(!requests.is_empty(), "{} asked no model\n{finished:#?}", script.display());
    // It may ask again; the lists are the same.
    strings(&requests[0]).join("\n")
}

/// Qwen Code describes each skill in XML.
fn qwen(programs: &Programs, test: &Test, folder: &Path) -> Vec<Listed> {
    let text = sent(programs, test, folder, &programs.qwen, &|command, server| {
        command.env("ANTHROPIC_BASE_URL", server).env("ANTHROPIC_API_KEY", "dummy").env("ANTHROPIC_MODEL", "m");
        command.env("QWEN_CODE_NO_RELAUNCH", "true").args(["--auth-type", "anthropic"]);
    });
    let skills = text.split("<skill>\n<name>\n").skip(1);
    let skills = skills.map(|skill| {
        let (name, rest) = skill.split_once("\n</name>\n<description>\n").expect("a skill of Qwen Code's");
        let (description, _) = rest.split_once("\n</description>").expect("a skill of Qwen Code's");
        // " (project)", " (user)", " (bundled)"
        let (description, _) = description.rsplit_once(" (").expect("a skill of Qwen Code's");
        Listed { name: name.to_owned(), description: description.to_owned(), file: None }
    });
    let skills: Vec<Listed> = skills.collect();
    assert!(!skills.is_empty(), "Qwen Code does not even list its own skills: {text}");
    skills
}

/// Kimi Code CLI lists its skills in the prompt.
fn kimi(programs: &Programs, test: &Test, folder: &Path) -> Vec<Listed> {
    let text = sent(programs, test, folder, &programs.kimi, &|command, server| {
        let config = format!(
            "default_model = \"m\"\n[providers.p]\ntype = \"anthropic\"\nbase_url = \"{server}\"\napi_key = \"x\"\n\
             [models.m]\nprovider = \"p\"\nmodel = \"m\"\nmax_context_size = 100000\n"
        );
        write(&test.home.join(".kimi-code/config.toml"), config);
        command.env("KIMI_CODE_NO_AUTO_UPDATE", "1");
    });
    let mut skills = Vec::new();
    for (line, next) in text.lines().zip(text.lines().skip(1)) {
        let file = next.strip_prefix("  Path: ");
        if let (Some((name, description)), Some(file)) =
            (line.strip_prefix("- ").and_then(|l| l.split_once(": ")), file)
        {
            skills.push(Listed { name: name.to_owned(), description: description.to_owned(), file: Some(file.into()) });
        }
    }
    assert!(!skills.is_empty() || !text.contains("  Path: "), "Kimi Code CLI's list: {text}");
    skills
}

/// Continue describes its skills in a tool.
fn continues(programs: &Programs, test: &Test, folder: &Path) -> Vec<Listed> {
    let text = sent(programs, test, folder, &programs.continues, &|command, server| {
        let config = test.root().join("continue.yaml");
        let model =
            format!("{{name: m, provider: anthropic, model: m, apiKey: x, apiBase: \"{server}/v1/\", roles: [chat]}}");
        write(&config, format!("name: t\nversion: 0.0.1\nschema: v1\nmodels:\n  - {model}\n"));
        command.arg("--config").arg(config).env("CONTINUE_TELEMETRY_ENABLED", "0");
    });
    let list = text.split("available skills listed below:\n").nth(1);
    let skills = list.unwrap_or_default().split("\nname: ").skip(1);
    let skills = skills.filter_map(|skill| {
        let (name, rest) = skill.split_once("\ndescription: ")?;
        let description = rest.lines().next()?;
        Some(Listed { name: name.to_owned(), description: description.to_owned(), file: None })
    });
    skills.collect()
}

/// The text in a field of a skill that an agent printed as JSON.
fn field(skill: &Value, key: &str) -> String {
    skill[key].as_str().unwrap_or_else(|| panic!("a skill without {key}: {skill}")).to_owned()
}

/// Every string in a JSON value.
fn strings(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(items) => items.iter().flat_map(strings).collect(),
        Value::Object(fields) => fields.values().flat_map(strings).collect(),
        _ => Vec::new(),
    }
}
