//! Lists for people, characters that nobody sees, and the name that is closest to a misspelt one.

use std::path::Path;

/// Whether a character is not seen or reorders its neighbours: in a name, it makes one thing look like another.
/// The bidirectional controls, zero-width characters, fillers, tags and interlinear annotations of Unicode 17.
pub(crate) fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}')
        || matches!(c, '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}')
        || matches!(c, '\u{fff0}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Whether a control character is one of those that texts have: tab, line feed, the return before one, and the form feed
/// between the pages of licences and old sources. Every other can hide what is beside it from who looks in a terminal.
fn is_plain_control(c: char, next: Option<char>) -> bool {
    matches!(c, '\t' | '\n' | '\u{c}') || c == '\r' && next == Some('\n')
}

/// The first character of a text that nobody sees or that controls a terminal, with its line and column from 1. A byte-order
/// mark may begin it, and emoji and the scripts from Arabic to Sinhala need joiners between two of theirs.
pub(crate) fn first_hidden(text: &str) -> Option<(usize, usize, char)> {
    let joins = |c: &char| matches!(c, '\u{600}'..='\u{dff}' | '\u{2600}'..='\u{27bf}' | '\u{fe0f}' | '\u{1f000}'..='\u{1faff}');
    let (mut line, mut column, mut before) = (1, 0, None);
    if text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic() || matches!(byte, b'\t' | b'\n')) {
        return None;
    }
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        column += 1;
        let joiner = matches!(c, '\u{200c}' | '\u{200d}');
        let needed = joiner && before.as_ref().is_some_and(joins) && chars.peek().is_some_and(joins);
        let control = c.is_control() && !is_plain_control(c, chars.peek().copied());
        if control || is_invisible(c) && !needed && !(before.is_none() && c == '\u{feff}') {
            return Some((line, column, c));
        }
        if c == '\n' {
            (line, column) = (line + 1, 0);
        }
        before = Some(c);
    }
    None
}

/// What a character is that [`first_hidden`] finds, in words.
pub(crate) fn kind_of_hidden(c: char) -> &'static str {
    match c {
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
            "a bidirectional control"
        }
        '\u{180e}' | '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2064}' | '\u{feff}' => "a zero-width character",
        '\u{e0000}'..='\u{e007f}' => "a Unicode tag",
        c if c.is_control() => "a control character",
        _ => "a character that nobody sees",
    }
}

/// A text with `\n` for its line ends, if all of them are `\r\n`.
pub(crate) fn with_lf(text: &[u8]) -> Option<Vec<u8>> {
    if !text.contains(&b'\r') {
        return None;
    }
    let mut lf = Vec::with_capacity(text.len());
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        match line.strip_suffix(b"\r\n") {
            Some(line) => {
                lf.extend(line);
                lf.push(b'\n');
            }
            None if line.ends_with(b"\n") => return None,
            None => lf.extend(line),
        }
    }
    (lf.len() < text.len()).then_some(lf)
}

/// A path as a word of a command that a user may copy into a shell, and no option of it.
pub(crate) fn for_shell(path: &Path) -> String {
    let text = path.to_string_lossy();
    let text = if text.starts_with('-') { format!("./{text}") } else { text.into_owned() };
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
    if !text.is_empty() && text.bytes().all(is_plain) {
        return text;
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// `a`, `a and b`, `a, b and c`.
pub(crate) fn and(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [rest @ .., last] => format!("{} and {last}", rest.join(", ")),
    }
}

/// A text of somebody unknown on one line: without line ends, escapes of terminals and what nobody sees.
pub(crate) fn one_line(text: &str) -> String {
    let seen = |c: char| if c.is_control() { ' ' } else { c };
    let text: String = text.chars().filter(|c| !is_invisible(*c)).map(seen).collect();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Numbers with commas between: `75, 80, 90`.
pub(crate) fn numbers(all: &[u32]) -> String {
    let all: Vec<String> = all.iter().map(u32::to_string).collect();
    all.join(", ")
}

/// The name that is the fewest edits away, if those are less than half of its letters; a name that contains the
/// wanted one is close as well. Upper case, hyphens and underscores do not count.
pub(crate) fn nearest<'a>(wanted: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let folded = |name: &str| name.to_lowercase().replace(['-', '_'], "");
    let wanted = folded(wanted);
    names
        .into_iter()
        .map(|name| (edits(&wanted, &folded(name)), name))
        .filter(|(edits, name)| {
            let name = folded(name);
            edits * 2 < name.len().max(2) || (wanted.len() > 2 && name.contains(&wanted))
        })
        .min_by_key(|(edits, _)| *edits)
        .map(|(_, name)| name)
}

/// How many letters must be inserted, deleted or changed (Levenshtein).
fn edits(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in other.iter().enumerate() {
            let changed = diagonal + usize::from(a != *b);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_one_word_of_a_shell_and_no_option() {
        for (path, word) in [
            ("kernels/rmsnorm", "kernels/rmsnorm"),
            ("my dir", "'my dir'"),
            ("-x", "./-x"),
            ("-it's", "'./-it'\\''s'"),
            ("", "''"),
        ] {
            assert_eq!(for_shell(Path::new(path)), word);
        }
    }

    #[test]
    fn hidden_characters_are_found_at_their_place() {
        for (text, found) in [
            ("plain\ntext", None),
            ("\u{feff}caf\u{e9}", None),
            ("a \u{1f469}\u{200d}\u{1f4bb} b", None),
            ("\u{645}\u{200c}\u{6cc}", None),
            ("a\u{200d}b", Some((1, 2, '\u{200d}'))),
            ("a\nb\u{202e}c", Some((2, 2, '\u{202e}'))),
            ("a\n\u{feff}", Some((2, 1, '\u{feff}'))),
            ("ab\u{e0041}", Some((1, 3, '\u{e0041}'))),
            ("a\tb\r\nc\u{c}\r\n", None),
            ("a\n\u{1b}[8mb", Some((2, 1, '\u{1b}'))),
            ("a\rb", Some((1, 2, '\r'))),
            ("a\r", Some((1, 2, '\r'))),
            ("\0", Some((1, 1, '\0'))),
            ("a\u{7f}", Some((1, 2, '\u{7f}'))),
            ("\u{e9}\u{9b}8m", Some((1, 2, '\u{9b}'))),
        ] {
            assert_eq!(first_hidden(text), found, "{text:?}");
        }
    }

    #[test]
    fn edits_are_counted() {
        for (one, other, count) in [
            ("", "", 0),
            ("rope", "rope", 0),
            ("rope", "", 4),
            ("", "rope", 4),
            ("rmsnrm", "rmsnorm", 1),
            ("norm", "morn", 2),
            ("é", "e", 1),
        ] {
            assert_eq!(edits(one, other), count, "{one} {other}");
        }
    }
}
