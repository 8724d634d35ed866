//! `kernels add`: operations in a project that is there, beside what was edited.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::thread;

use crate::support::walk_through::own_operation;
use crate::support::{self, Ran, Test, exists, not_run, program, snapshot, write};

fn edit(path: &Path, from: &str, to: &str) {
    let text = fs::read_to_string(path).unwrap();
    assert!(text.contains(from), "no {from:?} in {text}");
    write(path, text.replacen(from, to, 1));
}

/// The files that two folders do not have alike.
fn differing(one: &Path, other: &Path) -> Vec<String> {
    let (one, other) = (snapshot(one), snapshot(other));
    let paths = one.keys().chain(other.keys());
    let mut paths: Vec<String> = paths.filter(|path| one.get(*path) != other.get(*path)).cloned().collect();
    paths.dedup();
    paths
}

#[test]
fn operations_added_one_by_one_make_the_project_that_init_writes_of_all() {
    let test = Test::without_git();
    let list = test.json("init --list");
    let families = list["families"].as_array().unwrap().iter();
    let all: Vec<&String> = families.flat_map(|family| family["operations"].as_object().unwrap().keys()).collect();
    let names: Vec<&str> = all.iter().map(|name| name.as_str()).collect();
    test.ok(&format!("init some-kernels --op {} --no-git --dest whole", names.join(",")));
    test.ok(&format!("init some-kernels --op {} --no-git --dest grown", names[3]));
    for name in names.iter().rev() {
        test.ok(&format!("add {name} --dir grown"));
    }
    assert_eq!(differing(&test.at("whole"), &test.at("grown")), Vec::<String>::new());
    let report = test.json(&format!("add {} --dir grown", names.join(" ")));
    for changes in ["created", "changed", "removed"] {
        assert_eq!(report[changes].as_array().map(Vec::len), Some(0), "{report:#}");
    }
}

#[test]
fn edits_are_kept_and_what_was_deleted_stays_so() {
    let test = Test::without_git();
    test.ok("init my-kernels --op rms_norm --owner me --no-git");
    let at = |path: &str| test.at("my-kernels").join(path);
    edit(&at("README.md"), "## Use", "## Mine\n\nwords\n\n## Use");
    edit(&at("build.toml"), "version = 1", "version = 3");
    edit(
        &at("torch-ext/my_kernels/__init__.py"),
        "__all__ = [\n",
        "from .mine import mine\n\n__all__ = [\n    \"mine\",\n",
    );
    edit(&at("kernel.toml"), "eps = 1e-6", "eps = 1e-5");
    let text = fs::read_to_string(at("kernel.toml")).unwrap();
    write(&at("kernel.toml"), format!("{text}\n# the end\n"));
    write(&at("torch-ext/my_kernels/mine.py"), "def mine():\n    \"\"\"Mine.\"\"\"\n");
    // Of the family that is extended, too.
    edit(
        &at("torch-ext/my_kernels/rmsnorm.py"),
        "    \"\"\":func:`rms_norm`, written",
        "    # mine\n    \"\"\":func:`rms_norm`, written",
    );
    edit(&at("torch-ext/rmsnorm.cpp"), "}  // namespace\n", "void mine() {}\n\n}  // namespace\n");
    fs::remove_file(at("CARD.md")).unwrap();
    test.ok("add swiglu add_rms_norm --dir my-kernels");
    for (path, words) in [
        ("README.md", &["## Mine\n\nwords", "`swiglu`"] as &[&str]),
        ("build.toml", &["version = 3", "torch-ext/geglu.cpp", "[kernel.geglu]"]),
        ("torch-ext/my_kernels/__init__.py", &["from .mine import mine", "\"mine\"", "\"swiglu\"", "add_rms_norm_"]),
        ("kernel.toml", &["eps = 1e-5", "# the end", "\"swiglu_backward\"", "name = \"add_rms_norm\""]),
        ("torch-ext/my_kernels/rmsnorm.py", &["    # mine\n", "class _AddRMSNorm"]),
        ("torch-ext/rmsnorm.cpp", &["void mine() {}", "Tensor> add_rms_norm("]),
    ] {
        let text = fs::read_to_string(at(path)).unwrap();
        for words in words {
            assert!(text.contains(words), "no {words:?} in {path}: {text}");
        }
    }
    assert!(!exists(at("CARD.md")));
    test.run("check --strict my-kernels").expect(0, &["clean"]);
}

