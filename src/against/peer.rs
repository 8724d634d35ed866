//! The peers that can be timed beside a project.

use std::path::Path;

use thiserror::Error;

/// A peer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Peer {
    /// A library or compiler that the driver knows.
    Known(&'static str),
    /// A kernel that the Hub library loads: a repository, with or without `@VERSION`, or a folder.
    Hub(String),
}

/// The names of known peers.
const KNOWN: [&str; 5] = ["torch", "compile", "compile-max", "liger", "quack"];

/// A name of no peer.
#[derive(Debug, Error)]
#[error("--against {0}: there are {known}, and hub:OWNER/NAME[@VERSION] or hub:PATH", known = KNOWN.join(", "))]
pub(crate) struct UnknownPeer(String);

impl Peer {
    /// Reads a name.
    pub(crate) fn parse(text: &str) -> Result<Self, UnknownPeer> {
        if let Some(known) = KNOWN.into_iter().find(|known| *known == text) {
            return Ok(Self::Known(known));
        }
        match text.strip_prefix("hub:") {
            Some(place) if !place.trim().is_empty() => Ok(Self::Hub(place.to_owned())),
            _ => Err(UnknownPeer(text.to_owned())),
        }
    }

    /// Reads names, without repetitions.
    pub(crate) fn parse_all(texts: &[String]) -> Result<Vec<Self>, UnknownPeer> {
        let mut peers = Vec::new();
        for text in texts {
            let peer = Self::parse(text)?;
            if !peers.contains(&peer) {
                peers.push(peer);
            }
        }
        Ok(peers)
    }

    /// The name.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Known(name) => (*name).to_owned(),
            Self::Hub(place) => format!("hub:{place}"),
        }
    }

    /// Whether it may use the network: a repository may, a folder may not.
    pub(crate) fn may_download(&self) -> bool {
        matches!(self, Self::Hub(place) if !place.starts_with(['.', '/', '~']) && !Path::new(place).exists())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn only_a_repository_may_open_a_connection() {
        let online = |text| Peer::parse(text).unwrap().may_download();
        assert!(online("hub:kernels-community/activation"));
        for text in ["torch", "hub:./build", "hub:/no/such/folder", "hub:src", "hub:~/kernel"] {
            assert!(!online(text), "{text}");
        }
    }

    #[test]
    fn names_are_taken_once_and_others_are_refused() {
        let parse = |text: &str| Peer::parse_all(&text.split(',').map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(parse("torch,liger,torch").unwrap().len(), 2);
        for text in ["", "apex", "hub:", "Torch"] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains("torch, compile, compile-max, liger, quack"), "{error}");
        }
    }
}
