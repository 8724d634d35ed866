//! The Kernel Hub. A publish is planned against what is there, sent in one commit per branch, and read back.
//!
//! Everything goes through [`Hub`], which is one endpoint with one token.

mod benchmark;
mod branch;
mod built;
pub(crate) mod cache;
pub(crate) mod digest;
mod fault;
mod file;
pub(crate) mod load;
pub(crate) mod loader;
pub(crate) mod local;
pub(crate) mod lock;
pub(crate) mod name;
mod page;
pub(crate) mod plan;
mod proof;
mod public;
pub(crate) mod publish;
pub(crate) mod read;
pub(crate) mod signature;
mod template;
mod token;
pub(crate) mod variants;
mod write;
mod xet;

use std::env;

use anyhow::{Result, ensure};

use crate::base::http::{Http, Method, Request, is_private, origin};
use crate::base::repo::{Pinned, Repo};
use token::Token;

/// The address of the real Hub; `HF_ENDPOINT` names another.
const ENDPOINT: &str = "https://huggingface.co";

/// One endpoint with one token.
pub(crate) struct Hub {
    http: Http,
    endpoint: String,
    token: Option<Token>,
}

impl Hub {
    /// Opens it with the token that the environment names. To publish, name the repository, for which CI may provide a token.
    pub(crate) fn open(publishes: Option<&Repo>) -> Result<Self> {
        let endpoint = env::var("HF_ENDPOINT").ok().filter(|set| !set.trim().is_empty());
        let endpoint = endpoint.as_deref().unwrap_or(ENDPOINT).trim().trim_end_matches('/').to_owned();
        ensure!(
            endpoint.starts_with("https://") || endpoint.starts_with("http://"),
            "HF_ENDPOINT is `{endpoint}`, which is not an address; write https://…"
        );
        let mut hub = Self { http: Http::new()?, endpoint, token: None };
        let exchanged = match token::resource() {
            Some(resource) if publishes.is_some() => hub.exchange(&resource, publishes)?,
            _ => None,
        };
        hub.token = exchanged.map_or_else(token::stored, |token| Ok(Some(token)))?;
        ensure!(
            hub.token.is_none() || is_private(&hub.endpoint),
            "HF_ENDPOINT is {}, and a token is sent over https, or to this machine, alone: unset HF_TOKEN, or use https",
            hub.endpoint
        );
        Ok(hub)
    }

    pub(crate) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    pub(crate) fn has_token(&self) -> bool {
        self.token.is_some()
    }

    /// The repository's page.
    pub(crate) fn page(&self, repo: &Repo) -> String {
        format!("{}/kernels/{repo}", self.endpoint)
    }

    fn http(&self) -> &Http {
        &self.http
    }

    /// A request with the token, if it goes to the Hub itself.
    fn request(&self, method: Method, url: String) -> Request<'static> {
        let own = origin(&url) == origin(&self.endpoint);
        let request = Request::new(method, url);
        match &self.token {
            Some(token) if own => request.header("Authorization", &format!("Bearer {}", token.secret())),
            _ => request,
        }
    }

    /// An address of a repository's API: `tree/v1/build`.
    fn api(&self, repo: &Repo, rest: &str) -> String {
        let slash = if rest.is_empty() { "" } else { "/" };
        format!("{}/api/kernels/{repo}{slash}{rest}", self.endpoint)
    }

    fn without_token(&self, text: &str) -> String {
        self.token.as_ref().map_or_else(|| text.to_owned(), |token| text.replace(token.secret(), "…"))
    }
}
