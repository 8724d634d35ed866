//! `kernels init`: what it writes, that the examples are it, and what it must survive.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use crate::support::{Ran, Test, exists, generated, names, not_run, program, root, script, snapshot, write};
use kernels::project::Project;
use serde_json::{Value, json};

/// The examples: their folder, the command that generates them, and their files that are not generated.
const EXAMPLES: [(&str, &str, &[&str]); 2] = [
    ("examples/ltx_video", "init ltx-video-kernels --for ltx-video", &["integration", "benchmark_e2e.py"]),
    ("examples/qwen3_8b", "init qwen3-kernels --for qwen3", &["integration", "benchmark_e2e.py"]),
];

/// What the scaffold's files have in the place of names.
const PLACEHOLDERS: [&str; 5] = ["@NAME@", "@PACKAGE@", "@FAMILIES@", "@FUNCTION@", "@NOTES@"];

/// The families: all their operations as `--op` takes them, and the source folders of their kernels.
fn families() -> BTreeMap<String, (Vec<String>, Vec<PathBuf>)> {
    let list = Test::new().json("init --list");
    let families = list["families"].as_array().unwrap().iter();
    families
        .map(|family| {
            let name = family["name"].as_str().unwrap().to_owned();
            let projects: Vec<PathBuf> = family["projects"]
                .as_array()
                .unwrap()
                .iter()
                .map(|project| root().join("kernels").join(project.as_str().unwrap()))
                .collect();
            let own = vec![root().join("scaffold").join(&name).join("kernel")];
            let operations = family["operations"].as_object().unwrap().keys().cloned().collect();
            (name, (operations, if projects.is_empty() { own } else { projects }))
        })
        .collect()
}

/// All findings of `kernels check` in a project, but that nobody said whose it is.
fn findings(test: &Test, dir: &str) -> Vec<String> {
    let report = test.json(&format!("check {dir}"));
    let project = &report["projects"][0];
    assert_eq!(project["allowed"].as_array().map(Vec::len), Some(0), "{report:#}");
    let findings = project["findings"].as_array().unwrap_or_else(|| panic!("{report:#}"));
    let findings = findings.iter().filter(|finding| finding["rule"] != "build-toml/placeholder-owner");
    findings.map(ToString::to_string).collect()
}

/// The files of a folder, except git's.
fn files(folder: &Path) -> BTreeMap<String, String> {
    let mut all = snapshot(folder);
    all.retain(|path, _| path != ".git/" && !path.starts_with(".git/"));
    all
}

fn leftovers(folder: &Path) -> Vec<String> {
    names(folder).into_iter().filter(|name| name.starts_with(".kernels")).collect()
}

#[test]
fn every_family_alone_is_a_clean_project_with_all_its_operations_and_budgets() {
    let test = Test::without_git();
    for (family, (operations, folders)) in families() {
        holds(&test, &format!("some-{family}"), &operations.join(","), &folders);
    }
}

#[test]
fn all_families_together_are_one_clean_project() {
    let test = Test::without_git();
    let families = families();
    let names: Vec<&str> = families.values().flat_map(|(operations, _)| operations).map(String::as_str).collect();
    let folders: Vec<PathBuf> = families.values().flat_map(|(_, folders)| folders).cloned().collect();
    holds(&test, "everything", &names.join(","), &folders);
    // What is equal in several parts is there once, and what differs is each part's own.
    let kernels = test.at("everything/kernel_src");
    let [equal, differing] = ["pack.cuh", "tuning.h"].map(|name| exists(kernels.join(name)));
    assert!(equal && !differing);
    // The order and repetition of names do not matter.
    let reversed: Vec<&str> = names.iter().rev().copied().collect();
    let ops = format!("{},{}", reversed.join(","), names[0]);
    test.ok(&format!("init everything --op {ops} --for qwen3,ltx-video --dest again --no-git"));
    assert_eq!(files(&test.project.join("everything")), files(&test.project.join("again")));
}

