//! Secrets in a text, replaced: keys by the prefixes of those who issue them, values of names that say so, headers, key blocks,
//! long random words, e-mail addresses and the paths of homes.
//!
//! What is looked at is not the text itself but how a program or a person would read it: with JSON, shell and URL escapes
//! resolved, without characters that nobody sees, with parts of a string joined, and with base64 decoded. A word too many is
//! replaced rather than a secret left.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::ops::Range;

use super::words::WORDS;
use crate::base::text::is_invisible;

/// The least length of a word that is looked at for randomness.
const RANDOM: usize = 24;
/// How often base64 is decoded that was found in base64.
const DEPTH: u32 = 3;

struct Mark {
    at: Range<usize>,
    kind: &'static str,
}

/// The text without its secrets, and how many there were.
pub(crate) fn redact(text: &str) -> (String, usize) {
    let seen = Seen::of(text);
    let mut marks = marks(&seen.text, 0);
    marks.sort_by_key(|mark| (mark.at.start, std::cmp::Reverse(mark.at.end)));
    let (mut out, mut done, mut count) = (String::new(), 0, 0);
    for mark in marks {
        let (start, end) = (seen.place(mark.at.start), seen.place(mark.at.end));
        if end <= done {
            continue;
        }
        if start >= done {
            out.push_str(&text[done..start]);
            if mark.kind == HOME {
                out.push_str(HOME);
            } else {
                count += 1;
                let _ = write!(out, "[redacted: {}]", mark.kind);
            }
        }
        done = end;
    }
    out.push_str(&text[done..]);
    (out, count)
}

const HOME: &str = "~";

/// A text as it is read, and where each of its bytes comes from.
struct Seen {
    text: String,
    /// Empty where nothing differs.
    from: Vec<usize>,
}

impl Seen {
    fn of(text: &str) -> Self {
        if text.is_ascii() && !text.contains(['\\', '%', '"', '\'']) {
            return Self { text: text.to_owned(), from: Vec::new() };
        }
        let mut seen = Self { text: String::new(), from: Vec::new() };
        let mut at = 0;
        while let Some(c) = text[at..].chars().next() {
            let (read, length) = reading(&text[at..], c, seen.text.ends_with(is_token));
            if let Some(read) = read {
                seen.text.push(read);
                seen.from.resize(seen.text.len(), at);
            }
            at += length;
        }
        seen.from.push(text.len());
        seen
    }

    fn place(&self, at: usize) -> usize {
        self.from.get(at).copied().unwrap_or(at)
    }
}

fn is_token(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

/// What the next characters are read as, if as anything, and how many bytes they have.
fn reading(text: &str, c: char, inside: bool) -> (Option<char>, usize) {
    let code = |from: usize, digits: usize| {
        let code = text.get(from..from + digits).filter(|code| code.bytes().all(|b| b.is_ascii_hexdigit()))?;
        u32::from_str_radix(code, 16).ok().and_then(char::from_u32).filter(char::is_ascii_graphic)
    };
    match c {
        '\\' => {
            // A string in a string has its backslashes doubled.
            let slashes = text.bytes().take_while(|b| *b == b'\\').count();
            match text.as_bytes().get(slashes) {
                Some(b'u') if code(slashes + 1, 4).is_some() => (code(slashes + 1, 4), slashes + 5),
                Some(b'x') if code(slashes + 1, 2).is_some() => (code(slashes + 1, 2), slashes + 3),
                Some(b'n' | b'r' | b't') => (Some('\n'), slashes + 1),
                Some(b'\n') => (None, slashes + 1),
                Some(b'"') => (Some('"'), slashes + 1),
                Some(b'/') => (Some('/'), slashes + 1),
                _ => (Some('\\'), slashes),
            }
        }
        '%' if code(1, 2).is_some() => (code(1, 2), 3),
        '"' | '\'' if inside => {
            let rest = text[1..].trim_start_matches([' ', '\n', '\t', '+']);
            let joined = rest.strip_prefix(c).filter(|rest| rest.starts_with(is_token));
            joined.map_or((Some(c), 1), |rest| (None, text.len() - rest.len()))
        }
        _ if is_invisible(c) => (None, c.len_utf8()),
        _ => (Some(c), c.len_utf8()),
    }
}

fn marks(text: &str, depth: u32) -> Vec<Mark> {
    let mut marks = Vec::new();
    blocks(text, &mut marks);
    words(text, depth, &mut marks);
    named(text, &mut marks);
    addresses(text, &mut marks);
    if depth == 0 {
        homes(text, &mut marks);
    }
    marks
}

/// PEM blocks; one without its end reaches as far as the text.
fn blocks(text: &str, marks: &mut Vec<Mark>) {
    for (at, _) in text.match_indices("-----BEGIN ") {
        let end = text[at..].find("-----END ").map_or(text.len(), |end| {
            let last = at + end + "-----END ".len();
            text[last..].find("-----").map_or(text.len(), |close| last + close + 5)
        });
        marks.push(Mark { at: at..end, kind: "key block" });
    }
}

/// The ranges of the characters for which `wanted` holds.
fn runs(text: &str, wanted: impl Fn(u8) -> bool) -> impl Iterator<Item = Range<usize>> {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        let start = at + bytes[at..].iter().position(|b| wanted(*b))?;
        at = bytes[start..].iter().position(|b| !wanted(*b)).map_or(bytes.len(), |length| start + length);
        Some(start..at)
    })
}

