//! Skills from the web: a `.skill` archive, or what a site lists in `/.well-known/agent-skills/index.json`.
//!
//! Version 0.2.0 of the index (github.com/cloudflare/agent-skills-discovery-rfc) names one file a skill, with its SHA-256;
//! the version before it, in `/.well-known/skills`, names the files of a folder and has no digests.

use std::io::Cursor;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use super::{patience, skill, too_slow};
use crate::base::hex;
use crate::base::http::{Bounds, Http, HttpError, Response, encoded, joined, may_lead};
use crate::skill::address::Address;
use crate::skill::archive::{MAX_ARCHIVE, read, read_of_site};
use crate::skill::lint::is_valid_name;
use crate::skill::source::{Skill, choose};
use crate::skill::tree::{Entry, MAX_BYTES, MAX_FILES, SKILL_MD, Tree};
use crate::skill::{Digest, RelPath};

/// The most bytes of an index.
const LARGEST: u64 = 1_000_000;
/// Where an index may lie, the newer form first.
const PLACES: [&str; 2] = [".well-known/agent-skills", ".well-known/skills"];

#[derive(Deserialize)]
struct Index {
    skills: Vec<Offer>,
}

/// A skill in an index: an artifact with a digest, or the files of a folder.
#[derive(Deserialize)]
struct Offer {
    name: String,
    #[serde(default, rename = "type")]
    kind: String,
    url: Option<String>,
    digest: Option<String>,
    #[serde(default)]
    files: Vec<String>,
}

/// What one command asks of a site. All answers together may take as long as one alone.
struct Visit {
    http: Http,
    end: Instant,
}

/// The skill in an archive.
pub(super) fn archive(from: &Address, url: &str) -> Result<Skill> {
    let bytes = Visit::new()?.get(url, MAX_ARCHIVE)?;
    let at = sha256(&bytes);
    let (name, tree) = read(Cursor::new(bytes)).with_context(|| format!("{from} is refused"))?;
    skill(from.clone(), at, &name, tree)
}

/// The skills of these names on a site.
pub(super) fn open(from: &Address, url: &str, names: &[String]) -> Result<Vec<Skill>> {
    let visit = Visit::new()?;
    let (place, index) = index(&visit, url)?;
    let there: Vec<String> = index.skills.iter().map(|offer| offer.name.clone()).collect();
    if let Some(wrong) = there.iter().find(|name| !is_valid_name(name)) {
        bail!("{place} names a skill {wrong:?}, which is no name of a skill");
    }
    let open = |name: &String| {
        let offer = index.skills.iter().find(|offer| offer.name == *name).context("it is not there")?;
        let (tree, at) = offer.fetch(&visit, &place).with_context(|| format!("{name} of {place}"))?;
        skill(from.of_skill(name, None), at, name, tree)
    };
    choose(&there, names, url)?.into_iter().map(open).collect()
}

/// The index of a site and its address.
fn index(visit: &Visit, url: &str) -> Result<(String, Index)> {
    let known = PLACES.iter().any(|place| url.ends_with(place));
    let places = if known { vec![url.to_owned()] } else { PLACES.map(|place| format!("{url}/{place}")).to_vec() };
    for place in &places {
        let place = format!("{place}/index.json");
        let response = visit.ask(&place, LARGEST)?;
        match response.status {
            404 | 410 => {}
            _ if response.is_success() => {
                let index = response.json().with_context(|| format!("{place} is no index of skills"))?;
                return Ok((place, index));
            }
            status => bail!("{place} answers {status}"),
        }
    }
    bail!("{url} has no index of skills, {}/index.json; the address of a repository ends in .git", PLACES.join(" or "));
}

impl Offer {
    /// The files, and the digest of what they came in.
    fn fetch(&self, visit: &Visit, index: &str) -> Result<(Tree, String)> {
        let Some((url, digest)) = self.url.as_ref().zip(self.digest.as_ref()) else {
            return self.fetch_files(visit, index);
        };
        let place = joined(index, url);
        if !may_lead(index, &place) {
            bail!("{place} is neither on the host of the index nor https, and is not fetched");
        }
        let bytes = visit.get(&place, MAX_ARCHIVE)?;
        let at = sha256(&bytes);
        if *digest != at {
            bail!("{url} is {at}, and the index says {digest}; nothing was installed");
        }
        let tree = match &*self.kind {
            "skill-md" => {
                let mut tree = Tree::default();
                tree.insert(RelPath::parse(SKILL_MD)?, Entry { executable: false, content: bytes.into() })?;
                tree
            }
            "archive" => {
                let (name, tree) = read_of_site(&bytes, &self.name)?;
                if name != self.name {
                    bail!("the skill in {url} is called {name}");
                }
                tree
            }
            kind => bail!("{url} is of the type {kind:?}; known are skill-md and archive"),
        };
        Ok((tree, at))
    }

    fn fetch_files(&self, visit: &Visit, index: &str) -> Result<(Tree, String)> {
        if self.files.is_empty() || self.files.len() > MAX_FILES {
            bail!("the index names neither a url with its digest nor up to {MAX_FILES} files");
        }
        let mut tree = Tree::default();
        for file in &self.files {
            let path = RelPath::parse(file)?;
            if tree.admits(file) {
                let left = MAX_BYTES - tree.bytes();
                let parts: Vec<String> = file.split('/').map(encoded).collect();
                let content = visit.get(&joined(index, &format!("{}/{}", self.name, parts.join("/"))), left)?;
                tree.insert(path, Entry { executable: false, content: content.into() })?;
            }
        }
        let at = format!("tree:{}", Digest::of_tree(&tree));
        Ok((tree, at))
    }
}

impl Visit {
    fn new() -> Result<Self> {
        Ok(Self { http: Http::new()?, end: Instant::now() + patience() })
    }

    fn ask(&self, url: &str, most: u64) -> Result<Response> {
        let left = self.end.saturating_duration_since(Instant::now());
        // curl takes less than a millisecond for no limit.
        if left < Duration::from_millis(1) {
            return too_slow();
        }
        let got = self.http.download(url, Bounds { bytes: most, time: left, attempts: 2 });
        got.map_err(|error| match error.downcast_ref() {
            Some(HttpError::Unreachable { .. }) => anyhow!("{error}; check the address and the connection"),
            _ => error,
        })
    }

    fn get(&self, url: &str, most: u64) -> Result<Vec<u8>> {
        let response = self.ask(url, most)?;
        if !response.is_success() {
            let next = match response.status {
                401 | 403 => "nothing is sent to log in: download it yourself, and add the file",
                404 | 410 => "check the address",
                _ => "try again later",
            };
            bail!("{url} answers {}; {next}", response.status);
        }
        response.bytes()
    }
}

fn sha256(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(&Sha256::digest(bytes)))
}
