//! Tables in Markdown.

/// The two header lines of a table. A title that begins with `>` is right-aligned.
pub(crate) fn titles<T: AsRef<str>>(titles: impl IntoIterator<Item = T>) -> String {
    let (mut names, mut rules) = (String::from("|"), String::from("|"));
    for title in titles {
        let title = title.as_ref();
        let (name, rule) = match title.strip_prefix('>') {
            Some(name) => (name, "--:|"),
            None => (title, "---|"),
        };
        names += " ";
        names += name;
        names += if name.is_empty() { "|" } else { " |" };
        rules += rule;
    }
    format!("{names}\n{rules}\n")
}

/// A row of a table; text from elsewhere must be escaped with [`cell`].
pub(crate) fn row<T: AsRef<str>>(cells: impl IntoIterator<Item = T>) -> String {
    let mut line = String::from("|");
    for cell in cells {
        line += " ";
        line += cell.as_ref();
        line += " |";
    }
    line + "\n"
}

/// Escapes text for a cell.
pub(crate) fn cell(text: &str) -> String {
    let mut safe = String::with_capacity(text.len() + 8);
    let mut before = ' ';
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let inside_a_word = before.is_alphanumeric() && rest.peek().is_some_and(|next| next.is_alphanumeric());
        match c {
            // An entity instead of `\|`, which renderers treat differently.
            '|' => safe.push_str("&#124;"),
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '_' if inside_a_word => safe.push(c),
            '\\' | '`' | '*' | '_' | '[' | ']' | '~' | '$' => {
                safe.push('\\');
                safe.push(c);
            }
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') => safe.push(' '),
            c => safe.push(c),
        }
        before = c;
    }
    safe
}
