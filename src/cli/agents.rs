//! The options that name agents.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};

use crate::agent::table;

/// What stands for every agent.
const ALL: &str = "*";

/// The ids of the agents that were named: by `--agent ID`, or by a flag that their row in agents.toml asks for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Agents(pub Vec<String>);

impl Agents {
    /// What `--agent '*'` is.
    pub(crate) fn every() -> Self {
        Self(vec![ALL.to_owned()])
    }

    /// Whether `*` was named.
    pub(crate) fn all(&self) -> bool {
        self.0.iter().any(|id| id == ALL)
    }
}

impl Args for Agents {
    fn augment_args(command: Command) -> Command {
        let flags = table::with_a_flag()
            .map(|(agent, help)| Arg::new(&*agent.id).long(&*agent.id).action(ArgAction::SetTrue).help(help));
        let by_id = Arg::new("agent")
            .short('a')
            .long("agent")
            .value_name("ID")
            .action(ArgAction::Append)
            .value_delimiter(',')
            .value_parser(Known)
            .hide_possible_values(true)
            .help("Any agent that `kernels skills agents` lists; several with commas; '*' for all");
        command.args(flags.chain([by_id]).map(|arg| arg.help_heading("Targets")))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Agents {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let flags = table::with_a_flag().filter(|(agent, _)| matches.get_flag(&agent.id));
        let by_flag = flags.map(|(agent, _)| agent.id.clone());
        let by_id = matches.get_many("agent").into_iter().flatten().cloned();
        Ok(Self(by_flag.chain(by_id).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Reads the name of an agent as its id. Unlike clap's list of values, an error does not print all of them.
#[derive(Clone)]
struct Known;

impl TypedValueParser for Known {
    type Value = String;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<String, clap::Error> {
        let typed = value.to_string_lossy();
        if typed == ALL {
            return Ok(typed.into_owned());
        }
        if let Some(agent) = table::find(&typed) {
            return Ok(agent.id.clone());
        }
        let mut error = clap::Error::new(ErrorKind::InvalidValue).with_cmd(command);
        let arg = arg.map(ToString::to_string).unwrap_or_default();
        error.insert(ContextKind::InvalidArg, ContextValue::String(arg));
        error.insert(ContextKind::InvalidValue, ContextValue::String(typed.clone().into_owned()));
        if let Some(close) = table::nearest(&typed) {
            error.insert(ContextKind::SuggestedValue, ContextValue::String(close.to_owned()));
        }
        let common = table::with_a_flag().map(|(agent, _)| agent.id.clone()).collect();
        error.insert(ContextKind::ValidValue, ContextValue::Strings(common));
        let list = "`kernels skills agents` lists all of them".into();
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![list]));
        Err(error)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(table::all().iter().map(|agent| PossibleValue::new(&*agent.id).help(&*agent.name))))
    }
}