#[test]
fn an_edit_in_the_way_is_refused_with_the_lines_and_nothing_is_written() {
    let test = Test::without_git();
    test.ok("init my-kernels --op layer_norm --no-git");
    let at = |path: &str| test.at("my-kernels").join(path);
    edit(&at("torch-ext/my_kernels/__init__.py"), "CUDA kernels for PyTorch", "My kernels");
    write(&at("torch-ext/geglu.cpp"), "// mine\n");
    // A header that several parts would share.
    edit(&at("kernel_src/adaln/pack.cuh"), "#pragma once\n", "#pragma once\n// mine\n");
    let before = snapshot(&test.project);
    let ran = test.run("add swiglu --dir my-kernels");
    ran.expect(
        3,
        &[
            "__init__.py was edited",
            "(adaln)",
            "+ \"\"\"my-kernels: CUDA kernels for PyTorch (adaln, geglu)",
            "geglu.cpp is there",
        ],
    );
    ran.expect(3, &["pack.cuh was edited", "kernel_src"]);
    assert_eq!(test.run("add swiglu --dir my-kernels --dry-run").code, 3);
    let report = test.json("add swiglu --dir my-kernels");
    assert_eq!(report["refused"].as_array().map(Vec::len), Some(3), "{report:#}");
    assert_eq!(snapshot(&test.project), before);
    // Done by hand, it goes on.
    edit(&at("torch-ext/my_kernels/__init__.py"), "My kernels (adaln)", "CUDA kernels for PyTorch (adaln, geglu)");
    fs::remove_file(at("torch-ext/geglu.cpp")).unwrap();
    edit(&at("kernel_src/adaln/pack.cuh"), "// mine\n", "");
    test.ok("add swiglu --dir my-kernels");
    test.ok("init my-kernels --op layer_norm,swiglu --no-git --dest direct");
    assert_eq!(differing(&test.at("direct"), &test.at("my-kernels")), Vec::<String>::new());
}

#[test]
fn what_cannot_be_is_named_and_nothing_is_written() {
    let test = Test::without_git();
    test.ok("init my-kernels --op rms_norm --no-git");
    let before = snapshot(&test.project);
    for (typed, code, words) in [
        ("add", 2, &["<OP>"] as &[&str]),
        ("add swiglo --dir my-kernels", 2, &["swiglo", "Did you mean `swiglu`?"]),
        ("add swiglu", 1, &["has no build.toml", "--dir"]),
        ("add swiglu --dir nowhere", 1, &["no project at nowhere"]),
        ("add --blank Mine --dir my-kernels", 2, &["\"Mine\"", "small letters"]),
        ("add --blank a__b --dir my-kernels", 2, &["a__b"]),
        ("add --blank ../x --dir my-kernels", 2, &["../x"]),
        ("add --blank swiglu --dir my-kernels", 2, &["a bundled operation"]),
        ("add --blank rmsnorm --dir my-kernels", 2, &["a bundled operation, or its file"]),
        ("add --blank lambda --dir my-kernels", 2, &["a word of Python"]),
        ("add --blank x_backward --dir my-kernels", 2, &["gradient"]),
        ("add --blank torch --dir my-kernels", 2, &["\"torch\"", "something else"]),
        ("add --blank nn --dir my-kernels", 2, &["something else"]),
        ("add --blank true --dir my-kernels", 2, &["the class `True`, which is a word of Python"]),
        ("add --blank false --dir my-kernels", 2, &["the class `False`"]),
        ("add --blank none --dir my-kernels", 2, &["the class `None`"]),
        ("add --blank foo_1,foo1 --dir my-kernels", 2, &["the class `Foo1`, as that of `foo_1` is"]),
        ("add --blank aa --blank aa --dir my-kernels", 2, &["\"aa\"", "named twice"]),
        (
            "add swiglu --blank mine --dir my-kernels --dry-run",
            0,
            &["nothing was written", "+ torch-ext/mine.cpp", "~ kernel.toml"],
        ),
    ] {
        test.run(typed).expect(code, &[]);
        let ran = test.run(typed);
        for word in words {
            assert!(format!("{}{}", ran.out, ran.err).contains(word), "{typed}: no {word:?} in {ran:?}");
        }
    }
    assert_eq!(snapshot(&test.project), before);
    // Bytes that are no text are not read as if they were.
    let readme = test.at("my-kernels/README.md");
    let text = fs::read(&readme).unwrap();
    write(&readme, [&text[..], b"\xff\n"].concat());
    test.run("add swiglu --dir my-kernels").expect(3, &["README.md is not UTF-8"]);
    write(&readme, text);
    assert_eq!(snapshot(&test.project), before);
    // A link is not followed.
    let far = test.root().join("far.toml");
    fs::rename(test.at("my-kernels/kernel.toml"), &far).unwrap();
    symlink(&far, test.at("my-kernels/kernel.toml")).unwrap();
    test.run("add swiglu --dir my-kernels").expect(1, &["kernel.toml is a link"]);
    // A project of other origin.
    write(&test.at("other/build.toml"), "[general]\nname = \"other\"\n");
    write(&test.at("other/kernel.toml"), "format = 1\n");
    test.run("add --blank mine --dir other").expect(1, &["no project of `kernels init`", "binding.h"]);
}

