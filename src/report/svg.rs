//! Parts of pictures: texts, their width, the page around them.

use std::fmt::Write as _;

use super::xml::escape;

/// A picture of this size; `name` is its text for screen readers.
pub(crate) fn page(width: f64, height: f64, name: &str, style: &str, body: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         role=\"img\" aria-label=\"{}\" class=\"k\">\n<style>\n{style}</style>\n\
         <rect class=\"bg\" x=\".5\" y=\".5\" width=\"{}\" height=\"{}\" rx=\"10\"/>\n{body}</svg>\n",
        escape(name),
        width - 1.0,
        height - 1.0,
    )
}

/// The approximate width of a text. The reader's font is unknown, so this overestimates.
pub(crate) fn length(text: &str) -> f64 {
    text.chars()
        .map(|c| match c {
            'i' | 'j' | 'l' | 'I' | '.' | ',' | ':' | '\'' | '|' | ' ' | 'f' | 't' | 'r' => 4.8,
            'm' | 'w' | 'M' | 'W' | '@' | '%' => 11.8,
            c if c.is_ascii() => 8.0,
            c if u32::from(c) < 0x1100 => 8.2,
            _ => 13.5,
        })
        .sum()
}

/// Truncates a text that does not fit; the row's title has the whole text.
pub(crate) fn fit(text: &str, room: f64) -> String {
    if length(text) <= room {
        return text.to_owned();
    }
    let mut cut = String::new();
    for c in text.chars() {
        cut.push(c);
        if length(&cut) + 11.0 > room {
            cut.pop();
            break;
        }
    }
    cut.truncate(cut.trim_end().len());
    cut + "…"
}

pub(crate) fn text(body: &mut String, x: f64, y: f64, class: &str, words: &str) {
    put(body, x, y, class, "", words);
}

pub(crate) fn end(body: &mut String, x: f64, y: f64, class: &str, words: &str) {
    put(body, x, y, class, " text-anchor=\"end\"", words);
}

pub(crate) fn middle(body: &mut String, x: f64, y: f64, class: &str, words: &str) {
    put(body, x, y, class, " text-anchor=\"middle\"", words);
}

pub(crate) fn line(body: &mut String, class: &str, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
    let _ = writeln!(body, "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>");
}

fn put(body: &mut String, x: f64, y: f64, class: &str, anchor: &str, words: &str) {
    let class = match class {
        "" => String::new(),
        class => format!(" class=\"{class}\""),
    };
    let _ = writeln!(body, "<text x=\"{x:.1}\" y=\"{y:.1}\"{class}{anchor}>{}</text>", escape(words));
}
