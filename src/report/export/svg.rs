//! A chart for a README: one bar per case, as long as its share of the copy roof, grouped by operation.
//!
//! Drawn for a page 900 pixels wide. Colours follow the reader's light or dark theme by a media query, because a
//! picture in a README cannot ask the page; a renderer that knows no media queries shows the light one.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use anyhow::Result;

use super::Export;
use crate::bench::{BenchReport, CaseBench, Residency};
use crate::project::DType;
use crate::report::figure;
use crate::report::svg::{self, end, fit, length, middle, text};
use crate::report::xml::escape;

/// `.svg`: [`chart`].
#[derive(Debug)]
pub(crate) struct Svg;

impl Export for Svg {
    fn render(&self, report: &BenchReport) -> Result<String> {
        Ok(chart(report))
    }
}

const WIDTH: f64 = 900.0;
const MARGIN: f64 = 28.0;
/// The right edges of the three figures behind a bar.
const ROOF_AT: f64 = 708.0;
const MICROS_AT: f64 = 782.0;
const GBS_AT: f64 = WIDTH - MARGIN;
/// The right edge of the bars.
const BARS_END: f64 = 650.0;
const ROW: f64 = 25.0;
const BAR: f64 = 15.0;
const HEADING: f64 = 38.0;
const LABEL_LEAST: f64 = 110.0;
const LABEL_MOST: f64 = 316.0;
const DTYPE: f64 = 40.0;

const STYLE: &str = "\
.k text{font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,sans-serif;font-size:12.5px;fill:#1f2328;font-variant-numeric:tabular-nums}\n\
.k .bg{fill:#fff;stroke:#d1d9e0}.k .h1{font-size:19px;font-weight:650}.k .h2{font-size:14px;font-weight:650}\n\
.k .m{fill:#59636e}.k .s{font-size:11.5px}.k .b{font-weight:650}.k .bad{fill:#cf222e;font-weight:650}\n\
.k .g{stroke:#e4e8ec}.k .r{stroke:#cf5b00;stroke-width:1.5;stroke-dasharray:4 3}.k .rt{fill:#bc4c00;font-weight:600}\n\
.k .w{fill:none;stroke:#1f2328;stroke-width:1.25}.k .wh{fill:none;stroke:#fff;stroke-width:3.5;stroke-linecap:round;opacity:.85}.k .t{fill:#eff2f5}\n\
.k .bf16{fill:#1a56c4;stroke:#1a56c4}.k .f16{fill:#5b93ee;stroke:#5b93ee}.k .f32{fill:#a9c8f8;stroke:#a9c8f8}.k .i{fill:#8c959f;stroke:#8c959f}\n\
.k .hot{fill-opacity:.28}\n\
@media(prefers-color-scheme:dark){.k text{fill:#f0f6fc}.k .bg{fill:#0d1117;stroke:#3d444d}.k .m{fill:#9198a1}.k .bad{fill:#ff7b72}\
.k .g{stroke:#262c34}.k .r{stroke:#f0883e}.k .rt{fill:#f0883e}.k .w{stroke:#f0f6fc}.k .wh{stroke:#0d1117}.k .t{fill:#1a2029}\
.k .bf16{fill:#4c8dff;stroke:#4c8dff}.k .f16{fill:#2f62b8;stroke:#2f62b8}.k .f32{fill:#24426f;stroke:#24426f}.k .i{fill:#6e7681;stroke:#6e7681}}\n";

/// The chart of a benchmark.
pub(super) fn chart(report: &BenchReport) -> String {
    let groups = groups(report);
    let frame = Frame::of(report);
    let mut body = String::new();
    let mut y = head(&mut body, report);
    if report.cases.is_empty() {
        text(&mut body, MARGIN, y + 8.0, "m", "No case was timed.");
        y += 20.0;
    } else {
        let top = y + 8.0;
        let mut rows = String::new();
        y = top;
        for (operation, cases) in &groups {
            text(&mut rows, MARGIN, y + 25.0, "h2", operation);
            y += HEADING;
            for case in cases {
                row(&mut rows, case, &frame, y);
                y += ROW;
            }
        }
        grid(&mut body, &frame, top + 10.0, y);
        body.push_str(&rows);
        roof(&mut body, &frame, top + 10.0, y);
        y += 22.0;
    }
    let name = format!("{} on {}: share of the copy roof", report.project, report.card.name);
    svg::page(WIDTH, y + 14.0, &name, STYLE, &body)
}