#[test]
fn the_walk_through_holds_and_is_short() {
    let test = Test::without_git();
    let (root, lines, files) = own_operation(&test);
    assert!(lines <= 120 && files <= 3, "{lines} lines in {files} files");
    // Before the torch side follows, it is found to differ.
    test.run_in(&root, "check").expect(1, &["torch/launcher-declaration", "relu2_up_launch"]);
    let report = test.json("add relu2_up --dir my-kernels");
    assert_eq!(report["created"].as_array().map(Vec::len), Some(0), "{report:#}");
    test.run_in(&root, "check --strict").expect(0, &["clean"]);
    let module = fs::read_to_string(root.join("torch-ext/my_kernels/relu2_up.py")).unwrap();
    for words in [
        "out = relu(gate)^2 * up.",
        "gate, up: of one shape",
        "torch._check(up.device == gate.device, lambda: \"relu2_up: up must be on gate's device\")",
        "return d_gate, d_up",
        "register_fake",
    ] {
        assert!(module.contains(words), "no {words:?} in {module}");
    }
    test.run_in(&root, "add relu2_up").expect(0, &["nothing to do"]);
    test.run_in(&root, "add --blank relu2_up").expect(0, &["nothing to do"]);
    let kernel_toml = fs::read_to_string(root.join("kernel.toml")).unwrap();
    for (from, to, words) in [
        ("tensor = \"d_out\"", "tensor = \"dy\"", "its input `dy` is no input of relu2_up, and none of d_out"),
        (
            "relu2_up_backward\" }\nflops = \"6 * rows * width\"\narguments = [\n  { tensor = \"d_gate\"",
            "relu2_up_backward\" }\nflops = \"6 * rows * width\"\narguments = [\n  { tensor = \"gate_d\"",
            "its output `gate_d` is not d_ and the name of an input",
        ),
    ] {
        edit(&root.join("kernel.toml"), from, to);
        test.run_in(&root, "add relu2_up").expect(1, &["the torch side of relu2_up_backward", words]);
        write(&root.join("kernel.toml"), &kernel_toml);
    }
    // Others beside it, bundled ones and blank ones.
    test.run_in(&root, "add rms_norm --blank other_op,third").expect(0, &["added to"]);
    test.run_in(&root, "check --strict").expect(0, &["clean"]);
    assert!(fs::read_to_string(root.join("kernel.toml")).unwrap().contains("# out = relu(gate)^2 * up.\n"));
    // An edited file is not written anew.
    let binding = root.join("torch-ext/relu2_up.cpp");
    edit(&binding, "call.begin();", "call.begin();  // mine");
    edit(&root.join("kernel.toml"), "# out = relu(gate)^2 * up.", "# out = relu(gate) ** 2 * up.");
    test.run_in(&root, "add relu2_up").expect(0, &["~ torch-ext/my_kernels/relu2_up.py"]);
    edit(&root.join("kernel.toml"), "\"relu2_up_error\"", "\"explained\"");
    let before = snapshot(&root);
    test.run_in(&root, "add relu2_up").expect(3, &["relu2_up.cpp was edited"]);
    assert_eq!(snapshot(&root), before);
}

#[test]
fn a_layers_class_is_one_operations_alone() {
    let test = Test::without_git();
    test.ok("init my-kernels --op rms_norm --no-git");
    test.ok("add --blank foo_1 --dir my-kernels");
    let before = snapshot(&test.project);
    test.run("add --blank foo1 --dir my-kernels").expect(2, &["the class `Foo1`, as that of `foo_1` is"]);
    assert_eq!(snapshot(&test.project), before);
}