fn words(text: &str, depth: u32, marks: &mut Vec<Mark>) {
    let wanted = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'+' | b'/' | b'=' | b'.' | b'~');
    for run in runs(text, wanted).filter(|run| run.len() >= 12) {
        let word = &text[run.clone()];
        if let Some(at) = known(word) {
            marks.push(Mark { at: run.start + at..run.end, kind: "key" });
            continue;
        }
        let pieces = runs(word, |b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'+'));
        let mut found = false;
        for piece in pieces.filter(|piece| is_random(&word[piece.clone()])) {
            // The rest of the word belongs to it where it can be base64 and no path.
            let whole = !word.starts_with(['/', '.', '~']) && !word.contains("./");
            let at = if whole { run.clone() } else { run.start + piece.start..run.start + piece.end };
            marks.push(Mark { at, kind: "random word" });
            found = true;
        }
        let value = word.rfind('=').filter(|at| at + 1 < word.trim_end_matches('=').len()).map_or(0, |at| at + 1);
        for encoded in [word, &word[value..]] {
            let decoded = if found || depth == DEPTH { None } else { from_base64(encoded) };
            if decoded.is_some_and(|decoded| !self::marks(&decoded, depth + 1).is_empty()) {
                marks.push(Mark { at: run.clone(), kind: "encoded secret" });
                break;
            }
        }
    }
}

