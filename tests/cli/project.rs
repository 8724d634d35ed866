//! Reading kernel projects, and the message for each mistake.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use kernels::project::{Argument, BoundArgument, CType, DType, Inputs, InvalidProject, OracleRef, Project, Role};
use tempfile::TempDir;

const BUILD: &str = r#"[general]
name = "scale"
version = 1
edition = 5
license = "Apache-2.0"
backends = ["cuda"]

[torch]
src = []

[kernel.scale]
backend = "cuda"
depends = []
src = ["scale.cu"]
"#;

const KERNEL: &str = r#"format = 1

[[operation]]
name = "scale"
launcher = "scale_launch"
oracle = { python = "reference.py", function = "scale" }
dtypes = ["bf16", "f32"]
bytes = "2 * rows * width * size(T)"
flops = "rows * width"
arguments = [
  { tensor = "out", role = "output", shape = ["rows", "width"] },
  { tensor = "x", role = "input", shape = ["rows", "width"], strides = ["x_stride", 1] },
  { tensor = "bias", role = "input", dtype = "f32", shape = ["width"], present = "bias" },
  { scalar = "rows", type = "i64" },
  { scalar = "width", type = "i32" },
  { scalar = "factor", type = "f32" },
  { scalar = "blocks", type = "i32", value = "ceil_div(rows * width, 256)" },
  { dtype = { f32 = 0, bf16 = 2 } },
  { stream = true },
]

[operation.defaults]
factor = 1e-6
bias = 0
x_stride = "width"

[[operation.verify]]
name = "sizes"
rows = [1, 3]
width = [8, 64]
bias = [0, 1]

[[operation.verify]]
name = "strided"
rows = 5
width = 64
x_stride = "width + 8"
offsets = { x = 1 }
inputs = ["normal", "wide"]
dtype = "bf16"

[[operation.verify]]
name = "drawn"
draw = 8
rows = "0..300"
width = "1..9000"

[[operation.bench]]
rows = 8192
width = 4096

[[operation.reject]]
rows = -1
width = 64

[[budget]]
kernel = "*"
spill_bytes = 0
"#;

/// A folder with a valid project, in which tests make one mistake.
struct Folder(TempDir);

