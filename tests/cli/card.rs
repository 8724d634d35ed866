//! `kernels verify` and `kernels bench` on a machine without a card, and the recording process left to itself.

use std::path::Path;
use std::process::{Output, Stdio};

use crate::support::Test;

fn no_card() -> bool {
    !Path::new("/dev/nvidiactl").exists()
}

fn ran(arguments: &[&str]) -> (Option<i32>, String, String) {
    let rmsnorm = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels/rmsnorm");
    let output = Test::new().command().arg(arguments[0]).arg(rmsnorm).args(&arguments[1..]).output().unwrap();
    words(&output)
}

fn words(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn without_a_card_the_error_says_why_and_what_works() {
    if !no_card() {
        crate::support::not_run("what is said where there is no card: there is one");
        return;
    }
    for command in ["verify", "bench"] {
        let (code, out, err) = ran(&[command]);
        assert_eq!(code, Some(1), "{err}");
        assert!(out.is_empty());
        assert!(err.contains("libcuda.so.1"), "{err}");
        assert!(err.contains("kernels build") && err.contains("kernels ci"), "{err}");
        let (_, _, err) = ran(&[command, "--shape", "rows=1,width=64,sum_stride=72"]);
        assert!(err.contains("left out: shape") && err.contains("`rms_norm` has no `sum_stride`"), "{err}");
        assert!(err.contains("libcuda.so.1"), "{err}");
        let (code, out, _) = ran(&[command, "--json"]);
        let json: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!(code, Some(1));
        assert!(json["error"].as_str().unwrap().contains("libcuda.so.1"));
    }
}

#[test]
fn what_cannot_be_meant_is_refused_before_anything_is_measured() {
    for (arguments, word) in [
        (vec!["bench", "--export", "figures.xls"], ".svg"),
        (vec!["bench", "--record", "--filter", "8192"], "--filter"),
        (vec!["bench", "--record", "--dtype", "bf16"], "--dtype"),
        (vec!["bench", "--record", "--shape", "rows=1"], "--shape"),
        (vec!["bench", "--dtype", "f63"], "--dtype f63"),
        (vec!["verify", "--dtype", "f63"], "--dtype f63"),
        (vec!["verify", "--shape", "rows=1,columns=64"], "`columns`"),
        (vec!["bench", "--shape", "rows"], "NAME=VALUE"),
        (vec!["bench", "--evidence", "there"], "--record"),
        (vec!["bench", "--rounds", "4"], "5 rounds"),
    ] {
        let (code, _, err) = ran(&arguments);
        assert_eq!(code, Some(2), "{arguments:?}: {err}");
        assert!(err.contains(word), "{arguments:?}: {err}");
    }
    let test = Test::new();
    for (option, word) in [("--islands 0", "--islands"), ("--patience 0", "--patience"), ("--against foo", "foo")] {
        test.run(&format!("search run . --proposer dir:p --out r {option}")).expect(2, &[word]);
    }
    test.run("build nowhere --arch 90a").expect(2, &["--arch", "80", "120"]);
    for spelt in ["90", "9.0", "sm_90", "compute_90"] {
        test.run(&format!("build nowhere --arch {spelt}")).expect(1, &["nowhere"]);
    }
    test.run("check --list --format sarif").expect(2, &["--format"]);
    let module = "search import --module m.py --shapes s.toml --out tasks";
    test.write("s.toml", "[bench]\n");
    test.write("m.py", "");
    test.run(module).expect(1, &["relu2.py"]);
}

#[test]
fn the_recording_process_says_why_it_cannot_begin_and_ends_with_its_parent() {
    let serve = |request: &str| {
        let output = Test::new().command().args(["__worker", request]).stdin(Stdio::null()).output().unwrap();
        words(&output)
    };
    let (code, out, err) = serve("nonsense");
    assert_eq!((code, out.contains("error")), (Some(1), false), "{err}");
    let (code, out, _) = serve(r#"{"record": {"ordinal": 0, "library": "/nowhere.so", "scratch": "/tmp"}}"#);
    assert_eq!(code, Some(0));
    if no_card() {
        assert!(out.contains("Refused") && out.contains("libcuda.so.1"), "{out}");
    }
}