#[test]
fn names_of_arguments_that_break_what_is_made_are_refused() {
    let test = Test::without_git();
    test.ok("init my-kernels --op rms_norm --no-git");
    test.ok("add --blank mine --dir my-kernels");
    let kernel_toml = test.at("my-kernels/kernel.toml");
    let whole = fs::read_to_string(&kernel_toml).unwrap();
    let (before, own) = whole.split_once("name = \"mine\"\n").unwrap();
    let before_add = snapshot(&test.project);
    for (name, what) in [
        ("in", "a word of Python"),
        ("lambda", "a word of Python"),
        ("None", "a word of Python"),
        ("template", "a word of C++"),
        ("int", "a word of C++"),
        ("self", "something else"),
        ("ctx", "something else"),
        ("torch", "something else"),
        ("nn", "something else"),
        ("ops", "something else"),
        ("kernel", "something else"),
        ("call", "something else"),
        ("once_differentiable", "something else"),
        ("add_op_namespace_prefix", "something else"),
        ("Tensor", "something else"),
        ("mine", "the operation's own name"),
    ] {
        let named = own.replacen("tensor = \"x\"", &format!("tensor = \"{name}\""), 1);
        let named = named.replacen("\"x..width\"", &format!("\"{name}..width\""), 1);
        write(&kernel_toml, format!("{before}name = \"mine\"\n{named}"));
        let says = format!("its argument `{name}` is {what}");
        let words = if what == "something else" { format!("its argument `{name}` is what {what}") } else { says };
        test.run("add mine --dir my-kernels").expect(1, &["the torch side of mine cannot be made", &words]);
    }
    // A tensor, and what the binding makes of another.
    let two = "tensor = \"x\", role = \"input\", shape = [\"rows\", \"width\"], strides = [\"x_stride\", \"1\"] },";
    let rows = two.replace("\"x\"", "\"x_rows\"");
    write(&kernel_toml, format!("{before}name = \"mine\"\n{}", own.replacen(two, &format!("{two} {{ {rows}"), 1)));
    test.run("add mine --dir my-kernels").expect(1, &["the binding would have two `x_rows`"]);
    write(&kernel_toml, &whole);
    assert_eq!(snapshot(&test.project), before_add);
    // A number may have the operation's name, and a word that is one in some places alone.
    let numbers = "{ scalars = [\"mine\", \"type\"], type = \"f32\" }, { dtype = {";
    write(&kernel_toml, format!("{before}name = \"mine\"\n{}", own.replacen("{ dtype = {", numbers, 1)));
    test.ok("add mine --dir my-kernels");
}

/// A description with what the page's has not: a number, a row that may be absent, three results.
#[test]
fn other_descriptions_have_a_torch_side_or_say_why_not() {
    let test = Test::without_git();
    test.ok("init my-kernels --op swiglu --no-git");
    test.ok("add --blank mine --dir my-kernels");
    let kernel_toml = test.at("my-kernels/kernel.toml");
    let whole = fs::read_to_string(&kernel_toml).unwrap();
    let rows = |name: &str, role: &str| {
        format!(
            "{{ tensor = \"{name}\", role = \"{role}\", shape = [\"rows\", \"width\"], strides = [\"{name}_stride\", \"1\"] }}, "
        )
    };
    let described = |arguments: &str| {
        let (before, behind) = whole.split_once("name = \"mine\"\n").unwrap();
        let (head, rest) = behind.split_once("arguments = [\n").unwrap();
        let (_, cases) = rest.split_once("[[cases]]").unwrap();
        let end =
            "{ dtype = { f32 = 0, f16 = 1, bf16 = 2 } }, { stream = true } ]\ndefaults = { weight = 1, cap = 2.5 }\n";
        format!("{before}name = \"mine\"\n{head}arguments = [ {arguments}{end}\n[[cases]]{cases}")
            .replace(", \"mine_backward\"", "")
    };
    let sizes =
        "{ scalars = [\"rows\", \"width\", \"a_stride\", \"b_stride\", \"c_stride\", \"x_stride\"], type = \"i64\" }, ";
    let weight = "{ tensor = \"weight\", role = \"input\", shape = [\"width\"], present = \"weight\" }, ";
    let outputs = ["a", "b", "c"].map(|name| rows(name, "output")).concat();
    let number = "{ scalar = \"n\", type = \"i32\" }, { scalar = \"cap\", type = \"f32\" }, ";
    write(&kernel_toml, described(&format!("{outputs}{}{weight}{sizes}{number}", rows("x", "input"))));
    test.ok("add mine --dir my-kernels");
    let read = |path: &str| fs::read_to_string(test.at("my-kernels").join(path)).unwrap();
    let binding = read("torch-ext/mine.cpp");
    for words in [
        "ops.def(\"mine(Tensor x, Tensor? weight, int n, float cap) -> (Tensor, Tensor, Tensor)\")",
        "const void* weight, int64_t rows",
        "static_cast<int32_t>(n), static_cast<float>(cap), call.dtype()",
        "std::get<2>(results)",
        "if (n != static_cast<int32_t>(n)) call.fail(\"n does not fit 32 bits: \", n);\n  call.begin();",
    ] {
        assert!(binding.contains(words), "no {words:?} in {binding}");
    }
    let module = read("torch-ext/my_kernels/mine.py");
    for words in [
        "from typing import Optional, Tuple",
        "weight: Optional[torch.Tensor], n: int, cap: float = 2.5)",
        "has no gradient by x, weight",
        "torch._check(weight is None or weight.device == x.device, lambda: \"mine: weight must be on x's device\")",
    ] {
        assert!(module.contains(words), "no {words:?} in {module}");
    }
    assert!(
        !module.contains("backward") && !module.contains("# [") && !module.contains('@'.to_string().repeat(2).as_str())
    );
    let compiled = "import ast, pathlib, sys\nfor path in pathlib.Path(sys.argv[1]).rglob('*mine.py'): ast.parse(path.read_text(), str(path))";
    Ran::ok(std::process::Command::new("python3").args(["-c", compiled]).arg(test.at("my-kernels")));

    for (from, to, words) in [
        ("strides = [\"x_stride\", \"1\"]", "strides = [\"1\", \"x_stride\"]", "`x` has no row stride"),
        ("shape = [\"width\"], present", "shape = [\"3\"], present", "the shape, strides or role of `weight`"),
        ("f16 = 1", "f16 = 3", "codes of dtypes"),
        ("error = \"mine_error\"\n", "", "no `error` function"),
    ] {
        let text = read("kernel.toml");
        assert!(text.contains(from), "{text}");
        let (before, behind) = text.split_once("name = \"mine\"\n").unwrap();
        write(&kernel_toml, format!("{before}name = \"mine\"\n{}", behind.replacen(from, to, 1)));
        test.run("add mine --dir my-kernels").expect(1, &["the torch side of mine cannot be made", words]);
        write(&kernel_toml, text);
    }
}