/// The project of these families has no findings, and has the operations and budgets of the folders.
fn holds(test: &Test, name: &str, ops: &str, folders: &[PathBuf]) {
    test.ok(&format!("init {name} --op {ops} --no-git"));
    assert_eq!(findings(test, name), Vec::<String>::new(), "{name}");
    let made = Project::open(&test.project.join(name)).unwrap();
    let (mut operations, mut budgets, mut sources) = (Vec::new(), Vec::new(), 0);
    for folder in folders {
        let bundled = Project::open(folder).unwrap();
        let part = if folder.ends_with("kernel") { folder.parent().unwrap() } else { folder };
        let part = part.file_name().unwrap().to_str().unwrap();
        sources += bundled.sources.len();
        for operation in &bundled.spec.operations {
            let text = serde_json::to_string(operation).unwrap();
            operations.push(text.replace("kernel_src/", &format!("kernel_src/{part}/")));
        }
        for budget in &bundled.spec.budgets {
            let mut budget = serde_json::to_value(budget).unwrap();
            if folders.len() > 1 {
                budget["source"] = format!("kernel_src/{part}").into();
            }
            budgets.push(budget);
        }
    }
    let text = |operation| serde_json::to_string(operation).unwrap();
    let there: Vec<String> = made.spec.operations.iter().map(text).collect();
    assert_eq!(there, operations, "{name}");
    let there: Vec<Value> = made.spec.budgets.iter().map(|budget| serde_json::to_value(budget).unwrap()).collect();
    assert_eq!(there, budgets, "{name}");
    assert_eq!(made.sources.len(), sources, "{name}");
    for (path, text) in files(&test.project.join(name)) {
        for left in PLACEHOLDERS {
            assert!(!text.contains(left), "{path} still has {left}");
        }
    }
    // Each source file appears once, in its part's folder or in the shared one; of one part, in its own.
    for folder in folders {
        for entry in fs::read_dir(folder.join("kernel_src")).unwrap() {
            let from = entry.unwrap().path();
            let file = from.file_name().unwrap();
            let part = if folder.ends_with("kernel") { folder.parent().unwrap() } else { folder };
            let base = test.project.join(name).join("kernel_src");
            let places = [base.join(part.file_name().unwrap()).join(file), base.join(file)];
            let there: Vec<&PathBuf> = places.iter().filter(|place| place.exists()).collect();
            assert_eq!(there.len(), 1, "{}: {places:?}", from.display());
            assert!(folders.len() > 1 || there[0] == &places[0], "{places:?}");
            // Except the marks of the regions that the skill quotes.
            let is_mark = |line: &&str| {
                let text = line.trim();
                text.starts_with("// [quote ") || text == "// [end quote]"
            };
            let text = fs::read_to_string(&from).unwrap();
            let text: String = text.split_inclusive('\n').filter(|line| !is_mark(line)).collect();
            assert_eq!(fs::read_to_string(there[0]).unwrap(), text);
        }
    }
}

/// Names that a module uses and neither defines nor imports, imports from modules beside it that do not have the name, and
/// parameters of a test that pytest does not know. Imports and private names that nothing uses, and gaps where something was.
const UNDEFINED: &str = r#"
import ast, builtins, pathlib, symtable, sys
def own(path):
    return symtable.symtable(path.read_text(), str(path), "exec")
def walk(table, names):
    for symbol in table.get_symbols():
        if symbol.is_referenced() and symbol.is_global() and symbol.get_name() not in names:
            yield symbol.get_name()
    for child in table.get_children():
        yield from walk(child, names)
trees = {path: ast.parse(path.read_text()) for path in pathlib.Path(sys.argv[1]).rglob("*.py")}
lent = {alias.name for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
for path, tree in trees.items():
    private = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    private |= {one.id for node in tree.body if isinstance(node, ast.Assign) for one in node.targets if isinstance(one, ast.Name)}
    unused = {name for name in private - lent if name.startswith("_") and name not in ("_", "__all__")}
    imports = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom)) and path.name != "__init__.py"]
    unused |= {(alias.asname or alias.name).split(".")[0] for node in imports for alias in node.names} - {"annotations"}
    unused -= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    assert not unused and "\n\n\n\n" not in path.read_text(), (path, unused)
    names = {symbol.get_name() for symbol in own(path).get_symbols() if not symbol.is_referenced() or symbol.is_assigned() or symbol.is_imported()}
    wrong = set(walk(own(path), names | set(dir(builtins)) | {"__file__", "__name__", "__doc__"}))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            beside = path.parent.parent if node.level == 2 else path.parent
            beside = beside / f"{node.module}.py"
            if beside.exists():
                there = {symbol.get_name() for symbol in own(beside).get_symbols() if symbol.is_assigned() or symbol.is_imported()}
                wrong |= {alias.name for alias in node.names} - there
    # A test's parameters are fixtures, or named by the decorators that are left of it.
    fixtures = {"monkeypatch", "tmp_path", "capfd", "capsys", "request"}
    if (path.parent / "conftest.py").exists():
        fixtures |= {node.name for node in ast.parse((path.parent / "conftest.py").read_text()).body if isinstance(node, ast.FunctionDef)}
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
                said = [one.value for mark in node.decorator_list for one in ast.walk(mark) if isinstance(one, ast.Constant)]
                named = {name.strip() for text in said if isinstance(text, str) for name in text.split(",")}
                wrong |= {one.arg for one in node.args.args} - named - fixtures
    assert not wrong, (path, wrong)
print("sound")
"#;

