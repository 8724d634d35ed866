//! What to type instead, where a command or an option is not known.

use std::ffi::OsString;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory, FromArgMatches};

use super::Cli;
use crate::agent::table;
use crate::base::text::nearest;

/// Words of other programs: npm's `skills`, `gh skill`, `kernel-builder`, Python's `kernels`.
const WORDS: &[(&str, &str)] = &[
    ("benchmark", "bench"),
    ("check", "skills update --check"),
    ("experimental_install", "skills sync"),
    ("experimental_sync", "skills sync"),
    ("lint", "skills validate"),
    ("new", "init"),
    ("new", "skills init"),
    ("outdated", "skills update --check"),
    ("publish", "skills pack --as gh"),
    ("test", "verify"),
    ("upload", "publish"),
    ("use", "skills show"),
    ("verify-signature", "hub verify"),
];

/// Parses a command line. An error about an unknown command, or an option that is an agent, says what to type instead.
pub fn parse<W: Into<OsString> + Clone>(words: impl IntoIterator<Item = W>) -> Result<Cli, clap::Error> {
    let words: Vec<OsString> = words.into_iter().map(Into::into).collect();
    let parsed = super::definitions().try_get_matches_from(&words).and_then(|found| Cli::from_arg_matches(&found));
    parsed.map_err(|error| mend(error, &words))
}

fn mend(mut error: clap::Error, words: &[OsString]) -> clap::Error {
    let (invalid, own) = match error.kind() {
        ErrorKind::InvalidSubcommand => (ContextKind::InvalidSubcommand, ContextKind::SuggestedSubcommand),
        ErrorKind::UnknownArgument => (ContextKind::InvalidArg, ContextKind::SuggestedArg),
        _ => return error,
    };
    let Some(ContextValue::String(typed)) = error.get(invalid) else {
        return error;
    };
    let instead = match typed.strip_prefix("--") {
        Some(name) => option(name),
        None if error.kind() == ErrorKind::InvalidSubcommand => command(typed, words),
        None => None,
    };
    let Some(instead) = instead else {
        return error;
    };
    error.remove(own);
    let tip = StyledStr::from(format!("did you mean `{instead}`?"));
    error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
    error
}

/// The option for an agent whose name was typed as one.
fn option(name: &str) -> Option<String> {
    let agent = table::find(name)?;
    let flag = table::with_a_flag().any(|(one, _)| one.id == agent.id);
    Some(if flag { format!("--{}", agent.id) } else { format!("--agent {}", agent.id) })
}

/// The command for a word that none has in its place: one of this name elsewhere, one that another program calls so, or
/// one that is spelled alike.
fn command(typed: &str, words: &[OsString]) -> Option<String> {
    let root = Cli::command();
    let (mut at, mut path) = (&root, String::new());
    for word in words.iter().skip(1).filter_map(|word| word.to_str()).take_while(|word| *word != typed) {
        if let Some(below) = at.find_subcommand(word) {
            at = below;
            path = format!("{path} {}", below.get_name());
        }
    }
    let one = |above: &Command| Some(above.find_subcommand(typed)?.get_name().to_owned());
    let elsewhere = || {
        let mut groups = root.get_subcommands().filter(|group| group.has_subcommands());
        let inside = groups.find_map(|group| Some(format!(" {} {}", group.get_name(), one(group)?)));
        inside.or_else(|| Some(format!(" {}", one(&root)?)))
    };
    let foreign = || {
        let inside = path.trim_start();
        let (_, here) = WORDS.iter().find(|(word, here)| *word == typed && here.starts_with(inside))?;
        Some(format!(" {here}"))
    };
    let alike = || {
        let names = at.get_subcommands().filter(|one| !one.is_hide_set()).flat_map(spellings);
        let close = at.find_subcommand(nearest(typed, names)?)?;
        Some(format!("{path} {}", close.get_name()))
    };
    let instead = foreign().or_else(elsewhere).or_else(alike)?;
    Some(format!("kernels{instead}"))
}

fn spellings(command: &Command) -> impl Iterator<Item = &str> {
    std::iter::once(command.get_name()).chain(command.get_visible_aliases())
}