impl Folder {
    fn new() -> Self {
        let folder = Self(TempDir::new().unwrap());
        folder.write("build.toml", BUILD);
        folder.write("kernel.toml", KERNEL);
        folder.write("scale.cu", "// device code\n");
        folder.write("reference.py", "def scale(x, **_): return x\n");
        folder
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn write(&self, file: &str, text: &str) {
        let path = self.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn open(&self) -> Project {
        Project::open(self.path()).unwrap_or_else(|error| panic!("{error:#}"))
    }

    /// Replaces text of a file, which must contain it.
    fn spoil(&self, file: &str, from: &str, to: &str) {
        let text = fs::read_to_string(self.path().join(file)).unwrap();
        assert!(text.contains(from), "{file} does not hold {from}");
        self.write(file, &text.replacen(from, to, 1));
    }

    /// The error message of a refused project.
    fn refused(&self) -> String {
        let error = Project::open(self.path()).expect_err("the project was accepted");
        format!("{error:#}")
    }
}

/// Changes `file`, and expects an error that quotes the line of `to`, marks `marked` with carets, and contains all of `says`.
fn expect(file: &str, from: &str, to: &str, marked: &str, says: &[&str]) {
    let folder = Folder::new();
    folder.spoil(file, from, to);
    let error = Project::open(folder.path()).expect_err("the project was accepted");
    assert!(error.is::<InvalidProject>(), "{error:#}");
    let message = format!("{error:#}");
    for say in says {
        assert!(message.contains(say), "no `{say}` in:\n{message}");
    }
    let text = fs::read_to_string(folder.path().join(file)).unwrap();
    let found = message.lines().zip(message.lines().skip(1)).any(|(line, below)| {
        let Some((number, quoted)) = line.split_once(" | ") else {
            return false;
        };
        let Some(start) = below.find('^') else {
            return false;
        };
        let carets = below.matches('^').count();
        let number: usize = number.trim().parse().unwrap();
        assert_eq!(text.lines().nth(number - 1).unwrap().trim_end(), quoted, "the quoted line is not the file's");
        let place =
            format!("{}:{number}:{}: ", folder.path().join(file).display(), start - (line.len() - quoted.len()) + 1);
        assert!(message.contains(&place), "no `{place}` in:\n{message}");
        line.get(start..start + carets) == Some(marked)
    });
    assert!(found, "`{marked}` is not marked in:\n{message}");
}

#[test]
fn a_project_is_read_whole() {
    let folder = Folder::new();
    let project = folder.open();
    assert_eq!(project.name, "scale");
    assert_eq!(project.sources, [Path::new("scale.cu")]);
    assert_eq!(project.spec_digest.len(), 64);
    let operation = &project.spec.operations[0];
    assert!(matches!(
        &operation.oracle,
        OracleRef::Python { file, function } if file == Path::new("reference.py") && function == "scale"
    ));
    assert_eq!(operation.arguments.len(), 9);
    assert!(matches!(operation.arguments[6], Argument::Scalar { ctype: CType::I32, .. }));
    assert_eq!(operation.names(), ["rows", "width", "x_stride", "bias", "factor"]);
    assert_eq!(project.spec.budgets[0].spill_bytes, Some(0));
    assert_eq!(project.spec.budgets[0].registers, None);
}

#[test]
fn the_bundled_project_is_read() {
    let folder = Folder::new();
    let bundled = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels/rmsnorm");
    let build = fs::read_to_string(bundled.join("build.toml")).unwrap();
    for source in build.split('"').filter(|word| word.contains('/')) {
        folder.write(source, "");
    }
    folder.write("build.toml", &build);
    folder.write("kernel.toml", &fs::read_to_string(bundled.join("kernel.toml")).unwrap());
    let project = folder.open();
    for operation in &project.spec.operations {
        assert!(!operation.cases(&operation.verify, 1).unwrap().is_empty());
    }
}

#[test]
fn the_stable_abi_is_a_version_or_one_for_each_backend() {
    for (value, sound) in [
        ("\"2.11\"", true),
        ("{ cuda = \"2.11\", rocm = \"2.12\" }", true),
        // kernel-builder refuses it; `kernels check` reports it.
        ("true", true),
        ("\"new\"", false),
        ("{ cuda = true }", false),
        ("{ card = \"2.11\" }", false),
    ] {
        let folder = Folder::new();
        let to = format!("src = []\nstable-abi = {value}\n");
        folder.spoil("build.toml", "src = []\n", &to);
        let read = Project::open(folder.path());
        assert_eq!(read.is_ok(), sound, "{value}");
    }
}

#[test]
fn the_documented_project_is_right_as_it_stands() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/kernel-toml.md")).unwrap();
    let folder = Folder::new();
    fs::remove_file(folder.path().join("scale.cu")).unwrap();
    for file in ["build.toml", "scale.cu", "reference.py", "kernel.toml"] {
        let heading = format!("\n`{file}`:\n\n```");
        let (_, block) = page.split_once(&heading).unwrap_or_else(|| panic!("the page lacks {file}"));
        let (_, block) = block.split_once('\n').unwrap();
        folder.write(file, block.split_once("\n```").unwrap().0);
    }
    let project = folder.open();
    let operation = &project.spec.operations[0];
    assert_eq!(operation.cases(&operation.verify, 0).unwrap().len(), 12 + 2 + 16);
    let source = fs::read_to_string(folder.path().join("scale.cu")).unwrap();
    assert!(source.contains(&format!("extern \"C\" int {}(", operation.launcher)));
}

#[test]
fn cases_are_a_product_with_readable_labels() {
    let project = Folder::new().open();
    let operation = &project.spec.operations[0];
    let cases = operation.cases(&operation.verify, 7).unwrap();
    let labels: Vec<&str> = cases.iter().map(|case| case.label.as_str()).collect();
    assert_eq!(
        labels[..5],
        [
            "sizes: rows=1 width=8 bias=0 bf16",
            "sizes: rows=1 width=8 bias=0 f32",
            "sizes: rows=1 width=8 bias=1 bf16",
            "sizes: rows=1 width=8 bias=1 f32",
            "sizes: rows=1 width=64 bias=0 bf16",
        ]
    );
    assert_eq!(
        labels[16..18],
        ["strided: rows=5 width=64 x_stride=72 x+1 bf16", "strided: rows=5 width=64 x_stride=72 x+1 wide bf16",]
    );
    assert_eq!(cases.len(), 16 + 2 + 16);
    assert_eq!(cases[17].inputs, Inputs::Wide);
    assert_eq!(cases[17].offsets["x"], 1);
    assert_eq!(cases[0].values["x_stride"], 8.0);
    assert_eq!(cases[0].values["factor"], 1e-6);
}

#[test]
fn the_same_seed_draws_the_same_cases_and_another_others() {
    let project = Folder::new().open();
    let operation = &project.spec.operations[0];
    let labels = |seed| -> Vec<String> {
        operation.cases(&operation.verify, seed).unwrap().into_iter().skip(18).map(|case| case.label).collect()
    };
    assert_eq!(labels(3), labels(3));
    assert_ne!(labels(3), labels(4));
    let mut distinct = labels(3);
    distinct.sort();
    distinct.dedup();
    assert!(distinct.len() > 12, "{distinct:?}");
}

#[test]
fn a_case_becomes_tensors_and_arguments() {
    let project = Folder::new().open();
    let operation = &project.spec.operations[0];
    let case = operation.case_of_shape("rows=3, width=64, x_stride=width + min(8, rows)", DType::BF16).unwrap();
    assert_eq!(case.label, "rows=3 width=64 x_stride=67 bf16");
    let bound = operation.bind(&case).unwrap();
    assert_eq!(bound.tensors.len(), 2);
    assert_eq!(bound.tensors[0].shape, [3, 64]);
    assert_eq!(bound.tensors[0].strides, [64, 1]);
    assert_eq!(bound.tensors[1].strides, [67, 1]);
    assert_eq!(bound.tensors[1].span(), 2 * 67 + 64);
    let factor = 1e-6_f32;
    assert_eq!(
        bound.arguments,
        [
            BoundArgument::Tensor(0),
            BoundArgument::Tensor(1),
            BoundArgument::Null,
            BoundArgument::I64(3),
            BoundArgument::I32(64),
            BoundArgument::F32(factor),
            BoundArgument::I32(1),
            BoundArgument::I32(2),
            BoundArgument::Stream,
        ]
    );
    assert_eq!(bound.bytes, 2 * 3 * 64 * 2);
    assert_eq!(bound.flops, 192.0);
    assert_eq!(bound.values["factor"], f64::from(factor));
    assert_eq!(bound.values["blocks"], 1.0);

    let case = operation.case_of_shape("rows=0,width=64,bias=1", DType::F32).unwrap();
    let bound = operation.bind(&case).unwrap();
    assert_eq!(bound.tensors[2].dtype, DType::F32);
    assert_eq!(bound.tensors[0].elements(), 0);
    assert_eq!(bound.tensors[0].strides, [64, 1]);
}

#[test]
fn scratch_is_a_tensor_of_a_size_of_its_own_and_no_output() {
    let folder = Folder::new();
    let scratch = "  { tensor = \"sums\", role = \"scratch\", dtype = \"f32\", shape = [\"blocks\", \"width\"], present = \"rows\" },\n";
    folder.spoil("kernel.toml", "  { scalar = \"rows\"", &format!("{scratch}  {{ scalar = \"rows\""));
    let project = folder.open();
    let operation = &project.spec.operations[0];
    let bound = |shape: &str| {
        let case = operation.case_of_shape(shape, DType::BF16).unwrap();
        operation.bind(&case).unwrap()
    };
    let some = bound("rows=3, width=600");
    let sums = some.tensors.last().unwrap();
    assert_eq!((sums.role, sums.dtype), (Role::Scratch, DType::F32));
    assert_eq!(sums.shape[1], 600);
    assert!(sums.role.is_written() && !sums.role.is_given() && !sums.role.is_result());
    assert_eq!(some.bytes, 2 * 3 * 600 * 2, "scratch is not in bytes");
    assert_eq!(bound("rows=0, width=600").tensors.len(), 2);
    // It is not an output, but its elements must not overlap.
    folder.spoil("kernel.toml", "role = \"output\"", "role = \"scratch\"");
    assert!(folder.refused().contains("no output"));
    folder.spoil("kernel.toml", "role = \"scratch\"", "role = \"output\"");
    folder.spoil("kernel.toml", "shape = [\"blocks\", \"width\"]", "shape = [\"rows\", \"width\"], strides = [1, 1]");
    let message = folder.refused();
    assert!(message.contains("its elements overlap"), "{message}");
}

#[test]
fn sizes_that_cannot_be_are_refused_when_a_case_is_bound() {
    let project = Folder::new().open();
    let operation = &project.spec.operations[0];
    for (shape, says) in [
        ("rows=-1,width=8", "a size is not negative"),
        ("rows=1.5,width=8", "not an integer"),
        ("rows=2097152,width=2097152", "more than 2^40"),
        ("rows=4503599627370496,width=64", "2^40"),
        ("rows=1,width=3000000000", "an int32_t does not hold"),
        ("rows=1,width=8,factor=1e300", "a float does not hold"),
        ("rows=1e20,width=8", "more than 2^53"),
    ] {
        let case = operation.case_of_shape(shape, DType::F32).unwrap();
        let error = format!("{:#}", operation.bind(&case).unwrap_err());
        assert!(error.contains(says), "{shape}: {error}");
        assert!(error.contains(&case.label), "{shape}: {error}");
    }
}

#[test]
fn a_case_to_be_refused_can_be_bound_with_its_bad_scalars() {
    let project = Folder::new().open();
    let operation = &project.spec.operations[0];
    let cases = operation.cases(&operation.reject, 0).unwrap();
    assert!(cases.iter().all(|case| case.refused));
    let bound = operation.bind(&cases[0]).unwrap();
    assert_eq!(bound.arguments[3], BoundArgument::I64(-1));
    assert_eq!(bound.tensors[0].shape, [1, 64]);
}

#[test]
fn numbers_beyond_their_type_are_the_nearest_in_a_case_to_be_refused() {
    for (name, value, at, held) in [
        ("width", "3000000000", 4, BoundArgument::I32(i32::MAX)),
        ("width", "-3000000000", 4, BoundArgument::I32(i32::MIN)),
        ("width", "inf", 4, BoundArgument::I32(i32::MAX)),
        ("width", "-inf", 4, BoundArgument::I32(i32::MIN)),
        ("rows", "1e30", 3, BoundArgument::I64(i64::MAX)),
        ("rows", "-inf", 3, BoundArgument::I64(i64::MIN)),
    ] {
        let folder = Folder::new();
        // Without the number that is computed of both.
        folder.spoil("kernel.toml", "ceil_div(rows * width, 256)", "1");
        let other = if name == "width" { "rows = 1" } else { "width = 64" };
        let row = format!("[[operation.reject]]\n{other}\nx_stride = 64\n{name} = {value}\n");
        folder.spoil("kernel.toml", "[[operation.reject]]\nrows = -1\nwidth = 64\n", &row);
        let project = folder.open();
        let operation = &project.spec.operations[0];
        let case = &operation.cases(&operation.reject, 0).unwrap()[0];
        assert_eq!(operation.bind(case).unwrap().arguments[at], held, "{name} = {value}");
    }
}

#[test]
fn a_range_with_swapped_ends_is_refused() {
    let drawn = |range: &str| {
        let folder = Folder::new();
        let to = format!("strides = [\"x_stride\", 1], range = {range} }}");
        folder.spoil("kernel.toml", "strides = [\"x_stride\", 1] }", &to);
        folder
    };
    let message = drawn("[\"8\", \"-8\"]").refused();
    assert!(message.contains("the smallest value first") && message.contains("[\"-8\", \"8\"]"), "{message}");
    for range in ["[\"-8\", \"8\"]", "[\"0\", \"-1\"]", "[\"0\", \"width - 100\"]"] {
        drawn(range).open();
    }
}

#[test]
fn an_output_written_twice_is_refused() {
    let folder = Folder::new();
    folder.spoil(
        "kernel.toml",
        r#"role = "output", shape = ["rows", "width"]"#,
        r#"role = "output", shape = ["rows", "width"], strides = ["width - 1", 1]"#,
    );
    let message = folder.refused();
    assert!(message.contains("its elements overlap"), "{message}");
    assert!(message.contains("tensor `out`"), "{message}");
}

#[test]
fn a_shape_on_the_command_line_is_answered_with_the_names() {
    let project = Folder::new().open();
    let operation = &project.spec.operations[0];
    for (shape, says) in [
        ("rows=3,widht=8", "no `widht`; names: rows, width"),
        ("rows=3", "`width` has no value"),
        ("rows", "expected NAME=VALUE"),
        ("rows=3,rows=4,width=1", "given twice"),
        ("rows=3,width=4 4", "expected an operator"),
        ("rows=width,width=rows", "computed of itself"),
        ("blocks=3,rows=1,width=1", "no `blocks`"),
        ("", "expected NAME=VALUE"),
    ] {
        let error = operation.case_of_shape(shape, DType::F32).unwrap_err();
        assert!(error.to_string().contains(says), "{shape}: {error}");
    }
    let error = operation.case_of_shape("rows=1,width=1", DType::F16).unwrap_err();
    assert!(error.to_string().contains("only for bf16, f32"), "{error}");
}

#[test]
fn the_digest_is_of_what_is_said_and_not_of_how() {
    let folder = Folder::new();
    let digest = folder.open().spec_digest;
    folder.spoil("kernel.toml", "format = 1\n", "# a comment\nformat   =  1\n\n");
    folder.spoil("kernel.toml", "2 * rows * width * size(T)", "2*rows*width*size(T)");
    folder.spoil("kernel.toml", "rows = 8192\nwidth = 4096", "width = 4_096\nrows = \"2 * width\"\nx_stride = 4096");
    let apart = "\"rows apart\"\nrows = 3\nwidth = [64, 8]\nbias = [1, 0]\n\n[[operation.verify]]\nname = \"first\"";
    folder.spoil("kernel.toml", "\"sizes\"\nrows = [1, 3]", &format!("{apart}\nrows = [1, 1]"));
    assert_eq!(folder.open().spec_digest, digest);
    for (was, is) in [
        ("width = 4_096", "width = 4_097"),
        ("[[operation.bench]]", "[[operation.bench]]\nname = \"as the record calls it\""),
        ("\"0..300\"", "\"0..301\""),
        ("width = [64, 8]", "width = 64"),
        ("{ x = 1 }", "{ x = 2 }"),
        ("flops = \"rows", "flops = \"2 * rows"),
    ] {
        let digest = folder.open().spec_digest;
        folder.spoil("kernel.toml", was, is);
        assert_ne!(folder.open().spec_digest, digest, "{is}");
    }
}

#[test]
fn a_folder_without_its_files_says_what_to_write() {
    let folder = Folder::new();
    fs::remove_file(folder.path().join("kernel.toml")).unwrap();
    let message = folder.refused();
    assert!(message.contains("has no kernel.toml"), "{message}");
    assert!(message.contains("docs/kernel-toml.md"), "{message}");
    fs::remove_file(folder.path().join("build.toml")).unwrap();
    assert!(folder.refused().contains("has no build.toml"));
    let message = format!("{:#}", Project::open(&folder.path().join("no")).unwrap_err());
    assert!(message.contains("there is no project at"), "{message}");
}

#[test]
fn several_mistakes_are_told_at_once_in_both_files() {
    let folder = Folder::new();
    folder.spoil("kernel.toml", "dtypes = [\"bf16\", \"f32\"]", "dtypes = [\"bf61\", \"f32\"]");
    folder.spoil("kernel.toml", "spill_bytes = 0", "spill_bytes = \"none\"");
    folder.spoil("build.toml", "edition = 5", "edition = 6");
    let message = folder.refused();
    for says in ["`bf61`", "expected an integer, found a string", "edition 6 is not known"] {
        assert!(message.contains(says), "no {says} in:\n{message}");
    }
}

/// What is written in place of what, what the message marks, and what it says.
const MISTAKES: &[(&str, &str, &str, &[&str])] = &[
    ("format = 1", "format = 2", "2", &["format 2 is not known", "reads format = 1"]),
    ("launcher =", "luncher =", "luncher", &["unknown field `luncher`", "allowed: name, launcher"]),
    ("launcher = \"scale_launch\"", "launcher = 3", "3", &["expected a string, found an integer"]),
    ("launcher = \"scale_launch\"", "launcher = \"scale launch\"", "\"scale launch\"", &["not a C symbol"]),
    ("flops = \"rows * width\"", "flops = \"rows * * width\"", "*", &["expected a number, a name"]),
    (
        "flops = \"rows * width\"",
        "flops = \"rows * widht\"",
        "widht",
        &["unknown name `widht`", "names with a value: rows, width"],
    ),
    ("flops = \"rows * width\"", "flops = \"rows ^ 2\"", "^", &["no such operator"]),
    ("flops = \"rows * width\"", "flops = \"log(rows)\"", "log", &["unknown function `log`", "ceil_div"]),
    ("flops = \"rows * width\"", "flops = true", "true", &["expected a number or a formula", "write 1 for true"]),
    ("reference.py\"", "missing.py\"", "\"missing.py\"", &["cannot be found"]),
    ("reference.py\"", "../reference.py\"", "\"../reference.py\"", &["leaves the project's folder"]),
    ("reference.py\"", "/etc/hostname\"", "\"/etc/hostname\"", &["leaves the project's folder"]),
    ("  { stream = true },\n", "", "[", &["no stream argument", "add { stream = true }"]),
    (
        "  { stream = true },\n",
        "  { stream = true },\n  { stream = true },\n",
        "{ stream = true }",
        &["a second argument `stream`", "the first is at line 19"],
    ),
    (
        "tensor = \"x\"",
        "tensor = \"out\"",
        "{ tensor = \"out\", role = \"input\", shape = [\"rows\", \"width\"], strides = [\"x_stride\", 1] }",
        &["a second argument `out`", "the first is at line 11"],
    ),
    (
        "role = \"output\"",
        "role = \"result\"",
        "\"result\"",
        &["unknown role `result`", "input, output, inout, scratch"],
    ),
    ("role = \"output\"", "role = \"input\"", "[", &["no output"]),
    ("strides = [\"x_stride\", 1]", "strides = [\"x_stride\"]", "[\"x_stride\"]", &["1 strides for 2 dimensions"]),
    (
        "shape = [\"rows\", \"width\"] }",
        "shape = [\"rows\", \"width\"], range = [\"0\", \"rows - 1\"] }",
        "[\"0\", \"rows - 1\"]",
        &["`range` is for a tensor that is drawn", "role = \"input\""],
    ),
    (
        "strides = [\"x_stride\", 1]",
        "dtype = \"i64\", range = [\"0\"]",
        "[\"0\"]",
        &["a range is two formulas", "classes - 1"],
    ),
    ("strides = [\"x_stride\", 1]", "dtype = \"i64\", also = [\"-1\"]", "[\"-1\"]", &["`also` without `range`"]),
    ("type = \"i32\" }", "type = \"u32\" }", "\"u32\"", &["unknown type `u32`", "i64 (int64_t)"]),
    ("f32 = 0, bf16 = 2", "f32 = 0", "{ f32 = 0 }", &["no code for bf16"]),
    ("f32 = 0, bf16 = 2", "f32 = 0, bf16 = 0", "0", &["code 0 twice"]),
    ("  { dtype = { f32 = 0, bf16 = 2 } },\n", "", "[", &["cannot tell which of its dtypes"]),
    ("{ stream = true }", "{ streem = true }", "{ streem = true }", &["one of tensor, scalar, dtype, stream"]),
    ("rows = 8192", "rowz = 8192", "rowz", &["unknown name `rowz`", "names of the operation: rows, width"]),
    ("rows = 8192\n", "", "[[operation.bench]]", &["gives no value to rows", "[operation.defaults]"]),
    ("rows = 8192", "rows = []", "[]", &["an empty list gives no case"]),
    ("rows = 8192", "rows = [1, \"two\"]", "\"two\"", &["expected a number, found a string"]),
    ("rows = 8192", "blocks = 1\nrows = 8192", "blocks", &["has a `value` of its own"]),
    ("rows = 8192", "rows = \"1..9\"", "\"1..9\"", &["a range is drawn from", "add `draw = 16`"]),
    ("rows = \"0..300\"", "rows = \"300..0\"", "\"300..0\"", &["is not a range", "\"1..300\""]),
    ("rows = \"0..300\"", "rows = \"-1..300\"", "[[operation.verify]]", &["a size is not negative", "rows=-1"]),
    ("x_stride = \"width + 8\"", "x_stride = \"widht + 8\"", "widht", &["unknown name `widht`"]),
    (
        "inputs = [\"normal\", \"wide\"]",
        "inputs = \"huge\"",
        "\"huge\"",
        &["unknown inputs `huge`", "normal, wide, tiny, sparse, constant, spike"],
    ),
    ("offsets = { x = 1 }", "offsets = { y = 1 }", "y", &["no tensor `y`", "tensors: out, x, bias"]),
    ("dtype = \"bf16\"", "dtype = \"f16\"", "\"f16\"", &["not among the operation's dtypes", "allowed: bf16, f32"]),
    ("draw = 8", "draw = 0", "0", &["an integer from 1 to 10000"]),
    ("draw = 8", "draw = 10000", "[[operation.verify]]", &["more than 20000 cases"]),
    ("x_stride = \"width\"", "x_stride = \"x_stride + 1\"", "[[operation.verify]]", &["computed of itself"]),
    ("bias = 0", "draw = 0", "draw", &["cannot be a name of the operation"]),
    ("kernel = \"*\"", "kernels = \"*\"", "kernels", &["unknown field `kernels` in [[budget]]"]),
    ("[[budget]]", "[[budgets]]", "budgets", &["unknown field `budgets`", "allowed: format, operation, cases, budget"]),
    (
        "[[budget]]",
        "[operation.tolerance]\nulp = 3\n\n[[budget]]",
        "ulp",
        &["unknown field `ulp`", "ulps, relative_norm, absolute"],
    ),
    ("format = 1", "format = ", "\n", &["no TOML"]),
];

#[test]
fn mistakes_in_kernel_toml_are_shown_at_their_line() {
    let kernel = "kernel.toml";
    for (from, to, marked, says) in MISTAKES {
        if *marked == "\n" {
            let folder = Folder::new();
            folder.spoil(kernel, from, to);
            let message = folder.refused();
            assert!(message.contains("kernel.toml:1:") && message.contains('^'), "{message}");
            assert!(message.contains(says[0]), "{message}");
        } else {
            expect(kernel, from, to, marked.trim(), says);
        }
    }
}

/// Appended to `KERNEL`: an in-place operation with tables of another type, and cases that both operations share.
const MORE: &str = r#"
[[operation]]
name = "scale_in_place"
like = "scale"
launcher = "scale_in_place_launch"
error = "scale_error"
in_place = { x = "out" }

[[operation]]
name = "table"
launcher = "table_launch"
error = "scale_error"
oracle = "rope"
dtypes = ["bf16", "f32"]
types = { W = ["T", "f32"] }
flops = 0
arguments = [
  { tensor = "out", role = "output", shape = ["rows", "width"], strides = ["out_stride", 1] },
  { tensor = "table", role = "input", dtype = "W", shape = ["rows", "width"], strides = ["table_stride", 1] },
  { scalars = ["rows", "width", "out_stride", "table_stride"], type = "i64" },
  { scalar = "is_f32", type = "i32", value = "size(W) > size(T)" },
  { dtype = { f32 = 0, bf16 = 2 } }, { stream = true },
]

[[cases]]
operations = ["table"]
at = { rows = 5, width = [64, 130] }
verify = [ { name = "shared", rows = [1, 2], width = 130 } ]
standard = { sizes = { rows = [1, 3], width = { around = [64] } }, drawn = { width = "1..100" }, refuses = { negative = 10001, dtype = 10002, null = 10003, stride = 10004, misaligned = 10005, large = 10006 } }
reject = [
  { name = "no rows", rows = 0, pointers = { }, code = 0 },
  { name = "not finite", width = 64, pointers = { table = "+2" }, dtype_code = 7, code = 10002, says = "dtype" },
]

[[cases]]
operations = ["scale_in_place", "table"]
verify = [ { name = "both", rows = 3, width = 8 } ]

[[operation]]
name = "twice"
like = "table"
without = ["is_f32"]
oracle = "rope"
flops = 1
arguments = [
  "out", { tensor = "again", role = "inout", dtype = "f32", shape = ["rows"], present = "again" },
  "table..out_stride", { scalar = "eps", type = "f32" }, "table_stride..stream",
]
defaults = [{ again = 1 }, { eps = "half / 2", half = 3 }]
verify = [
  { name = "{rows} rows of {W}", width = 8, dtype = "f32", each = [
    { rows = [1, 2] },
    { rows = 3, each = [{ W = "f32" }, { eps = 2, name = "eps" }] },
  ] },
]
"#;

fn project_with_more() -> Folder {
    let folder = Folder::new();
    folder.write("kernel.toml", &format!("{KERNEL}{MORE}"));
    folder
}

#[test]
fn an_operation_in_place_takes_the_rest_from_the_one_that_it_is_like() {
    let project = project_with_more().open();
    let [scale, in_place, ..] = &project.spec.operations[..] else {
        panic!("two operations");
    };
    assert_eq!(in_place.dtypes, scale.dtypes);
    assert_eq!(in_place.arguments.len(), scale.arguments.len() - 1);
    assert!(matches!(
        &in_place.arguments[0],
        Argument::Tensor { name, role: Role::InOut, .. } if name == "x"
    ));
    // Cases are not inherited.
    let cases = in_place.cases(&in_place.verify, 0).unwrap();
    assert_eq!(cases.len(), 2);
    assert_eq!(cases[0].label, "both: rows=3 width=8 bf16");
}

#[test]
fn a_type_parameter_is_a_name_whose_values_are_types() {
    let project = project_with_more().open();
    let operation = &project.spec.operations[2];
    let bound = |shape: &str, dtype| {
        let case = operation.case_of_shape(shape, dtype).unwrap();
        (case.label.clone(), operation.bind(&case).unwrap())
    };
    let (label, same) = bound("rows=2,width=4", DType::BF16);
    assert_eq!(label, "rows=2 width=4 bf16");
    assert_eq!(same.tensors[1].dtype, DType::BF16);
    assert_eq!((same.bytes, same.values["is_f32"]), (32, 0.0));
    let (label, wide) = bound("rows=2,width=4,W=f32", DType::BF16);
    assert_eq!(label, "rows=2 width=4 W=f32 bf16");
    assert_eq!(wide.tensors[1].dtype, DType::F32);
    assert_eq!((wide.bytes, wide.values["is_f32"]), (48, 1.0));
    // A stride without a default makes the tensor contiguous.
    assert_eq!(wide.values["table_stride"], 4.0);
    let error = operation.case_of_shape("rows=2,width=4,W=f16", DType::BF16);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("`f16` is not among its types; allowed: T, f32"), "{error}");
}

