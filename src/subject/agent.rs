//! A coding agent as it is installed, headless, from a row of `agents.toml`. It is confined, in a home of its own, and reaches
//! nothing but the server of its model, through [`Wire`]: the user's key and folders are not its.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::{Value, json};
use walkdir::WalkDir;

use super::supervise::{self, Ended, Job};
use super::wire::{Heard, Upstream, Wire};
use super::{End, Errand, Outcome, Step, Took};
use crate::agent::table;
use crate::base::http::is_private;
use crate::confine::verifier::Bounds;
use crate::skill::tree::SKILL_MD;
use crate::toolchain::Toolchain;
use crate::trace::{self, Action};

/// The whole of such a folder is shown to an agent that lies in it.
const PACKAGES: &str = "node_modules";
/// Where sessions and containers have their secrets.
const SESSION: &str = "/run";
/// Tools that load a skill.
const LOADERS: [&str; 3] = ["skill", "activate_skill", "use_skill"];

type Env = Vec<(String, String)>;

#[derive(Debug, Deserialize, Eq, PartialEq)]
#[serde(deny_unknown_fields)]
pub(crate) struct Row {
    pub(super) id: String,
    program: String,
    arguments: Vec<String>,
    #[serde(default)]
    model: Vec<String>,
    keys: Vec<String>,
    /// The variable with the server's address, and the address without it.
    url: (String, String),
    #[serde(default)]
    events: Option<(PathBuf, String)>,
    #[serde(default)]
    shown: Vec<String>,
    /// Programs that it would download.
    #[serde(default)]
    needs: Vec<String>,
    env: BTreeMap<String, String>,
    #[serde(default)]
    files: BTreeMap<String, String>,
}

/// An agent, and its model unless it is the agent's own choice.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Agent {
    pub(crate) row: &'static Row,
    pub(crate) model: Option<String>,
}

#[derive(Deserialize)]
struct Table {
    agent: Vec<Row>,
}

#[expect(clippy::expect_used, reason = "embedded data, covered by a test")]
static ROWS: LazyLock<Vec<Row>> =
    LazyLock::new(|| toml::from_str::<Table>(include_str!("agents.toml")).expect("agents.toml is valid").agent);

impl Agent {
    /// `ID` or `ID:MODEL`; none if no agent is called that.
    pub(crate) fn find(id: &str, model: Option<&str>) -> Option<Self> {
        let row = ROWS.iter().find(|row| row.id == id)?;
        Some(Self { row, model: model.map(str::to_owned) })
    }

