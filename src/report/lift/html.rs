//! The pictures and tables as one HTML page, which a browser shows from disk: it has no script and loads nothing.

use std::fmt::Write as _;

use super::{Grid, Picture, chart};
use crate::report::xml::escape;

const STYLE: &str = "\
body{font:14px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif;max-width:1100px;margin:2em auto;padding:0 1em;color:#1f2328;background:#fff}\
svg{width:900px;max-width:100%;min-width:680px;height:auto}table{border-collapse:collapse;margin:1em 0;width:100%}caption{text-align:left;font-weight:650;font-size:16px;padding:.5em 0}\
th,td{border-bottom:1px solid #d1d9e0;padding:4px 8px;text-align:left;vertical-align:top;overflow-wrap:break-word;max-width:26em;font-variant-numeric:tabular-nums}\
th{color:#59636e;font-weight:600}.scroll{overflow-x:auto}\
@media(prefers-color-scheme:dark){body{color:#f0f6fc;background:#0d1117}th,td{border-color:#3d444d}th{color:#9198a1}}";

/// The page. All text is escaped, because names, answers and the output of tests are untrusted.
pub(crate) fn page(title: &str, pictures: &[Picture], tables: &[Grid]) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>{0}</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<h1>{0}</h1>\n",
        escape(title)
    );
    for picture in pictures {
        let _ = writeln!(page, "<div class=\"scroll\">{}</div>", chart(picture));
    }
    for table in tables {
        let _ = write!(page, "<div class=\"scroll\"><table>\n<caption>{}</caption>\n<thead><tr>", escape(&table.title));
        for head in &table.heads {
            let _ = write!(page, "<th>{}</th>", escape(head));
        }
        page.push_str("</tr></thead>\n<tbody>\n");
        for row in &table.rows {
            page.push_str("<tr>");
            for cell in row {
                let _ = write!(page, "<td>{}</td>", escape(cell));
            }
            page.push_str("</tr>\n");
        }
        page.push_str("</tbody>\n</table></div>\n");
    }
    page + "</body>\n</html>\n"
}