/// Cases grouped by operation, both in the order of timing.
fn groups(report: &BenchReport) -> Vec<(&str, Vec<&CaseBench>)> {
    let mut groups: Vec<(&str, Vec<&CaseBench>)> = Vec::new();
    for case in &report.cases {
        match groups.iter_mut().find(|(name, _)| *name == case.operation) {
            Some((_, cases)) => cases.push(case),
            None => groups.push((&case.operation, vec![case])),
        }
    }
    groups
}

/// The position and scale of the bars.
struct Frame {
    label: f64,
    bars: f64,
    most: f64,
}

impl Frame {
    fn of(report: &BenchReport) -> Self {
        let label = report.cases.iter().map(|case| length(&label(case))).fold(LABEL_LEAST, f64::max).min(LABEL_MOST);
        let most = report
            .cases
            .iter()
            .flat_map(|case| [case.of_roof(), case.copy.median / case.kernel.p10])
            .filter(|share| share.is_finite())
            .fold(1.0, f64::max);
        Self { label, bars: MARGIN + label + DTYPE + 14.0, most: most * 1.04 }
    }

    fn x(&self, share: f64) -> f64 {
        let share = if share.is_finite() { share.clamp(0.0, self.most) } else { 0.0 };
        self.bars + share / self.most * (BARS_END - self.bars)
    }
}

/// Title, card, legend; returns the bottom edge.
fn head(body: &mut String, report: &BenchReport) -> f64 {
    text(body, MARGIN, 40.0, "h1", &format!("{} on {}", report.project, report.card.name));
    let mut about = format!(
        "Time of a copy of the same bytes ÷ the kernel's own: median, whiskers p10–p90. nvcc {}",
        report.compiler
    );
    if let Some(driver) = &report.card.driver {
        let _ = write!(about, ", driver {driver}");
    }
    text(body, MARGIN, 62.0, "m", &(about + "."));
    let mut y = 86.0;
    let mut x = MARGIN;
    let dtypes: BTreeSet<DType> = report.cases.iter().map(|case| case.dtype).collect();
    // Darkest first.
    let shades = [DType::BF16, DType::F16, DType::F32];
    let others = DType::ALL.iter().filter(|dtype| !shades.contains(dtype));
    for dtype in shades.iter().chain(others).filter(|dtype| dtypes.contains(dtype)) {
        let _ = writeln!(
            body,
            "<rect class=\"{}\" x=\"{x}\" y=\"{}\" width=\"11\" height=\"11\" rx=\"2.5\"/>",
            shade(*dtype),
            y - 10.0
        );
        text(body, x + 17.0, y, "m", dtype.name());
        x += 30.0 + length(dtype.name());
    }
    if report.cases.iter().any(|case| case.residency == Residency::Hot) {
        let _ = writeln!(
            body,
            "<rect class=\"i hot\" x=\"{x}\" y=\"{}\" width=\"11\" height=\"11\" rx=\"2.5\"/>",
            y - 10.0
        );
        text(body, x + 17.0, y, "m", "pale: hot, data in the L2");
    }
    if !report.findings.is_empty() {
        y += 22.0;
        let words = format!("{} found wrong in this run: do not rely on these figures.", report.findings.len());
        text(body, MARGIN, y, "bad", &words);
    }
    y
}