#[test]
fn of_several_at_once_none_spoils_another() {
    let test = Test::without_git();
    test.ok("init my-kernels --op rms_norm --no-git");
    let names = ["one", "two", "three", "four"];
    thread::scope(|scope| {
        for name in names {
            let test = &test;
            scope.spawn(move || {
                let is_done = |_: &i32| test.run(&format!("add --blank {name} --dir my-kernels")).code == 0;
                assert!((0..200).any(|n| is_done(&n)), "{name}");
            });
        }
    });
    test.run("check my-kernels").expect(0, &[]);
    let package = fs::read_to_string(test.at("my-kernels/torch-ext/my_kernels/__init__.py")).unwrap();
    for name in names {
        assert!(package.contains(&format!("\"{name}\"")), "{package}");
    }
}

/// A killed run is completed by the next one, without a loss of what was edited.
#[cfg(all(target_os = "linux", target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]
#[test]
fn killed_at_any_call_the_next_run_completes_it() {
    use crate::interrupt::trace::{self, Fault, Plan};
    let test = Test::without_git();
    test.ok("init my-kernels --op rms_norm --no-git --dest begun");
    edit(&test.at("begun/build.toml"), "version = 1", "version = 7");
    let (begun, there) = (test.at("begun"), test.at("there"));
    let copy = |to: &Path| {
        let _ = fs::remove_dir_all(to);
        support::copy(&begun, to);
    };
    copy(&test.at("whole"));
    test.ok("add --blank mine --dir whole");
    let whole: BTreeMap<String, String> = snapshot(test.at("whole"));
    // Writing a file takes five calls or six, so that every kind of call has its turn.
    for at in (0..).step_by(7) {
        copy(&there);
        let mut command = test.behind_a_shell(program(), &["add", "--blank", "mine", "--dir", "there"]);
        let run = match trace::run(&mut command, Plan::changing(Fault::KillAfter(at), false)) {
            Ok(run) => run,
            Err(error) => return not_run(&format!("nothing can be traced here: {error}")),
        };
        let Some(hit) = run.hit else { break };
        assert!(fs::read_to_string(there.join("build.toml")).unwrap().contains("version = 7"), "{hit:?}");
        test.ok("add --blank mine --dir there");
        assert_eq!(differing(&there, &test.at("whole")), Vec::<String>::new(), "{hit:?}");
    }
    assert_eq!(snapshot(test.at("whole")), whole);
}