/// Asked for one operation, a project has it and its gradient, as kernel.toml of the bundled project has them, and no other.
#[test]
fn an_operation_comes_with_its_gradient_and_without_the_others_of_its_family() {
    let test = Test::without_git();
    let bundled: BTreeMap<String, String> = families()
        .values()
        .flat_map(|(_, folders)| folders)
        .flat_map(|folder| Project::open(folder).unwrap().spec.operations)
        .map(|operation| (operation.name.clone(), serde_json::to_string(&operation).unwrap()))
        .collect();
    for (operations, _) in families().values() {
        for operation in operations {
            // Small and large letters, `-` and `_` are alike; a gradient's name means what it is the gradient of.
            let typed = format!("{}-backward", operation.to_uppercase().replace('_', "-"));
            let report = test.json(&format!("init {0} --op {typed} --no-git --dest {operation}", "some-kernels"));
            // Those whose base in kernel.toml is not there, and one without layers.
            if ["add_rms_norm", "swiglu_packed", "qk_norm_rope", "adaln", "rope3d_table"].contains(&operation.as_str())
            {
                assert_eq!(findings(&test, operation), Vec::<String>::new());
            }
            let made = Project::open(&test.project.join(operation)).unwrap();
            let names: Vec<&str> = made.spec.operations.iter().map(|operation| operation.name.as_str()).collect();
            assert_eq!(json!(names), report["operations"]);
            for made in &made.spec.operations {
                let text = serde_json::to_string(made).unwrap();
                assert_eq!(text.replace("kernel_src/softcap/", "kernel_src/"), bundled[&made.name], "{operation}");
            }
            let package = test.at(operation).join("torch-ext/some_kernels/__init__.py");
            let offers = fs::read_to_string(package).unwrap();
            assert!(offers.contains(&format!("    \"{operation}\",\n")), "{offers}");
            let needed = |other: &str| operation.contains("rope3d") && other == "rope3d_table";
            for other in operations.iter().filter(|other| *other != operation && !needed(other)) {
                assert!(!offers.contains(&format!("\"{other}\"")), "{operation}: {offers}");
                let is_other = |name: &&&str| name.strip_suffix("_backward").unwrap_or(name) == other;
                // The gradient of both forms of SwiGLU, and of both norms, is one.
                let shared = ["swiglu_backward", "rms_norm_backward"];
                assert_eq!(names.iter().find(|name| is_other(name) && !shared.contains(name)), None, "{operation}");
                let typed = format!("kernel.{other}(");
                for (path, text) in files(&test.at(operation)) {
                    assert!(!text.contains(&typed) || path == "benchmarks/benchmark.py", "{path}: {typed}");
                }
            }
        }
    }
    let ran = Ran::of(Command::new("python3").args(["-c", UNDEFINED]).arg(&test.project));
    ran.expect(0, &["sound"]);
    // The issue's: two operations of two families, where a project once had eight.
    let report = test.json("init two --op add_rms_norm swiglu --no-git");
    let operations = json!(["swiglu", "swiglu_backward", "add_rms_norm", "rms_norm_backward"]);
    assert_eq!(report["operations"], operations);
    let wired = fs::read_to_string(test.at("two/kernel.toml")).unwrap();
    assert!(wired.lines().count() < 250, "{}", wired.lines().count());
}

#[test]
fn a_set_is_all_of_its_families() {
    let test = Test::without_git();
    let list = test.json("init --list");
    for set in list["sets"].as_array().unwrap() {
        let name = set["name"].as_str().unwrap();
        let report = test.json(&format!("init a-kernel --for {name} --no-git"));
        let mut families: Vec<&str> =
            set["families"].as_array().unwrap().iter().map(|family| family.as_str().unwrap()).collect();
        families.sort_unstable();
        assert_eq!(report["families"], serde_json::json!(families));
        fs::remove_dir_all(test.project.join("a-kernel")).unwrap();
    }
}

#[test]
fn the_python_of_a_project_is_python_and_offers_what_it_lists() {
    let test = Test::without_git();
    let names: Vec<String> = families().into_values().flat_map(|(operations, _)| operations).collect();
    test.ok(&format!("init every-thing --op {} --no-git", names.join(",")));
    let script = r#"
import ast, pathlib, sys
root = pathlib.Path(sys.argv[1])
for path in root.rglob("*.py"):
    ast.parse(path.read_text(), str(path))
def names(tree):
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        if isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))
        if isinstance(node, ast.ImportFrom):
            yield from (alias.asname or alias.name for alias in node.names)
def listed(tree):
    [value] = [n.value for n in tree.body if isinstance(n, ast.Assign) and n.targets[0].id == "__all__"]
    return ast.literal_eval(value)
package = root / "torch-ext" / "every_thing"
for init in [package / "__init__.py", package / "layers" / "__init__.py"]:
    tree = ast.parse(init.read_text())
    assert ast.get_docstring(tree), init
    all_ = listed(tree)
    assert len(all_) == len(set(all_)) > 3, all_
    assert set(all_) <= set(names(tree)), set(all_) - set(names(tree))
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module:
            module = ast.parse((init.parent / (node.module + ".py")).read_text())
            missing = {alias.name for alias in node.names} - set(names(module))
            assert not missing, (node.module, missing)
print("sound")
"#;
    let ran = Ran::of(Command::new("python3").args(["-c", script]).arg(test.project.join("every-thing")));
    ran.expect(0, &["sound"]);
}

#[test]
fn a_name_and_an_owner_are_in_every_place_where_they_belong() {
    let test = Test::without_git();
    let report = test.json("init my-own-kernels --op blank --owner Some.Body --dest there --no-git");
    assert_eq!(report["name"], "my-own-kernels");
    assert_eq!(report["package"], "my_own_kernels");
    assert_eq!(report["path"], test.project.join("there").to_str().unwrap());
    assert_eq!(report["git"]["state"], "not-wanted");
    let there = test.project.join("there");
    let listed: BTreeSet<&str> =
        report["files"].as_array().unwrap().iter().map(|file| file.as_str().unwrap()).collect();
    let files = files(&there);
    let on_disk: BTreeSet<&str> = files.keys().map(String::as_str).filter(|path| !path.ends_with('/')).collect();
    assert_eq!(listed, on_disk);
    for file in [
        "build.toml",
        "kernel.toml",
        "flake.nix",
        "CARD.md",
        "README.md",
        "LICENSE",
        ".gitignore",
        "kernel_src/softcap/softcap.cu",
        "torch-ext/torch_binding.cpp",
        "torch-ext/my_own_kernels/__init__.py",
        "torch-ext/my_own_kernels/softcap.py",
        "torch-ext/my_own_kernels/layers/__init__.py",
    ] {
        assert!(listed.contains(file), "no {file} in {listed:?}");
    }
    assert!(files["build.toml"].contains("name = \"my-own-kernels\""));
    assert!(files["build.toml"].contains("repo-id = \"Some.Body/my-own-kernels\""));
    assert!(files["README.md"].contains("# my-own-kernels\n"));
    for (path, text) in &files {
        for left in PLACEHOLDERS {
            assert!(!text.contains(left), "{path} still has {left}");
        }
        let (mode, _) = text.split_at_checked(1).unwrap_or_default();
        assert!(mode != "x" || text.starts_with("x #!"), "{path} may be run");
    }
}

