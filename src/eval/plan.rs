//! What a run compares: agents, arms, tasks; the order in which it is done; and what is pinned of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Error, Result, bail};
use serde::{Deserialize, Serialize};

use super::task::Task;
use super::tasks;
use crate::base::bundle;
use crate::skill::source::Skill;
use crate::subject::Subject;
use crate::verify::random::Random;

/// How a subject gets the skill.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Arm {
    Without,
    /// Installed as `skills add` does.
    With,
    /// Installed, and the prompt says to use it: what the content is worth where it is read.
    Forced,
    /// SKILL.md before the prompt.
    Inline,
    /// Another version, installed.
    Old(PathBuf),
}

impl Arm {
    /// By its name in `--arms`.
    fn named(name: &str) -> Result<Self> {
        Ok(match (name, name.strip_prefix("old=")) {
            ("without", _) => Self::Without,
            ("with", _) => Self::With,
            ("forced", _) => Self::Forced,
            ("inline", _) => Self::Inline,
            (_, Some(path)) if !path.is_empty() => Self::Old(path.into()),
            _ => bail!("--arms {name}: the arms are without, with, forced, inline, old=PATH"),
        })
    }
}

/// What a subject is asked in an arm.
pub(super) fn prompt(task: &str, arm: &Arm, skill: Option<&Skill>) -> String {
    match (arm, skill) {
        (Arm::Forced, Some(skill)) => {
            format!("Use the skill `{}`: read its SKILL.md before anything else.\n\n{task}", skill.name)
        }
        (Arm::Inline, Some(skill)) => format!("{}\n\n{task}", skill.text()),
        _ => task.to_owned(),
    }
}

/// What a run was asked for, and what pins it: written first into its journal.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(crate) struct Header {
    /// The version of this program.
    #[serde(default)]
    pub(crate) kernels: String,
    /// As it was named.
    pub(crate) skill: PathBuf,
    pub(crate) tasks: Vec<PathBuf>,
    pub(crate) filter: Option<String>,
    pub(crate) agents: Vec<String>,
    pub(crate) arms: Vec<String>,
    /// With the command `kernels`, without it, or both.
    pub(crate) cli: Vec<bool>,
    pub(crate) runs: u32,
    pub(crate) timeout_s: f64,
    pub(crate) max_turns: u32,
    #[serde(default = "max_tokens")]
    pub(crate) max_tokens: u32,
    pub(crate) seed: u64,
    /// The skills by arm.
    #[serde(default)]
    pub(crate) skills: BTreeMap<String, Pin>,
    /// The digests of the tasks by id.
    #[serde(default)]
    pub(crate) digests: BTreeMap<String, String>,
}

impl Header {
    /// What the run is of.
    pub(crate) fn title(&self) -> String {
        let pin = self.skills.get("with").or_else(|| self.skills.values().next());
        pin.map_or_else(
            || "no skill".to_owned(),
            |pin| format!("{} {}", pin.name, pin.version.as_deref().unwrap_or("without a version")),
        )
    }

    /// An arm, whether it had the command where that is a factor, and the agent where there are several: a long name is cut at
    /// its end.
    pub(crate) fn label(&self, agent: &str, cli: bool, arm: &str) -> String {
        let cli = match (self.cli.len() > 1, cli) {
            (false, _) => "",
            (true, true) => ", kernels on PATH",
            (true, false) => ", kernels not on PATH",
        };
        if self.agents.len() > 1 { format!("{arm}{cli}: {agent}") } else { format!("{arm}{cli}") }
    }
}

/// What a run took before it could be said.
fn max_tokens() -> u32 {
    8192
}

/// A skill's identity.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Pin {
    pub(crate) name: String,
    pub(crate) version: Option<String>,
    pub(crate) tree: String,
}

pub(crate) struct Plan {
    pub(crate) header: Header,
    pub(crate) tasks: Vec<Task>,
    pub(crate) arms: Vec<(Arm, Option<Skill>)>,
    pub(crate) subjects: Vec<Subject>,
}

