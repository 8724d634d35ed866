//! Parts of a page that a browser shows from disk: no script, nothing from elsewhere. What a stranger wrote passes [`text`].

use std::fmt::Write as _;

use super::xml::escape;
use crate::base::text::is_invisible;

/// The page. Its title is HTML, as its body is.
pub(crate) fn page(title: &str, style: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{title}</title>\n\
         <style>{style}</style>\n</head>\n<body>\n<h1>{title}</h1>\n{body}</body>\n</html>\n"
    )
}

/// A text as HTML shows it. Characters that nobody sees, or that reorder a line, are named.
pub(crate) fn text(raw: &str) -> String {
    if !raw.chars().any(is_invisible) {
        return escape(raw);
    }
    let named = |c: char| if is_invisible(c) { c.escape_unicode().to_string() } else { c.to_string() };
    escape(&raw.chars().map(named).collect::<String>())
}

/// A table; cells are HTML. Columns that begin with `#` are figures.
pub(crate) fn table(
    html: &mut String,
    caption: Option<&str>,
    heads: &[&str],
    rows: impl IntoIterator<Item = Vec<String>>,
) {
    let class = |head: &str| if head.starts_with('#') { " class=\"n\"" } else { "" };
    html.push_str("<div class=\"scroll\"><table>");
    if let Some(caption) = caption {
        let _ = write!(html, "<caption>{}</caption>", text(caption));
    }
    html.push_str("<thead><tr>");
    for head in heads {
        let _ = write!(html, "<th{}>{}</th>", class(head), text(head.trim_start_matches('#')));
    }
    html.push_str("</tr></thead><tbody>\n");
    for row in rows {
        html.push_str("<tr>");
        for (head, cell) in heads.iter().zip(row) {
            let _ = write!(html, "<td{}>{cell}</td>", class(head));
        }
        html.push_str("</tr>\n");
    }
    html.push_str("</tbody></table></div>\n");
}
