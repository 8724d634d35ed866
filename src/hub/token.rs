//! The token: from the environment, from the file that `hf auth login` writes, or from CI's own identity.

use std::env;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use super::{Hub, Repo};
use crate::base::http::{Body, Method, Request, encoded};

/// Never printed.
#[derive(Clone)]
pub(super) struct Token(String);

impl Token {
    fn new(text: &str, origin: &str) -> Result<Option<Self>> {
        let text = text.trim();
        ensure!(
            !text.chars().any(|c| c.is_control() || c.is_whitespace()),
            "{origin} is not a token: it has a line end or a space"
        );
        Ok((!text.is_empty()).then(|| Self(text.to_owned())))
    }

    /// The secret, which must go only into a header.
    pub(super) fn secret(&self) -> &str {
        &self.0
    }
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.trim().is_empty())
}

/// Hugging Face's folder: `HF_HOME`, else `~/.cache/huggingface`.
pub(super) fn home() -> Option<PathBuf> {
    let caches = || variable("XDG_CACHE_HOME").map(PathBuf::from).or_else(|| Some(dirs::home_dir()?.join(".cache")));
    variable("HF_HOME").map(PathBuf::from).or_else(|| Some(caches()?.join("huggingface")))
}

/// `HF_TOKEN`, `HUGGING_FACE_HUB_TOKEN`, or the file.
pub(super) fn stored() -> Result<Option<Token>> {
    for name in ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"] {
        if let Some(value) = variable(name) {
            return Token::new(&value, name);
        }
    }
    let path = variable("HF_TOKEN_PATH").map(PathBuf::from).or_else(|| Some(home()?.join("token")));
    let Some(path) = path.filter(|path| path.is_file()) else {
        return Ok(None);
    };
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    Token::new(&text, &path.display().to_string())
}

/// What a CI job may publish without a stored secret: `kernels/owner/name`.
pub(super) fn resource() -> Option<String> {
    variable("HF_OIDC_RESOURCE")
}

impl Hub {
    /// A token for one repository, valid for an hour, in exchange for the identity that CI provides.
    pub(super) fn exchange(&self, resource: &str, repo: Option<&Repo>) -> Result<Option<Token>> {
        if let Some(repo) = repo {
            ensure!(
                resource == format!("kernels/{repo}"),
                "HF_OIDC_RESOURCE is {resource}, and what is published is kernels/{repo}: set the one or the other"
            );
        }
        let identity = match variable("HF_OIDC_ID_TOKEN") {
            Some(identity) => identity,
            None => self.github_identity()?,
        };
        let body = json!({
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
            "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
            "subject_token": identity.trim(),
            "resource": resource,
        })
        .to_string();
        let request = Request::new(Method::Post, format!("{}/oauth/token", self.endpoint()))
            .header("Content-Type", "application/json")
            .body(Body::Bytes(body.as_bytes()));
        let answer = self.expect("exchanging CI's identity for a token", self.http().send(&request)).with_context(|| {
            format!(
                "the Hub must know this workflow as a trusted publisher of {resource}: see the repository's settings there"
            )
        })?;
        let answer: Value = answer.json()?;
        let token = answer["access_token"].as_str().context("the Hub's answer has no access_token")?;
        Token::new(token, "the Hub's answer")
    }

    fn github_identity(&self) -> Result<String> {
        let (Some(url), Some(secret)) =
            (variable("ACTIONS_ID_TOKEN_REQUEST_URL"), variable("ACTIONS_ID_TOKEN_REQUEST_TOKEN"))
        else {
            bail!(
                "HF_OIDC_RESOURCE is set, and no identity is there: a GitHub job needs `permissions: id-token: write`; \
                 another CI puts its own into HF_OIDC_ID_TOKEN"
            );
        };
        let sign = if url.contains('?') { '&' } else { '?' };
        let request = Request::new(Method::Get, format!("{url}{sign}audience={}", encoded(self.endpoint())))
            .header("Authorization", &format!("Bearer {secret}"));
        let answer = self.http().send(&request)?;
        ensure!(answer.is_success(), "GitHub gave no identity to this job: its answer was {}", answer.status);
        let answer: Value = answer.json()?;
        Ok(answer["value"].as_str().context("GitHub's answer holds no identity")?.to_owned())
    }
}
