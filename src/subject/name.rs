//! How a subject is named: `claude:haiku`, `codex:MODEL`, `http:URL#MODEL`, `exec:COMMAND`, `dir:PATH`.

use std::fmt;
use std::str::FromStr;

use anyhow::{Result, bail};

use super::Subject;

const WANTED: &str = "a subject is claude:MODEL, codex:MODEL, opencode:MODEL, gemini:MODEL, copilot:MODEL, http:URL#MODEL, \
                      exec:COMMAND or dir:PATH";

impl FromStr for Subject {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let Some((kind, rest)) = text.split_once(':').filter(|(_, rest)| !rest.trim().is_empty()) else {
            bail!("`{text}`: {WANTED}");
        };
        let model = || {
            // It is an argument of the agent's command.
            let fits = |c: char| c.is_ascii_alphanumeric() || "-_./:@[]".contains(c);
            if rest.starts_with('-') || !rest.chars().all(fits) {
                bail!("`{rest}` is no name of a model");
            }
            Ok(rest.to_owned())
        };
        Ok(match kind {
            "claude" => Self::Claude { model: model()? },
            "codex" => Self::Codex { model: model()? },
            "opencode" => Self::OpenCode { model: model()? },
            "gemini" => Self::Gemini { model: model()? },
            "copilot" => Self::Copilot { model: model()? },
            "exec" => Self::Exec(rest.to_owned()),
            "dir" => Self::Dir(rest.into()),
            // `http://…#M` and `https://…#M` are such addresses as they stand.
            "http" | "https" if rest.starts_with("//") => Self::Http(text.parse()?),
            "http" => Self::Http(rest.parse()?),
            _ => bail!("`{kind}`: {WANTED}"),
        })
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Claude { model } => write!(f, "claude:{model}"),
            Self::Codex { model } => write!(f, "codex:{model}"),
            Self::OpenCode { model } => write!(f, "opencode:{model}"),
            Self::Gemini { model } => write!(f, "gemini:{model}"),
            Self::Copilot { model } => write!(f, "copilot:{model}"),
            Self::Exec(command) => write!(f, "exec:{command}"),
            Self::Http(endpoint) => write!(f, "http:{endpoint}"),
            Self::Dir(path) => write!(f, "dir:{}", path.display()),
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
            "claude:haiku",
            "codex:gpt-5.1-codex",
            "opencode:openai/gpt-5",
            "exec:cp -r /x . && true",
            "dir:/a b/c",
            "http:http://127.0.0.1:8/v1/chat/completions#m",
        ] {
            assert_eq!(text.parse::<Subject>().unwrap().to_string(), text);
        }
        let bare: Subject = "https://h.example/v1/messages?key=K#m".parse().unwrap();
        assert!(matches!(bare, Subject::Http(_)));
        for wrong in ["claude", "claude:", "claude:--help", "claude:a b", "cloude:x", "exec: ", ""] {
            assert!(wrong.parse::<Subject>().is_err(), "{wrong}");
        }
    }
}
