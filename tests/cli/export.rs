//! Exports of a benchmark: `kernels bench --export FILE`.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::report;
use kernels::bench::{Against, BenchReport, Beside, Spread};
use kernels::project::DType;
use kernels::report::export;
use proptest::prelude::*;
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use tempfile::TempDir;

fn render(report: &BenchReport, name: &str) -> String {
    export::of(Path::new(name)).unwrap().render(report).unwrap()
}

#[test]
fn the_ending_chooses_and_an_unknown_one_is_told_of_with_all_that_are_known() {
    for name in ["a.json", "a.md", "a.csv", "a.svg", "A.SVG", "b.tar.csv"] {
        assert!(export::of(Path::new(name)).is_ok(), "{name}");
    }
    for name in ["a", "a.txt", ".json", "a.json/", "a."] {
        let Err(error) = export::of(Path::new(name)) else {
            // `Path` treats `a.json/` as the file `a.json`.
            assert_eq!(name, "a.json/");
            continue;
        };
        let error = error.to_string();
        for ending in [".json", ".md", ".csv", ".svg", name] {
            assert!(error.contains(ending), "{error}");
        }
    }
}

#[test]
fn a_file_is_replaced_and_nothing_else_is() {
    let dir = TempDir::new().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::write(at("old.json"), "old").unwrap();
    export::write(&report::bench(), &at("old.json")).unwrap();
    let back: BenchReport = serde_json::from_str(&fs::read_to_string(at("old.json")).unwrap()).unwrap();
    assert_eq!(back.seed, report::bench().seed);
    assert_eq!(back.cases[0].bytes, report::bench().cases[0].bytes);

    fs::create_dir(at("folder.md")).unwrap();
    std::os::unix::fs::symlink(at("old.json"), at("link.json")).unwrap();
    for name in ["folder.md", "link.json"] {
        let error = export::write(&report::bench(), &at(name)).unwrap_err();
        assert!(format!("{error:#}").contains(name), "{error:#}");
        assert!(format!("{error:#}").contains("no regular file"), "{error:#}");
    }
    assert!(at("link.json").is_symlink());
    let error = export::write(&report::bench(), &at("missing/a.md")).unwrap_err();
    assert!(format!("{error:#}").contains("missing/a.md"), "{error:#}");
    let left: Vec<_> = fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with('.'))
        .collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}

#[test]
fn markdown_says_what_was_measured_and_on_what() {
    let text = render(&report::bench(), "a.md");
    assert!(
        text.contains(
            "| rms_norm | Qwen3-8B: rows=8192 width=4096 | bf16 | 134 | 46.7 [46.3–47.7] | 2873 | 99.1 | 85.7 | cold |"
        ),
        "{text}"
    );
    assert!(text.contains("| 1.61 ["), "{text}");
    assert!(text.contains("| hot |"), "{text}");
    assert!(
        text.contains("NVIDIA H100 80GB HBM3, driver 580.159.04, nvcc 13.0.88, seed 18446744073709551557."),
        "{text}"
    );
    assert!(text.contains("Remark: clocks were held down"), "{text}");
}

/// The cells of a Markdown table, as rendered.
fn cells(markdown: &str) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    let mut cell = None;
    for event in Parser::new_ext(markdown, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::TableHead | Tag::TableRow) => rows.push(Vec::new()),
            Event::Start(Tag::TableCell) => cell = Some(String::new()),
            Event::End(TagEnd::TableCell) => {
                rows.last_mut().unwrap().push(cell.take().unwrap());
            }
            Event::Text(text) => {
                if let Some(cell) = &mut cell {
                    cell.push_str(&text);
                }
            }
            Event::Code(_) | Event::InlineHtml(_) | Event::Start(Tag::Emphasis | Tag::Strong) if cell.is_some() => {
                panic!("markup in a cell of {markdown}")
            }
            _ => {}
        }
    }
    rows
}