#[test]
fn standard_cases_follow_from_the_arguments() {
    let project = project_with_more().open();
    let operation = &project.spec.operations[2];
    let labels = |sets| -> Vec<String> {
        let cases = operation.cases(sets, 0).unwrap();
        cases.into_iter().map(|case| case.label).collect()
    };
    let verify = labels(&operation.verify);
    for label in [
        "sizes: rows=1 width=1 bf16",
        "sizes: rows=3 width=65 f32",
        "sizes: rows=3 width=72 f32",
        "no elements: rows=0 width=64 bf16",
        "no elements: rows=0 width=0 bf16",
        "gaps between rows: rows=5 width=130 out_stride=138 table_stride=146 f32",
        "rows at every alignment: rows=5 width=64 out_stride=66 table_stride=67 bf16",
        "rows two elements off: rows=5 width=64 out_stride=66 table_stride=70 bf16",
        "table_stride unaligned: rows=5 width=64 table_stride=65 bf16",
        "out unaligned: rows=5 width=64 out+1 bf16",
        "all two elements off: rows=5 width=64 out+2 table+2 bf16",
        "inputs: rows=5 width=130 spike f32",
        "shared: rows=2 width=130 f32",
    ] {
        assert!(verify.iter().any(|one| one == label), "no `{label}` in {verify:#?}");
    }
    let drawn = verify.iter().filter(|label| label.starts_with("drawn afresh"));
    assert_eq!(drawn.count(), 2 * 12 * 2);
    let refused = operation.cases(&operation.reject, 0).unwrap();
    let of = |label: &str| {
        let found = refused.iter().find(|case| case.label == label);
        &found.unwrap_or_else(|| panic!("no `{label}` in {:#?}", labels(&operation.reject))).refusal
    };
    assert_eq!(of("negative rows: rows=-1 width=64 bf16").code, Some(10001));
    assert_eq!(of("dtype -1: rows=5 width=64 bf16").dtype_code, Some(-1));
    let null = of("null table: rows=5 width=64 bf16");
    assert_eq!((null.code, null.says.as_deref()), (Some(10003), Some("null")));
    assert_eq!(of("stride out_stride, too short: rows=5 width=64 out_stride=63 f32").code, Some(10004));
    assert_eq!(of("misaligned out: rows=5 width=64 f32").says.as_deref(), Some("multiple"));
    assert_eq!(of("nothing to do, rows: rows=0 width=64 f32").pointers.len(), 2);
    // A pointer override is passed as written.
    let case = refused.iter().find(|case| case.label.starts_with("not finite")).unwrap();
    let bound = operation.bind(case).unwrap();
    assert_eq!(bound.arguments[1], BoundArgument::Beyond(1, 2));
    assert_eq!(bound.arguments[7], BoundArgument::I32(7));
}

