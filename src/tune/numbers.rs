//! The numbers that names of a C++ file stand for.

use std::collections::BTreeMap;

use super::lex::{Kind, Token};

/// Names with their numbers; none where a name has several.
#[derive(Clone, Debug, Default)]
pub(super) struct Numbers(BTreeMap<String, Option<f64>>);

#[allow(clippy::cast_precision_loss, reason = "compared with sizes, which are far smaller")]
const KNOWN: [(&str, f64); 6] = [
    ("true", 1.0),
    ("false", 0.0),
    ("INT64_MAX", i64::MAX as f64),
    ("UINT64_MAX", u64::MAX as f64),
    ("INT32_MAX", i32::MAX as f64),
    ("UINT32_MAX", u32::MAX as f64),
];

impl Numbers {
    /// What `constexpr` and `enum` of a file say, where it is one number or name, and what kernel.toml says of others.
    pub(super) fn of(text: &str, tokens: &[Token], given: &BTreeMap<String, f64>) -> Self {
        let mut numbers = Self::default();
        let word = |at: usize| tokens.get(at).map_or("", |token| &text[token.at.clone()]);
        for (at, token) in tokens.iter().enumerate().filter(|(_, token)| token.kind == Kind::Word) {
            match &text[token.at.clone()] {
                "constexpr" => {
                    let mut at = at;
                    while at < tokens.len() && !matches!(word(at), ";" | "{" | "(") {
                        let (value, used) = if word(at + 2) == "-" { (word(at + 3), 4) } else { (word(at + 2), 3) };
                        let whole = matches!(word(at + used), ";" | ",");
                        if word(at + 1) == "="
                            && whole
                            && let Some(value) = numbers.value(value)
                        {
                            numbers.add(word(at), if used == 4 { -value } else { value });
                        }
                        at += 1;
                    }
                }
                "enum" => numbers.add_enum(&word, at),
                _ => {}
            }
        }
        for (name, value) in given {
            numbers.0.insert(name.clone(), Some(*value));
        }
        numbers
    }

    fn add_enum<'t>(&mut self, word: &impl Fn(usize) -> &'t str, at: usize) {
        let Some(open) = (at..at + 6).find(|at| word(*at) == "{") else { return };
        let (mut at, mut next) = (open + 1, 0.0);
        while !matches!(word(at), "}" | "") {
            let name = word(at);
            if word(at + 1) == "=" {
                let Some(value) = self.value(word(at + 2)).filter(|_| matches!(word(at + 3), "," | "}")) else {
                    return;
                };
                (next, at) = (value, at + 2);
            }
            self.add(name, next);
            next += 1.0;
            at += if word(at + 1) == "," { 2 } else { 1 };
        }
    }

    fn add(&mut self, name: &str, value: f64) {
        let known = self.0.entry(name.to_owned()).or_insert(Some(value));
        if known.is_some_and(|known| known.to_bits() != value.to_bits()) {
            *known = None;
        }
    }

    /// The number of a literal or of a name.
    pub(super) fn value(&self, word: &str) -> Option<f64> {
        if word.starts_with(|first: char| first.is_ascii_digit()) {
            let plain = word.replace('\'', "");
            let (digits, radix) = match plain.to_ascii_lowercase().strip_prefix("0x") {
                Some(digits) => (digits.trim_end_matches(['u', 'l']).to_owned(), 16),
                None => (plain.trim_end_matches(['u', 'U', 'l', 'L']).to_owned(), 10),
            };
            let octal = radix == 10 && digits.len() > 1 && digits.starts_with('0') && !digits.contains('.');
            #[allow(clippy::cast_precision_loss, reason = "compared with sizes, which are far smaller")]
            let whole = i64::from_str_radix(&digits, radix).ok().map(|value| value as f64);
            let real = || digits.trim_end_matches(['f', 'F']).parse().ok().filter(|_| radix == 10);
            return whole.or_else(real).filter(|_| !octal);
        }
        let known = KNOWN.iter().find(|(name, _)| *name == word).map(|(_, value)| *value);
        known.or_else(|| self.0.get(word).copied().flatten())
    }
}