    pub(crate) fn ids() -> impl Iterator<Item = &'static str> {
        ROWS.iter().map(|row| row.id.as_str())
    }

    /// An error says what is missing to run it.
    pub(crate) fn ready(&self, path: &[PathBuf]) -> Result<()> {
        let Row { id, program, arguments, env, needs, .. } = self.row;
        self.find_on(path, program)?;
        needs.iter().try_for_each(|program| self.find_on(path, program).map(drop))?;
        self.server()?;
        if self.model.is_none() && arguments.iter().chain(env.values()).any(|text| text.contains("{model}")) {
            bail!("{id} has no model of its own: write {id}:MODEL");
        }
        let bad = |c: char| c.is_control() || "\"'\\{}".contains(c);
        if self.model.as_ref().is_some_and(|model| model.contains(bad) || model.starts_with('-')) {
            bail!("{id}: no model has such a name");
        }
        Ok(())
    }

    fn find_on(&self, path: &[PathBuf], program: &str) -> Result<PathBuf> {
        let found = path.iter().map(|folder| folder.join(program)).find(|file| file.is_file());
        found.with_context(|| format!("{} needs the program `{program}`, which is not on PATH", self.row.id))
    }

    /// The server's address; the variable with the key, and the key; none where the user's own server wants none.
    fn server(&self) -> Result<(String, &'static str, Option<String>)> {
        let Row { id, keys, url: (variable, default), .. } = self.row;
        let set =
            |name: &String| std::env::var(name).ok().map(|text| text.trim().to_owned()).filter(|set| !set.is_empty());
        let own = set(variable);
        let url = own.clone().unwrap_or_else(|| default.clone());
        match keys.iter().find_map(|name| Some((name, set(name)?))) {
            Some((name, _)) if !is_private(&url) => {
                bail!("{id}: {name} would be sent to {variable} without encryption")
            }
            Some((name, key)) => Ok((url, name, Some(key))),
            None if own.is_some() => Ok((url, &keys[0], None)),
            None => bail!("{id} needs a key: set the environment variable {}", keys[0]),
        }
    }

    pub(crate) fn run(&self, errand: &Errand) -> Result<Outcome> {
        self.ready(&errand.path)?;
        let skills = installed(&self.row.id, errand.workspace);
        let (url, variable, key) = self.server()?;
        let token = token()?;
        let (most, patience) = (errand.max_turns, errand.timeout);
        let wire = Wire::open(Upstream { url, key, token: token.clone(), most, patience })?;
        let here = format!("http://127.0.0.1:{}", wire.port);
        let mut values = vec![("url", &*here), ("key", &*token), ("variable", variable)];
        values.extend(self.model.as_deref().map(|model| ("model", model)));
        let (arguments, env, bounds) = self.prepare(errand, &values, wire.port)?;
        let events = bounds.events.clone();
        let begun = Instant::now();
        let ended = supervise::run(&Job {
            program: Path::new("/bin/sh"),
            arguments: &arguments,
            folder: errand.workspace,
            env: &env,
            writes: &errand.writes(),
            card: false,
            limit: errand.timeout,
            bounds: Some(bounds),
        })?;
        let seconds = begun.elapsed().as_secs_f64();
        let heard = wire.close();
        let seen = seen(self.steps(errand, &events), &skills);
        let took = Took {
            usage: heard.usage(),
            usd: heard.usd(),
            client: heard.client.clone(),
            turns: Some(heard.answers()),
            seconds,
            ..seen.took
        };
        Ok(Outcome { end: end(&ended, &heard), took, price: heard.price(), ..seen })
    }

    /// Writes its files, and says with which arguments, environment and bounds it is run. The compiler that this program would
    /// use is the agent's as well: it has another home, where it would not be found.
    fn prepare(&self, errand: &Errand, values: &[(&str, &str)], port: u16) -> Result<(Vec<PathBuf>, Env, Bounds)> {
        let Row { program, arguments, model, env, files, .. } = self.row;
        let filled = |text: &String| {
            values.iter().fold(text.clone(), |text, (name, value)| text.replace(&format!("{{{name}}}"), value))
        };
        let temporary = errand.home.join(".tmp");
        fs::create_dir_all(&temporary)?;
        let asked = errand.log.join("prompt");
        fs::write(&asked, errand.prompt).with_context(|| format!("cannot write {}", asked.display()))?;
        for (path, text) in files {
            let path = errand.home.join(path);
            fs::create_dir_all(path.parent().unwrap_or(errand.home))?;
            fs::write(&path, filled(text)).with_context(|| format!("cannot write {}", path.display()))?;
        }
        let compiler = Toolchain::find().ok().map(|found| found.root().to_owned());
        let path = errand.path.iter().cloned().chain(compiler.iter().map(|root| root.join("bin"))).collect();
        let mut all = Errand { path, ..errand.clone() }.env()?;
        all.retain(|(name, _)| name != "TMPDIR");
        all.push(("TMPDIR".to_owned(), temporary.display().to_string()));
        all.extend(compiler.iter().map(|root| ("CUDA_HOME".to_owned(), root.display().to_string())));
        all.extend(env.iter().map(|(name, value)| (filled(name), filled(value))));
        let program = self.find_on(&errand.path, program)?;
        let mut bounds = self.bounds(errand, &program, port, &mut all)?;
        bounds.shown.extend(compiler);
        let shell = [PathBuf::from("-c"), "exec < \"$0\"; exec \"$@\"".into(), asked, program];
        let words = arguments.iter().chain(model.iter().filter(|_| self.model.is_some()));
        Ok((shell.into_iter().chain(words.map(|text| filled(text).into())).collect(), all, bounds))
    }

    /// What it reads and reaches. The user's folders are hidden, but for programs.
    fn bounds(&self, errand: &Errand, program: &Path, port: u16, env: &mut Env) -> Result<Bounds> {
        let real = |path: &Path| path.canonicalize().ok();
        let users = [std::env::home_dir(), account_home(), std::env::current_dir().ok(), Some(SESSION.into())];
        let users = users.into_iter().flatten();
        let hidden = users.chain(errand.hidden.iter().cloned()).filter_map(|path| real(&path));
        let hidden: Vec<PathBuf> = hidden.filter(|path| path.parent().is_some()).collect();
        let mut shown: Vec<PathBuf> = errand.path.clone();
        let program = program.canonicalize()?;
        let package = program.ancestors().filter(|path| path.ends_with(PACKAGES)).last();
        shown.extend(package.or_else(|| program.parent()).map(Path::to_owned));
        for name in &self.row.shown {
            if let Ok(value) = std::env::var(name) {
                shown.push(PathBuf::from(&value));
                env.push((name.clone(), value));
            }
        }
        let mut shown: Vec<PathBuf> = shown.iter().filter_map(|path| real(path)).collect();
        // Not what holds a hidden folder: `~` itself may be on PATH.
        shown.retain(|path| !hidden.iter().any(|hidden| hidden.starts_with(path)));
        shown.extend([errand.log.to_owned(), std::env::current_exe()?]);
        Ok(Bounds { port, hidden, shown, events: errand.log.join("events.jsonl") })
    }

    /// What its trace says that it did.
    fn steps(&self, errand: &Errand, printed: &Path) -> Vec<Seen> {
        let kept = self.row.events.as_ref().map(|(folder, ending)| {
            let files = WalkDir::new(errand.home.join(folder)).into_iter().flatten();
            let files =
                files.filter(|entry| entry.file_type().is_file() && entry.path().to_string_lossy().ends_with(ending));
            files.max_by_key(|entry| entry.metadata().map_or(0, |meta| meta.len())).map(walkdir::DirEntry::into_path)
        });
        let path = kept.unwrap_or_else(|| Some(printed.to_owned()));
        let trace = path.and_then(|path| trace::read(&path).ok());
        trace.map_or_else(Vec::new, |trace| trace.steps.into_iter().map(Seen::from).collect())
    }
}