#[test]
fn the_kernel_toml_of_one_family_is_short() {
    let test = Test::new();
    for family in ["rms_norm", "geglu", "rope3d", "blank"] {
        test.ok(&format!("init -q my-own --op {family} --no-git --dest {family}"));
        let text = fs::read_to_string(test.project.join(family).join("kernel.toml")).unwrap();
        assert!(text.lines().count() <= 150, "{family}: {}", text.lines().count());
    }
}

/// The walk-through was started with `--op blank`: a project is self-contained, so it has copies of the common files.
#[test]
fn the_walk_through_has_what_every_project_has() {
    let example = root().join("examples/layer_norm_gelu");
    for path in
        ["benchmarks/benchmark.py", "tests/conftest.py", "tests/support.py", "tests/test_ops.py", "torch-ext/binding.h"]
    {
        let given = fs::read_to_string(root().join("scaffold/common").join(path)).unwrap();
        generated(&example.join(path), &given, "cli the_walk_through");
    }
}

#[test]
fn the_examples_are_what_init_writes() {
    for (folder, typed, beside) in EXAMPLES {
        let test = Test::without_git();
        test.ok(&format!("{typed} --dest made --no-git"));
        let made = files(&test.project.join("made"));
        let at = root().join(folder);
        let is_beside = |path: &str| {
            beside.iter().any(|one| {
                let rest = path.strip_prefix(one);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            })
        };
        if std::env::var_os("UPDATE").is_some() {
            for path in files(&at).keys().rev().filter(|path| !is_beside(path)) {
                let stale = at.join(path);
                let _ = fs::remove_file(&stale).or_else(|_| fs::remove_dir(&stale));
            }
            for path in made.keys().filter(|path| !path.ends_with('/')) {
                let from = test.project.join("made").join(path);
                write(&at.join(path), fs::read(from).unwrap());
            }
        }
        let mut there = files(&at);
        // Files left by tools, which git ignores.
        let left =
            |path: &str| path.starts_with("build/") || path.contains("__pycache__") || path.contains(".pytest_cache");
        there.retain(|path, _| !is_beside(path) && !left(path));
        let paths = |files: &BTreeMap<String, String>| files.keys().cloned().collect::<BTreeSet<_>>();
        let again = "run: UPDATE=1 cargo test --test cli the_examples";
        assert_eq!(paths(&there), paths(&made), "{folder} has other files than `kernels {typed}` writes; {again}");
        for (path, text) in &made {
            assert!(there[path] == *text, "{folder}/{path} is not what `kernels {typed}` writes; {again}");
        }
    }
}

// ------------------------------------------------------------------------------------------------------ names, usage

#[test]
fn wrong_names_are_refused_with_the_reason_and_a_better_one() {
    let test = Test::without_git();
    let long = "a".repeat(97);
    for (name, words) in [
        ("My_Kernels", &["not a valid kernel name", "`my-kernels` would do"] as &[&str]),
        ("a", &["two characters at least"]),
        ("", &["not a valid kernel name"]),
        ("9lives", &["a letter first"]),
        ("norm-", &["no hyphen last", "`norm` would do"]),
        ("a--b", &["two hyphens in a row"]),
        ("a/b", &["is a path", "--dest"]),
        ("../x", &["is a path"]),
        ("/etc", &["is a path"]),
        (".", &["is a path"]),
        ("..", &["is a path"]),
        ("a\\b", &["is a path"]),
        ("ядро", &["not a valid kernel name"]),
        ("rms\u{301}norm", &["not a valid kernel name"]),
        ("norm\n", &["not a valid kernel name", "norm\\n"]),
        ("\u{1b}[2Jx", &["not a valid kernel name", "\\u{1b}"]),
        (&long, &["97 bytes", "96 at most"]),
        ("class", &["keyword of Python", "`class-kernels` would do"]),
        ("async", &["keyword of Python"]),
        ("json", &["standard library", "`json-kernels` would do"]),
        ("string", &["standard library"]),
        ("torch", &["hide"]),
        ("flash-attn", &["`flash_attn`", "hide"]),
        ("kernels", &["hide"]),
        ("tests", &["folder of every kernel project"]),
        ("layers", &["folder of every kernel project"]),
    ] {
        let mut command = test.command();
        let ran = Ran::of(command.args(["init", "--op", "blank", "--", name]));
        ran.expect(2, words);
        assert!(!ran.err.contains('\u{1b}'), "{ran:?}");
    }
    let odd = OsStr::from_bytes(b"no\xffrm");
    let ran = Ran::of(test.command().args(["init", "--op", "blank"]).arg(odd));
    assert_eq!(ran.code, 2, "{ran:?}");
    assert!(snapshot(&test.project).is_empty());
    test.ok(&format!("init {} --op blank --no-git", "a".repeat(96)));
}

