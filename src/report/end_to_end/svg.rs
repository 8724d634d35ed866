//! The chart of a step: one bar per contender, as long as its step, divided by category.
//! Colours follow the reader's light or dark theme by a media query, as those of a benchmark's chart do.

use std::fmt::Write as _;

use super::{CATEGORIES, part};
use crate::end_to_end::{Case, Contender, EndToEnd};
use crate::report::figure;
use crate::report::xml::escape;

const WIDTH: f64 = 900.0;
const MARGIN: f64 = 28.0;
const BARS: f64 = 118.0;
const BARS_END: f64 = 760.0;
const ROW: f64 = 25.0;
const BAR: f64 = 16.0;
const LEGEND: f64 = 20.0;
const HEADING: f64 = 34.0;

const STYLE: &str = "\
.k text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif;font-size:12.5px;fill:#1f2328;font-variant-numeric:tabular-nums}\n\
.k .bg{fill:#fff;stroke:#d1d9e0}.k .h1{font-size:19px;font-weight:650}.k .h2{font-size:14px;font-weight:650}.k .m{fill:#59636e}\n\
.k .gemm{fill:#4a5568}.k .attention{fill:#8a94a3}.k .norm{fill:#cf5b00}.k .activation{fill:#d9a400}.k .elementwise{fill:#1a56c4}\
.k .copy{fill:#7aa7f0}.k .other{fill:#a371c7}.k .idle{fill:#eff2f5;stroke:#c3cad2;stroke-dasharray:3 2}\n\
@media(prefers-color-scheme:dark){.k text{fill:#f0f6fc}.k .bg{fill:#0d1117;stroke:#3d444d}.k .m{fill:#9198a1}\
.k .gemm{fill:#9aa5b5}.k .attention{fill:#5f6b7a}.k .norm{fill:#f0883e}.k .activation{fill:#e3b341}.k .elementwise{fill:#4c8dff}\
.k .copy{fill:#2f5fa8}.k .other{fill:#b083d6}.k .idle{fill:#1a2029;stroke:#3d444d}}\n";

/// The picture of a result.
pub fn chart(result: &EndToEnd) -> String {
    let mut body = String::new();
    let card = result.card.as_ref().map_or("no card", |card| &card.name);
    text(&mut body, MARGIN, 40.0, "h1", &format!("{}: where the time goes", result.title));
    let torch = result.versions.get("torch").map_or("unknown", String::as_str);
    text(&mut body, MARGIN, 61.0, "m", &format!("{card}, torch {torch}; milliseconds, medians of one run"));
    let mut x = MARGIN;
    let mut y = 74.0;
    for (name, label) in CATEGORIES {
        #[allow(clippy::cast_precision_loss, reason = "some letters")]
        let width = 24.0 + 7.4 * label.chars().count() as f64 + 10.0;
        if x + width > WIDTH - MARGIN {
            x = MARGIN;
            y += LEGEND;
        }
        let _ =
            writeln!(body, "<rect class=\"{name}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"12\" height=\"12\" rx=\"2\"/>");
        text(&mut body, x + 18.0, y + 10.5, "", label);
        x += width;
    }
    y += LEGEND + 4.0;
    let mut drawn = false;
    for case in &result.cases {
        drawn |= group(&mut body, case, &mut y);
    }
    if !drawn {
        text(&mut body, MARGIN, y + 20.0, "m", "Nothing was profiled.");
        y += 30.0;
    }
    let height = y + 20.0;
    let name = escape(&format!("{} on {card}", result.title));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" \
         role=\"img\" aria-label=\"{name}: where the time of a step goes\" class=\"k\">\n<style>\n{STYLE}</style>\n\
         <rect class=\"bg\" x=\".5\" y=\".5\" width=\"{}\" height=\"{}\" rx=\"10\"/>\n{body}</svg>\n",
        WIDTH - 1.0,
        height - 1.0,
    )
}

/// Draws the bars of a case, each case on its own scale; returns whether it drew any.
fn group(body: &mut String, case: &Case, y: &mut f64) -> bool {
    let shown: Vec<&Contender> =
        case.contenders.iter().filter(|one| one.time_ms.is_some() && one.profile.is_some()).collect();
    let longest = shown.iter().map(|one| total(one)).fold(0.0, f64::max);
    if longest <= 0.0 {
        return false;
    }
    text(body, MARGIN, *y + 22.0, "h2", &case.label);
    *y += HEADING;
    for one in shown {
        let median = one.time_ms.map_or(f64::NAN, |time| time.median);
        let _ = writeln!(body, "<g><title>{}</title>", escape(&title(one)));
        text(body, MARGIN, *y + 12.5, "", &one.name);
        let mut x = BARS;
        for (name, _) in CATEGORIES {
            let width = part(one, name).unwrap_or(0.0) / longest * (BARS_END - BARS);
            if width >= 0.1 {
                let _ = writeln!(
                    body,
                    "<rect class=\"{name}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{BAR}\"/>"
                );
                x += width;
            }
        }
        let words = format!("{} ms", figure::micros(median));
        let _ = writeln!(
            body,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>\n</g>",
            WIDTH - MARGIN,
            *y + 12.5,
            escape(&words)
        );
        *y += ROW;
    }
    true
}

/// The length of a bar: the sum of its pieces.
fn total(one: &Contender) -> f64 {
    CATEGORIES.iter().filter_map(|(name, _)| part(one, name)).sum()
}

/// The figures of a bar, as its tooltip.
fn title(one: &Contender) -> String {
    let parts: Vec<String> = CATEGORIES
        .iter()
        .filter_map(|(name, label)| {
            let ms = part(one, name).filter(|ms| *ms > 0.0)?;
            Some(format!("{label} {}", figure::micros(ms)))
        })
        .collect();
    format!("{}: {}", one.name, parts.join(", "))
}

fn text(body: &mut String, x: f64, y: f64, class: &str, words: &str) {
    let class = match class {
        "" => String::new(),
        class => format!(" class=\"{class}\""),
    };
    let _ = writeln!(body, "<text x=\"{x:.1}\" y=\"{y:.1}\"{class}>{}</text>", escape(words));
}