/// One run of one subject: indices into the plan.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Unit {
    pub(crate) subject: usize,
    pub(crate) cli: bool,
    pub(crate) task: usize,
    pub(crate) run: u32,
    pub(crate) arm: usize,
}

impl Plan {
    /// Reads skills and tasks, and pins them in the header.
    pub(crate) fn open(mut header: Header) -> Result<Self> {
        let absolute = |path: &PathBuf| path.canonicalize().with_context(|| format!("there is no {}", path.display()));
        header.tasks = header.tasks.iter().map(absolute).collect::<Result<_>>()?;
        let tasks = tasks::chosen(tasks::read_all(&header.tasks)?, header.filter.as_deref()).map_err(Error::msg)?;
        let mut arms: Vec<(Arm, Option<Skill>)> = Vec::new();
        for text in &header.arms {
            let arm = Arm::named(text)?;
            if arms.iter().any(|(known, _)| *known == arm) {
                bail!("--arms names {text} twice");
            }
            let skill = match &arm {
                Arm::Without => None,
                Arm::Old(path) => Some(Skill::open(path)?),
                _ => Some(Skill::open(&header.skill)?),
            };
            arms.push((arm, skill));
        }
        let subject = |text: &String| text.parse::<Subject>().with_context(|| format!("--agent {text}"));
        let subjects = header.agents.iter().map(subject).collect::<Result<Vec<_>>>()?;
        bundle::version().clone_into(&mut header.kernels);
        let pin = |skill: &Skill| Pin {
            name: skill.name.clone(),
            version: skill.version.clone(),
            tree: skill.digest.to_string(),
        };
        let pins =
            header.arms.iter().zip(&arms).filter_map(|(name, (_, skill))| Some((name.clone(), pin(skill.as_ref()?))));
        header.skills = pins.collect();
        header.digests = tasks.iter().map(|task| (task.id.clone(), task.digest.clone())).collect();
        Ok(Self { header, tasks, arms, subjects })
    }

    /// The plan of a run that was begun; an error says what has changed since.
    pub(crate) fn again(begun: &Header, run: &Path) -> Result<Self> {
        let plan = Self::open(begun.clone())?;
        let mut changed = Vec::new();
        // Runs of earlier versions do not say theirs.
        if plan.header.kernels != begun.kernels && !begun.kernels.is_empty() {
            changed.push(format!("the program (kernels {}, now {})", begun.kernels, plan.header.kernels));
        }
        if plan.header.skills != begun.skills {
            changed.push("the skill".to_owned());
        }
        let differs = |id: &&String| plan.header.digests.get(*id) != begun.digests.get(*id);
        let ids = begun.digests.keys().chain(plan.header.digests.keys());
        changed.extend(ids.filter(differs).map(|id| format!("the task {id}")));
        changed.dedup();
        if !changed.is_empty() {
            bail!(
                "{} was begun with other contents: {} changed since. Start a new run, or put back what it was",
                run.display(),
                changed.join(", ")
            );
        }
        Ok(plan)
    }

    /// Where the skills were read from, and the tasks.
    pub(crate) fn sources(&self) -> Vec<PathBuf> {
        let old = self.arms.iter().filter_map(|(arm, _)| match arm {
            Arm::Old(path) => Some(path),
            _ => None,
        });
        self.header.tasks.iter().chain([&self.header.skill]).chain(old).cloned().collect()
    }

    /// Everything to do. Arms of one comparison are done one after the other, in a random order; so are the comparisons.
    pub(crate) fn order(&self) -> Vec<Unit> {
        let mut random = Random::new(self.header.seed, 1);
        let mut blocks = Vec::new();
        for run in 0..self.header.runs {
            for task in 0..self.tasks.len() {
                for subject in 0..self.subjects.len() {
                    blocks.extend(self.header.cli.iter().map(|cli| (run, task, subject, *cli)));
                }
            }
        }
        random.shuffle(&mut blocks);
        let mut units = Vec::new();
        for (run, task, subject, cli) in blocks {
            let mut arms: Vec<usize> = (0..self.arms.len()).collect();
            random.shuffle(&mut arms);
            units.extend(arms.into_iter().map(|arm| Unit { subject, cli, task, run, arm }));
        }
        units
    }
}