#[test]
fn an_operation_says_only_how_it_differs() {
    let project = project_with_more().open();
    let [.., table, twice] = &project.spec.operations[..] else {
        panic!("several operations");
    };
    assert_eq!(twice.launcher, "twice_launch");
    assert_eq!(twice.dtypes, table.dtypes);
    let names: Vec<&str> = twice.arguments.iter().map(Argument::name).collect();
    let wanted = ["out", "again", "table", "rows", "width", "out_stride", "eps", "table_stride", "dtype", "stream"];
    assert_eq!(names, wanted);
    assert_eq!(twice.names(), ["rows", "width", "out_stride", "again", "W", "table_stride", "eps", "half"]);
    let cases = twice.cases(&twice.verify, 0).unwrap();
    let labels: Vec<&str> = cases.iter().map(|case| case.label.as_str()).collect();
    let wanted = [
        "1 rows of T: rows=1 width=8 f32",
        "2 rows of T: rows=2 width=8 f32",
        "3 rows of f32: rows=3 width=8 W=f32 f32",
        "eps: rows=3 width=8 eps=2 f32",
    ];
    assert_eq!(labels, wanted);
    assert_eq!(cases[0].values["eps"].to_bits(), 1.5_f64.to_bits());
    // out and the table of T, and `again` read and written, where it is there.
    let bytes = |shape: &str| twice.bind(&twice.case_of_shape(shape, DType::BF16).unwrap()).unwrap().bytes;
    assert_eq!(bytes("rows=3,width=8"), 2 * 24 * 2 + 2 * 3 * 4);
    assert_eq!(bytes("rows=3,width=8,again=0,W=f32"), 24 * 2 + 24 * 4);
}

