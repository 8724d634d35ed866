//! `kernels tune --undo`, which needs no card: what a record may name, and what is left of a run or an undo that was ended.

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use super::search::{BUILD, KERNEL};
use crate::support::Test;

/// The row, its comment, the row that is inserted in the other file, and its comment.
const OLD: &str = "{90, {64}}";
const NEW: &str = "// kernels tune, H100, 2026-11-24: 99.0 % of a copy at copy rows=4096.\n    // Before it {90, {64}} 90.0 %, next best \
                   {90, {32}} 80.0 %; tuning.json has all.\n    {90, {128}}";
const MORE: &str = "// kernels tune, H100, 2026-11-24: 98.0 % of a copy at copy rows=8.\n    // Before it {70, {64}} 90.0 %; \
                    tuning.json has all.\n    {90, {256}},\n    ";

fn table(row: &str) -> String {
    format!(
        "struct Row {{ int arch; struct {{ int threads; }} layout; }};\nconstexpr Row kTuning[] = {{\n    {row},\n    {{70, {{64}}}},\n}};\n"
    )
}

/// A project of whose two tables the last run wrote a row each.
fn project(test: &Test) {
    test.write("task/build.toml", BUILD.replace("\"tile.h\"", "\"tuning.h\", \"more.h\""));
    let tuning = |file: &str| {
        format!(
            "[[tuning]]\nfile = \"{file}\"\ntable = \"kTuning\"\noperations = [\"copy\"]\nrow = [\"arch\", [\"threads\"]]\n\
             keys = {{ arch = \"<= arch\" }}\nvary = [{{ threads = [32, 64, 128, 256] }}]\n"
        )
    };
    test.write("task/kernel.toml", format!("{KERNEL}{}{}", tuning("tuning.h"), tuning("more.h")));
    test.write("task/copy.cu", "extern \"C\" int copy_launch() { return 0; }\n");
    test.write("task/tuning.h", table(NEW));
    test.write("task/more.h", table(&format!("{MORE}{OLD}")));
    record(test, "tuning.h");
}

/// The record of both rows; `file` has the first.
fn record(test: &Test, file: &str) {
    let row = |file: &str, row: &str, was: &str, is: &str| {
        json!({ "at": "2026-11-24T10:00:00Z", "card": "H100", "file": file, "table": "kTuning", "row": row, "was": was, "is": is,
                "measured": null })
    };
    let rows = [row(file, "{90, {128}}", OLD, NEW), row("more.h", "{90, {256}}", "", MORE)];
    test.write("task/tuning.json", json!({ "format": 1, "rows": rows }).to_string());
}

fn read(test: &Test, file: &str) -> String {
    fs::read_to_string(test.at("task").join(file)).unwrap()
}

fn is_undone(test: &Test) {
    assert_eq!((read(test, "tuning.h"), read(test, "more.h")), (table(OLD), table(OLD)));
    assert!(!test.at("task/tuning.json").exists());
}

#[test]
fn tune_undo() {
    let test = Test::new();
    project(&test);
    let undone = test.json("tune task --undo");
    assert_eq!((&undone["written"], &undone["absent"]), (&Value::Bool(true), &json!([])), "{undone:#}");
    is_undone(&test);
    test.run("tune task --undo").expect(0, &["nothing to take back"]);
}

#[test]
fn tune_undo_of_a_record_that_names_a_file_of_no_table() {
    let test = Test::new();
    project(&test);
    let victim = test.at("victim.txt");
    for file in ["../victim.txt", victim.to_str().unwrap(), "copy.cu", "./../task/../victim.txt"] {
        test.write("victim.txt", NEW);
        test.write("task/copy.cu", NEW);
        record(&test, file);
        let words =
            ["tuning.json has the row {90, {128}}", file, "no [[tuning]] of kernel.toml names", "nothing was changed"];
        test.run("tune task --undo").expect(3, &words);
        assert_eq!((read(&test, "../victim.txt"), read(&test, "copy.cu")), (NEW.to_owned(), NEW.to_owned()));
        assert_eq!(read(&test, "more.h"), table(&format!("{MORE}{OLD}")), "nothing was changed");
    }
    // A link out of the project is refused where the project is read.
    project(&test);
    test.write("victim.txt", table(NEW));
    fs::remove_file(test.at("task/tuning.h")).unwrap();
    symlink(&victim, test.at("task/tuning.h")).unwrap();
    test.run("tune task --undo").expect(1, &["a link out of the project's folder"]);
    assert_eq!(fs::read_to_string(&victim).unwrap(), table(NEW));
}

/// A run writes its record first, and an undo its files first: of each, any part may be there.
#[test]
fn tune_undo_after_a_run_or_an_undo_that_was_ended() {
    let (first, more) = (table(NEW), table(&format!("{MORE}{OLD}")));
    for (tuning, more, absent) in [
        (&table(OLD), &more, json!(["{90, {128}}"])),
        (&first, &table(OLD), json!(["{90, {256}}"])),
        (&table(OLD), &table(OLD), json!(["{90, {256}}", "{90, {128}}"])),
    ] {
        let test = Test::new();
        project(&test);
        test.write("task/tuning.h", tuning);
        test.write("task/more.h", more);
        assert_eq!(test.json("tune task --undo --dry-run")["absent"], absent);
        let undone = test.ok("tune task --undo").out;
        assert_eq!(undone.matches("counts as taken back").count(), absent.as_array().unwrap().len(), "{undone}");
        is_undone(&test);
    }
}

#[test]
fn tune_undo_of_a_row_that_was_edited() {
    for (from, to) in
        [("{90, {128}}", "{90, {32}}"), ("{90, {256}}", "{80, {256}}"), ("99.0 %", "98.9 %"), ("H100", "my H100")]
    {
        let test = Test::new();
        project(&test);
        let all = ["tuning.h", "more.h"].map(|file| {
            test.write(&format!("task/{file}"), read(&test, file).replace(from, to));
            read(&test, file)
        });
        test.run("tune task --undo")
            .expect(3, &["was edited where `kernels tune` wrote the row", "nothing was changed"]);
        assert_eq!(["tuning.h", "more.h"].map(|file| read(&test, file)), all);
        assert!(test.at("task/tuning.json").exists());
    }
}