/// A step, and what else the trace says of its call.
pub(super) struct Seen {
    step: Step,
    failed: bool,
    edits: bool,
}

impl From<trace::Step> for Seen {
    fn from(from: trace::Step) -> Self {
        let role = if from.user { "user" } else { "assistant" };
        let mut step = Step { role: role.to_owned(), text: from.text, ..Step::default() };
        let Some(call) = from.call else { return Self { step, failed: false, edits: false } };
        let edits = matches!(call.action, Action::Edit(_));
        let arguments = match call.action {
            Action::Command(command) => json!({ "command": command }),
            Action::Edit(edits) => {
                edits.into_iter().map(|edit| json!({ "path": edit.path, "old": edit.old, "new": edit.new })).collect()
            }
            Action::Other(text) => serde_json::from_str(&text).unwrap_or(Value::String(text)),
        };
        step.call = Some((call.tool, arguments));
        step.result = Some(call.result);
        Self { step, failed: call.failed == Some(true), edits }
    }
}

impl Seen {
    /// Whether it loads a skill by a tool for that, or reads its SKILL.md.
    fn loads(&self, skill: &str) -> bool {
        self.step.call.as_ref().filter(|_| !self.failed && !self.edits).is_some_and(|(tool, arguments)| {
            let text = arguments.to_string();
            text.contains(skill) && (LOADERS.contains(&&*tool.to_lowercase()) || text.contains(SKILL_MD))
        })
    }
}

/// The home that the system has for this user, whatever `HOME` says.
fn account_home() -> Option<PathBuf> {
    let (accounts, user) = (fs::read_to_string("/etc/passwd").ok()?, rustix::process::getuid().as_raw().to_string());
    let fields = accounts.lines().map(|line| line.split(':').collect::<Vec<_>>());
    fields.filter(|fields| fields.get(2) == Some(&&*user)).find_map(|fields| Some(PathBuf::from(fields.get(5)?)))
}

/// What was done, as a trace says.
pub(super) fn seen(steps: Vec<Seen>, skills: &[String]) -> Outcome {
    let count = |counts: fn(&Seen) -> bool| {
        let calls = steps.iter().filter(|step| step.step.call.is_some() && counts(step));
        Some(u32::try_from(calls.count()).unwrap_or(u32::MAX))
    };
    let loads = |step: &Seen| skills.iter().any(|skill| step.loads(skill));
    let loaded = (!skills.is_empty()).then(|| steps.iter().any(loads));
    let took = Took { loaded, calls: count(|_| true), failed_calls: count(|step| step.failed), ..Took::default() };
    Outcome { took, steps: steps.into_iter().map(|step| step.step).collect(), ..Outcome::default() }
}

/// The skills in the agent's folder of a project.
pub(super) fn installed(id: &str, workspace: &Path) -> Vec<String> {
    let folder = table::find(id).and_then(|agent| agent.project.as_deref()).map(|folder| workspace.join(folder));
    let entries = folder.and_then(|folder| fs::read_dir(folder).ok()).into_iter().flatten().flatten();
    let skills = entries.filter(|entry| entry.path().join(SKILL_MD).is_file());
    skills.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// What the agent has for a key. Who does not know it asks nothing with the user's.
fn token() -> Result<String> {
    let mut bytes = [0; 16];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(format!("sk-kernels-{:032x}", u128::from_ne_bytes(bytes)))
}

/// An agent that ends itself is judged by what it left. It is not, where the server never answered or broke off.
fn end(ended: &Ended, heard: &Heard) -> End {
    if ended.stopped.as_deref().is_some_and(|why| why.starts_with("it ran past")) {
        return End::TimedOut;
    }
    let broken = matches!(heard.last, Some(0 | 429 | 500..)) && ended.code != Some(0);
    if heard.answers() > 0 && !broken {
        return End::Finished;
    }
    let how = match (heard.last, ended.code) {
        (Some(0), _) => "the server of its model cannot be reached".to_owned(),
        (Some(status), _) => format!("the server of its model answered with {status}"),
        (None, Some(code)) => format!("it asked no model and ended with {code}"),
        (None, None) => "it asked no model".to_owned(),
    };
    let last = ended.output.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
    End::Failed(format!("{how}: {}", last.chars().take(300).collect::<String>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_an_agent_with_a_folder_for_skills() {
        for row in ROWS.iter() {
            let agent = table::find(&row.id);
            assert!(agent.is_some_and(|agent| agent.project.is_some()), "{}", row.id);
            assert!(!row.keys.is_empty(), "{}", row.id);
        }
    }
}