/// The other grid lines, with their shares below.
fn grid(body: &mut String, frame: &Frame, top: f64, bottom: f64) {
    let step =
        [0.25, 0.5, 1.0, 2.0, 5.0, 10.0].into_iter().find(|step| frame.most / step <= 6.0).unwrap_or(frame.most / 4.0);
    let mut share = 0.0;
    while share <= frame.most {
        let x = frame.x(share);
        let at_roof = (share - 1.0_f64).abs() < 1e-9;
        if !at_roof {
            let _ = writeln!(
                body,
                "<line class=\"g\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.1}\" y2=\"{bottom:.1}\"/>",
                top + 8.0
            );
            // Leave room for the roof's label.
            if (x - frame.x(1.0)).abs() > 76.0 {
                middle(body, x, bottom + 16.0, "m s", &format!("{:.0} %", share * 100.0));
            }
        }
        share += step;
    }
}

/// The copy's line, drawn over longer bars.
fn roof(body: &mut String, frame: &Frame, top: f64, bottom: f64) {
    let x = frame.x(1.0);
    let _ = writeln!(body, "<line class=\"r\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top:.1}\" y2=\"{bottom:.1}\"/>");
    middle(body, x, bottom + 16.0, "rt s", "100 %: the copy");
}

fn row(body: &mut String, case: &CaseBench, frame: &Frame, y: f64) {
    let base = y + 12.0;
    let class = shade(case.dtype);
    let hot = if case.residency == Residency::Hot { " hot" } else { "" };
    let start = frame.bars;
    let full = label(case);
    let _ = writeln!(
        body,
        "<g><title>{}</title>",
        escape(&format!(
            "{} {}: {} MB, {} µs [{}–{}], copy {} µs, {} by {}",
            case.operation,
            case.case,
            figure::megabytes(case.bytes),
            figure::micros(case.kernel.median),
            figure::micros(case.kernel.p10),
            figure::micros(case.kernel.p90),
            figure::micros(case.copy.median),
            figure::residency(case),
            case.copy_by,
        ))
    );
    text(body, MARGIN, base, "", &fit(&full, frame.label));
    end(body, start - 14.0, base, "m s", case.dtype.name());
    let _ = writeln!(
        body,
        "<rect class=\"t\" x=\"{start:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{BAR}\" rx=\"2.5\"/>\
         <rect class=\"{class}{hot}\" x=\"{start:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{BAR}\" rx=\"2.5\"/>",
        frame.x(1.0) - start,
        (frame.x(case.of_roof()) - start).max(1.0),
    );
    whiskers(body, case, frame, y);
    end(body, ROOF_AT, base, "b", &format!("{} %", figure::percent(case.of_roof())));
    end(body, MICROS_AT, base, "", &format!("{} µs", figure::micros(case.kernel.median)));
    end(body, GBS_AT, base, "m", &format!("{} GB/s", figure::gbs(case.gbs())));
    body.push_str("</g>\n");
}

/// Whiskers from the tenth to the ninetieth percentile of the kernel's time.
fn whiskers(body: &mut String, case: &CaseBench, frame: &Frame, y: f64) {
    let low = frame.x(case.copy.median / case.kernel.p90);
    let high = frame.x(case.copy.median / case.kernel.p10);
    let (top, middle, bottom) = (y + 4.0, y + BAR / 2.0, y + BAR - 4.0);
    let path = format!("d=\"M{low:.1} {top}V{bottom}M{low:.1} {middle}H{high:.1}M{high:.1} {top}V{bottom}\"");
    // A halo in the page's colour makes the whisker visible on the dark half of the bar.
    let _ = writeln!(body, "<path class=\"wh\" {path}/><path class=\"w\" {path}/>");
}

/// The label before a bar.
fn label(case: &CaseBench) -> String {
    match case.residency {
        Residency::Cold => figure::shape(case).to_owned(),
        Residency::Hot => format!("{}, hot", figure::shape(case)),
    }
}

fn shade(dtype: DType) -> &'static str {
    match dtype {
        DType::BF16 => "bf16",
        DType::F16 => "f16",
        DType::F32 => "f32",
        _ => "i",
    }
}
