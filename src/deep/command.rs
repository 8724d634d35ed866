//! Checks lines that begin with `kernels` against this program's command-line definitions.

use clap::error::{ContextKind, ContextValue, ErrorKind};

use super::report::Gathered;
use super::shell::{Command, is_placeholder};

/// This program: its command, and the same in a wheel.
const NAMES: [&str; 2] = ["kernels", "kernels-harness"];

pub(super) fn check(commands: &[Command], ours: &clap::Command, gathered: &mut Gathered) {
    for command in commands {
        if !command.words.first().is_some_and(|(_, word)| NAMES.contains(&word.as_str())) {
            continue;
        }
        // In running text `kernels` may be the Hub library: `kernels >= 0.12`.
        let second = command.words.get(1).map(|(_, word)| word.trim_start_matches('['));
        let is_command = second.is_some_and(|word| word.starts_with(|c: char| c.is_ascii_lowercase() || c == '-'));
        if command.is_span && !is_command {
            continue;
        }
        gathered.checked("kernels command", 1);
        if let Some((line, message)) = wrong(command, ours) {
            gathered.find("command", &command.file, line, message);
        }
    }
}

/// The error of a command, with its line.
fn wrong(command: &Command, ours: &clap::Command) -> Option<(usize, String)> {
    // `[--json]` is optional; `…` means more of the same.
    let mut words: Vec<String> = command
        .words
        .iter()
        .map(|(_, word)| word.trim_matches(['[', ']']).to_owned())
        .filter(|word| !matches!(word.as_str(), "" | "…" | "..."))
        .map(|word| word.trim_end_matches('…').to_owned())
        .collect();
    // Replaces each placeholder that clap rejects by an allowed value, and parses again.
    for _ in 0..16 {
        let error = ours.clone().try_get_matches_from(&words).err()?;
        let text = |kind| match error.get(kind) {
            Some(ContextValue::String(text)) => Some(text.clone()),
            _ => None,
        };
        match error.kind() {
            ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
            | ErrorKind::MissingSubcommand => return None,
            // In running text this is the name of a command, not a whole one.
            ErrorKind::MissingRequiredArgument if command.is_span => return None,
            ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
                let value = text(ContextKind::InvalidValue).unwrap_or_default();
                if is_placeholder(&value) {
                    let allowed = match error.get(ContextKind::ValidValue) {
                        Some(ContextValue::Strings(all)) => all.first().cloned(),
                        _ => None,
                    };
                    let allowed = allowed.unwrap_or_else(|| "1".to_owned());
                    let changed: Vec<String> = words.iter().map(|word| word.replace(&value, &allowed)).collect();
                    if changed != words {
                        words = changed;
                        continue;
                    }
                }
            }
            _ => {}
        }
        let culprit = text(ContextKind::InvalidArg)
            .or_else(|| text(ContextKind::InvalidSubcommand))
            .or_else(|| text(ContextKind::InvalidValue));
        let line = culprit
            .as_deref()
            .and_then(|culprit| culprit.split([' ', '=']).next())
            .and_then(|culprit| {
                let of = |(_, word): &&(usize, String)| word.split('=').next() == Some(culprit);
                command.words.iter().find(of)
            })
            .map_or(command.line(), |(line, _)| *line);
        return Some((line, message(command, &error)));
    }
    None
}

fn message(command: &Command, error: &clap::Error) -> String {
    let said = error.render().to_string();
    let mut lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
    let first = lines.next().unwrap_or_default();
    let first = first.strip_prefix("error: ").unwrap_or(first);
    let more = lines
        .take_while(|line| !line.starts_with("Usage") && !line.starts_with("For more"))
        .map(|line| line.strip_prefix("tip: ").unwrap_or(line))
        .filter(|line| !line.starts_with("to pass"))
        .collect::<Vec<_>>()
        .join(", ");
    let more = if more.is_empty() { String::new() } else { format!("; {more}") };
    let words: Vec<&str> = command.words.iter().map(|(_, word)| word.as_str()).collect();
    format!("`{}`: {first}{more}", words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn wrong_with(text: &str, is_span: bool) -> Option<String> {
        let words = text.split(' ').map(|word| (1, word.to_owned())).collect();
        let command = Command { file: String::new(), words, input: None, is_span };
        wrong(&command, &crate::cli::Cli::command()).map(|(_, message)| message)
    }

    #[test]
    fn placeholders_stand_for_values() {
        for good in [
            "kernels build PATH --arch CC,CC",
            "kernels init NAME --op OP",
            "kernels completions SHELL",
            "kernels skills add [NAME] [--json] --agent ID",
            "kernels bench kernels/rmsnorm --seed $SEED --export FILE.json",
            "kernels skills add …",
        ] {
            assert_eq!(wrong_with(good, false), None, "{good}");
        }
        assert_eq!(wrong_with("kernels skills remove", true), None);
    }

    #[test]
    fn what_is_not_there_is_named() {
        for (bad, words) in [
            ("kernels build --archs 90", "--arch"),
            ("kernels buidl", "buidl"),
            ("kernels completions fish2", "fish2"),
            ("kernels skills remove", "NAME"),
        ] {
            let message = wrong_with(bad, false).unwrap();
            assert!(message.contains(words), "{message}");
        }
    }
}