/// The records of an RFC 4180 file.
fn records(csv: &str) -> Vec<Vec<String>> {
    let mut records = vec![Vec::new()];
    let (mut field, mut quoted) = (String::new(), false);
    let mut chars = csv.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, quoted) {
            ('"', true) if chars.peek() == Some(&'"') => {
                chars.next();
                field.push('"');
            }
            ('"', _) => quoted = !quoted,
            (',', false) => records.last_mut().unwrap().push(std::mem::take(&mut field)),
            ('\r', false) => {
                assert_eq!(chars.next(), Some('\n'));
                records.last_mut().unwrap().push(std::mem::take(&mut field));
                records.push(Vec::new());
            }
            (c, _) => field.push(c),
        }
    }
    assert!(records.pop().unwrap().is_empty() && field.is_empty());
    records
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_a_case_is_called_it_stays_in_its_cell(label in "([ -~]|[\\|`*_<>&\\[\\]\\\\\"',\r\n\té…µ]){0,24}", rows in 1u32..9) {
        let mut bench = report::bench();
        bench.cases[0].case.clone_from(&label);
        bench.cases[0].dtype = DType::I64;
        bench.cases.truncate(rows as usize);
        let label = label.strip_suffix("i64").map_or(label.as_str(), str::trim_end);

        let csv = records(&render(&bench, "a.csv"));
        prop_assert_eq!(csv.len(), bench.cases.len() + 1);
        prop_assert!(csv.iter().all(|record| record.len() == 22));
        prop_assert_eq!(&csv[1][2], &bench.cases[0].case);

        let table = cells(&render(&bench, "a.md"));
        prop_assert_eq!(table.len(), bench.cases.len() + 1);
        prop_assert!(table.iter().all(|row| row.len() == 9));
        let shown: String = label.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        prop_assert_eq!(table[1][1].trim(), shown.trim());
    }
}

