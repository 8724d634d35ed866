//! Escapes text for XML, without the characters that XML 1.0 cannot represent.

use std::fmt::Write as _;

/// Escapes `text` for use between tags and in a quoted attribute. Line ends and tabs are written
/// as references, because a parser would turn them into spaces in an attribute.
pub(crate) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\n' | '\r' | '\t' => {
                let _ = write!(safe, "&#{};", u32::from(c));
            }
            '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{fffe}' | '\u{ffff}' => {
                safe.push(char::REPLACEMENT_CHARACTER);
            }
            _ => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn nothing_of_the_markup_is_left() {
        assert_eq!(
            escape("a<b> & \"c\" 'd'\n\u{1b}\u{0}"),
            "a&lt;b&gt; &amp; &quot;c&quot; &#39;d&#39;&#10;\u{fffd}\u{fffd}"
        );
    }
}