#[test]
fn unknown_operations_models_and_owners_name_what_there_is() {
    let test = Test::without_git();
    for (typed, words) in [
        ("init k1", &["--op", "--for", "blank", "rms_norm", "ltx-video"] as &[&str]),
        ("init", &["name the project"]),
        ("init k1 --op rmsnrm", &["\"rmsnrm\"", "Did you mean `rms_norm`?"]),
        ("init k1 --op swiglo", &["Did you mean `swiglu`?"]),
        ("init k1 --op geglu,banana", &["\"banana\"", "There are adaln, gate_residual"]),
        ("init k1 --op blnak", &["Did you mean `blank`?"]),
        ("init k1 --op geglu,,rope", &["\"\""]),
        ("init k1 --op ../rmsnorm", &["nothing has that name"]),
        ("init k1 --op softmax", &["no torch side", "kernels add --blank"]),
        ("init k1 --for ltx", &["Did you mean `ltx-video`?"]),
        ("init k1 --for llama", &["There are ltx-video, qwen3"]),
        ("init k1 --op blank --owner a/b", &["--owner \"a/b\""]),
        ("init k1 --op blank --owner -", &["--owner"]),
        ("init k1 --list", &["--list"]),
    ] {
        test.run(typed).expect(2, words);
    }
    // Several, the name in front or behind.
    for line in ["init k2 --op geglu rope", "init --op geglu rope k2", "init k2 --op geglu,rope"] {
        let report = test.json(&format!("{line} --no-git"));
        assert_eq!(report["families"], json!(["geglu", "rope"]), "{line}");
        assert_eq!(report["name"], "k2");
        fs::remove_dir_all(test.project.join("k2")).unwrap();
    }
    test.run("init --op geglu rope").expect(2, &["name the project"]);
    let error = test.json("init k1 --op rmsnrm");
    assert_eq!(error["exit_code"], 2);
    assert!(snapshot(&test.project).is_empty());
    test.ok("init --list").expect(0, &["rmsnorm", "softcap", "blank", "ltx-video", "qwen3"]);
    test.ok("init -q k1 --op blank,rms_norm,blank,rmsnorm --no-git");
    assert!(exists(test.project.join("k1/torch-ext/softcap.cpp")));
    assert!(exists(test.project.join("k1/torch-ext/rmsnorm.cpp")));
}

// ------------------------------------------------------------------------------------------------------ the place

#[test]
fn what_is_there_is_never_touched() {
    let test = Test::without_git();
    let place = &test.project;
    write(&place.join("full/mine.txt"), "mine");
    write(&place.join("hidden/.gitignore"), "");
    fs::create_dir_all(place.join("nested/empty")).unwrap();
    write(&place.join("file"), "mine");
    symlink("elsewhere", place.join("dangling")).unwrap();
    fs::create_dir(place.join("real")).unwrap();
    symlink("real", place.join("link")).unwrap();
    let before = snapshot(place);
    for (dest, words) in [
        ("full", "not empty"),
        ("full/", "not empty"),
        ("./full", "not empty"),
        ("real/../full", "not empty"),
        ("hidden", "not empty"),
        ("nested", "not empty"),
        (".", "not empty"),
        ("real/..", "not empty"),
        ("/", "is there"),
        ("file", "no folder"),
        ("dangling", "is a link to elsewhere"),
        ("link", "is a link to real"),
    ] {
        let ran = test.run(&format!("init k1 --op blank --dest {dest}"));
        ran.expect(3, &["refused", words, "→"]);
        let refused = test.json(&format!("init k1 --op blank --dest {dest}"));
        assert_eq!(refused["exit_code"], 3, "{refused:#}");
        assert!(refused["refused"][0]["path"].is_string(), "{refused:#}");
    }
    write(&place.join("k1/x"), "");
    test.run("init k1 --op blank").expect(3, &["k1", "not empty"]);
    fs::remove_dir_all(place.join("k1")).unwrap();
    assert_eq!(snapshot(place), before);
    // A link to the parent folder works.
    test.ok("init k1 --op blank --dest link/k1");
    assert!(exists(place.join("real/k1/build.toml")));
}

#[test]
fn an_empty_folder_is_taken_with_its_permissions() {
    let test = Test::without_git();
    let here = test.project.join("here");
    fs::create_dir(&here).unwrap();
    fs::set_permissions(&here, fs::Permissions::from_mode(0o750)).unwrap();
    // A process with this current folder would be left in a deleted one.
    let ran = test.run_in(&here, "init k1 --op blank --dest .");
    ran.expect(3, &["the folder that you are in", "from there"]);
    assert!(snapshot(&here).is_empty());
    test.ok("init k1 --op blank --dest here/ --no-git");
    assert!(here.join("build.toml").is_file());
    assert_eq!(here.metadata().unwrap().permissions().mode() & 0o7777, 0o750);
    assert_eq!(leftovers(&test.project), Vec::<String>::new());
}

