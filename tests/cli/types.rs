//! Element types of kernel.toml: integers, masks and 8-bit floats, what they are drawn from, and the errors for what they
//! are not.

use crate::support::Test;

const BUILD: &str = r#"[general]
name = "typed"
version = 1
edition = 5
license = "Apache-2.0"
backends = ["cuda"]

[torch]
src = []

[kernel.typed]
backend = "cuda"
depends = []
src = ["typed.cu"]
"#;

/// A row quantised with its scale, and the place of its largest element, which may have several.
const KERNEL: &str = r#"format = 1

[[operation]]
name = "typed"
oracle = { python = "reference.py", function = "typed" }
dtypes = ["f32"]
flops = "rows * width"
arguments = [
  { tensor = "out", role = "output", dtype = "i8", shape = ["rows", "width"] },
  { tensor = "place", role = "output", dtype = "i64", shape = ["rows"], alternatives = 2 },
  { tensor = "x", role = "input", shape = ["rows", "width"], range = ["-2", "width / 2"] },
  { tensor = "mask", role = "input", dtype = "bool", shape = ["rows", "width"] },
  { scalars = ["rows", "width"], type = "i64" },
  { stream = true },
]

[[operation.verify]]
rows = [1, 3]
width = [8, 64]
"#;

const TYPES: [&str; 10] = ["f32", "f16", "bf16", "i32", "i64", "e4m3", "e5m2", "i8", "u8", "bool"];

/// A project whose kernel.toml has one text in place of another, which it must have.
fn project(from: &str, to: &str) -> Test {
    let test = Test::new();
    assert!(KERNEL.contains(from), "kernel.toml lacks {from}");
    for (path, text) in [
        ("p/build.toml", BUILD),
        ("p/kernel.toml", &KERNEL.replacen(from, to, 1)),
        ("p/typed.cu", "// device code\n"),
        ("p/reference.py", "def typed(x, mask):\n    return x, x\n"),
    ] {
        test.write(path, text);
    }
    test
}

/// `kernels build` reads the project; it fails later, for want of a compiler or of the launcher.
fn opens(from: &str, to: &str) {
    let ran = project(from, to).run("build p");
    assert!(!ran.err.contains("kernel.toml:"), "{to}: {ran:#?}");
}

#[test]
fn a_project_may_have_each_type_as_input_output_and_t() {
    for dtype in TYPES {
        opens("dtype = \"i8\"", &format!("dtype = \"{dtype}\""));
        opens("dtype = \"bool\"", &format!("dtype = \"{dtype}\""));
    }
    opens("dtypes = [\"f32\"]", "dtypes = [\"e4m3\"]");
    // The names that torch uses.
    for name in ["float8_e4m3fn", "float8_e5m2", "int8", "uint8"] {
        opens("dtype = \"i8\"", &format!("dtype = \"{name}\""));
    }
    // Beside a range that the type holds, its ends included.
    for (dtype, range) in [("u8", "0, 255"), ("i8", "-128, 127"), ("e4m3", "-448, 448"), ("bool", "1, 1")] {
        opens("dtype = \"bool\",", &format!("dtype = \"{dtype}\", range = [{range}],"));
    }
}

#[test]
fn what_a_type_does_not_hold_is_refused_with_what_it_holds() {
    for (from, to, says) in [
        ("\"i8\"", "\"i4\"", &["kernel.toml:9:", "unknown dtype `i4`", "allowed: f32", "e4m3, e5m2, i8, u8, bool"][..]),
        (
            "\"i8\"",
            "\"i8\", range = [0, 1]",
            &["kernel.toml:9:", "`range` is for a tensor that is drawn", "role = \"input\""],
        ),
        ("\"i8\"", "\"e4m3\", alternatives = 2", &["kernel.toml:9:", "`alternatives` is for an output of integers"]),
        ("alternatives = 2", "alternatives = 1", &["kernel.toml:10:", "2", "64"]),
        ("alternatives = 2", "alternatives = 65", &["kernel.toml:10:", "2", "64"]),
        (
            "\"bool\",",
            "\"bool\", alternatives = 2,",
            &["kernel.toml:12:", "`alternatives` is for an output of integers"],
        ),
        (
            "oracle = { python = \"reference.py\", function = \"typed\" }",
            "oracle = \"rms_norm\"",
            &["kernel.toml:5:", "`alternatives` is for oracles in Python"],
        ),
        (
            "oracle = { python = \"reference.py\", function = \"typed\" }\n",
            "",
            &["`alternatives` is for oracles in Python"],
        ),
        ("\"bool\",", "\"bool\", range = [0, 2],", &["tensor `mask`", "bool is drawn from 0 to 1"]),
        ("\"bool\",", "\"u8\", range = [-1, 9],", &["tensor `mask`", "u8 is drawn from 0 to 255"]),
        (
            "\"bool\",",
            "\"i8\", range = [0, \"width * 2\"],",
            &["tensor `mask`", "gives 128", "i8 is drawn from -128 to 127"],
        ),
        ("\"bool\",", "\"i8\", range = [0, 9], also = [128],", &["tensor `mask`", "i8 is drawn from -128 to 127"]),
        ("\"bool\",", "\"i8\", range = [0, 0.5],", &["tensor `mask`", "0.5"]),
        ("\"bool\",", "\"e4m3\", range = [0, 449],", &["tensor `mask`", "e4m3 is drawn from -448 to 448"]),
    ] {
        let ran = project(from, to).run("build p");
        ran.expect(1, says);
    }
}

#[test]
fn a_result_in_place_of_an_input_has_no_alternatives() {
    let more = "\n[[operation]]\nname = \"in_place\"\nlike = \"typed\"\nin_place = { x = \"place\" }\n\
                verify = [ { rows = 1, width = 8 } ]\n";
    let test = project("width = [8, 64]\n", &format!("width = [8, 64]\n{more}"));
    test.run("build p").expect(1, &["kernel.toml:", "output `place` has `alternatives`"]);
}

#[test]
fn a_build_wants_no_oracle_and_ci_says_which_is_missing() {
    let (from, to) = ("{ python = \"reference.py\", function = \"typed\" }", "\"rms_nrm\"");
    let test = project(from, to);
    let text = std::fs::read_to_string(test.at("p/kernel.toml")).unwrap().replace(", alternatives = 2", "");
    test.write("p/kernel.toml", text);
    let ran = test.run("build p");
    assert!(!ran.err.contains("oracle"), "{ran:#?}");
    let report = test.json("ci p");
    let checks = report["projects"][0]["checks"].as_array().unwrap();
    let of = |group: &str| checks.iter().find(|check| check["group"] == group).unwrap();
    let build = of("build").to_string();
    assert!(!build.contains("oracle"), "{build}");
    let verify = of("verify").to_string();
    assert!(verify.contains("failed") && verify.contains("Is it `rms_norm`?"), "{verify}");
    assert!(of("bench").to_string().contains("skipped"), "{report:#}");
}
