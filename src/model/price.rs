//! What a model's tokens cost by its provider's list, as `prices.toml` has it of a date. A model that is not there has no price.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use super::usage::Usage;

#[derive(Deserialize)]
struct Prices {
    model: BTreeMap<String, Price>,
}

/// In US dollars a million tokens.
#[derive(Clone, Copy, Deserialize)]
struct Price {
    fresh: f64,
    cached: f64,
    /// As fresh ones where nothing is said.
    written: Option<f64>,
    out: f64,
}

#[allow(clippy::expect_used, reason = "embedded; a test reads it")]
static PRICES: LazyLock<Prices> =
    LazyLock::new(|| toml::from_str(include_str!("prices.toml")).expect("src/model/prices.toml"));

/// What these tokens cost in US dollars; `None` for a model without a known price.
pub(crate) fn usd(model: &str, usage: &Usage) -> Option<f64> {
    let price = find(model)?;
    #[allow(clippy::cast_precision_loss, reason = "far below 2^52 tokens")]
    let cost = |tokens: u64, price: f64| tokens as f64 * price / 1e6;
    let written = cost(usage.written, price.written.unwrap_or(price.fresh));
    Some(cost(usage.fresh, price.fresh) + cost(usage.cached, price.cached) + written + cost(usage.out, price.out))
}

/// By its name, or by its name before a date: `NAME-20251001`, `NAME-2025-08-07`.
fn find(model: &str) -> Option<Price> {
    let dated = |rest: &str| {
        let digits = rest.strip_prefix(['-', '@']).unwrap_or_default().replace('-', "");
        digits.len() == 8 && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    let known = PRICES
        .model
        .iter()
        .find(|(name, _)| model.strip_prefix(name.as_str()).is_some_and(|rest| rest.is_empty() || dated(rest)));
    known.map(|(_, price)| *price)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_model_that_is_not_listed_has_no_price() {
        let usage =
            Usage { fresh: 1_000_000, cached: 1_000_000, written: 1_000_000, out: 1_000_000, ..Usage::default() };
        assert!((usd("claude-haiku-4-5", &usage).unwrap() - 7.35).abs() < 1e-9);
        assert!((usd("gpt-5.1-codex", &usage).unwrap() - 12.625).abs() < 1e-9);
        assert_eq!(usd("claude-haiku-4-5-20251001", &usage), usd("claude-haiku-4-5", &usage));
        for unknown in ["", "haiku", "claude-haiku-4-50", "gpt-5.1-codex-mini", "claude-opus-5-5", "gpt-5.1-codex-2025"]
        {
            assert_eq!(usd(unknown, &usage), None, "{unknown}");
        }
    }
}