#[test]
fn without_dtypes_those_that_have_a_code_are_meant() {
    let folder = Folder::new();
    folder.spoil("kernel.toml", "dtypes = [\"bf16\", \"f32\"]\n", "");
    assert_eq!(folder.open().spec.operations[0].dtypes, [DType::BF16, DType::F32]);
    folder.spoil(
        "kernel.toml",
        "{ dtype = { f32 = 0, bf16 = 2 } }",
        "{ scalar = \"code\", type = \"i32\", value = 0 }",
    );
    let message = folder.refused();
    assert!(message.contains("[[operation]] lacks `dtypes`"), "{message}");
}

#[test]
fn mistakes_in_what_operations_share_are_shown_at_their_line() {
    for (from, to, says) in [
        ("without = [\"is_f32\"]", "without = [\"eps\"]", "`table` has no `eps`"),
        ("\"table..out_stride\"", "\"tables..out_stride\"", "`table` has no argument `tables`"),
        ("\"table..out_stride\"", "\"width..rows\"", "`rows` stands before `width`"),
        ("\"table..out_stride\"", "\"out..out_stride\"", "a second argument `out`"),
        ("  { scalar = \"factor\", type = \"f32\" }", "  \"factor\"", "only an operation with `like` names arguments"),
        ("{rows} rows", "{row} rows", "unknown name `row`"),
        ("each = [{ W = \"f32\" }, { eps = 2, name = \"eps\" }]", "each = []", "an empty list gives no case"),
        ("{ rows = [1, 2] }", "3", "expected a table, { rows = 1 }, found an integer"),
        ("{ rows = [1, 2] }", "{ rowz = [1, 2] }", "unknown name `rowz`"),
        ("like = \"scale\"", "like = \"scales\"", "no operation `scales` before this one"),
        ("{ x = \"out\" }", "{ y = \"out\" }", "no input `y`"),
        ("{ x = \"out\" }", "{ x = \"x\" }", "no output `x`"),
        ("{ W = [", "{ w = [", "`w` is not a valid name of a type parameter"),
        ("dtype = \"W\"", "dtype = \"V\"", "unknown dtype `V`"),
        ("size(W) >", "size(V) >", "unknown name `V`"),
        ("operations = [\"table\"]", "operations = [\"tables\"]", "no operation `tables`"),
        ("at = { rows", "at = { rowz", "unknown name `rowz` in `cases.at`"),
        ("around = [64]", "round = [64]", "lacks `around`"),
        ("negative = 10001", "positive = 10001", "unknown kind of what is wrong, `positive`"),
        ("table = \"+2\"", "table = 2", "a pointer is 0"),
        ("table = \"+2\"", "tablet = \"+2\"", "no tensor `tablet`"),
        ("says = \"dtype\"", "say = \"dtype\"", "unknown name `say`"),
        ("standard = { sizes", "standard = { size", "unknown field `size` in `standard`"),
    ] {
        let folder = project_with_more();
        folder.spoil("kernel.toml", from, to);
        let message = folder.refused();
        assert!(message.contains(says), "no `{says}` in:\n{message}");
    }
}

