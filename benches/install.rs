//! Times one `skills add`, as a whole process, beside other installers.
//! Run it with `cargo bench --profile dist --bench install -- [--runs N] [--json FILE] [--busy]`; with `--busy`, another
//! process writes to the same disk all the time (`dd oflag=dsync`).
//!
//! Every contender installs the same folder into a new project for every run; they
//! take turns in one session, in an order that rotates; and a run counts only after every file of the
//! skill has been found in its place, byte for byte. Ours waits for its journal, its receipt, and what it could not write
//! again to reach the disk; the others wait for nothing. The peers are npm packages at the versions in `benches/peers`, run by node directly, not
//! through npx, with telemetry switched off.

// This program prints a table to standard output, and panics when a step fails.
#![allow(clippy::print_stdout, clippy::panic, clippy::expect_used)]

#[path = "install/contender.rs"]
mod contender;
#[path = "install/measure.rs"]
mod measure;
#[path = "install/report.rs"]
mod report;

use std::path::PathBuf;

use contender::contenders;
use measure::measure;
use report::Report;

const WARM_UP: usize = 3;

struct Options {
    runs: usize,
    json: Option<PathBuf>,
    busy: bool,
}

fn main() {
    // `cargo test --all-targets` also runs benchmarks, without this flag; skip the measurement then.
    if !std::env::args().any(|argument| argument == "--bench") {
        println!("nothing measured: run it with cargo bench --profile dist --bench install");
        return;
    }
    let options = options();
    let contenders = contenders();
    let samples = measure(&contenders, WARM_UP, options.runs, options.busy);
    let report = Report::new(&contenders, &samples);
    print!("{report}");
    if let Some(file) = options.json {
        let text = format!("{:#}\n", report.json());
        std::fs::write(&file, text).unwrap_or_else(|error| panic!("cannot write {}: {error}", file.display()));
    }
}

fn options() -> Options {
    let mut options = Options { runs: 30, json: None, busy: false };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--bench" => {}
            "--busy" => options.busy = true,
            "--runs" => {
                let value = arguments.next().expect("--runs needs a number");
                options.runs = value.parse().expect("--runs needs a number");
                assert!(options.runs > 0, "--runs needs a number above 0");
            }
            "--json" => {
                let file = arguments.next().expect("--json needs a file");
                options.json = Some(PathBuf::from(file));
            }
            other => panic!("unknown option {other}; there are --runs N, --json FILE and --busy"),
        }
    }
    options
}
