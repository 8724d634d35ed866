//! Unified diffs.

use std::fmt::Write as _;

use similar::TextDiff;

use super::style;
use crate::base::text;

/// The difference of two states of a file, below a heading.
pub(crate) fn of_file(heading: &str, path: &str, old: Option<Vec<u8>>, new: Option<Vec<u8>>) -> String {
    let path_or_null = |side: &Option<Vec<u8>>, letter: char| match side {
        Some(_) => format!("{letter}/{path}"),
        None => "/dev/null".to_owned(),
    };
    let names = (path_or_null(&old, 'a'), path_or_null(&new, 'b'));
    let lf = |side: Option<Vec<u8>>| side.map(|side| text::with_lf(&side).unwrap_or(side)).unwrap_or_default();
    let (old, new) = (lf(old), lf(new));
    let mut text = format!("{heading}\n");
    match (std::str::from_utf8(&old), std::str::from_utf8(&new)) {
        (Ok(old), Ok(new)) if !old.contains('\0') && !new.contains('\0') => {
            let diff = TextDiff::from_lines(old, new);
            let mut diff = diff.unified_diff();
            let _ = write!(text, "{}", diff.context_radius(3).header(&names.0, &names.1));
        }
        _ => {
            let _ = writeln!(text, "Binary files {} and {} differ", names.0, names.1);
        }
    }
    text
}

/// A diff in colours.
pub(crate) fn colour(diff: &str) -> String {
    let mut text = String::new();
    for line in diff.split_inclusive('\n') {
        let (body, end) = match line.strip_suffix('\n') {
            Some(body) => (body, "\n"),
            None => (line, ""),
        };
        let painted = match body.as_bytes().first() {
            _ if body.starts_with("+++") || body.starts_with("---") => style::strong(body),
            Some(b'+') => style::good(body),
            Some(b'-') => style::bad(body),
            Some(b'@') => style::place(body),
            _ => body.to_owned(),
        };
        text.push_str(&painted);
        text.push_str(end);
    }
    text
}