const TUNING: &str = r#"
[[tuning]]
file = "scale.cu"
table = "kTuning"
operations = "scale"
row = ["arch", "packs", ["threads", "held"]]
optional = { held = 1 }
keys = { arch = "<= arch", packs = ">= ceil_div(width, 8)" }
constants = { kNewest = 999 }
vary = [{ macro = "LAYOUTS", names = ["threads", "first"], held = [1, 2], where = "(first <= arch) * (threads >= packs)" }]
"#;

#[test]
fn mistakes_in_tuning_are_shown_at_their_line_and_what_is_right_changes_no_digest() {
    let folder = Folder::new();
    let digest = folder.open().spec_digest;
    folder.write("kernel.toml", &format!("{KERNEL}{TUNING}"));
    assert_eq!(folder.open().spec_digest, digest);
    for (from, to, says) in [
        ("\"scale.cu\"\ntable", "\"tuning.h\"\ntable", "`tuning.h` cannot be found"),
        ("\"scale.cu\"\ntable", "\"../scale.cu\"\ntable", "leaves the project's folder"),
        ("\"kTuning\"", "\"k Tuning\"", "`k Tuning` is not the name of an array"),
        ("operations = \"scale\"\nrow", "operations = [\"scales\"]\nrow", "no operation `scales`"),
        ("\"held\"]]", "\"arch\"]]", "`row` has two fields `arch`"),
        ("\"held\"]]", "\"where\"]]", "`where` cannot be the name of a field"),
        ("{ held = 1 }", "{ hold = 1 }", "`hold` is no field of `row`"),
        ("\"<= arch\"", "\"arch\"", "`arch` does not begin with <=, >= or =="),
        ("\"<= arch\"", "\"<= archs\"", "unknown name `archs`"),
        ("\"<= arch\"", "\"<= (arch\"", "expected `)`"),
        ("ceil_div(width, 8)", "widths", "unknown name `widths`"),
        ("keys = { arch", "keys = { archs", "`archs` is no field of `row`"),
        ("held = [1, 2]", "hold = [1, 2]", "`hold` is no field of `row`"),
        ("held = [1, 2]", "held = [\"1\"]", "expected a number, found a string"),
        ("first <= arch", "second <= arch", "`where` uses `second`"),
        ("names = [\"threads\", \"first\"], ", "", "lacks `names`"),
        ("vary = [{", "when = \"tall\"\nvary = [{", "unknown name `tall`"),
        ("constants =", "constant =", "unknown field `constant` in [[tuning]]"),
    ] {
        folder.write("kernel.toml", &format!("{KERNEL}{TUNING}"));
        folder.spoil("kernel.toml", from, to);
        let message = folder.refused();
        assert!(message.contains(says) && message.contains(" | "), "no `{says}` in:\n{message}");
    }
}

