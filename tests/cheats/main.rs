//! Cheating and broken kernel projects, each beside an honest twin: `tests/cheats/README.md`.
//!
//! Without a card: the suite covers every row of the table, every candidate compiles without a warning for two
//! architectures, and the record in `evidence/` is of this suite. With one, `kernels verify` and
//! `kernels bench` run on all of it. `KERNELS_CARD=1` requires a GPU; `KERNELS_RECORD=FILE` writes the record.
//! The compiled test needs no checkout: `KERNELS_PROGRAM` is the `kernels` to test, `KERNELS_CHEATS` the folder
//! tests/cheats, `KERNELS_JOBS` how many verifications run at once, `KERNELS_ONLY` a part of the names.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    unreachable_pub,
    missing_docs,
    reason = "a test"
)]

mod card;
mod compile;
mod record;
mod search;
mod stand_in;
mod suite;
#[path = "../support/mod.rs"]
mod support;
mod tune;

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::Path;

use card::Place;
use suite::Suite;
use support::{generated, pending};

#[test]
fn every_row_of_the_table_has_a_cheat_or_a_reason_why_not() {
    let suite = Suite::read();
    let numbers: Vec<u32> = suite.row.iter().map(|row| row.number).collect();
    assert_eq!(numbers, (1..=38).collect::<Vec<_>>());
    for row in &suite.row {
        let covered = suite.cheat.iter().any(|c| c.rows.contains(&row.number));
        let excused = row.why.as_ref().is_some_and(|why| !why.is_empty());
        assert!(
            covered != excused,
            "row {} ({}): {}",
            row.number,
            row.trick,
            if covered { "both a cheat and an excuse" } else { "no cheat" }
        );
    }
}

#[test]
fn every_cheat_has_a_twin_and_every_candidate_is_used() {
    let suite = Suite::read();
    let mut names = BTreeSet::new();
    let mut used = BTreeSet::new();
    for cheat in &suite.cheat {
        assert!(names.insert(&cheat.name), "twice: {}", cheat.name);
        assert!(!cheat.rows.is_empty(), "{} has no row", cheat.name);
        assert!(!cheat.caught.is_empty(), "{} is caught by nothing", cheat.name);
        let candidate = cheat.candidate();
        let twin = cheat.twin();
        assert_ne!(candidate.text(), twin.text(), "{}", cheat.name);
        // The twin's define only counts as used when it is one of the file's.
        for side in [candidate, twin] {
            if let Some(define) = &side.define {
                let known = suite::defines(&side.source).contains(define);
                // A cheat that is only in kernel.toml has no define.
                assert!(known || side.bytes.is_some(), "{}: {define}", cheat.name);
                used.insert((side.source, define.clone()));
            }
        }
    }
    for legal in &suite.legal {
        assert!(names.insert(&legal.name), "twice: {}", legal.name);
        used.insert((legal.source.clone(), legal.define.clone()));
    }
    for source in suite::sources() {
        for define in suite::defines(&source) {
            assert!(
                used.contains(&(source.clone(), define.clone())),
                "candidates/{source}.cu has {define}, which suite.toml does not name"
            );
        }
    }
}

#[test]
fn every_candidate_compiles_without_a_warning() {
    compile::all(&Suite::read());
}

#[test]
fn the_page_is_the_suite() {
    let path = suite::folder().join("README.md");
    let expected = Suite::read().to_markdown();
    generated(&path, &expected, "cheats the_page");
}

#[test]
fn the_record_is_of_this_suite_and_every_cheat_was_caught() {
    let suite = Suite::read();
    let evidence = suite::folder().join("../../evidence");
    let records = record::all(&evidence);
    assert!(
        !records.is_empty(),
        "no evidence/harness-*.json: on a machine with a card, run \
         KERNELS_CARD=1 KERNELS_RECORD=evidence/harness-GPU.json cargo test --test cheats on_a_card"
    );
    for (path, record) in records {
        let why = pending::pending().get(&pending::stem(&path)).cloned();
        record.check(&suite, &path, why.is_some());
        match (record.harness == suite::harness(), why) {
            (true, None) => {}
            (true, Some(_)) => panic!("evidence/pending.toml names {}, which is of this harness", path.display()),
            (false, Some(why)) => {
                let _ =
                    writeln!(std::io::stderr(), "\nnot run: the suite on a card, with the harness as it is now: {why}");
            }
            (false, None) => panic!(
                "{} is of another harness: src/gpu, verify, bench, oracle or confine changed since it was recorded; run the \
                 suite on a card again, or name it in evidence/pending.toml",
                path.display()
            ),
        }
    }
}

#[test]
fn on_a_card_every_cheat_is_caught_and_every_twin_passes() {
    let demanded = std::env::var_os("KERNELS_CARD").is_some_and(|value| value != "0");
    if !demanded && !Path::new("/dev/nvidiactl").exists() {
        // A missing GPU is not a failure. Not eprintln!, which the test runner hides when a test passes.
        let _ = writeln!(
            std::io::stderr(),
            "\nnot run: the cheating kernels, for want of a card (KERNELS_CARD=1 demands one)"
        );
        return;
    }
    let suite = Suite::read();
    let record = card::run(&suite, &Place::default());
    eprintln!("{}", record.to_table());
    if let Some(path) = std::env::var_os("KERNELS_RECORD") {
        fs::write(&path, record.to_json()).unwrap();
    }
    let wrong = record.wrong();
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}