#[test]
fn odd_places_do() {
    let test = Test::without_git();
    for dest in ["with space", "ünï·код", "-dash", "it's", "a\nline", "*"] {
        let ran =
            Ran::of(test.command().args(["init", "k1", "--op", "blank", "--no-git"]).arg(format!("--dest={dest}")));
        ran.expect(0, &["cd "]);
        assert!(test.project.join(dest).join("build.toml").is_file(), "{dest}");
        // The printed `cd` command leads there.
        let typed = ran.out.lines().find(|line| line.trim_start().starts_with("cd ")).unwrap();
        if !dest.contains('\n') {
            let mut shell = Command::new("sh");
            shell.current_dir(&test.project);
            Ran::of(shell.args(["-c", &format!("{} && cat build.toml", typed.trim())])).expect(0, &["k1"]);
        }
    }
    let odd = OsStr::from_bytes(b"no\xfftext");
    let ran = Ran::of(test.command().args(["init", "k1", "--op", "blank", "--no-git", "--json", "--dest"]).arg(odd));
    ran.expect(0, &["\"path\""]);
    assert!(test.project.join(odd).join("build.toml").is_file());
}

#[test]
fn places_that_cannot_be_are_named() {
    let test = Test::without_git();
    write(&test.project.join("file"), "x");
    symlink("loop", test.project.join("loop")).unwrap();
    let long = "d".repeat(300);
    for (dest, words) in [
        ("not/there", &["not is not there", "mkdir -p not"] as &[&str]),
        ("file/k1", &["file", "not a folder"]),
        ("loop/k1", &["loop"]),
        (&long, &["dddd", "too long"]),
        ("/proc/k1", &["/proc/k1"]),
    ] {
        test.run(&format!("init k1 --op blank --dest {dest}")).expect(1, words);
    }
    assert_eq!(snapshot(&test.project).len(), 2);
}

#[test]
fn a_folder_that_may_not_be_written_is_named() {
    let test = Test::without_git();
    let shut = test.root().join("shut");
    fs::create_dir(&shut).unwrap();
    for folder in [&test.root(), &test.project, &test.home] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
    }
    fs::set_permissions(&shut, fs::Permissions::from_mode(0o555)).unwrap();
    let mut command = test.command();
    if nix::unistd::geteuid().is_root() {
        // No folder is read-only for root, so run as `nobody`; the program must be where `nobody` may read it.
        let copied = test.root().join("kernels");
        // Not by fs::copy: a process that another test forks meanwhile inherits the descriptor that writes the copy, and a program
        // that is open for writing cannot be executed (ETXTBSY).
        assert!(Command::new("cp").arg(program()).arg(&copied).status().unwrap().success());
        command = Command::new(copied);
        command.env_clear().uid(65_534).gid(65_534).current_dir(&test.project);
    }
    let dest = shut.join("k1");
    let ran = Ran::of(command.args(["init", "k1", "--op", "blank", "--dest"]).arg(&dest));
    ran.expect(1, &[dest.to_str().unwrap(), "ermission denied"]);
    assert!(snapshot(&shut).is_empty());
}

#[test]
fn on_a_full_disk_nothing_is_left() {
    let test = Test::without_git();
    let disk = test.root().join("disk");
    let seen = test.root().join("seen");
    fs::create_dir(&disk).unwrap();
    let script = r#"
        set -e; mount --make-rprivate /; mount -t tmpfs -o size=40k none "$DISK"; cd "$DISK"
        code=0; "$K" init k1 --op rmsnorm --no-git >"$SEEN" 2>&1 || code=$?
        echo "code $code" >>"$SEEN"; ls -A "$DISK" | sed 's/^/left /' >>"$SEEN"
        mount -o remount,size=4m "$DISK"; "$K" init k1 --op rmsnorm --no-git >/dev/null; echo second $? >>"$SEEN"
        mount -o remount,ro "$DISK"; code=0; "$K" init k2 --op blank >>"$SEEN" 2>&1 || code=$?
        echo "third $code" >>"$SEEN""#;
    let mut command = Command::new("unshare");
    command
        .arg(if nix::unistd::geteuid().is_root() { "-m" } else { "-rm" })
        .args(["sh", "-c", script])
        .env("DISK", &disk)
        .env("SEEN", &seen)
        .env("K", program());
    let ran = match command.output() {
        Ok(output) if output.status.success() => fs::read_to_string(&seen).unwrap(),
        other => return not_run(&format!("no mount is permitted here: {other:?}")),
    };
    for words in ["code 1", "No space left", "k1", "second 0", "third 1", "ead-only"] {
        assert!(ran.contains(words), "no {words:?} in {ran}");
    }
    assert!(!ran.lines().any(|line| line.starts_with("left ")), "{ran}");
}

#[test]
fn of_many_at_once_one_writes_and_the_others_are_refused() {
    for empty in [false, true] {
        let test = Test::without_git();
        if empty {
            fs::create_dir(test.project.join("k1")).unwrap();
        }
        let runs: Vec<Ran> = thread::scope(|scope| {
            let run = |n: usize| {
                let op = if n.is_multiple_of(2) { "blank" } else { "geglu" };
                let test = &test;
                scope.spawn(move || test.run(&format!("init k1 --op {op} --no-git")))
            };
            let all: Vec<_> = (0..8).map(run).collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });
        let mut codes: Vec<i32> = runs.iter().map(|ran| ran.code).collect();
        codes.sort_unstable();
        assert_eq!(codes, [0, 3, 3, 3, 3, 3, 3, 3], "{runs:#?}");
        assert_eq!(findings(&test, "k1"), Vec::<String>::new());
        let is_of = |file: &str| exists(test.project.join("k1/torch-ext").join(file));
        assert!(is_of("softcap.cpp") != is_of("geglu.cpp"), "two projects in one");
        assert_eq!(leftovers(&test.project), Vec::<String>::new());
    }
}