#[test]
fn a_second_operation_of_a_name_is_shown() {
    let folder = Folder::new();
    let operation = KERNEL.split_once("[[operation]]").unwrap().1;
    let operation = operation.split_once("[[budget]]").unwrap().0;
    folder.write("kernel.toml", &format!("{KERNEL}\n[[operation]]{operation}"));
    let message = folder.refused();
    assert!(message.contains("a second operation `scale`"), "{message}");
    assert!(message.contains("the first is at line 4"), "{message}");
}

#[test]
fn a_tolerance_for_a_bundled_oracle_is_refused() {
    let folder = Folder::new();
    folder.spoil(
        "kernel.toml",
        "oracle = { python = \"reference.py\", function = \"scale\" }",
        "oracle = \"rms_norm\"",
    );
    folder.spoil("kernel.toml", "[[budget]]", "[operation.tolerance]\nulps = 3\n\n[[budget]]");
    assert!(folder.refused().contains("is for oracles in Python"));
}

#[test]
fn mistakes_in_build_toml_are_shown_at_their_line() {
    let build = "build.toml";
    let cases: &[(&str, &str, &str, &[&str])] = &[
        ("name = \"scale\"", "name = \"Scale\"", "\"Scale\"", &["not a valid kernel name", "small letters"]),
        ("edition = 5", "edition = 4", "4", &["edition 4 is not known", "edition = 5"]),
        ("license", "licence", "licence", &["unknown field `licence` in [general]", "license"]),
        ("backends = [\"cuda\"]", "backends = [\"cuda\", \"gpu\"]", "\"gpu\"", &["unknown backend `gpu`", "cpu, cuda"]),
        ("depends = []\n", "", "[kernel.scale]", &["lacks `depends`", "depends = []"]),
        ("scale.cu", "scales.cu", "\"scales.cu\"", &["cannot be found", "scales.cu"]),
        ("scale.cu", "../scale.cu", "\"../scale.cu\"", &["leaves the project's folder"]),
        (
            "src = [\"scale.cu\"]",
            "src = [\"scale.cu\", \"reference.py\"]",
            "\"reference.py\"",
            &["neither a .cu file nor a header"],
        ),
        ("src = [\"scale.cu\"]", "src = []", "kernel", &["nothing to compile"]),
        ("depends = []", "depends = []\ncuda-capabilities = [\"banana\"]", "\"banana\"", &["not a compute capability"]),
        ("depends = []", "depends = []\ncuda-flag = []", "cuda-flag", &["unknown field `cuda-flag`", "cuda-flags"]),
        ("[torch]\nsrc = []", "[torch]\nsrc = [\"binding.cpp\"]", "\"binding.cpp\"", &["cannot be found"]),
        ("[torch]", "[torhc]", "torhc", &["unknown field `torhc`"]),
    ];
    for (from, to, marked, says) in cases {
        expect(build, from, to, marked, says);
    }
}

