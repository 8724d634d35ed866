//! Where a model is asked, from an address such as `http://127.0.0.1:8123/v1#qwen` or
//! `https://api.anthropic.com#claude-sonnet-4-5`.

use std::fmt;
use std::str::FromStr;

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};

use crate::base::http::{is_private, origin};

/// The form of requests and answers.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Api {
    /// OpenAI's chat completions, which most servers speak.
    Chat,
    /// OpenAI's responses.
    Responses,
    /// Anthropic's messages.
    Messages,
}

const APIS: [(Api, &str, &str); 3] = [
    (Api::Chat, "chat", "/chat/completions"),
    (Api::Responses, "responses", "/responses"),
    (Api::Messages, "messages", "/messages"),
];

/// Whose keys are sent without being named: a key never goes to a host that it was not made for.
const OWNERS: [(&str, &str); 2] =
    [("https://api.openai.com", "OPENAI_API_KEY"), ("https://api.anthropic.com", "ANTHROPIC_API_KEY")];

#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Endpoint {
    /// Where requests are posted.
    pub(crate) url: String,
    pub(crate) model: String,
    pub(crate) api: Api,
    /// The environment variable with the key; none is sent without one.
    pub(crate) key: Option<String>,
}

impl Endpoint {
    /// The key, from the environment.
    pub(crate) fn secret(&self) -> Result<Option<String>> {
        let Some(name) = &self.key else { return Ok(None) };
        match std::env::var(name) {
            Ok(value) if !value.trim().is_empty() => Ok(Some(value.trim().to_owned())),
            _ => bail!("the key for {} is missing: set the environment variable {name}", origin(&self.url)),
        }
    }
}

impl FromStr for Endpoint {
    type Err = anyhow::Error;

    /// `URL#MODEL`; `URL?api=chat|responses|messages&key=VARIABLE#MODEL` where they cannot be seen from the URL.
    fn from_str(text: &str) -> Result<Self> {
        let wanted = "an address is URL#MODEL, for example http://127.0.0.1:8123/v1#qwen3";
        let Some((address, model)) = text.split_once('#').filter(|(_, model)| !model.trim().is_empty()) else {
            bail!("an address without a model; {wanted}");
        };
        let (path, query) = address.split_once('?').unwrap_or((address, ""));
        if !path.starts_with("http://") && !path.starts_with("https://") || origin(path).ends_with("://") {
            bail!("an address that does not begin with http://HOST or https://HOST; {wanted}");
        }
        // Addresses are kept and shown.
        if origin(path).contains('@') {
            bail!(
                "an address with a user's name or password; put the key into an environment variable and add ?key=NAME"
            );
        }
        let (mut named, mut key, mut rest) = (None, None, Vec::new());
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("key", name)) => key = Some(variable(name)?),
                Some(("api", name)) => match APIS.iter().find(|(_, known, _)| *known == name) {
                    Some((api, _, _)) => named = Some(*api),
                    None => bail!("?api={name}: it is chat, responses or messages"),
                },
                _ => rest.push(pair),
            }
        }
        let path = path.trim_end_matches('/');
        let whole = APIS.iter().find(|(_, _, end)| path.ends_with(end)).map(|(api, _, _)| *api);
        let theirs = origin(path) == "https://api.anthropic.com";
        let api = named.or(whole).unwrap_or(if theirs { Api::Messages } else { Api::Chat });
        let mut url = path.to_owned();
        if whole.is_none() {
            let version = if path == origin(path) { "/v1" } else { "" };
            let end = APIS.iter().find(|(known, _, _)| *known == api).map_or("", |(_, _, end)| *end);
            url = format!("{path}{version}{end}");
        }
        if !rest.is_empty() {
            url = format!("{url}?{}", rest.join("&"));
        }
        if key.is_some() && !is_private(&url) {
            bail!("{}: a key would be sent unencrypted; use https, or leave ?key= out", origin(&url));
        }
        let owner = OWNERS.iter().find(|(owner, _)| *owner == origin(&url)).map(|(_, name)| (*name).to_owned());
        Ok(Self { url, model: model.to_owned(), api, key: key.or(owner) })
    }
}

/// The name of an environment variable. What may be a key itself is not repeated.
fn variable(name: &str) -> Result<String> {
    let fits = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    if name.is_empty() || !name.bytes().all(fits) || name.as_bytes()[0].is_ascii_digit() {
        bail!("?key= takes the name of an environment variable in capital letters, never a key");
    }
    Ok(name.to_owned())
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (url, query) = self.url.split_once('?').unwrap_or((&self.url, ""));
        let mut query: Vec<String> = Some(query.to_owned()).into_iter().filter(|query| !query.is_empty()).collect();
        if let Some((_, name, _)) = APIS.iter().find(|(api, _, end)| *api == self.api && !url.ends_with(end)) {
            query.push(format!("api={name}"));
        }
        if let Some(key) = self.key.as_ref().filter(|key| !OWNERS.contains(&(origin(url), key))) {
            query.push(format!("key={key}"));
        }
        let mark = if query.is_empty() { "" } else { "?" };
        write!(f, "{url}{mark}{}#{}", query.join("&"), self.model)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn an_address_says_where_how_and_with_which_key() {
        let theirs = "https://api.anthropic.com/v1/messages";
        for (text, url, api, key) in [
            ("http://127.0.0.1:8/v1#m", "http://127.0.0.1:8/v1/chat/completions", Api::Chat, None),
            ("http://localhost:8#m", "http://localhost:8/v1/chat/completions", Api::Chat, None),
            ("http://[::1]:8/?api=messages#m", "http://[::1]:8/v1/messages", Api::Messages, None),
            ("http://gpu7:8/v1/responses#m", "http://gpu7:8/v1/responses", Api::Responses, None),
            ("https://api.anthropic.com#m", theirs, Api::Messages, Some("ANTHROPIC_API_KEY")),
            (
                "https://api.openai.com/v1/?api=responses#m",
                "https://api.openai.com/v1/responses",
                Api::Responses,
                Some("OPENAI_API_KEY"),
            ),
            // Nobody's key goes to others.
            ("https://h.example/api/v1#a/b:c#d", "https://h.example/api/v1/chat/completions", Api::Chat, None),
            ("https://h.example/o?v=1&key=K2#m", "https://h.example/o/chat/completions?v=1", Api::Chat, Some("K2")),
            ("https://h.example/x?api=messages#m", "https://h.example/x/messages", Api::Messages, None),
        ] {
            let endpoint: Endpoint = text.parse().unwrap();
            assert_eq!((endpoint.url.as_str(), endpoint.api, endpoint.key.as_deref()), (url, api, key), "{text}");
            assert_eq!(endpoint.to_string().parse::<Endpoint>().unwrap(), endpoint, "{endpoint}");
        }
    }

    #[test]
    fn a_wrong_address_is_refused_without_repeating_a_secret() {
        for text in [
            "https://u:hunter2@h.example#m",
            "https://h.example?key=sk-hunter2#m",
            "http://h.example?key=K#m",
            "http://h.example",
            "http://#m",
            "h.example#m",
            "https://h.example# ",
        ] {
            let error = text.parse::<Endpoint>().unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
