//! How a subject is named: `claude`, `codex:MODEL`, `exec:COMMAND`, `http:URL#MODEL`, `dir:PATH`.

use std::fmt;
use std::str::FromStr;

use anyhow::{Result, bail};

use super::{Agent, Subject};

/// Coding agents that may be meant, and are not in the table.
const OTHERS: [&str; 2] = ["cursor", "qwen"];

fn wanted() -> String {
    let agents: Vec<String> = Agent::ids().map(|id| format!("{id}[:MODEL]")).collect();
    format!("an agent is {}, exec:COMMAND, http:URL#MODEL or dir:PATH", agents.join(", "))
}

impl FromStr for Subject {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        if let Some(agent) = Agent::find(text, None) {
            return Ok(Self::Agent(agent));
        }
        let Some((kind, rest)) = text.split_once(':').filter(|(_, rest)| !rest.trim().is_empty()) else {
            bail!("`{text}`: {}", wanted());
        };
        if let Some(agent) = Agent::find(kind, Some(rest.trim())) {
            return Ok(Self::Agent(agent));
        }
        Ok(match kind {
            "exec" => Self::Exec(rest.to_owned()),
            "dir" => Self::Dir(rest.into()),
            // `http://…#M` and `https://…#M` are such addresses as they stand.
            "http" | "https" if rest.starts_with("//") => Self::Http(text.parse()?),
            "http" => Self::Http(rest.parse()?),
            agent if OTHERS.contains(&agent) => {
                bail!(
                    "{agent} cannot be run yet: ask its model with http:URL#MODEL, or judge what it left with dir:PATH"
                )
            }
            _ => bail!("`{kind}`: {}", wanted()),
        })
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exec(command) => write!(f, "exec:{command}"),
            Self::Http(endpoint) => write!(f, "http:{endpoint}"),
            Self::Dir(path) => write!(f, "dir:{}", path.display()),
            Self::Agent(Agent { row, model: Some(model) }) => write!(f, "{}:{model}", row.id),
            Self::Agent(Agent { row, model: None }) => f.write_str(&row.id),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_is_shown() {
        for text in [
            "exec:cp -r /x . && true",
            "dir:/a b/c",
            "http:http://127.0.0.1:8/v1/chat/completions#m",
            "claude",
            "codex:m:1",
        ] {
            assert_eq!(text.parse::<Subject>().unwrap().to_string(), text);
        }
        let bare: Subject = "https://h.example/v1/messages?key=K#m".parse().unwrap();
        assert!(matches!(bare, Subject::Http(_)));
        for wrong in ["claude:", "exec: ", "cloude:x", "http:127.0.0.1", ""] {
            assert!(wrong.parse::<Subject>().is_err(), "{wrong}");
        }
        for agent in OTHERS {
            let error = format!("{agent}:m").parse::<Subject>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("{agent} cannot be run yet")), "{error}");
        }
    }
}
