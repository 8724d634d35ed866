//! Lists for people, characters that nobody sees, and the name that is closest to a misspelt one.

/// Whether a character is not seen or reorders its neighbours: in a name, it makes one thing look like another.
/// The bidirectional controls, zero-width characters, fillers, tags and interlinear annotations of Unicode 17.
pub(crate) fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}')
        || matches!(c, '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}')
        || matches!(c, '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}')
        || matches!(c, '\u{fff0}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
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
