//! Tokens, counted alike for all: the APIs differ in whether a count includes what was cached or reasoned.

use std::ops::Add;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The tokens of one request or of many.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct Usage {
    /// Read, and neither from a cache nor written to one.
    pub(crate) fresh: u64,
    /// Read from a cache.
    pub(crate) cached: u64,
    /// Read, and written to a cache.
    pub(crate) written: u64,
    /// Generated, reasoning included.
    pub(crate) out: u64,
    /// Of `out`, what was reasoning.
    pub(crate) reasoning: u64,
    pub(crate) requests: u64,
}

impl Usage {
    /// What an object of one of the APIs says: OpenAI's `usage` of chat completions and of responses, Anthropic's, Google's
    /// `usageMetadata`. `None` where it has no counts. OpenAI's and Google's input includes what was cached, Anthropic's does
    /// not; Google's output excludes reasoning.
    pub(crate) fn read(usage: &Value) -> Option<Self> {
        let count = |path: &str| usage.pointer(path).and_then(Value::as_u64);
        let any = |paths: &[&str]| paths.iter().find_map(|path| count(path)).unwrap_or(0);
        let input = ["/prompt_tokens", "/input_tokens", "/promptTokenCount"].iter().find_map(|path| count(path));
        let output =
            ["/completion_tokens", "/output_tokens", "/candidatesTokenCount"].iter().find_map(|path| count(path));
        if input.is_none() && output.is_none() {
            return None;
        }
        let separate = any(&["/cache_read_input_tokens"]);
        let included = any(&[
            "/prompt_tokens_details/cached_tokens",
            "/input_tokens_details/cached_tokens",
            "/prompt_cache_hit_tokens",
            "/cachedContentTokenCount",
        ]);
        let thoughts = any(&["/thoughtsTokenCount"]);
        let reasoning =
            any(&["/completion_tokens_details/reasoning_tokens", "/output_tokens_details/reasoning_tokens"]) + thoughts;
        Some(Self {
            fresh: input.unwrap_or(0).saturating_sub(included),
            cached: separate + included,
            written: any(&["/cache_creation_input_tokens"]),
            out: output.unwrap_or(0) + thoughts,
            reasoning,
            requests: 1,
        })
    }
}

impl Add for Usage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            fresh: self.fresh + other.fresh,
            cached: self.cached + other.cached,
            written: self.written + other.written,
            out: self.out + other.out,
            reasoning: self.reasoning + other.reasoning,
            requests: self.requests + other.requests,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_same_tokens_are_the_same_counts_in_every_api() {
        let expected = Usage { fresh: 600, cached: 400, written: 0, out: 50, reasoning: 10, requests: 1 };
        for usage in [
            json!({ "prompt_tokens": 1000, "completion_tokens": 50, "prompt_tokens_details": { "cached_tokens": 400 },
                    "completion_tokens_details": { "reasoning_tokens": 10 } }),
            json!({ "input_tokens": 1000, "output_tokens": 50, "input_tokens_details": { "cached_tokens": 400 },
                    "output_tokens_details": { "reasoning_tokens": 10 } }),
            json!({ "promptTokenCount": 1000, "candidatesTokenCount": 40, "cachedContentTokenCount": 400,
                    "thoughtsTokenCount": 10 }),
        ] {
            assert_eq!(Usage::read(&usage).unwrap(), expected, "{usage}");
        }
        let theirs = json!({ "input_tokens": 600, "cache_read_input_tokens": 400, "cache_creation_input_tokens": 100,
                             "output_tokens": 50 });
        assert_eq!(Usage::read(&theirs).unwrap(), Usage { written: 100, reasoning: 0, ..expected });
        for nothing in [json!({}), json!(null), json!({ "input_tokens": -1 }), json!({ "total_tokens": 5 })] {
            assert_eq!(Usage::read(&nothing), None);
        }
    }
}