/// Runs a script that parses a file with python3, and returns its output.
fn python(script: &str, file: &str) -> String {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("file");
    fs::write(&path, file).unwrap();
    let ran = Command::new("python3").args(["-c", script]).arg(&path).output().expect("python3 is needed");
    assert!(ran.status.success(), "{}\n{file}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap()
}

const TEXTS: &str = "import sys, xml.etree.ElementTree as t\n\
    for e in t.parse(sys.argv[1]).iter():\n  \
      if e.tag.endswith('}text'): print(e.text)\n";

#[test]
fn the_chart_is_xml_whose_texts_are_those_of_the_report() {
    let mut bench = report::bench();
    bench.project = "a<b>&\"c\"\u{1b}[0m".to_owned();
    bench.cases[0].case = "]]> <script> & 'x' bf16".to_owned();
    let texts = python(TEXTS, &render(&bench, "a.svg"));
    for text in [
        "a<b>&\"c\"\u{fffd}[0m on NVIDIA H100 80GB HBM3",
        "]]> <script> & 'x'",
        "46.7 µs",
        "2873 GB/s",
        "99.1 %",
        "add_rms_norm",
        "100 %: the copy",
    ] {
        assert!(texts.lines().any(|line| line == text), "{text} in\n{texts}");
    }
}

#[test]
fn the_chart_holds_with_no_case_one_and_sixty_and_with_figures_that_are_none() {
    let mut bench = report::bench();
    let one = bench.cases[0].clone();
    bench.cases.clear();
    assert!(python(TEXTS, &render(&bench, "a.svg")).contains("No case was timed."));
    bench.cases = vec![one.clone()];
    assert!(python(TEXTS, &render(&bench, "a.svg")).contains("46.7 µs"));
    bench.cases = vec![one.clone(); 60];
    assert_eq!(python(TEXTS, &render(&bench, "a.svg")).matches("46.7 µs").count(), 60);
    bench.cases = vec![one];
    bench.cases[0].kernel.median = f64::NAN;
    bench.cases[0].kernel.p90 = 0.0;
    let chart = render(&bench, "a.svg");
    assert!(!chart.contains("NaN") && !chart.contains("inf\""), "{chart}");
    assert!(python(TEXTS, &chart).contains("– µs"));
}

#[test]
fn a_run_in_which_something_was_wrong_says_so_in_the_chart_and_the_table() {
    let mut bench = report::bench();
    bench.findings.push(report::finding(kernels::verify::Kind::TooFast, None, "sm_90"));
    assert!(render(&bench, "a.svg").contains("do not rely on these figures"));
    assert!(render(&bench, "a.md").contains("**Wrong**"));
}

/// Writes charts for visual inspection: `CHARTS=folder cargo test --test cli export::look -- --ignored`.
#[test]
#[ignore = "writes files for people"]
fn look() {
    let dir = std::path::PathBuf::from(std::env::var_os("CHARTS").expect("CHARTS names a folder"));
    let mut bench = report::bench();
    export::write(&bench, &dir.join("six.svg")).unwrap();
    let one = bench.cases[0].clone();
    bench.cases = vec![one];
    export::write(&bench, &dir.join("one.svg")).unwrap();
    bench.cases.clear();
    for (better, operation) in [(0.0, "rms_norm"), (0.05, "add_rms_norm"), (0.1, "geglu")] {
        for i in 0..20u32 {
            let dtype = [DType::BF16, DType::F16, DType::F32][(i % 3) as usize];
            let copy = 2.0 + f64::from(i) * 9.1;
            let share = 0.62 + f64::from((i * 7 + 11) % 40) / 100.0 + better;
            bench.cases.push(report::case(operation, 128 << (i % 7), 2048, dtype, copy / share, copy));
        }
    }
    bench.cases[3].case = "a case with a name that is far too long for the room that it has: rows=1 bf16".to_owned();
    export::write(&bench, &dir.join("sixty.svg")).unwrap();
}

#[test]
fn the_terminal_s_table_has_every_case_under_its_titles() {
    let lines: Vec<String> = kernels::report::timing::table(&report::bench())
        .lines(Some(110))
        .iter()
        .map(|line| anstream::adapter::strip_str(line).to_string())
        .collect();
    assert_eq!(lines.len(), 7);
    assert!(lines.iter().all(|line| line.chars().count() <= 110), "{lines:#?}");
    let at = |line: &str, text: &str| line.chars().count() - line.split_once(text).unwrap().1.chars().count();
    assert_eq!(at(&lines[0], "% roof"), at(&lines[1], " 99.1"));
    assert_eq!(at(&lines[0], "GB/s"), at(&lines[4], " 838"));
    assert!(lines[5].ends_with("hot"), "{lines:#?}");
}

/// A report whose first case has peers.
fn beside() -> BenchReport {
    let spread = |median| Spread { median, p10: median * 0.98, p90: median * 1.02, min: median * 0.97, samples: 30 };
    let peer = |name: &str, median: Option<f64>| Beside {
        name: name.to_owned(),
        time: median.map(spread),
        chosen: None,
        wrong: None,
        other: None,
        skipped: None,
    };
    let mut report = report::bench();
    report.cases[0].against = Some(Against {
        clock: "kernels".to_owned(),
        kernel: Some(spread(20.0)),
        copy: Some(spread(19.0)),
        peers: vec![
            peer("torch", Some(30.0)),
            peer("compile", Some(25.0)),
            Beside { wrong: Some("relative error 1e-1".to_owned()), ..peer("hub:a|b", Some(1.0)) },
            Beside { skipped: Some("liger-kernel cannot be imported".to_owned()), ..peer("liger", None) },
        ],
        remarks: Vec::new(),
    });
    report
}

#[test]
fn others_stand_beside_ours_and_who_is_missing_is_named_with_the_reason() {
    let report = beside();
    let text = render(&report, "a.md");
    for words in [
        "| copy | ours | torch | compile | hub:a&#124;b | liger | best, × |",
        "| 19.0 | 20.0 | 30.0 | 25.0 | 1.00! | – | compile, 1.25 |",
        "skipped: liger in ",
        "liger-kernel cannot be imported",
        "is wrong in",
        "by this program's clock",
    ] {
        assert!(text.contains(words), "no {words} in\n{text}");
    }
    let csv = render(&report, "a.csv");
    let lines: Vec<&str> = csv.split("\r\n").filter(|line| !line.is_empty()).collect();
    assert!(lines[0].ends_with(
        ",seed,against_copy_us,against_kernels_us,against_torch_us,against_compile_us,against_hub:a|b_us,against_liger_us"
    ));
    // A peer with a wrong result has no time.
    assert!(lines[1].ends_with(",19,20,30,25,,"), "{}", lines[1]);
    assert!(lines[2].ends_with(",,,,,,"), "{}", lines[2]);
    let back: BenchReport = serde_json::from_str(&render(&report, "a.json")).unwrap();
    let against = back.cases[0].against.as_ref().unwrap();
    assert_eq!(against.best().unwrap().0.name, "compile");
    assert!(back.cases[1].against.is_none());
    // Without peers, the report has none of these fields.
    let plain = report::bench();
    assert!(!render(&plain, "a.json").contains("against"));
    assert!(!render(&plain, "a.csv").contains("against"));
    assert!(!render(&plain, "a.md").contains("Beside others"));
}

#[test]
fn the_terminal_shows_others_in_columns_of_their_own() {
    let report = beside();
    let lines = kernels::report::beside::table(&report).unwrap().lines(None);
    let plain: Vec<String> = lines.iter().map(|line| anstream::adapter::strip_str(line).to_string()).collect();
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert!(plain[0].ends_with("copy  ours  torch  compile  hub:a|b  liger  best, ×"), "{}", plain[0]);
    let row = words(&plain[1]);
    assert_eq!(row[row.len() - 8..], ["19.0", "20.0", "30.0", "25.0", "1.00!", "–", "compile,", "1.25"]);
    assert_eq!(plain.len(), 2, "only cases that others were timed in");
    assert!(kernels::report::beside::table(&report::bench()).is_none());
}
