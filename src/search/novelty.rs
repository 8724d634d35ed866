//! Whether a candidate is a new program: as tokens it equals no earlier one, and what it changes of its parent is not
//! what an earlier child of the same parent changed.
//!
//! The change is compared, and not the whole program: in a thousand lines one constant of a tile is hardly a difference,
//! and may be the best find of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::sources::Sources;
use crate::compile::key::sha256;
use crate::project::source_digest::plain;

/// Tokens in a row that are compared as one.
const SHINGLE: usize = 5;
/// Hash functions of a signature. The estimate of a similarity of 0.95 has a standard deviation of 0.02.
const HASHES: usize = 128;
/// Hexadecimal digits of each.
const DIGITS: usize = 4;
/// From this estimated Jaccard similarity on two changes are the same.
pub(crate) const SAME: f64 = 0.95;

/// The words of a text, without comments and white space: names, numbers, strings, signs.
fn tokens(text: &str) -> Vec<String> {
    let text = plain(text);
    let mut tokens: Vec<String> = Vec::new();
    let mut rest = text.as_str();
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
        let length = if first.is_alphanumeric() || first == '_' {
            rest.find(|c| !is_word(c)).unwrap_or(rest.len())
        } else if first == '"' {
            rest[1..].find('"').map_or(rest.len(), |end| end + 2)
        } else {
            first.len_utf8()
        };
        let (token, after) = rest.split_at(length);
        if !first.is_whitespace() {
            tokens.push(token.to_owned());
        }
        rest = after;
    }
    tokens
}

/// The digest of all tokens of all sources: the same for programs that differ in comments and white space only.
pub(crate) fn program(sources: &Sources) -> String {
    let mut all = String::new();
    for (path, text) in sources.iter() {
        let _ = write!(all, "{path}\0{}\0\0", tokens(text).join("\0"));
    }
    sha256(all.as_bytes())
}

/// Hashes of the shingles, each with how often it occurs so far, so that what occurs twice counts twice.
fn shingles(sources: &Sources) -> BTreeSet<u64> {
    let mut seen: BTreeMap<u64, u64> = BTreeMap::new();
    let mut all = BTreeSet::new();
    for (path, text) in sources.iter() {
        let tokens = tokens(text);
        let count = tokens.len().max(SHINGLE) - SHINGLE + 1;
        for at in 0..count {
            let window = &tokens[at..tokens.len().min(at + SHINGLE)];
            let base = hash(format!("{path}\0{}", window.join("\0")).as_bytes());
            let times = seen.entry(base).or_default();
            all.insert(mix(base, *times));
            *times += 1;
        }
    }
    all
}

/// The signature of a change: for each of [`HASHES`] functions the least value over the shingles that only one of the two
/// has, of which 4 hexadecimal digits are kept: two that differ look the same once in 65,536 times. Empty where nothing differs.
pub(crate) fn change(parent: &Sources, child: &Sources) -> String {
    let (before, after) = (shingles(parent), shingles(child));
    // What is taken away is another change than what is added.
    let gone = before.difference(&after).map(|one| mix(*one, u64::MAX));
    let parts: Vec<u64> = gone.chain(after.difference(&before).copied()).collect();
    if parts.is_empty() {
        return String::new();
    }
    (0..HASHES).fold(String::with_capacity(HASHES * DIGITS), |mut text, number| {
        let least = parts.iter().map(|part| mix(*part, number as u64 + 1)).min().unwrap_or(0);
        let _ = write!(text, "{:04x}", least & 0xffff);
        text
    })
}

/// The estimated Jaccard similarity of two changes.
pub(crate) fn similarity(one: &str, other: &str) -> f64 {
    if one.len() != HASHES * DIGITS || other.len() != one.len() {
        return f64::from(u8::from(one == other && !one.is_empty()));
    }
    let pairs = one.as_bytes().chunks(DIGITS).zip(other.as_bytes().chunks(DIGITS));
    let same = pairs.filter(|(one, other)| one == other).count();
    f64::from(u32::try_from(same).unwrap_or(0)) / f64::from(u32::try_from(HASHES).unwrap_or(1))
}

fn hash(bytes: &[u8]) -> u64 {
    // FNV-1a, and a mixer after it: any good hash does, as long as it is the same everywhere.
    let start: u64 = 0xcbf2_9ce4_8422_2325;
    let sum = bytes.iter().fold(start, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    mix(sum, 0)
}

fn mix(value: u64, number: u64) -> u64 {
    crate::base::SplitMix64::mix(value ^ crate::base::SplitMix64::mix(number))
}

#[cfg(test)]
#[allow(clippy::format_collect, reason = "a test")]
mod tests {
    use super::*;

    fn sources(text: &str) -> Sources {
        Sources::from_iter([("a.cu".to_owned(), text.to_owned())])
    }

    fn body(tile: u32, name: &str) -> String {
        let lines = (0..60).map(|line| format!("  out[{line}] = x[{line}] * scale + bias[{line}];\n"));
        format!("constexpr int TILE = {tile};\n__global__ void k() {{\n{}  {name}();\n}}\n", lines.collect::<String>())
    }

    #[test]
    fn comments_and_white_space_are_no_change_and_a_constant_is() {
        let start = sources(&body(128, "f"));
        let same = sources(&format!("// faster\n{}", body(128, "f").replace("  ", "\t")));
        assert_eq!(program(&start), program(&same));
        assert_eq!(change(&start, &same), "");
        let (one, other) = (sources(&body(256, "f")), sources(&body(512, "f")));
        assert_ne!(program(&start), program(&one));
        let (one, other) = (change(&start, &one), change(&start, &other));
        assert!(similarity(&one, &other) < 0.5, "{}", similarity(&one, &other));
        assert!((similarity(&one, &one) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn nearly_the_same_rewrite_of_the_same_parent_is_the_same_change() {
        let start = sources(&body(128, "f"));
        let rewrite = |last: &str| {
            let text: String = (0..400).map(|line| format!("  acc{line} += w[{line} * 3] - y{line};\n")).collect();
            sources(&format!("__global__ void k() {{\n{text}  {last}();\n}}\n"))
        };
        let (one, other) = (change(&start, &rewrite("f")), change(&start, &rewrite("g")));
        assert!(similarity(&one, &other) > SAME, "{}", similarity(&one, &other));
    }
}
