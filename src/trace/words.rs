//! The words of `words.toml`, by which secrets, objections and measurements are known.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Words {
    pub(super) secret: Vec<String>,
    pub(super) objections: Vec<String>,
    pub(super) units: Vec<String>,
    /// Of keys, with the least number of characters behind each.
    pub(super) prefixes: BTreeMap<String, usize>,
}

#[expect(clippy::expect_used, reason = "embedded data, covered by a test")]
pub(super) static WORDS: LazyLock<Words> =
    LazyLock::new(|| toml::from_str(include_str!("words.toml")).expect("words.toml is valid"));