#[test]
fn what_a_killed_run_left_goes_and_what_only_looks_like_it_stays() {
    let test = Test::without_git();
    let place = &test.project;
    write(&place.join(".kernels-init-18f0-2a-0/project/build.toml"), "half");
    write(&place.join(".kernels-init-mine/notes"), "mine");
    write(&place.join(".kernels-init-1-2-3"), "a file");
    fs::create_dir(test.root().join("far")).unwrap();
    write(&test.root().join("far/notes"), "mine");
    symlink("../far", place.join(".kernels-init-4-5-6")).unwrap();
    let report = test.json("init k1 --op blank --no-git");
    let removed = report["removed"].as_array().unwrap();
    assert_eq!(removed.len(), 1, "{report:#}");
    assert!(removed[0].as_str().unwrap().ends_with(".kernels-init-18f0-2a-0"));
    let mut left = leftovers(place);
    left.sort();
    assert_eq!(left, [".kernels-init-1-2-3", ".kernels-init-4-5-6", ".kernels-init-mine"]);
    assert!(exists(test.root().join("far/notes")));
}

#[cfg(all(target_os = "linux", target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]
#[test]
fn killed_at_any_call_it_leaves_nothing_or_all() {
    use crate::interrupt::trace::{self, Fault, Plan};
    let test = Test::without_git();
    test.ok("init k1 --op blank --no-git --dest whole");
    let whole = snapshot(test.project.join("whole"));
    let arguments = ["init", "k1", "--op", "blank", "--no-git", "--dest", "there"];
    let traced =
        |fault, plain| trace::run(&mut test.behind_a_shell(program(), &arguments), Plan::changing(fault, plain));
    let there = test.project.join("there");
    for empty in [false, true] {
        let fault = Fault::KillAfter;
        {
            for at in 0.. {
                if exists(&there) {
                    fs::remove_dir_all(&there).unwrap();
                }
                if empty {
                    fs::create_dir(&there).unwrap();
                }
                let run = match traced(fault(at), empty) {
                    Ok(run) => run,
                    Err(error) => return not_run(&format!("nothing can be traced here: {error}")),
                };
                let Some(hit) = run.hit else { break };
                let now = snapshot(&there);
                assert!(now.is_empty() || now == whole, "{:?} {hit:?}: {:?}", fault(at), now.keys());
                assert_eq!(exists(&there), empty || !now.is_empty(), "{:?} {hit:?}", fault(at));
                // The interruption does not affect the next run, which also removes what was left.
                let again = test.run("init k1 --op blank --no-git --dest there");
                assert_eq!(again.code, if now.is_empty() { 0 } else { 3 }, "{hit:?}: {again:?}");
                assert_eq!(snapshot(&there), whole);
                if !now.is_empty() {
                    test.ok("init k2 --op blank --no-git --dest other");
                    fs::remove_dir_all(test.project.join("other")).unwrap();
                }
                assert_eq!(leftovers(&test.project), Vec::<String>::new(), "{hit:?}");
            }
        }
    }
}

#[cfg(all(target_os = "linux", target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]
#[test]
fn whatever_call_fails_it_leaves_nothing_or_all() {
    use crate::interrupt::trace::{self, Fault, Plan};
    use nix::errno::Errno;
    let test = Test::without_git();
    test.ok("init k1 --op blank --no-git --dest whole");
    let whole = snapshot(test.project.join("whole"));
    let there = test.project.join("there");
    for at in 0.. {
        let _ = fs::remove_dir_all(&there);
        let arguments = ["init", "k1", "--op", "blank", "--no-git", "--dest", "there"];
        let run = match trace::run(
            &mut test.behind_a_shell(program(), &arguments),
            Plan::changing(Fault::Fail(at, Errno::EIO), false),
        ) {
            Ok(run) => run,
            Err(error) => return not_run(&format!("nothing can be traced here: {error}")),
        };
        let Some(hit) = run.hit else { break };
        assert!(!run.err.contains("panicked"), "{hit:?}: {run:?}");
        let now = snapshot(&there);
        match run.code {
            Some(0) => assert!(now == whole, "{hit:?}: {run:?}"),
            // Printing the result may fail as well.
            Some(1) => assert!(now.is_empty() || now == whole, "{hit:?}: {run:?}"),
            _ => panic!("{hit:?}: {run:?}"),
        }
    }
}

// ------------------------------------------------------------------------------------------------------ git

/// Runs git in a folder and returns its output.
fn git(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git").arg("-C").arg(folder).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn with_identity(test: &Test, more: &str) {
    let config = format!("[user]\n\tname = A Person\n\temail = person@example.com\n{more}");
    write(&test.home.join(".gitconfig"), config);
}

