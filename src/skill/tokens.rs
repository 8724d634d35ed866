//! Counts tokens as the `o200k_base` tokenizer does, for a skill's token budget.
//!
//! The vocabulary (199,998 tokens) is `o200k_base.tiktoken`, which OpenAI publishes with tiktoken under the MIT licence: a
//! line a token, its bytes in base64 and its rank. `o200k_base.deflate` holds one length byte a token, then all tokens'
//! bytes, in order of rank, as a raw deflate stream (Python: `zlib.compressobj(9, zlib.DEFLATED, -15, 9)`); a test makes the
//! published file of it. It is inflated only when something is counted.

use std::collections::HashMap;
use std::io::Read;
use std::sync::LazyLock;

use fancy_regex::Regex;
use flate2::read::DeflateDecoder;

const VOCABULARY: usize = 199_998;
const PACKED: &[u8] = include_bytes!("o200k_base.deflate");

/// The regular expression that splits text into o200k_base's pieces.
const PIECES: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
);

struct Tokenizer {
    ranks: HashMap<Vec<u8>, usize>,
    pieces: Regex,
}

static TOKENIZER: LazyLock<Tokenizer> = LazyLock::new(|| {
    let tokens = vocabulary().into_iter().enumerate();
    let ranks = tokens.map(|(rank, token)| (token, rank)).collect();
    #[expect(clippy::expect_used, reason = "a constant pattern, covered by a test")]
    let pieces = Regex::new(PIECES).expect("the pattern compiles");
    Tokenizer { ranks, pieces }
});

/// The tokens by rank.
fn vocabulary() -> Vec<Vec<u8>> {
    let mut bytes = Vec::new();
    #[expect(clippy::expect_used, reason = "embedded data, covered by a test")]
    DeflateDecoder::new(PACKED).read_to_end(&mut bytes).expect("the embedded vocabulary inflates");
    let (lengths, mut rest) = bytes.split_at(VOCABULARY);
    let token = |length: &u8| {
        let (token, after) = rest.split_at(usize::from(*length));
        rest = after;
        token.to_vec()
    };
    lengths.iter().map(token).collect()
}

/// Merging is quadratic in the length of a piece. No word is this long; a longer piece (a blob of base64) is
/// counted in parts, with at most one extra token per part.
const LONGEST_PIECE: usize = 128;
/// No token is longer.
const LONGEST_TOKEN: usize = 128;

/// The number of o200k_base tokens in `text`.
pub fn count(text: &str) -> usize {
    counts(text).sum()
}

/// The same, but no more than `enough` are counted: a body of many megabytes takes minutes.
pub(crate) fn count_up_to(text: &str, enough: usize) -> usize {
    if text.len() >= enough * LONGEST_TOKEN {
        return enough;
    }
    let mut sum = 0;
    for tokens in counts(text) {
        sum += tokens;
        if sum >= enough {
            break;
        }
    }
    sum
}

/// The number of tokens of each part of `text`.
fn counts(text: &str) -> impl Iterator<Item = usize> {
    let pieces = TOKENIZER.pieces.find_iter(text).filter_map(Result::ok);
    pieces
        .flat_map(|piece| piece.as_str().as_bytes().chunks(LONGEST_PIECE))
        .map(|part| count_part(&TOKENIZER.ranks, part))
}

/// Byte-pair encoding: join the neighbours with the lowest rank until no join is a token.
fn count_part(ranks: &HashMap<Vec<u8>, usize>, piece: &[u8]) -> usize {
    if piece.is_empty() || ranks.contains_key(piece) {
        return usize::from(!piece.is_empty());
    }
    let mut starts: Vec<usize> = (0..=piece.len()).collect();
    loop {
        let lowest = starts
            .windows(3)
            .enumerate()
            .filter_map(|(at, w)| ranks.get(&piece[w[0]..w[2]]).map(|&rank| (rank, at)))
            .min();
        match lowest {
            Some((_, at)) => drop(starts.remove(at + 1)),
            None => return starts.len() - 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use sha2::{Digest as _, Sha256};

    use super::*;
    use crate::base::{base64, hex};

    #[test]
    fn the_vocabulary_is_the_published_one() {
        let mut published = String::new();
        for (rank, token) in vocabulary().iter().enumerate() {
            let _ = writeln!(published, "{} {rank}", base64(token));
        }
        // With this digest tiktoken checks its download of o200k_base.tiktoken.
        assert_eq!(hex(&Sha256::digest(published)), "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d");
    }

    /// Expected counts are those of npm's gpt-tokenizer for o200k_base.
    #[test]
    fn counts_what_the_reference_counts() {
        for (text, tokens) in CASES {
            assert_eq!(count(text), *tokens, "{text:?}");
        }
    }

    const CASES: &[(&str, usize)] = &[
        ("", 0),
        ("a", 1),
        ("hello world", 2),
        ("  leading  spaces\n\n\n", 5),
        ("don't DON'T we've", 3),
        ("1234567890", 4),
        ("café naïve 日本語 😀🚀", 9),
        ("__global__ void k(float* __restrict__ x) {\n\tint i = blockIdx.x * blockDim.x + threadIdx.x;\n}\r\n", 29),
        ("---\nname: cuda-kernels\n---\n# Title\n\n- item `code` https://example.com/a/b?c=d\n", 26),
        ("trailing   ", 3),
        ("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 9),
        ("Ⅷ ½ ٣٤ ǅ", 10),
    ];
}