#[test]
fn a_source_that_is_a_link_out_of_the_project_is_refused() {
    let folder = Folder::new();
    let outside = TempDir::new().unwrap();
    fs::write(outside.path().join("a.cu"), "").unwrap();
    fs::remove_file(folder.path().join("scale.cu")).unwrap();
    symlink(outside.path().join("a.cu"), folder.path().join("scale.cu")).unwrap();
    let message = folder.refused();
    assert!(message.contains("a link out of the project's folder"), "{message}");
}

#[test]
fn sources_of_several_kernels_come_in_the_files_order_without_headers() {
    let folder = Folder::new();
    folder.write("csrc/a.cu", "");
    folder.write("csrc/vec.cuh", "");
    folder.spoil(
        "build.toml",
        "src = [\"scale.cu\"]",
        "src = [\"scale.cu\", \"csrc/vec.cuh\"]\ninclude = [\"csrc\"]\n\n[kernel.another]\nbackend = \"cuda\"\ndepends = [\"torch\"]\nsrc = [\"./csrc/a.cu\"]\ninclude = [\".\", \"csrc\"]\n",
    );
    folder.spoil("build.toml", "edition = 5\n", "");
    let project = folder.open();
    assert_eq!(project.sources, [Path::new("scale.cu"), Path::new("csrc/a.cu")]);
    assert_eq!(project.includes, [Path::new("csrc"), Path::new(".")]);
    folder.spoil("build.toml", "include = [\".\"", "cuda-flags = [\"-O1\"]\ninclude = [\".\"");
    let message = folder.refused();
    assert!(message.contains("differ from those of the kernel at line"), "{message}");
}

#[test]
fn a_spoiled_file_is_answered_and_never_a_panic() {
    let folder = Folder::new();
    for at in (0..KERNEL.len()).step_by(5) {
        let mut without = KERNEL.to_owned();
        without.remove(at);
        let mut with = KERNEL.to_owned();
        with.insert(at, ['"', '[', '\u{1b}', '9', 'é', '-', '\n'][at % 7]);
        for text in [&KERNEL[..at], &without, &with] {
            folder.write("kernel.toml", text);
            if let Err(error) = Project::open(folder.path()) {
                let message = format!("{error:#}");
                assert!(message.contains("kernel.toml:"), "{message}");
                assert!(message.contains('^'), "{message}");
                assert!(!message.contains('\u{1b}'), "{message:?}");
            }
        }
    }
}

#[test]
fn awkward_files_are_answered() {
    let folder = Folder::new();
    folder.write("kernel.toml", &KERNEL.replace('\n', "\r\n"));
    folder.open();
    let long = format!("x = \"{}\"\n", "y".repeat(100_000));
    folder.write("kernel.toml", &format!("{KERNEL}{long}"));
    let message = folder.refused();
    assert!(message.contains("unknown field `x`"), "{message}");
    assert!(message.len() < 1_000, "{} bytes", message.len());
    folder.write("kernel.toml", &format!("format = 1\na = {}", "[".repeat(100_000)));
    assert!(folder.refused().contains("no TOML"));
    for (number, says) in [
        ("99999999999999999999", "beyond 2^53"),
        ("9007199254740993", "beyond 2^53"),
        ("nan", "finite"),
        ("1979-05-27", "found a date"),
    ] {
        folder.write("kernel.toml", &KERNEL.replace("rows = 8192", &format!("rows = {number}")));
        let message = folder.refused();
        assert!(message.contains(says), "{number}: {message}");
    }
    fs::write(folder.path().join("kernel.toml"), [0xff, 0xfe]).unwrap();
    assert!(folder.refused().contains("cannot read"));
    folder.write("kernel.toml", "");
    let message = folder.refused();
    assert!(message.contains("lacks `format`"), "{message}");
    assert!(message.contains("add, for example: format = 1"), "{message}");
}

/// A T4 has no mma of this size: default builds must skip `sm_75`, and an explicit request must be an error.
#[test]
fn attention_is_for_sm_80_and_later() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels/attention");
    let project = Project::open(&root).unwrap();
    assert_eq!(project.of_archs(&[75, 80, 90]).unwrap(), [80, 90]);
    let why = project.of_archs(&[75]).unwrap_err().to_string();
    assert!(why.contains("not for sm_75") && why.contains("8.0"), "{why}");
}