#[test]
fn a_repository_begins_with_everything_committed() {
    let test = Test::without_git();
    // The user's hooks, signing and global ignore files must not affect this commit.
    let hook = test.home.join("hooks/pre-commit");
    script(&hook, "exit 1");
    write(&test.home.join("ignored"), "*.toml\nLICENSE\n");
    let home = test.home.display();
    with_identity(
        &test,
        &format!(
            "[core]\n\thooksPath = {home}/hooks\n\texcludesFile = {home}/ignored\n[commit]\n\tgpgSign = true\n\
             [gpg]\n\tprogram = /bin/false\n[init]\n\tdefaultBranch = trunk\n"
        ),
    );
    let mut command = test.command();
    command.env("GIT_DIR", "/nowhere").env("GIT_WORK_TREE", "/").env("GIT_INDEX_FILE", "/nowhere");
    let ran = Ran::of(command.args(["init", "k1", "--op", "blank", "--json"]));
    let report = ran.json();
    assert_eq!(report["git"]["state"], "committed", "{report:#}");
    let folder = test.project.join("k1");
    assert_eq!(git(&folder, &["status", "--porcelain", "--ignored"]), "");
    assert_eq!(git(&folder, &["rev-list", "--count", "--all"]), "1");
    assert_eq!(git(&folder, &["symbolic-ref", "--short", "HEAD"]), "trunk");
    assert_eq!(git(&folder, &["log", "-1", "--format=%an <%ae>"]), "A Person <person@example.com>");
    let kept: Vec<String> = git(&folder, &["ls-files"]).lines().map(ToOwned::to_owned).collect();
    assert_eq!(kept.len(), report["files"].as_array().unwrap().len());
    git(&folder, &["fsck", "--strict"]);
}

#[test]
fn without_an_address_there_is_no_commit_and_that_is_said() {
    let test = Test::without_git();
    let ran = test.ok("init k1 --op blank");
    ran.expect(0, &["added and not committed"]);
    let folder = test.project.join("k1");
    // Nor is a branch of one's own set.
    assert_eq!(git(&folder, &["symbolic-ref", "--short", "HEAD"]), "main");
    assert!(git(&folder, &["status", "--porcelain"]).starts_with("A  .gitignore"));
    assert_eq!(git(&folder, &["rev-list", "--count", "--all"]), "0");
}

#[test]
fn inside_a_repository_no_other_is_started() {
    let test = Test::new();
    fs::create_dir(test.project.join("deep")).unwrap();
    for dest in ["k1", "deep/k1"] {
        let report = test.json(&format!("init k1 --op blank --dest {dest}"));
        assert_eq!(report["git"]["state"], "inside", "{report:#}");
        assert_eq!(report["git"]["root"], test.project.to_str().unwrap());
        assert!(!exists(test.project.join(dest).join(".git")));
    }
    // In a worktree and in a submodule, .git is a file.
    let test = Test::without_git();
    write(&test.project.join(".git"), "gitdir: elsewhere\n");
    let ran = test.ok("init k1 --op blank");
    ran.expect(0, &["no git repository was started", test.project.to_str().unwrap()]);
}

#[test]
fn without_git_or_against_it_there_is_none() {
    let test = Test::without_git();
    let mut command = test.command();
    let ran = Ran::of(command.env("PATH", "/nowhere").args(["init", "k1", "--op", "blank"]));
    ran.expect(0, &["git is not in PATH"]);
    assert!(!exists(test.project.join("k1/.git")));
    // A git that fails.
    let broken = test.home.join("bin/git");
    script(&broken, "echo 'fatal: out of luck' >&2\nexit 128");
    let mut command = test.command();
    command.env("PATH", broken.parent().unwrap());
    let ran = Ran::of(command.args(["init", "k2", "--op", "blank"]));
    ran.expect(0, &["no git repository could be started", "fatal: out of luck"]);
    assert!(!exists(test.project.join("k2/.git")));
    assert!(exists(test.project.join("k2/build.toml")));
    test.ok("init k3 --op blank --no-git").expect(0, &["--no-git"]);
    assert!(!exists(test.project.join("k3/.git")));
}

// ------------------------------------------------------------------------------------------------------ what becomes of it

#[test]
fn a_new_project_goes_through_ci_and_is_told_how_to_record() {
    let test = Test::without_git();
    test.ok("init k1 --op blank --no-git");
    let mut command = test.command();
    // Without a compiler, to test the message about what cannot be checked.
    let ran = Ran::of(command.env("PATH", "/nowhere").args(["ci", "k1"]));
    ran.expect(1, &["1 operation", "evidence; `kernels bench k1 --record` on a card records it"]);
    assert!(!ran.err.contains("evidence"), "{ran:#?}");
    // The git root of the examples has the evidence of kernels/, which does not apply to them.
    for (folder, ..) in EXAMPLES {
        let mut command = test.command();
        let ran = Ran::of(command.env("PATH", "/nowhere").arg("ci").arg(root().join(folder)));
        ran.expect(1, &["none recorded in "]);
        let pending = crate::support::pending::pending();
        // `rms_norm-h100`, `e2e-qwen3_8b-h100`.
        let subject = |name: &String| name.trim_start_matches("e2e-").split('-').next().unwrap_or_default().to_owned();
        let is_pending = |line: &str| pending.keys().any(|name| line.contains(&subject(name)));
        let others = |line: &&str| line.contains("evidence ") && !is_pending(line);
        assert_eq!(ran.err.lines().find(others), None, "{ran:#?}");
    }
}
