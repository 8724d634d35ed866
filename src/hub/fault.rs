//! Errors of the Hub, each with the next step.

use thiserror::Error;

use super::Hub;
use crate::base::http::{HttpError, Response};

/// An error answer, or no answer.
#[derive(Debug, Error)]
#[error("{message}")]
pub(crate) struct Fault {
    /// 0 if no answer came.
    pub(super) status: u16,
    /// `X-Error-Code`, such as `RepoNotFound`.
    code: Option<String>,
    message: String,
}

/// At most this many characters of a server's message are shown.
const LONGEST: usize = 300;

impl Fault {
    /// Whether it is unknown if the Hub carried out the request.
    pub(super) fn is_open(&self) -> bool {
        self.status == 0 || self.status >= 500
    }

    pub(super) fn is_missing(&self) -> bool {
        let named = |code: &str| ["RepoNotFound", "RevisionNotFound", "EntryNotFound"].contains(&code);
        self.status == 404 || self.status == 401 && self.code.as_deref().is_some_and(named)
    }

    /// Somebody else made a change first.
    pub(super) fn conflict(message: &str) -> Self {
        Self { status: 409, code: None, message: message.to_owned() }
    }

    pub(super) fn of(error: &anyhow::Error) -> Option<&Self> {
        error.downcast_ref()
    }
}

impl Hub {
    /// The answer, if it is a success. `tried` begins the message: `reading acme/demo`.
    pub(super) fn expect(&self, tried: &str, answer: Result<Response, HttpError>) -> Result<Response, Fault> {
        let response = match answer {
            Ok(response) if response.is_success() => return Ok(response),
            Ok(response) => response,
            Err(error @ HttpError::Unreachable { .. }) => {
                let next = "check the connection, or HF_ENDPOINT if it is set, and try again";
                return Err(Fault { status: 0, code: None, message: format!("{tried}: {error}; {next}") });
            }
            // An error of curl itself, which another attempt would not fix.
            Err(error) => return Err(Fault { status: 400, code: None, message: format!("{tried}: {error}") }),
        };
        let status = response.status;
        let code = response.header("X-Error-Code").map(str::to_owned);
        let next = self.next(tried, &response);
        let said = self.said(&response);
        Err(Fault { status, code, message: format!("{tried}: the Hub answered {status}{said}; {next}") })
    }

    /// The server's message, shortened, without the token.
    fn said(&self, response: &Response) -> String {
        let body: Option<serde_json::Value> = response.json().ok();
        let body = body.as_ref().and_then(|body| body["error_description"].as_str().or_else(|| body["error"].as_str()));
        let said = response.header("X-Error-Message").or(body).unwrap_or_default();
        let said = self.without_token(said);
        let said: String = said.trim().trim_end_matches('.').chars().take(LONGEST).collect();
        if said.is_empty() { said } else { format!(" ({said})") }
    }

    fn next(&self, tried: &str, response: &Response) -> String {
        let endpoint = self.endpoint();
        match response.status {
            401 if self.has_token() => format!(
                "the token is not valid, or must not see this repository: make one with write access at \
                 {endpoint}/settings/tokens and set HF_TOKEN"
            ),
            401 => format!(
                "there is no such repository, or it needs a token: make one at {endpoint}/settings/tokens and set HF_TOKEN"
            ),
            402 => "the account's storage is used up".to_owned(),
            403 if tried.starts_with("creating") => format!(
                "publishing kernels must be granted to an account first: ask for it in the discussions of \
                 {endpoint}/kernels-community, or have its owner create the repository"
            ),
            403 => "the token has no right to write here: give it write access to this repository, or ask its owner; \
                 --create-pr proposes the change instead"
                .to_owned(),
            404 => "look at the name; a private repository needs a token that may see it".to_owned(),
            409 => "another operation on the repository is not finished yet: try again in a minute".to_owned(),
            412 => "somebody else changed the branch in the meantime: look at the change and publish again".to_owned(),
            429 => match response.header("Retry-After") {
                Some(seconds) => format!("too many requests: try again in {seconds} seconds"),
                None => "too many requests: try again in some minutes".to_owned(),
            },
            500.. => "the fault is on the Hub's side: try again; what is done already is kept".to_owned(),
            _ => "this version of kernels may be too old for the Hub: update kernels".to_owned(),
        }
    }
}