/// Where a key with a known prefix begins in a word.
fn known(word: &str) -> Option<usize> {
    let starts = |at: usize| at == 0 || !word.as_bytes()[at - 1].is_ascii_alphanumeric();
    let follow = |from: usize| word[from..].bytes().take_while(|b| is_token(char::from(*b)) || *b == b'.').count();
    let places = |prefix: &'static str| word.match_indices(prefix).map(|(at, _)| at).filter(|at| starts(*at));
    let token = places("eyJ").find(|at| word[*at..].matches('.').count() >= 2 && follow(*at) >= 30);
    let key =
        |(prefix, least): (&'static String, &usize)| places(prefix).find(|at| follow(at + prefix.len()) >= *least);
    WORDS.prefixes.iter().filter_map(key).chain(token).min()
}

/// Whether a word changes between small letters, capitals and digits as often as a random one, or is a long hexadecimal
/// number.
fn is_random(word: &str) -> bool {
    let class = |b: &u8| (b.is_ascii_digit(), b.is_ascii_lowercase());
    let letters: Vec<u8> = word.bytes().filter(u8::is_ascii_alphanumeric).collect();
    if letters.len() < RANDOM || !letters.iter().any(u8::is_ascii_digit) {
        return false;
    }
    let changes = letters.windows(2).filter(|pair| class(&pair[0]) != class(&pair[1])).count();
    let classes: BTreeSet<_> = letters.iter().map(class).collect();
    let hexadecimal = letters.len() >= 32 && letters.iter().all(u8::is_ascii_hexdigit) && changes >= letters.len() / 6;
    let often = if classes.len() == 3 { 40 } else { 25 };
    hexadecimal || classes.len() > 1 && changes * 100 >= often * letters.len()
}

/// What base64 stands for, of either alphabet, if that is text.
fn from_base64(word: &str) -> Option<String> {
    let digits = word.trim_end_matches('=');
    if digits.len() < 12 {
        return None;
    }
    let (mut bits, mut held, mut bytes) = (0u32, 0, Vec::new());
    for b in digits.bytes() {
        let digit = match b {
            b'A'..=b'Z' => b - b'A',
            b'a'..=b'z' => b - b'a' + 26,
            b'0'..=b'9' => b - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        bits = (bits << 6 | u32::from(digit)) & 0x3fff;
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.extend((bits >> held & 0xff).to_le_bytes().first());
        }
    }
    String::from_utf8(bytes).ok().filter(|text| text.chars().all(|c| !c.is_control() || c.is_whitespace()))
}

/// Values of names that say that they are secret: `HF_TOKEN=…`, `"password": "…"`, `--api-key …`, `Authorization: …`.
fn named(text: &str, marks: &mut Vec<Mark>) {
    let bytes = text.as_bytes();
    for run in runs(text, |b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-')) {
        let name = &text[run.clone()];
        let folded: String = name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_uppercase();
        let header = matches!(folded.as_str(), "AUTHORIZATION" | "PROXYAUTHORIZATION" | "COOKIE" | "SETCOOKIE");
        let scheme = matches!(name, "Bearer" | "bearer" | "Basic");
        if !header && !scheme && !is_secret_name(name, &folded) {
            continue;
        }
        let mut at = run.end;
        let skip = |at: &mut usize, of: &[u8]| {
            let start = *at;
            *at += bytes[start..].iter().take_while(|b| of.contains(b)).count();
            &bytes[start..*at]
        };
        let between = skip(&mut at, if scheme { b" " } else { b"\"' :=>\t" });
        let option = name.starts_with("--") && !between.is_empty();
        if !(option || scheme && !between.is_empty() || between.iter().any(|b| matches!(b, b':' | b'='))) {
            continue;
        }
        let quote = between.last().copied().filter(|b| matches!(b, b'"' | b'\''));
        let ends = |b: u8| match quote {
            Some(quote) => b == quote || b == b'\n',
            None if header => matches!(b, b'\n' | b'"' | b'\''),
            None => b.is_ascii_whitespace() || b"\"'`,;&|<>(){}".contains(&b),
        };
        let end = at + bytes[at..].iter().position(|b| ends(*b)).unwrap_or(bytes.len() - at);
        let sure = quote.is_some() || header || option || name.bytes().any(|b| b.is_ascii_uppercase());
        if is_value(&text[at..end], sure) {
            marks.push(Mark { at: at..end, kind: "value" });
        }
    }
}

fn is_secret_name(name: &str, folded: &str) -> bool {
    let counted =
        ["TOKENS", "TOKENIZ", "TOKENCOUNT", "TOKENUSAGE", "TOKENLIMIT"].iter().any(|word| folded.contains(word));
    let key = ["_KEY", "_PAT", "_PWD", "-key"].iter().any(|end| name.ends_with(end));
    key || !counted && WORDS.secret.iter().any(|part| folded.contains(part))
}

/// Whether a value can be a secret: no variable, no call, no small number, nothing that is replaced already.
fn is_value(value: &str, sure: bool) -> bool {
    let word =
        matches!(value.to_ascii_lowercase().as_str(), "true" | "false" | "none" | "null" | "required" | "optional");
    let number = value.len() < 9 && value.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let digits = value.bytes().any(|b| b.is_ascii_digit()) && value.len() >= 8;
    !(value.len() < 4 || word || number || value.starts_with(['$', '<', '*', '['])) && (sure || digits)
}

/// Who logs in at a URL, and e-mail addresses.
fn addresses(text: &str, marks: &mut Vec<Mark>) {
    for (at, _) in text.match_indices("://") {
        let start = at + 3;
        let end = text[start..].find(|c: char| c.is_whitespace() || matches!(c, '/' | '"' | '\'' | '<' | '>'));
        let host = &text[start..end.map_or(text.len(), |end| start + end)];
        if let Some(user) = host.rfind('@') {
            marks.push(Mark { at: start..start + user, kind: "user" });
        }
    }
    let local = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'%' | b'+' | b'-');
    for (at, _) in text.match_indices('@') {
        let before = text.as_bytes()[..at].iter().rev().take_while(|b| local(**b)).count();
        let domain = text[at + 1..].find(|c: char| !c.is_ascii_alphanumeric() && !matches!(c, '.' | '-'));
        let domain = &text[at + 1..domain.map_or(text.len(), |end| at + 1 + end)];
        let domain = domain.trim_end_matches(['.', '-']);
        let last = domain.rsplit_once('.').map_or("", |(_, last)| last);
        if before > 0 && last.len() >= 2 && last.bytes().all(|b| b.is_ascii_alphabetic()) {
            marks.push(Mark { at: at - before..at + 1 + domain.len(), kind: "e-mail" });
        }
    }
}

/// The paths of homes, also as Claude Code names a folder after one: `-home-ada-project`.
fn homes(text: &str, marks: &mut Vec<Mark>) {
    let own = dirs::home_dir().map(|home| home.to_string_lossy().into_owned()).filter(|home| home.len() > 3);
    let stops = |c: char| c.is_whitespace() || "/\\\"'`:;,)<>|&".contains(c);
    for start in ["/home/", "/Users/", "\\Users\\", "-home-", "-Users-"] {
        let dashed = start.starts_with('-');
        for (at, _) in text.match_indices(start) {
            let free = at == 0 || !text.as_bytes()[at - 1].is_ascii_alphanumeric();
            let name = &text[at + start.len()..];
            let length = name.find(|c| stops(c) || dashed && c == '-').unwrap_or(name.len());
            if length > 0 && (free || !dashed) {
                let drive = if start.starts_with('\\') && at >= 2 && text[..at].ends_with(':') { 2 } else { 0 };
                marks.push(Mark { at: at - drive..at + start.len() + length, kind: HOME });
            }
        }
    }
    for home in own.iter().map(String::as_str).chain(["/root"]) {
        for (at, _) in text.match_indices(home) {
            let next = text[at + home.len()..].chars().next();
            let before = text[..at].chars().next_back();
            if !next.is_some_and(is_token) && !before.is_some_and(|c| is_token(c) || c == '.') {
                marks.push(Mark { at: at..at + home.len(), kind: HOME });
            }
        }
    }
}
