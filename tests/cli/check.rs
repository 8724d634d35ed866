//! `kernels check`: the examples in the pages of its rules, its options, malformed input, and the layouts of published
//! projects.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use crate::support::{Ran, Test, generated, program, root, snapshot, write};
use kernels::check::RULES;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use serde_json::Value;

type Files = BTreeMap<String, String>;

/// The files of a section: a name in backquotes and a colon, then a fenced block.
fn blocks(text: &str) -> Files {
    let mut files = Files::new();
    let mut rest = text;
    while let Some((_, after)) = rest.split_once("\n`") {
        let named = after.split_once("`:\n\n```").filter(|(name, _)| !name.contains('`'));
        let Some((name, after)) = named else {
            rest = after;
            continue;
        };
        let (_, block) = after.split_once('\n').unwrap();
        let (block, after) = block.split_once("```\n").unwrap();
        files.insert(name.to_owned(), block.to_owned());
        rest = after;
    }
    files
}

/// The clean project of docs/check.md.
fn clean() -> Files {
    let page = fs::read_to_string(root().join("docs/check.md")).unwrap();
    let (_, section) = page.split_once("\n## A project that is clean\n").unwrap();
    blocks(section)
}

/// The clean project with the files of an example added or replaced. A build.toml without a name changes only its keys.
fn laid_over(changes: &Files) -> Files {
    let mut files = clean();
    for (path, text) in changes {
        let partial = path == "build.toml" && !text.contains("name =") && !text.starts_with("[general\n");
        let text = if partial { merged(&files[path], text) } else { text.clone() };
        files.insert(path.clone(), text);
    }
    files
}

fn merged(base: &str, changes: &str) -> String {
    fn merge(base: &mut toml::Table, changes: toml::Table) {
        for (key, value) in changes {
            match (base.get_mut(&key), value) {
                (Some(toml::Value::Table(base)), toml::Value::Table(changes)) => {
                    merge(base, changes);
                }
                (_, value) => {
                    base.insert(key, value);
                }
            }
        }
    }
    let mut base: toml::Table = base.parse().unwrap();
    merge(&mut base, changes.parse().unwrap());
    toml::to_string(&base).unwrap()
}

fn written(test: &Test, name: &str, files: &Files) {
    for (path, text) in files {
        write(&test.project.join(name).join(path), text);
    }
}

/// Writes the clean project with these changes, as `p`.
fn project(changes: &[(&str, &str)]) -> Test {
    let test = Test::new();
    let changes: Files = changes.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
    written(&test, "p", &laid_over(&changes));
    test
}

/// The rules of all findings, in order, with repetitions.
fn found(test: &Test, dir: &str) -> Vec<String> {
    let report = test.json(&format!("check {dir}"));
    let findings = report["projects"][0]["findings"].as_array();
    findings
        .unwrap_or_else(|| panic!("{report:#}"))
        .iter()
        .map(|finding| finding["rule"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn a_source_that_is_not_there_is_named_with_its_spelling_if_it_has_another_case_alone() {
    for (name, there) in [("kernel_src/SCALE.cu", true), ("kernel_src/gone.cu", false)] {
        let test = project(&[]);
        let path = test.project.join("p/build.toml");
        let text = fs::read_to_string(&path).unwrap();
        write(&path, text.replace("src = [\"kernel_src/scale.cu\"", &format!("src = [\"{name}\"")));
        let said = test.run("check p");
        said.expect(1, &[name, "cannot be found"]);
        let hint = "there is a scale.cu, and file systems of builders tell case apart";
        assert_eq!(said.out.contains("there is a"), there, "{}", said.out);
        assert_eq!(said.out.contains(hint), there, "{}", said.out);
    }
}

/// nvcc and g++ would take their options, and so programs to run, from such a name.
#[test]
fn a_source_whose_name_is_an_option_is_refused() {
    for name in ["-optf=o.cu", "@o.cpp", "-x/o.cu"] {
        let test = project(&[(name, "extern \"C\" int launch() { return 0; }\n")]);
        let path = test.project.join("p/build.toml");
        let text = fs::read_to_string(&path).unwrap();
        write(&path, text.replace("src = [\"", &format!("src = [\"{name}\", \"")));
        test.run("check p")
            .expect(1, &[&format!("`{name}`: compilers take a name that begins with - or @ for an option")]);
    }
}

#[test]
fn every_rule_has_a_page_and_every_page_a_rule() {
    let pages: BTreeSet<String> = fs::read_dir(root().join("docs/rules"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let rules: BTreeSet<String> = RULES.iter().map(|rule| format!("{}.md", rule.id.replace('/', "-"))).collect();
    assert_eq!(pages, rules);
    for rule in RULES {
        let head = format!("# {}\n\n", rule.id);
        assert!(rule.page.starts_with(&head), "{}", rule.id);
        let severity = format!("{}. ", rule.severity);
        assert!(rule.page.lines().nth(2).unwrap().contains(&severity), "{}", rule.id);
        for section in ["\n## Bad\n", "\n## Good\n", "\n## How to fix\n"] {
            assert!(rule.page.contains(section), "{} lacks {section}", rule.id);
        }
        assert_eq!(rule.fixable, rule.page.contains("`kernels check --fix`"), "{}", rule.id);
    }
}

#[test]
fn the_bad_example_of_a_page_is_caught_by_its_rule_alone_and_the_good_one_is_clean() {
    let test = Test::new();
    written(&test, "clean", &clean());
    test.run("check clean --strict").expect(0, &["clean in 6 files"]);
    let mut all = Vec::new();
    for rule in RULES {
        let (both, rest) = rule.page.split_once("\n## Bad\n").unwrap();
        let (bad, rest) = rest.split_once("\n## Good\n").unwrap();
        let (good, _) = rest.split_once("\n## How to fix\n").unwrap();
        for (which, section) in [("bad", bad), ("good", good)] {
            let mut files = blocks(both);
            files.extend(blocks(section));
            assert!(!files.is_empty(), "the {which} example of {}", rule.id);
            let name = format!("{which}-{}", rule.id.replace('/', "-"));
            written(&test, &name, &laid_over(&files));
            let mut rules = found(&test, &name);
            rules.dedup();
            let expected: &[&str] = if which == "bad" { &[rule.id] } else { &[] };
            assert_eq!(rules, expected, "the {which} example of {}", rule.id);
            all.extend(marked(&test, &name));
        }
    }
    generated(&root().join("tests/fixtures/check-marks.txt"), &(all.join("\n") + "\n"), "cli check::the_bad");
}

/// What a finding is about, as editors underline it: the text from its place to its end, of a line.
fn marked(test: &Test, dir: &str) -> Vec<String> {
    let report = test.json(&format!("check {dir}"));
    let number = |finding: &Value, key: &str| usize::try_from(finding[key].as_u64().unwrap()).unwrap();
    let of = |finding: &Value| {
        let text =
            fs::read_to_string(test.project.join(dir).join(finding["path"].as_str().unwrap())).unwrap_or_default();
        let (line, end_line) = (number(finding, "line"), number(finding, "end_line"));
        let (from, to) = (number(finding, "column") - 1, number(finding, "end_column") - 1);
        let line: Vec<char> = text.lines().nth(line - 1).unwrap_or_default().chars().collect();
        let to = if end_line == number(finding, "line") { to } else { line.len() };
        format!(
            "{} {}",
            finding["rule"].as_str().unwrap(),
            line[from.min(line.len())..to.min(line.len())].iter().collect::<String>()
        )
    };
    report["projects"][0]["findings"].as_array().unwrap().iter().map(of).collect()
}

/// The table of rules in docs/check.md; `UPDATE=1 cargo test --test cli check::the_page` updates it.
#[test]
fn the_page_of_the_command_lists_the_rules() {
    let path = root().join("docs/check.md");
    let page = fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once("<!-- rules -->\n").unwrap();
    let (_, after) = rest.split_once("<!-- /rules -->\n").unwrap();
    let mut table = "| rule | | requires that |\n|---|---|---|\n".to_owned();
    for rule in RULES {
        let fix = if rule.fixable { ", `--fix`" } else { "" };
        let _ = writeln!(
            table,
            "| [{}](rules/{}.md) | {}{fix} | {} |",
            rule.id,
            rule.id.replace('/', "-"),
            rule.severity,
            rule.asks
        );
    }
    let expected = format!("{before}<!-- rules -->\n{table}<!-- /rules -->\n{after}");
    generated(&path, &expected, "cli check::the_page");
}

#[test]
fn the_bundled_projects_are_clean() {
    let test = Test::new();
    let mut dirs: Vec<PathBuf> = fs::read_dir(root().join("kernels"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("kernel.toml").is_file())
        .collect();
    dirs.sort();
    let ran = Ran::of(test.command().args(["check", "--strict"]).args(&dirs));
    ran.expect(0, &["clean"]);
    assert_eq!(ran.out.lines().count(), dirs.len(), "{ran:#?}");
}

#[test]
fn check_prints_place_message_and_rule_and_fails_on_errors_alone() {
    let test = project(&[("build.toml", "[general]\nlicense = \" \"\n")]);
    let text = fs::read_to_string(test.project.join("p/build.toml")).unwrap();
    let line = text.lines().position(|line| line.starts_with("license")).unwrap() + 1;
    let place = format!("p/build.toml:{line}:11: error: ");
    test.run("check p").expect(1, &[&place, "[build-toml/empty-license]", "1 error in 6 files"]);
    let test = project(&[("torch-ext/scale_rows/data.json", "{}")]);
    test.run("check p").expect(0, &["warning: ", "1 warning"]);
    test.run("check p --strict").expect(1, &["data-not-shipped"]);
    test.run("check p --quiet --strict").expect(1, &[]);
    assert_eq!(test.run("check p --quiet").out, "");
}

#[test]
fn check_without_a_folder_takes_this_one_and_with_several_checks_all() {
    let test = project(&[]);
    let folder = test.project.join("p");
    assert_eq!(test.run_in(&folder, "check").code, 0);
    written(&test, "q", &laid_over(&Files::from([("setup.py".into(), "import setuptools\n".into())])));
    let report = test.json("check q p");
    assert_eq!(report["ok"], false);
    assert_eq!(report["errors"], 1);
    assert_eq!(report["projects"][0]["dir"], "q");
    assert_eq!(report["projects"][1]["findings"], Value::Array(Vec::new()));
}

#[test]
fn a_setup_py_is_the_builder_s_where_what_it_writes_beside_it_is_there() {
    let setup = ("setup.py", "import setuptools\n");
    let compiles = ("setup.py", "from torch.utils.cpp_extension import CUDAExtension\n");
    let (pyproject, cmake) = (("pyproject.toml", ""), ("CMakeLists.txt", ""));
    for (files, expected) in [
        (&[setup][..], &["python/setup-py"][..]),
        (&[setup, pyproject], &["python/setup-py"]),
        (&[setup, cmake], &["python/setup-py"]),
        (&[setup, pyproject, cmake], &[]),
        (&[compiles, pyproject, cmake], &["python/setup-py"]),
    ] {
        assert_eq!(found(&project(files), "p"), expected, "{files:?}");
    }
}

#[test]
fn check_of_what_is_no_project_is_wrong_usage_and_checks_nothing() {
    let test = project(&[("build.toml", "[general]\nlicense = \"\"\n")]);
    fs::create_dir(test.project.join("empty")).unwrap();
    for (typed, words) in [
        ("check p empty", ["empty is not a kernel project", "no build.toml"]),
        ("check p nowhere", ["nowhere", "no such folder"]),
        ("check p/build.toml", ["p/build.toml", "no such folder"]),
        ("check p --export out.txt", ["out.txt", ".json or .sarif"]),
        ("check --explain cuda/strem", ["no rule cuda/strem", "cuda/default-stream"]),
        ("check --explain default-stream", ["no rule", "cuda/default-stream"]),
        ("check p --dry-run", ["--dry-run", "--fix"]),
        ("check p --format xml", ["xml", "sarif"]),
    ] {
        let ran = test.run(typed);
        ran.expect(2, &words);
        assert!(!ran.out.contains("empty-license"), "{typed}: {ran:#?}");
    }
}

#[test]
fn check_lists_and_explains_its_rules() {
    let test = Test::new();
    let ran = test.ok("check --list");
    assert_eq!(ran.out.lines().count(), RULES.len());
    let listed = test.json("check --list");
    assert_eq!(listed["rules"].as_array().unwrap().len(), RULES.len());
    assert_eq!(listed["rules"][0]["rule"], "build-toml/syntax");
    let page = fs::read_to_string(root().join("docs/rules/cuda-int32-index.md")).unwrap();
    assert_eq!(test.ok("check --explain cuda/int32-index").out, page);
    let explained = test.json("check --explain cuda/int32-index");
    assert_eq!(explained["page"], page);
    assert_eq!(explained["severity"], "error");
}

#[test]
fn json_says_where_and_what() {
    let test = project(&[(
        "kernel_src/scale.cu",
        "#include \"scale.cuh\"\nvoid f() { scale_kernel<<<1, 2>>>(0, 0, 0, 1.0f); }\n",
    )]);
    let report = test.json("check p");
    assert_eq!((&report["errors"], &report["warnings"]), (&1.into(), &1.into()));
    let finding = &report["projects"][0]["findings"][0];
    assert_eq!(finding["rule"], "cuda/default-stream");
    assert_eq!(finding["path"], "kernel_src/scale.cu");
    assert_eq!((&finding["line"], &finding["column"]), (&2.into(), &24.into()));
    assert_eq!((&finding["end_line"], &finding["end_column"]), (&2.into(), &27.into()));
    assert_eq!(finding["severity"], "error");
    assert_eq!(finding["fixable"], false);
    let printed = test.run("check p --format json");
    assert_eq!(serde_json::from_str::<Value>(&printed.out).unwrap(), report);
    assert_eq!(printed.err, "");
    let ran = test.run("check p --export out.json");
    ran.expect(1, &["wrote out.json", "cuda/default-stream"]);
    let exported = fs::read_to_string(test.project.join("out.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&exported).unwrap(), report);
}

/// Checks the requirements of the SARIF 2.1.0 schema for the elements that are used.
#[test]
fn sarif_has_what_its_schema_requires() {
    let test = project(&[
        ("build.toml", "[general]\nlicense = \"\"\n"),
        ("kernel.toml", "[[check.allow]]\nrule = \"build-toml/empty-license\"\nreason = \"in house\"\n"),
        ("torch-ext/scale_rows/a b.json", "{}"),
        (
            "kernel_src/scale.cu",
            "#include \"scale.cuh\"\nvoid f() {\n  scale_kernel<<<1, 2>>>(0, 0, 0, 1.0f); // kernels: allow(cuda/launch-unchecked): é\n}\n",
        ),
    ]);
    let ran = test.run("check p --export a.sarif --export b.JSON --format sarif");
    assert_eq!((ran.code, ran.err.as_str()), (1, ""));
    let log = ran.json();
    let exported = fs::read_to_string(test.project.join("a.sarif")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&exported).unwrap(), log);
    assert_eq!(log["version"], "2.1.0");
    let run = &log["runs"][0];
    assert_eq!(run["tool"]["driver"]["name"], "kernels");
    let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
    assert_eq!(rules.len(), RULES.len());
    for rule in rules {
        assert!(rule["id"].is_string());
        assert!(rule["shortDescription"]["text"].is_string());
        assert!(rule["help"]["text"].is_string() && rule["help"]["markdown"].is_string());
        assert!(matches!(rule["defaultConfiguration"]["level"].as_str(), Some("error" | "warning")));
        if let Some(uri) = rule.get("helpUri") {
            assert!(uri.as_str().unwrap().starts_with("https://"));
        }
    }
    let results = run["results"].as_array().unwrap();
    let mut suppressed = Vec::new();
    for result in results {
        assert!(result["message"]["text"].as_str().is_some_and(|text| !text.is_empty()));
        let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
        assert_eq!(rules[index]["id"], result["ruleId"]);
        let location = &result["locations"][0]["physicalLocation"];
        let uri = location["artifactLocation"]["uri"].as_str().unwrap();
        assert!(uri.starts_with("p/") && uri.is_ascii() && !uri.contains(' '), "{uri}");
        let region = &location["region"];
        for key in ["startLine", "startColumn", "endLine", "endColumn"] {
            assert!(region[key].as_u64().unwrap() >= 1, "{result}");
        }
        for suppression in result["suppressions"].as_array().into_iter().flatten() {
            suppressed.push((suppression["kind"].as_str().unwrap(), suppression["justification"].as_str().unwrap()));
        }
    }
    suppressed.sort_unstable();
    assert_eq!(suppressed, [("external", "in house"), ("inSource", "é")]);
    assert_eq!(results.len(), 4, "{results:#?}");
}

#[test]
fn an_export_is_written_over_nothing_but_a_file() {
    let test = project(&[]);
    fs::create_dir(test.project.join("taken.json")).unwrap();
    test.run("check p --export taken.json").expect(1, &["taken.json", "no regular file"]);
}

const UNBOUNDED: &str = "#pragma once\n\n__global__ void scale_kernel(float *out, const float *in, int64_t n, float factor) {\n  \
     int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) out[i] = in[i] * factor;\n}\n";

#[test]
fn findings_are_allowed_at_their_line_by_file_and_by_folder() {
    let above =
        UNBOUNDED.replace("  int i", "  /* kernels: allow(cuda/int32-index, cuda/default-stream): small */\n  int i");
    let test = project(&[("kernel_src/scale.cuh", &above)]);
    // The second rule in the comment matches no finding.
    assert_eq!(found(&test, "p"), ["allow/unused"]);
    let finding = &test.json("check p")["projects"][0]["findings"][0];
    assert_eq!((&finding["line"], &finding["column"]), (&4.into(), &6.into()), "{finding}");
    let behind = UNBOUNDED.replace("threadIdx.x;", "threadIdx.x;  // kernels:allow(cuda/int32-index): small");
    assert_eq!(found(&project(&[("kernel_src/scale.cuh", &behind)]), "p"), [""; 0]);
    let below = UNBOUNDED.replace("  if", "  // kernels: allow(cuda/int32-index): small\n  if");
    assert_eq!(found(&project(&[("kernel_src/scale.cuh", &below)]), "p"), ["cuda/int32-index", "allow/unused"]);
    let in_a_string =
        UNBOUNDED.replace("  int i", "  const char *s = \"// kernels: allow(cuda/int32-index): small\";\n  int i");
    assert_eq!(found(&project(&[("kernel_src/scale.cuh", &in_a_string)]), "p"), ["cuda/int32-index"]);
    for (path, expected) in [
        ("path = \"kernel_src/scale.cuh\"\n", vec![]),
        ("path = \"./kernel_src/\"\n", vec![]),
        ("", vec![]),
        ("path = \"kernel\"\n", vec!["allow/unused", "cuda/int32-index"]),
    ] {
        let allow = format!("[[check.allow]]\nrule = \"cuda/int32-index\"\n{path}reason = \"small\"\n");
        let test = project(&[("kernel_src/scale.cuh", UNBOUNDED), ("kernel.toml", &allow)]);
        assert_eq!(found(&test, "p"), expected, "{path}");
    }
    let python = "from ._ops import ops  # kernels: allow(python/no-all): an example\n";
    assert_eq!(found(&project(&[("torch-ext/scale_rows/__init__.py", python)]), "p"), [""; 0]);
    let toml = clean()["build.toml"]
        .replace("license = \"Apache-2.0\"", "# kernels: allow(build-toml/empty-license): in house\nlicense = \"\"");
    let test = project(&[("build.toml", &toml)]);
    assert_eq!(found(&test, "p"), [""; 0]);
    let report = test.json("check p");
    let allowed = &report["projects"][0]["allowed"][0];
    assert_eq!((&allowed["rule"], &allowed["reason"]), (&"build-toml/empty-license".into(), &"in house".into()));
    test.run("check p").expect(0, &["clean, 1 allowed in 6 files"]);
}

#[test]
fn allows_that_are_wrong_are_findings_and_allow_nothing() {
    for (allow, expected) in [
        ("rule = \"cuda/int32-index\"\n", "allow/no-reason"),
        ("rule = \"cuda/int32-index\"\nreason = \"  \"\n", "allow/no-reason"),
        ("rule = \"cuda/int33-index\"\nreason = \"small\"\n", "allow/unknown-rule"),
        ("rule = \"allow/unused\"\nreason = \"small\"\n", "allow/unknown-rule"),
        ("reason = \"small\"\n", "kernel-toml/syntax"),
        ("rule = \n", "kernel-toml/syntax"),
        // An allow of one file is not one of all.
        ("rule = \"cuda/int32-index\"\nfile = \"other.cu\"\nreason = \"small\"\n", "kernel-toml/syntax"),
        ("rule = \"cuda/int32-index\"\npath = 3\nreason = \"small\"\n", "kernel-toml/syntax"),
    ] {
        let allow = format!("[[check.allow]]\n{allow}");
        let test = project(&[("kernel_src/scale.cuh", UNBOUNDED), ("kernel.toml", &allow)]);
        assert_eq!(found(&test, "p"), [expected, "cuda/int32-index"], "{allow}");
    }
}

#[test]
fn kernel_toml_with_allows_is_a_kernel_toml() {
    let text = fs::read_to_string(root().join("kernels/rmsnorm/kernel.toml")).unwrap();
    for (allow, sound) in [
        ("rule = \"a\"\nreason = \"b\"\npath = \"c\"\n", true),
        ("rule = \"a\"\n", false),
        ("rule = \"a\"\nreason = \"b\"\nfile = \"c\"\n", false),
    ] {
        let test = Test::new();
        let build = fs::read_to_string(root().join("kernels/rmsnorm/build.toml")).unwrap();
        for source in build.split('"').filter(|word| word.contains('/')) {
            write(&test.project.join("p").join(source), "");
        }
        write(&test.project.join("p/build.toml"), &build);
        write(&test.project.join("p/kernel.toml"), format!("{text}\n[[check.allow]]\n{allow}"));
        let read = kernels::project::Project::open(&test.project.join("p"));
        assert_eq!(read.is_ok(), sound, "{allow}: {:?}", read.err());
    }
}

#[test]
fn fix_mends_what_is_mechanical_and_nothing_else_and_is_done_after_once() {
    let build = "[general]\nname = \"scale-rows\" # the name\nversion = 1 # the first\nlicense = \"MIT\"\nbackends = [\"cuda\"]\n\n\
                 [torch]\nsrc = [\n  \"torch-ext/torch_binding.cpp\", # ops\n  # declarations\n  \"torch-ext/torch_binding.h\" # no comma\n]\n\n\
                 [kernel.scale_rows]\nbackend = \"cuda\"\ndepends = [\"torch\"]\nsrc = [ \"kernel_src/scale.cu\" ]\n";
    let init = "from scale_rows.layers.a import A\nfrom scale_rows import helpers  # \"from scale_rows.x import\"\n\
                from ._ops import ops\n\n__all__ = [\"A\", \"helpers\", \"ops\"]\n";
    let nested = "from scale_rows.helpers import B\nfrom scale_rows.layers import b\n\n\nclass A(B): pass\n";
    let test = project(&[
        ("build.toml", build),
        ("kernel_src/scale.cu", &format!("#include \"more.h\"\n{}", clean()["kernel_src/scale.cu"])),
        ("kernel_src/more.h", "#pragma once\n"),
        ("torch-ext/torch_binding.h", "#pragma once\n#include \"types.h\"\n"),
        ("torch-ext/types.h", "#pragma once\n"),
        ("torch-ext/scale_rows/__init__.py", init),
        ("torch-ext/scale_rows/helpers.py", "class B: pass\n"),
        ("torch-ext/scale_rows/layers/__init__.py", ""),
        ("torch-ext/scale_rows/layers/a.py", nested),
        ("torch-ext/scale_rows/layers/b.py", ""),
    ]);
    let folder = test.project.join("p");
    fs::set_permissions(folder.join("build.toml"), fs::Permissions::from_mode(0o600)).unwrap();
    let before = snapshot(&folder);
    let dry = test.run("check p --fix --dry-run");
    dry.expect(1, &["would mend: p/build.toml: wrote `edition = 5`", "--fix]"]);
    assert_eq!(snapshot(&folder), before);
    test.run("check p --fix").expect(
        0,
        &[
            "mended: p/build.toml: wrote `edition = 5`",
            "listed kernel_src/more.h, kernel_src/scale.cuh",
            "listed torch-ext/types.h",
            "`from scale_rows.layers.a` is `from .layers.a`",
            "clean",
        ],
    );
    let expected = build
        .replace("version = 1 # the first\n", "version = 1 # the first\nedition = 5\n")
        .replace("torch_binding.h\" # no comma\n]", "torch_binding.h\", # no comma\n  \"torch-ext/types.h\",\n]")
        .replace(
            "[ \"kernel_src/scale.cu\" ]",
            "[ \"kernel_src/scale.cu\", \"kernel_src/more.h\", \"kernel_src/scale.cuh\"]",
        );
    let read = |path: &str| fs::read_to_string(folder.join(path)).unwrap();
    assert_eq!(read("build.toml"), expected);
    assert_eq!(fs::metadata(folder.join("build.toml")).unwrap().permissions().mode() & 0o777, 0o600);
    let expected = init
        .replace("from scale_rows.layers.a", "from .layers.a")
        .replace("from scale_rows import helpers", "from . import helpers");
    assert_eq!(read("torch-ext/scale_rows/__init__.py"), expected);
    let expected =
        nested.replace("from scale_rows.helpers", "from ..helpers").replace("from scale_rows.layers", "from ..layers");
    assert_eq!(read("torch-ext/scale_rows/layers/a.py"), expected);
    let after = snapshot(&folder);
    let again = test.run("check p --fix");
    again.expect(0, &["clean"]);
    assert!(!again.out.contains("mended"), "{again:#?}");
    assert_eq!(snapshot(&folder), after);
}

#[test]
fn fix_keeps_the_files_line_ends_and_its_byte_order_mark() {
    let build = clean()["build.toml"].replace("edition = 5\n", "").replace('\n', "\r\n");
    let build = format!("\u{feff}{build}");
    let test = project(&[("build.toml", &build)]);
    assert_eq!(found(&test, "p"), ["build-toml/edition"]);
    test.run("check p --fix").expect(0, &["clean"]);
    let after = fs::read_to_string(test.project.join("p/build.toml")).unwrap();
    assert_eq!(after, build.replace("version = 1\r\n", "version = 1\r\nedition = 5\r\n"));
}

#[test]
fn fix_leaves_alone_what_is_not_its_to_write() {
    let init = "from scale_rows.a import x\n\n__all__ = [\"x\"]\n";
    let files = [("torch-ext/scale_rows/a.py", "x = 1\n"), ("torch-ext/scale_rows/__init__.py", init)];
    let test = project(&files);
    let init = test.project.join("p/torch-ext/scale_rows/__init__.py");
    let real = test.project.join("p/real.py");
    fs::rename(&init, &real).unwrap();
    symlink("../../real.py", &init).unwrap();
    let before = snapshot(test.project.join("p"));
    test.run("check p --fix").expect(1, &["left alone:", "__init__.py", "is a link", "python/absolute-import"]);
    assert_eq!(snapshot(test.project.join("p")), before);
    let test = project(&files);
    let init = test.project.join("p/torch-ext/scale_rows/__init__.py");
    fs::set_permissions(&init, fs::Permissions::from_mode(0o444)).unwrap();
    let before = snapshot(test.project.join("p"));
    let report = test.json("check p --fix");
    let refused = report["projects"][0]["fixes"][0]["refused"].as_str().unwrap();
    assert!(refused.contains("may not be written"), "{refused}");
    assert_eq!(snapshot(test.project.join("p")), before);
    // `--fix` does not write to a file that is not valid TOML of this edition.
    let build = clean()["build.toml"].replace("edition = 5", "editor = 5");
    let test = project(&[("build.toml", &build)]);
    test.run("check p --fix").expect(1, &["build-toml/schema", "build-toml/edition"]);
    assert_eq!(fs::read_to_string(test.project.join("p/build.toml")).unwrap(), build);
}

#[test]
fn hostile_files_are_survived() {
    let binary: Vec<u8> = (0..=255).cycle().take(20_000).collect();
    let deep = "((((".repeat(50_000);
    let angles = "a<".repeat(50_000);
    let launches = "<<<".repeat(20_000);
    let functions = "void f() { k<<<1, 2>>>(); }\n".repeat(5_000);
    let line = format!("int x = {};", "1 + ".repeat(200_000));
    for (name, text) in [
        ("deep", deep.as_bytes()),
        ("angles", angles.as_bytes()),
        ("launches", launches.as_bytes()),
        ("functions", functions.as_bytes()),
        ("line", line.as_bytes()),
        ("binary", &binary),
        ("latin-1", b"// caf\xe9\nint x;\n"),
        ("comment", b"int x; /* never closed"),
        ("string", b"const char *s = \"never closed\nR\"(never closed"),
        ("if", b"#if 0\n#else\n#else\n#endif\n#endif\n}}}}"),
        ("carriage", b"int x;\r\n#include \"scale.cuh\"\r\n"),
        ("mark", b"\xef\xbb\xbfint x;\n"),
        ("empty", b""),
    ] {
        let test = project(&[]);
        write(&test.project.join("p/kernel_src/scale.cu"), text);
        let ran = test.run("check p");
        assert!(ran.code == 0 || ran.code == 1, "{name}: {ran:#?}");
        if name == "binary" {
            ran.expect(1, &["sources/missing", "binary"]);
        }
        let test = project(&[]);
        write(&test.project.join("p/torch-ext/scale_rows/more.py"), text);
        let ran = test.run("check p");
        assert!(ran.code == 0 || ran.code == 1, "{name}: {ran:#?}");
        if matches!(name, "binary" | "latin-1") {
            ran.expect(1, &["sources/missing", "not UTF-8"]);
        }
        let test = project(&[]);
        write(&test.project.join("p/build.toml"), text);
        let ran = test.run("check p --fix");
        assert_eq!(ran.code, 1, "{name}: {ran:#?}");
        assert_eq!(fs::read(test.project.join("p/build.toml")).unwrap(), text, "{name}");
        let test = project(&[]);
        write(&test.project.join("p/kernel.toml"), text);
        let ran = test.run("check p");
        assert!(ran.code == 0 || ran.code == 1, "{name}: {ran:#?}");
    }
}

#[test]
fn versions_have_two_parts() {
    for (section, key, rule) in [
        ("[general.cuda]", "minver", "build-toml/schema"),
        ("[torch]", "maxver", "build-toml/schema"),
        ("[kernel.scale_rows]", "cuda-minver", "build-toml/schema"),
        ("[torch]", "stable-abi", "build-toml/stable-abi"),
    ] {
        for (version, right) in [("13.0", true), ("13", false), ("12.8.0", false), ("13.", false)] {
            let test = project(&[]);
            let text = fs::read_to_string(test.at("p/build.toml")).unwrap();
            let line = format!("{section}\n{key} = \"{version}\"\n");
            let inside = text.replace(&format!("{section}\n"), &line);
            test.write("p/build.toml", if inside == text { format!("{text}\n{line}") } else { inside });
            let mut found = found(&test, "p");
            found.retain(|rule| rule.starts_with("build-toml/"));
            assert_eq!(found, [rule; 1][usize::from(right)..], "{line}");
        }
    }
}

#[test]
fn names_in_files_do_not_act_on_the_terminal() {
    let test = project(&[("build.toml", "[general]\nlicense = \"MIT\"\nbackends = [\"\\u001b[2J\\nx\"]\n")]);
    let ran = test.run("check p");
    ran.expect(1, &["build-toml/schema"]);
    assert!(!ran.out.contains("\u{1b}[2J"), "{ran:#?}");
    for line in ran.out.lines() {
        assert!(line.starts_with('p'), "{line}");
    }
}

#[test]
fn links_loops_and_unreadable_files_are_findings() {
    let test = project(&[]);
    let folder = test.project.join("p");
    // Cycles of links to folders and files, in the package and beside the sources.
    symlink(".", folder.join("torch-ext/scale_rows/loop")).unwrap();
    symlink("self.py", folder.join("torch-ext/scale_rows/self.py")).unwrap();
    symlink("../kernel_src", folder.join("kernel_src/loop")).unwrap();
    assert_eq!(found(&test, "p"), [""; 0]);
    write(&test.project.join("outside.cuh"), "#pragma once\n");
    fs::remove_file(folder.join("kernel_src/scale.cuh")).unwrap();
    symlink("../../outside.cuh", folder.join("kernel_src/scale.cuh")).unwrap();
    assert_eq!(found(&test, "p"), ["sources/outside"]);
    fs::remove_file(folder.join("kernel_src/scale.cuh")).unwrap();
    symlink("scale.cuh", folder.join("kernel_src/scale.cuh")).unwrap();
    assert_eq!(found(&test, "p"), ["sources/missing"]);
    fs::remove_file(folder.join("kernel_src/scale.cuh")).unwrap();
    fs::create_dir(folder.join("kernel_src/scale.cuh")).unwrap();
    test.run("check p").expect(1, &["sources/missing", "is a folder"]);
    let test = project(&[]);
    let unreadable = test.project.join("p/kernel_src/scale.cu");
    fs::set_permissions(&unreadable, fs::Permissions::from_mode(0o0)).unwrap();
    if fs::read(&unreadable).is_err() {
        test.run("check p").expect(1, &["sources/missing", "cannot be read"]);
        let build = test.project.join("p/build.toml");
        fs::set_permissions(&build, fs::Permissions::from_mode(0o0)).unwrap();
        test.run("check p").expect(1, &["cannot read", "build.toml"]);
    }
}

/// A pipe and a device never end, and a folder or a link to nothing is not left unsaid.
#[test]
fn what_is_no_file_in_place_of_kernel_toml_or_build_toml_is_an_error() {
    let test = Test::new();
    test.ok("init my-norms --op blank");
    let run = |typed: &str| {
        let mut command = test.command_of("timeout");
        Ran::of(command.args(["60", program()]).args(typed.split(' ')))
    };
    let put = |kind: &str, path: &Path| match kind {
        "pipe" => mkfifo(path, Mode::from_bits_truncate(0o644)).unwrap(),
        "folder" => fs::create_dir(path).unwrap(),
        to => symlink(to, path).unwrap(),
    };
    for name in ["kernel.toml", "build.toml"] {
        let path = test.at("my-norms").join(name);
        let text = fs::read_to_string(&path).unwrap();
        for kind in ["pipe", "folder", "/dev/zero", "nowhere"] {
            fs::remove_file(&path).unwrap();
            put(kind, &path);
            let (why, known) = match kind {
                "nowhere" => ("No such file", "has no"),
                "/dev/zero" => ("a link out of the project's folder", "not a regular file"),
                _ => ("not a regular file", "not a regular file"),
            };
            for typed in ["build my-norms", "tune my-norms"] {
                run(typed).expect(1, &[name, known]);
            }
            assert!([1, 2].contains(&run("ci my-norms").code));
            match name {
                "kernel.toml" => drop(run("check my-norms").expect(1, &["kernel.toml:1", why, "[kernel-toml/syntax]"])),
                _ => assert!([1, 2].contains(&run("check my-norms").code)),
            }
            fs::remove_file(&path).or_else(|_| fs::remove_dir(&path)).unwrap();
            fs::write(&path, &text).unwrap();
        }
    }
    // A link to a file of the project is one.
    fs::rename(test.at("my-norms/kernel.toml"), test.at("my-norms/there.toml")).unwrap();
    symlink("there.toml", test.at("my-norms/kernel.toml")).unwrap();
    test.ok("check my-norms");
}

/// A project with only these files.
fn alone(files: &[(&str, &str)]) -> Test {
    let test = Test::new();
    for (path, text) in files {
        write(&test.project.join("p").join(path), text);
    }
    test
}

fn expect_alone(files: &[(&str, &str)], expected: &[&str]) {
    let test = alone(files);
    assert_eq!(found(&test, "p"), expected, "{:#?}", test.run("check p"));
}

#[test]
fn a_project_that_begins_with_kernels_alone_is_left_in_peace() {
    let build = "[general]\nname = \"copy\"\nversion = 1\nedition = 5\nlicense = \"MIT\"\nbackends = [\"cuda\"]\n\n\
                 [torch]\nsrc = []\n\n[kernel.copy]\nbackend = \"cuda\"\ndepends = []\nsrc = [\"copy.cu\"]\n";
    let files = [("build.toml", build), ("copy.cu", "int x;\n")];
    expect_alone(&files, &[]);
    let report = alone(&files).json("check p");
    assert!(report["projects"][0]["notes"][0].as_str().unwrap().contains("torch-ext"));
}

#[test]
fn a_project_of_python_alone_is_good_with_its_own_namespace_and_bad_with_another() {
    let build = "[general]\nname = \"soft-gate\"\nversion = 2\nedition = 5\nlicense = \"MIT\"\n\
                 backends = [\"cpu\", \"cuda\", \"rocm\"]\n\n[torch-noarch]\n\n[kernel]\n";
    let init = "import torch\n\nfrom . import layers\nfrom ._ops import ops\nfrom .op import _gate\n\n\ndef gate(x):\n    \
                return ops.gate(x)\n\n\n__all__ = [\"gate\", \"layers\"]\n";
    let layers = "import torch\nimport torch.nn as nn\n\nfrom ._ops import ops\n\n\nclass Gate(nn.Module):\n    \
                  \"\"\"Half gates half.\"\"\"\n\n    can_torch_compile: bool = True\n\n    def forward(self, x: torch.Tensor):\n        \
                  return ops.gate(x)\n";
    let op = "import torch\nimport triton\nimport triton.language as tl\n\nfrom ._ops import add_op_namespace_prefix\n\n\n\
              @triton.jit\ndef _kernel(x, n, BLOCK: tl.constexpr):\n    pass\n\n\n\
              @torch.library.custom_op(add_op_namespace_prefix(\"gate\"), mutates_args=())\n\
              def _gate(x: torch.Tensor) -> torch.Tensor:\n    return x\n\n\n_gate.register_autograd(None, setup_context=None)\n\n\n\
              @_gate.register_fake\ndef _(x: torch.Tensor) -> torch.Tensor:\n    return torch.empty_like(x)\n";
    let files = |op| {
        [
            ("build.toml", build),
            ("torch-ext/soft_gate/__init__.py", init),
            ("torch-ext/soft_gate/layers.py", layers),
            ("torch-ext/soft_gate/op.py", op),
        ]
    };
    expect_alone(&files(op), &[]);
    let fixed = op.replace("add_op_namespace_prefix(\"gate\")", "\"gates::gate\"");
    expect_alone(&files(&fixed), &["python/fixed-namespace"]);
    let no_fake = op.replace("@_gate.register_fake", "@other.register_something");
    expect_alone(&files(&no_fake), &["torch/no-fake"]);
    let imported = op
        .replace("import torch\n", "import torch\nfrom torch.library import custom_op\n")
        .replace("torch.library.custom_op(add_op_namespace_prefix(\"gate\")", "custom_op(\"gates::gate\"");
    expect_alone(&files(&imported), &["python/fixed-namespace"]);
    let commented = op.replace("@triton.jit", "# @torch.library.custom_op(\"gates::gate\")\n@triton.jit");
    expect_alone(&files(&commented), &[]);
}

#[test]
fn a_project_of_many_backends_that_share_a_binding_is_good() {
    let build = "[general]\nname = \"clamp\"\nversion = 1\nedition = 5\nlicense = \"Apache-2.0\"\n\
                 backends = [\"cpu\", \"cuda\", \"metal\", \"rocm\", \"xpu\"]\n\n[torch]\npyext = [\"json\", \"py\"]\n\
                 src = [\"torch-ext/torch_binding.cpp\", \"torch-ext/torch_binding.h\"]\n\n\
                 [torch.stable-abi]\ncpu = \"2.11\"\n\n\
                 [kernel.clamp_rocm]\nbackend = \"rocm\"\ndepends = [\"torch\"]\nrocm-archs = [\"gfx90a\", \"gfx1101\"]\nsrc = [\"gpu/clamp.cu\"]\n\n\
                 [kernel.clamp_xpu]\nbackend = \"xpu\"\ndepends = [\"torch\", \"sycl_tla\"]\nsycl-flags = [\"-DX\"]\nsrc = [\"xpu/clamp.cpp\"]\n\n\
                 [kernel.clamp_metal]\nbackend = \"metal\"\ndepends = [\"torch\"]\nsrc = [\"metal/clamp.mm\", \"metal/clamp.metal\", \"metal/common.h\"]\n\n\
                 [kernel.clamp_cpu]\nbackend = \"cpu\"\ndepends = [\"torch\"]\ncxx-flags = [\"-DY\"]\nsrc = [\"cpu/clamp_cpu.cpp\"]\n\n\
                 [kernel.clamp]\nbackend = \"cuda\"\ndepends = [\"torch\"]\ncuda-capabilities = [\"5.0\", \"8.0\", \"9.0a\"]\nsrc = [\"gpu/clamp.cu\"]\n";
    let binding = "#include <torch/library.h>\n\n#include \"registration.h\"\n#include \"torch_binding.h\"\n\n\
                   #ifndef X\n#error \"it's not set\"\n#endif\n\n\
                   TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {\n  ops.def(\"clamp(Tensor! out, Tensor input) -> ()\");\n\
                   #if defined(CPU_KERNEL)\n  ops.impl(\"clamp\", torch::kCPU, &clamp);\n\
                   #elif defined(CUDA_KERNEL) || defined(ROCM_KERNEL)\n  ops.impl(\"clamp\", torch::kCUDA, &clamp);\n#endif\n}\n\n\
                   REGISTER_EXTENSION(TORCH_EXTENSION_NAME)";
    let registration = "#pragma once\n#define CONCAT(A, B) A##B\n#define TORCH_LIBRARY_EXPAND(NAME, MODULE) TORCH_LIBRARY(NAME, MODULE)\n\
                        #define REGISTER_EXTENSION(NAME) \\\n  PyMODINIT_FUNC CONCAT(PyInit_, NAME)() { return nullptr; }\n";
    let gpu = "#include <ATen/cuda/CUDAContext.h>\n#include <c10/cuda/CUDAGuard.h>\n#include <torch/all.h>\n\n\
               template <typename T>\n__global__ void clamp_kernel(T *__restrict__ out, T const *__restrict__ in, int const d) {\n  \
               int64_t const row = blockIdx.x;\n  for (int64_t i = threadIdx.x; i < d; i += blockDim.x) {\n    \
               out[row * d + i] = in[row * d + i];\n  }\n}\n\n\
               void clamp(torch::Tensor &out, torch::Tensor const &input) {\n  int d = input.size(-1);\n  \
               int64_t rows = input.numel() / d;\n  dim3 grid(rows);\n  dim3 block(std::min(d, 1024));\n  \
               at::cuda::OptionalCUDAGuard const device_guard(device_of(input));\n  \
               cudaStream_t const stream = at::cuda::getCurrentCUDAStream();\n  \
               AT_DISPATCH_FLOATING_TYPES(input.scalar_type(), \"clamp\", [&] {\n    \
               clamp_kernel<scalar_t><<<grid, block, 0, stream>>>(out.data_ptr<scalar_t>(), input.data_ptr<scalar_t>(), d);\n    \
               C10_CUDA_KERNEL_LAUNCH_CHECK();\n  });\n}\n";
    let init = "import json\nfrom pathlib import Path\n\nimport torch\n\nfrom ._ops import ops\n\nfrom . import layers\n\n\n\
                def clamp(x):\n    out = torch.empty_like(x)\n    ops.clamp(out, x)\n    return out\n\n\n__all__ = [\"clamp\", \"layers\"]\n";
    let layers = "import torch\nimport torch.nn as nn\n\nfrom .._ops import ops\n\n\nclass Clamp(nn.Module):\n    \
                  def forward(self, x: torch.Tensor) -> torch.Tensor:\n        ops.clamp(x, x)\n        return x\n";
    let mut files = vec![
        ("build.toml", build),
        ("torch-ext/torch_binding.cpp", binding),
        ("torch-ext/torch_binding.h", "#pragma once\n#include <torch/torch.h>\n"),
        ("torch-ext/registration.h", registration),
        ("torch-ext/clamp/__init__.py", init),
        ("torch-ext/clamp/data.json", "{}"),
        ("torch-ext/clamp/layers/__init__.py", layers),
        ("gpu/clamp.cu", gpu),
        ("xpu/clamp.cpp", "#include <torch/torch.h>\n"),
        ("metal/clamp.mm", "#include \"common.h\"\n"),
        ("metal/clamp.metal", "kernel void f() {}\n"),
        ("metal/common.h", "#pragma once\n"),
        ("cpu/clamp_cpu.cpp", "#include <torch/headeronly/util/Half.h>\n"),
        ("flake.nix", "{ }\n"),
        ("tests/test_clamp.py", "import clamp\nimport numpy\n"),
    ];
    expect_alone(&files, &[]);
    files[12].1 = "#include <torch/all.h>\n";
    expect_alone(&files, &["torch/full-abi-header"]);
    files[12].1 = "\n";
    let bad = build.replace("\"gfx90a\"", "\"gfx99999\"").replace("\"5.0\"", "\"99999.0\"");
    files[0].1 = &bad;
    expect_alone(&files, &["build-toml/capability", "build-toml/capability"]);
    let old = build.replace("\"8.0\", \"9.0a\"", "\"6.0\"");
    files[0].1 = &old;
    expect_alone(&files, &["build-toml/capability"]);
}

#[test]
fn a_project_with_tvm_ffi_is_good() {
    let build = "[general]\nname = \"flip\"\nversion = 1\nedition = 5\nlicense = \"MIT\"\nbackends = [\"cuda\"]\n\n\
                 [tvm-ffi]\nsrc = [\"tvm-ffi-ext/tvm_ffi_binding.cpp\"]\n\n\
                 [kernel.flip]\nbackend = \"cuda\"\ndepends = []\nsrc = [\"cuda/flip.cu\", \"util.hh\"]\n";
    let init = "import tvm_ffi\n\nfrom ._ops import has_jax, ops\n\n\ndef flip(x, out):\n    ops.flip(out, x)\n\n\n\
                if has_jax:\n    from jax_tvm_ffi import register_ffi_target\n\n\ndef flip_jax(x):\n    import jax.ffi\n\n\n__all__ = [\"flip\"]\n";
    let cuda = "#include <tvm/ffi/tvm_ffi.h>\n\n#include \"../util.hh\"\n\nvoid flip(ffi::TensorView out, int64_t rows) {\n  \
                cudaStream_t stream = get();\n  if (rows) {\n    flip_kernel<<<rows, 32, 0, stream>>>(out);\n  }\n  CHECK_LAUNCH();\n}\n";
    expect_alone(
        &[
            ("build.toml", build),
            ("tvm-ffi-ext/tvm_ffi_binding.cpp", "#include <tvm/ffi/tvm_ffi.h>\n"),
            ("tvm-ffi-ext/flip/__init__.py", init),
            ("cuda/flip.cu", cuda),
            ("util.hh", "#pragma once\n"),
        ],
        &[],
    );
}

#[test]
fn functional_ops_are_faked_in_python_or_for_meta_in_cpp() {
    let def = |more: &str| {
        format!(
            "#include <torch/library.h>\n#include \"registration.h\"\n#include \"torch_binding.h\"\n\
             TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {{\n  ops.def(\"scale(Tensor input, \"\n          \"float factor) -> Tensor\");\n  \
             ops.impl(\"scale\", torch::kCUDA, &scale);\n{more}}}\nREGISTER_EXTENSION(TORCH_EXTENSION_NAME)\n"
        )
    };
    let cases: [(&str, &str, &[&str]); 6] = [
        ("", "", &["torch/no-fake"]),
        ("  ops.impl(\"scale\", torch::kMeta, &scale_meta);\n", "", &[]),
        ("", "from torch.library import register_fake\nregister_fake(add_op_namespace_prefix(\"scale\"))(f)\n", &[]),
        ("", "library.register_fake(name())(f)\n", &[]),
        ("", "# register_fake(add_op_namespace_prefix(\"scale\"))\n", &["torch/no-fake"]),
        ("", "s = 'register_fake(add_op_namespace_prefix(\"scale\"))'\n", &["torch/no-fake"]),
    ];
    for (cpp, python, expected) in cases {
        let init = format!("from ._ops import add_op_namespace_prefix, ops\n{python}__all__ = [\"ops\"]\n");
        let test = project(&[("torch-ext/torch_binding.cpp", &def(cpp)), ("torch-ext/scale_rows/__init__.py", &init)]);
        assert_eq!(found(&test, "p"), expected, "{cpp}{python}");
    }
}

#[test]
fn an_op_may_be_implemented_or_defined_in_python() {
    let binding = |ops: &str| {
        format!(
            "#include <torch/library.h>\n#include \"registration.h\"\n#include \"torch_binding.h\"\n\
             TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, ops) {{\n{ops}}}\nREGISTER_EXTENSION(TORCH_EXTENSION_NAME)\n"
        )
    };
    let defined = "  ops.def(\"scale(Tensor input, float factor) -> Tensor\");\n";
    let implemented = "  ops.impl(\"scale\", torch::kCUDA, &scale);\n";
    let custom = "@torch.library.custom_op(add_op_namespace_prefix(\"scale\"), mutates_args=())\ndef scale_op(x: torch.Tensor) -> torch.Tensor:\n    return x\n";
    let kernel =
        "@scale_op.register_kernel(\"cuda\")\ndef cuda(x):\n    return x.clone()\n\n\ny = ops.scale\nz = torch.add\n";
    let cases: [(&str, &str, bool); 5] = [
        (defined, "", true),
        (defined, kernel, false),
        (implemented, "", true),
        (implemented, custom, false),
        (implemented, "x = torch.library\n", true),
    ];
    for (cpp, python, mismatch) in cases {
        let init = format!(
            "import torch\n\nfrom ._ops import add_op_namespace_prefix, ops\n\n{python}\n__all__ = [\"ops\"]\n"
        );
        let test =
            project(&[("torch-ext/torch_binding.cpp", &binding(cpp)), ("torch-ext/scale_rows/__init__.py", &init)]);
        let found = found(&test, "p");
        assert_eq!(found.iter().any(|rule| rule == "torch/op-mismatch"), mismatch, "{cpp}{python}: {found:?}");
    }
}

#[test]
fn modules_of_one_framework_are_no_others() {
    let init = "import tvm_ffi\nimport jax\n\nfrom ._ops import ops\n\n__all__ = [\"ops\", \"jax\", \"tvm_ffi\"]\n";
    let test = project(&[("torch-ext/scale_rows/__init__.py", init)]);
    let ran = found(&test, "p");
    assert_eq!(ran.iter().filter(|rule| rule.starts_with("python/")).count(), 2, "{ran:?}");
}

#[test]
fn what_looks_bad_in_comments_strings_macros_and_dead_code_is_no_finding() {
    let source = "// PYBIND11_MODULE(x, m) {}\n/* #include <torch/extension.h>\n k<<<1, 2>>>(); */\n\
                  const char *text = \"k<<<1, 2>>>(); PYBIND11_MODULE(x, m)\";\nconst char *raw = R\"x(\n#include <pybind11/pybind11.h>\n\
                  TORCH_LIBRARY(x, m) { }\n)x\";\nconst char *quoted = \"\\\"k<<<1, 2>>>();\";\nconst char *continued = \"a\\\r\nk<<<1, 2>>>();\";\n#define LAUNCH(k) k<<<1, 2>>>(); \\\n  k<<<3, 4>>>()\n#if 0\nvoid f() { k<<<1, 2>>>(); }\n\
                  #include <torch/extension.h>\n#endif\nMap<A<B<int>>> map;\nint shifted = 1 << 2;\n";
    let test = project(&[("kernel_src/scale.cu", &format!("{}{source}", clean()["kernel_src/scale.cu"]))]);
    assert_eq!(found(&test, "p"), [""; 0]);
}

#[test]
fn a_package_of_another_name_is_named() {
    let build = clean()["build.toml"].replace("name = \"scale-rows\"", "name = \"scale-columns\"");
    let test = project(&[("build.toml", &build)]);
    test.run("check p").expect(1, &["there is torch-ext/scale_rows: rename it, or the kernel"]);
}

/// The clean project with one file's text changed.
fn changed(path: &str, edits: &[(&str, &str)]) -> Vec<String> {
    let mut text = clean()[path].clone();
    for (from, to) in edits {
        assert!(text.contains(from), "{path}: {from}");
        text = text.replacen(from, to, 1);
    }
    found(&project(&[(path, &text)]), "p")
}

#[test]
fn ops_that_are_registered_in_other_ways_are_not_judged() {
    const BINDING: &str = "torch-ext/torch_binding.cpp";
    let implemented = "ops.impl(\"scale\", torch::kCUDA, &scale);";
    let defined = "ops.def(\"scale(Tensor! out, Tensor input, float factor) -> ()\");";
    let before = "TORCH_LIBRARY_EXPAND(";
    for (helper, call) in [
        ("#define IMPLEMENT(name) ops.impl(#name, torch::kCUDA, &name)\n", "IMPLEMENT(scale);"),
        ("static void implement(torch::Library &m) { m.impl(\"scale\", torch::kCUDA, &scale); }\n", "implement(ops);"),
    ] {
        assert_eq!(changed(BINDING, &[(implemented, call), (before, &format!("{helper}{before}"))]), [""; 0], "{call}");
    }
    let chained = format!("{}{}", defined.trim_end_matches(';'), implemented.trim_start_matches("ops"));
    assert_eq!(changed(BINDING, &[(implemented, ""), (defined, &chained)]), [""; 0]);
    // What is not there is missed nevertheless, also of an op with tags.
    assert_eq!(changed(BINDING, &[(implemented, "")]), ["torch/op-mismatch"]);
    let tagged = defined.replace("\")", "\", {at::Tag::pt2_compliant_tag})");
    assert_eq!(changed(BINDING, &[(implemented, ""), (defined, &tagged)]), ["torch/op-mismatch"]);
    assert_eq!(changed(BINDING, &[(defined, &tagged)]), [""; 0]);
}

#[test]
fn code_that_is_right_is_no_finding_in_unusual_forms() {
    const SOURCE: &str = "kernel_src/scale.cu";
    const MODULE: &str = "torch-ext/scale_rows/__init__.py";
    let all = "__all__ = [\"scale\"]";
    let configured = "<<<n < 1024 ? n : 1024, n > 256 ? 256 : 32, 0, stream>>>";
    let edits = [
        ("<<<1024, 256, 0, stream>>>", configured),
        ("if (input.numel() == 0) return;", "const int64_t n = input.size(0);"),
    ];
    assert_eq!(changed(SOURCE, &edits), [""; 0]);
    for stream in
        ["at::cuda::getDefaultCUDAStream()", "(cudaStream_t)nullptr", "static_cast<cudaStream_t>(0)", "cudaStream_t{}"]
    {
        let passed = format!("<<<1024, 256, 0, {stream}>>>");
        assert_eq!(changed(SOURCE, &[("<<<1024, 256, 0, stream>>>", &passed)]), ["cuda/default-stream"], "{stream}");
        assert_eq!(
            changed(SOURCE, &[("at::cuda::getCurrentCUDAStream()", stream)]),
            ["cuda/default-stream"],
            "{stream}"
        );
    }
    for imports in ["with open(__file__):\n    import foolib\n", "class Once:\n    import foolib\n"] {
        assert_eq!(
            changed(MODULE, &[("from typing", &format!("{imports}from typing"))]),
            ["python/import-not-allowed"],
            "{imports}"
        );
    }
    for imports in ["try:\n    import foolib\nexcept ImportError:\n    pass\n", "TEXT = 'x; \\\r\nimport foolib'\r\n"] {
        assert_eq!(changed(MODULE, &[("from typing", &format!("{imports}from typing"))]), [""; 0], "{imports}");
    }
    let include = "#if __has_include(\"../generated/config.h\")\n#include \"../generated/config.h\"\n#endif\n";
    let test = project(&[(SOURCE, &format!("{include}{}", clean()[SOURCE]))]);
    test.run("check p").expect(0, &["sources/missing", "warning"]);
    for listed in [
        "__all__ = \"scale half\".split()",
        "__all__ = [\"scale\"] + ([\"torch\"] if torch.os.environ.get(\"SCALE_DEBUG\") else [])",
        "__all__ = [n for n in (\"scale\", \"x\") if n not in (\"os\", \"re\")]",
    ] {
        assert_eq!(changed(MODULE, &[(all, listed)]), [""; 0], "{listed}");
    }
    assert_eq!(changed(MODULE, &[(all, "__all__ = [\"scale\", \"half\"]")]), ["python/all-undefined"]);
    let theirs = [("    ops.scale(", "    torch.ops.symm_mem.barrier(x)\n    ops.scale(")];
    assert_eq!(changed(MODULE, &theirs), [""; 0]);
}

/// torch refuses each of these with an `#error` where the stable ABI is asked for.
#[test]
fn headers_beside_the_stable_abi_are_named() {
    let build = "[torch]\nstable-abi = \"2.11\"\n";
    for header in [
        "c10/util/Exception.h",
        "c10/macros/Macros.h",
        "torch/custom_class.h",
        "torch/csrc/cuda/Stream.h",
        "torch/cuda.h",
    ] {
        let binding = format!("#include <{header}>\n");
        let rules = found(&project(&[("build.toml", build), ("torch-ext/torch_binding.h", &binding)]), "p");
        assert!(rules.contains(&"torch/full-abi-header".to_owned()), "{header}: {rules:?}");
    }
}

#[test]
fn fix_writes_an_edition_only_where_it_belongs() {
    let clean = clean()["build.toml"].replace("edition = 5\n", "");
    let (head, rest) = clean.split_once("\n\n").unwrap();
    let keys = head.lines().skip(1);
    let dotted: String = keys.map(|line| format!("general.{line}\n")).collect();
    let test = Test::new();
    for (text, fixed) in [(clean.clone(), true), (format!("{dotted}\n{rest}"), false)] {
        let mut files = self::clean();
        files.insert("build.toml".to_owned(), text.clone());
        written(&test, "p", &files);
        test.ok("check p --fix");
        let now = fs::read_to_string(test.at("p/build.toml")).unwrap();
        assert_eq!((now != text, now.contains("\nedition = 5\n")), (fixed, fixed), "{now}");
    }
}

#[test]
fn launchers_are_compared_as_far_as_that_is_certain() {
    let page = fs::read_to_string(root().join("docs/rules/torch-launcher-declaration.md")).unwrap();
    let head = page.split("## Bad").next().unwrap();
    let good = page.split("## Good").nth(1).unwrap();
    let (source, binding) = (&blocks(head)["kernel_src/scale.cu"], &blocks(good)["torch-ext/torch_binding.cpp"]);
    let compared = |source: &str, binding: &str| {
        let files = [("kernel_src/scale.cu", source), ("torch-ext/torch_binding.cpp", binding)];
        found(&project(&files), "p")
    };
    assert_eq!(compared(source, binding), [""; 0]);
    let wrong = ["torch/launcher-declaration"];
    for (from, to, expected) in [
        ("void *out,", "float out[],", &[][..]),
        ("void *out,", "float out[4],", &[]),
        ("void *out,", "[[maybe_unused]] float out[],", &[]),
        ("float factor,", "float factor[],", &wrong),
        ("float factor,", "double factor,", &wrong),
        ("float factor,", "[[maybe_unused]] double factor,", &[]),
        // What follows `=` is a value.
        ("float factor,", "float factor = factors[1],", &[]),
        ("int64_t count,", "const std::int64_t count,", &[]),
        ("int64_t count,", "size_t count,", &[]),
        ("int64_t count,", "long long count,", &[]),
        ("int64_t count,", "int count,", &wrong),
        ("int64_t count,", "unsigned int count,", &wrong),
        ("int64_t count,", "uint32_t count,", &wrong),
        ("int64_t count,", "index_of_theirs count,", &[]),
        ("void *stream", "cudaStream_t stream", &[]),
        ("void *stream", "CUstream stream", &[]),
        ("void *stream", "CUstream_st *stream", &[]),
        ("void *stream", "int stream", &wrong),
        ("float factor, void *stream", "float factor, void *stream, int device", &wrong),
        // Linkage of a block, of the statement alone, and of C++.
        ("extern \"C\" int scale_launch(", "extern \"C\" {\nint other(void);\n}\nint scale_launch(int first, ", &[]),
        ("extern \"C\" int scale_launch(", "extern \"C\" void other(); int scale_launch(int first, ", &[]),
        ("extern \"C\" int scale_launch(", "extern \"C\" int *scale_launch(int first, ", &wrong),
        ("extern \"C\" int scale_launch(", "int scale_launch(int first, ", &[]),
        ("void *stream);", "void *stream) noexcept;", &[]),
        ("float factor, void *stream);", "void *stream) noexcept(true);", &wrong),
    ] {
        assert_eq!(compared(source, &binding.replacen(from, to, 1)), expected, "{to}");
    }
    let of = |inside: &str| {
        binding.replacen("extern \"C\" int scale_launch(", &format!("extern \"C\" {{\n{inside}scale_launch("), 1)
    };
    let in_block = |inside: &str| of(inside).replacen("stream);", "stream);\n}", 1);
    assert_eq!(compared(source, &in_block("int ")), [""; 0]);
    let missing = in_block("int ").replacen("float factor, ", "", 1);
    assert_eq!(compared(source, &missing), wrong);
    // No parameters, in both spellings; `void` beside another is a type.
    let with = |defined: &str| format!("{source}\nextern \"C\" int version({defined}) {{ return 1; }}\n");
    let told = |declared: &str| format!("{binding}\nextern \"C\" int version({declared});\n");
    assert_eq!(compared(&with("void"), &told("")), [""; 0]);
    assert_eq!(compared(&with(""), &told("void")), [""; 0]);
    assert_eq!(compared(&with("void"), &told("int")), wrong);
    // Two definitions, and their declarations under the same condition.
    let start = source.find("extern").unwrap();
    let (head, definition) = source.split_at(start);
    let other = definition.replacen("float factor,", "float factor, int mode,", 1);
    let two = format!("{head}#ifdef MODE\n{other}#else\n{definition}#endif\n");
    assert_eq!(compared(&two, binding), [""; 0]);
}

#[test]
fn launches_that_wait_and_launches_that_do_not_begin_early() {
    let page = fs::read_to_string(root().join("docs/rules/cuda-dependent-wait.md")).unwrap();
    let bad = &blocks(page.split("## Bad").nth(1).unwrap().split("## Good").next().unwrap())["kernel_src/scale.cu"];
    let of = |source: &str| found(&project(&[("kernel_src/scale.cu", source)]), "p");
    let allowed = "programmaticStreamSerializationAllowed = 1;";
    assert_eq!(of(bad), ["cuda/dependent-wait"]);
    let asm = "#define WAIT() \\\n  asm volatile(\"griddepcontrol.wait;\" ::: \"memory\")\n";
    assert_eq!(of(&format!("{asm}{bad}")), [""; 0]);
    let cutlass = "__device__ void first() { cutlass::arch::wait_on_dependent_grids(); }\n";
    assert_eq!(of(&format!("{bad}{cutlass}")), [""; 0]);
    for off in ["0", "false"] {
        let off = format!("programmaticStreamSerializationAllowed = {off};");
        assert_eq!(of(&bad.replace(allowed, &off)), [""; 0], "{off}");
        // One of two launches begins early.
        let both = format!("{off} early.val.{allowed}");
        assert_eq!(of(&bad.replace(allowed, &both)), ["cuda/dependent-wait"]);
    }
    let computed = "programmaticStreamSerializationAllowed = 0 + early_enough;";
    assert_eq!(of(&bad.replace(allowed, computed)), ["cuda/dependent-wait"]);
}

#[test]
fn indices_and_launches_as_people_write_them() {
    let kernel = |count: &str, body: &str| {
        format!(
            "#pragma once\n__global__ void scale_kernel(float *out, const float *in, {count}, float factor) {{\n{body}\n}}\n"
        )
    };
    let cases: [(&str, &str, &[&str]); 22] = [
        ("int64_t n", "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return;", &["error"]),
        ("int64_t n", "int i = blockIdx.x + threadIdx.x; if (i >= n) return;", &[]),
        ("int64_t n", "int i = blockIdx.x * 256u + threadIdx.x; if (i >= n) return;", &["error"]),
        ("int64_t n", "int i = blockIdx.x * BLOCK_2 + threadIdx.x; if (i >= n) return;", &["error"]),
        ("int64_t n", "int i = blockIdx.x * wide + threadIdx.x; if (i >= n) return;", &[]),
        ("int64_t n", "if (const int64_t i = blockIdx.x * 256; i < n) out[i] = 0;", &["warning"]),
        ("int64_t n", "for (const int64_t i = blockIdx.x * 256; i < n;) out[i] = 0;", &[]),
        // A loop that advances by something else than the grid.
        ("int64_t n", "for (int64_t i = blockIdx.x * 256 + threadIdx.x; i < n; i += 1 << 20) out[i] = 0;", &[]),
        (
            "int64_t n",
            "for (const int64_t j : all) {} const int64_t i = blockIdx.x * 256; if (i < n) out[i] = 0;",
            &["warning"],
        ),
        ("std::size_t n", "unsigned int i = threadIdx.x + blockIdx.x * 256; if (n > i) out[i] = 0;", &["error"]),
        ("long long n", "const auto i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) out[i] = 0;", &["error"]),
        (
            "const int64_t n",
            "for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = 0;",
            &["error"],
        ),
        ("int64_t n", "int64_t i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) out[i] = 0;", &["warning"]),
        (
            "int64_t n",
            "for (int64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = 0;",
            &[],
        ),
        ("int64_t n", "int64_t i = int64_t(blockIdx.x) * blockDim.x + threadIdx.x; if (i < n) out[i] = 0;", &[]),
        ("int64_t n", "int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; if (i < n) out[i] = 0;", &[]),
        ("int n", "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) out[i] = 0;", &[]),
        ("uint32_t n", "uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) out[i] = 0;", &[]),
        ("int64_t n", "int i = threadIdx.x; if (i < n) out[blockIdx.x * n + i] = 0;", &[]),
        ("int64_t n", "int row = blockIdx.x * 4 + threadIdx.y; if (row < n / 4) out[row] = 0;", &[]),
        ("const int64_t *n", "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n[0]) out[i] = 0;", &[]),
        ("index_t n", "int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) out[i] = 0;", &[]),
    ];
    for (count, body, expected) in cases {
        let test = project(&[("kernel_src/scale.cuh", &kernel(count, body))]);
        let report = test.json("check p");
        let found: Vec<&str> = report["projects"][0]["findings"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|finding| finding["rule"] == "cuda/int32-index")
            .map(|finding| finding["severity"].as_str().unwrap())
            .collect();
        assert_eq!(found, expected, "{count}: {body}");
    }
    let launch = |body: &str| format!("#include \"scale.cuh\"\n{body}\n");
    let cases: [(&str, &[&str]); 13] = [
        ("int f(cudaStream_t s) { k<<<1, 2, 0, s>>>(); return cudaPeekAtLastError(); }", &[]),
        ("int f(void *s) { k<<<1, 2, 0, static_cast<cudaStream_t>(s)>>>(); return cudaGetLastError(); }", &[]),
        ("int f() { k<<<1, 2, 0, nullptr>>>(); return cudaGetLastError(); }", &["cuda/default-stream"]),
        ("int f() { k<<<1, 2, 0, 0>>>(); return cudaGetLastError(); }", &["cuda/default-stream"]),
        ("int L = 1, R = 2; int f(cudaStream_t s) { k<<<L, R, 0, s>>>(); return cudaGetLastError(); }", &[]),
        ("void f(cudaStream_t s) { k<<<1, 2, 0, s>>>(); }", &["cuda/launch-unchecked"]),
        (
            "static void g(cudaStream_t s) { k<<<1, 2, 0, s>>>(); }\nvoid f(cudaStream_t s) { g(s); CUDA_CHECK(cudaGetLastError()); }",
            &[],
        ),
        ("__global__ void parent() { k<<<1, 2>>>(); }", &[]),
        ("int f(cudaStream_t s) { return cudaLaunchKernel(k, 1, 2, a, 0, s); }", &[]),
        ("int f() { return cudaLaunchKernel(k, 1, 2, a, 0, 0); }", &["cuda/default-stream"]),
        ("int f() { return cudaLaunchKernel(k, 1, 2, a); }", &["cuda/default-stream"]),
        ("void f(cudaStream_t s) { cudaLaunchKernel(k, 1, 2, a, 0, s); }", &["cuda/launch-unchecked"]),
        ("void f(cudaStream_t s) { if (cudaError_t e = cudaLaunchKernel(k, 1, 2, a, 0, s)) throw e; }", &[]),
    ];
    for (body, expected) in cases {
        let test = project(&[("kernel_src/scale.cu", &launch(body))]);
        assert_eq!(found(&test, "p"), expected, "{body}");
        let is_launch = |mark: &String| mark.ends_with(" <<<") || mark.ends_with(" cudaLaunchKernel");
        assert!(marked(&test, "p").iter().all(is_launch), "{body}: {:?}", marked(&test, "p"));
    }
    let guarded = "#include \"scale.cuh\"\nint f(const at::Tensor &x, cudaStream_t s) {\n  const c10::cuda::CUDAGuard guard(x.device());\n  BODY\n  return cudaGetLastError();\n}\n";
    let cases: [(&str, &[&str]); 9] = [
        ("const int n = x.numel(); scale_kernel<<<1, 2, 0, s>>>(p, p, n, 1.0f);", &["cuda/int32-count"]),
        ("scale_kernel<<<1, 2, 0, s>>>(p, p, static_cast<int>(x.numel()), 1.0f);", &["cuda/int32-count"]),
        ("scale_kernel<<<1, 2, 0, s>>>(p, p, (int)x.numel(), 1.0f);", &["cuda/int32-count"]),
        ("TORCH_CHECK(x.numel() <= INT_MAX); int n = x.numel(); scale_kernel<<<1, 2, 0, s>>>(p, p, n, 1.0f);", &[]),
        ("int d = x.size(-1); int n = x.numel() / d; scale_kernel<<<1, 2, 0, s>>>(p, p, n, 1.0f);", &[]),
        ("scale_kernel<<<1, 2, 0, s>>>(p, p, x.numel(), 1.0f);", &[]),
        ("scale_kernel<<<1, 2, 0, s>>>(p, p, static_cast<int64_t>(x.numel()), 1.0f);", &[]),
        ("scale_kernel<<<1, 2, 0, s>>>(p, p, static_cast<int>(rows), 1.0f);", &[]),
        ("scale_kernel<<<1, 2, 0, s>>>(p, p, rows, x.numel());", &[]),
    ];
    for (body, expected) in cases {
        let test = project(&[("kernel_src/scale.cu", &guarded.replace("BODY", body))]);
        assert_eq!(found(&test, "p"), expected, "{body}");
    }
    // A count becomes what the kernel's parameter is.
    for (parameter, expected) in [
        ("int n", &["cuda/int32-count"][..]),
        ("const unsigned n", &["cuda/int32-count"]),
        ("unsigned long long n", &[]),
        ("const int *n", &[]),
        ("double n", &[]),
    ] {
        let own = format!("__global__ void own({parameter}) {{}}\n");
        let launch =
            guarded.replace("BODY", "own<<<1, 2, 0, s>>>(x.numel());").replace("int f(", &format!("{own}int f("));
        assert_eq!(found(&project(&[("kernel_src/scale.cu", &launch)]), "p"), expected, "{parameter}");
    }
}

#[test]
fn python_as_people_write_it() {
    let cases: [(&str, &[&str]); 24] = [
        ("import os, sys, torch.nn.functional as F\nfrom typing import Optional\n", &[]),
        ("try:\n    import flash\nexcept ImportError:\n    flash = None\n", &[]),
        ("def f():\n    import numpy as np\n", &[]),
        ("def f():\n\timport numpy as np\n", &[]),
        ("if TYPE_CHECKING:\n    from scale_rows.x import X\n", &[]),
        ("try:\n    from .x import X\nexcept ImportError:\n    X = None\n", &[]),
        ("import packaging.version, yaml\n", &[]),
        ("z = ops.nothing(1)\n", &["python/unknown-op"]),
        ("z = ops.nothing(1) if hasattr(ops, 'nothing') else None\n", &[]),
        ("def register(name, schema):\n    library.define(name + schema)\nz = ops.nothing(1)\n", &[]),
        ("import scale_rows\n", &["python/absolute-import"]),
        ("def f():\n    from scale_rows import x\n", &["python/absolute-import"]),
        ("import einops\n", &["python/import-not-allowed"]),
        ("from . import anything\n", &[]),
        ("from .nothing import x\n", &["python/missing-module"]),
        ("from ... import x\n", &["python/missing-module"]),
        ("y = torch.ops.aten.add\n", &[]),
        ("y = torch.ops.other.add\n", &["python/undeclared-namespace"]),
        ("y = torch.ops.load_library('x')\n", &[]),
        ("l = torch.library.Library('scale', 'DEF')\n", &["python/fixed-namespace"]),
        ("'''\nimport scale_rows\n'''\ns = f'import {x}'\n# import scale_rows\n", &[]),
        ("@torch.library.register_fake('scale::scale')\ndef _(x): return x\n", &["python/fixed-namespace"]),
        ("@torch.other.register_fake('scale::scale')\ndef _(x): return x\n", &[]),
        ("@other.library.register_fake('scale::scale')\ndef _(x): return x\n", &[]),
    ];
    for (python, expected) in cases {
        let init = format!("import torch\n{python}from ._ops import ops\n__all__ = [\"ops\"]\n");
        let test = project(&[("torch-ext/scale_rows/__init__.py", &init)]);
        assert_eq!(found(&test, "p"), expected, "{python}");
    }
    let general = "[general]\nlicense = \"MIT\"\n";
    let cases: [(&str, &str, &[&str]); 6] = [
        ("python-depends = [\"einops\"]", "einops", &[]),
        // Of another dependency.
        ("python-depends = [\"einops\"]", "helion", &["python/import-not-allowed"]),
        ("[general.cuda]\npython-depends = [\"nvidia-cutlass-dsl\"]", "cutlass", &[]),
        // Of another backend, and of none.
        ("python-depends = [\"nki\"]", "os", &["depends/not-allowed"]),
        ("[general.cuda]\npython-depends = [\"nki\"]", "os", &["depends/not-allowed"]),
        ("[general.cuda]\npython-depends = [\"einops\"]", "os", &["depends/not-allowed"]),
    ];
    for (depends, module, expected) in cases {
        let init = format!("import {module}\n__all__ = [\"{module}\"]\n");
        let test =
            project(&[("build.toml", &format!("{general}{depends}\n")), ("torch-ext/scale_rows/__init__.py", &init)]);
        assert_eq!(found(&test, "p"), expected, "{depends} {module}");
    }
}

#[test]
fn python_that_python_does_not_read_is_missing() {
    let module = "torch-ext/scale_rows/x.py";
    let test = project(&[(module, "a = 1\n")]);
    assert_eq!(found(&test, "p"), [""; 0]);
    for text in [&b"a = 1\0\n"[..], b"a = '\xff'\n"] {
        write(&test.at(&format!("p/{module}")), text);
        assert_eq!(found(&test, "p"), ["sources/missing"]);
    }
}

/// The rules of the findings, with their severities.
fn severities(files: &[(&str, &str)]) -> Vec<(String, String)> {
    let report = project(files).json("check p");
    let word = |finding: &Value, key: &str| finding[key].as_str().unwrap().to_owned();
    report["projects"][0]["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| (word(finding, "rule"), word(finding, "severity")))
        .collect()
}

#[test]
fn what_is_not_loaded_or_not_compiled_or_not_certain_is_less_than_an_error() {
    let init = "from ._ops import ops\nfrom .used import f\n\n__all__ = [\"f\", \"ops\"]\n";
    let used = "import scipy\nfrom .nothing import x\n\n\ndef f():\n    from .nothing import y\n";
    let found = severities(&[
        ("torch-ext/scale_rows/__init__.py", init),
        ("torch-ext/scale_rows/used.py", used),
        ("torch-ext/scale_rows/unused.py", "import scipy\nfrom .nothing import x\n"),
        ("torch-ext/scale_rows/beside.py", "import used\nimport numpy\n"),
    ]);
    let expected = [
        ("python/absolute-import", "warning"),
        ("python/import-not-allowed", "warning"),
        ("python/import-not-allowed", "warning"),
        ("python/missing-module", "warning"),
        ("python/import-not-allowed", "error"),
        ("python/missing-module", "error"),
        ("python/missing-module", "warning"),
    ];
    let expected = expected.map(|(rule, severity)| (rule.to_owned(), severity.to_owned()));
    assert_eq!(found, expected);
    let lists =
        "[kernel.scale_rows]\nsrc = [\"kernel_src/scale.cu\", \"kernel_src/scale.cuh\", \"kernel_src/more.h\"]\n";
    let more = "#ifndef MORE_H\n#define MORE_H\n#include <torch/extension.h>\n#include \"unlisted.h\"\n#endif\n";
    let unlisted = ("kernel_src/unlisted.h", "#pragma once\n");
    // Listed, but not included by any compiled file.
    assert_eq!(severities(&[("build.toml", lists), ("kernel_src/more.h", more), unlisted]), []);
    let source = format!("#include \"more.h\"\n{}", clean()["kernel_src/scale.cu"]);
    let found =
        severities(&[("build.toml", lists), ("kernel_src/more.h", more), ("kernel_src/scale.cu", &source), unlisted]);
    let expected = [("torch/torch-extension-header", "error"), ("sources/unlisted", "error")];
    let expected = expected.map(|(rule, severity)| (rule.to_owned(), severity.to_owned()));
    assert_eq!(found, expected);
    let conditional = "#pragma once\n#if !defined(__CUDACC__)\n#include <pybind11/pybind11.h>\n#endif\n";
    let found =
        severities(&[("build.toml", lists), ("kernel_src/more.h", conditional), ("kernel_src/scale.cu", &source)]);
    assert_eq!(found, [("torch/pybind11".to_owned(), "warning".to_owned())]);
}

#[test]
fn ops_of_python_that_need_no_fake_and_layers_that_override_what_a_module_has() {
    let binding = clean()["torch-ext/torch_binding.cpp"]
        .replace("scale(Tensor! out, Tensor input, float factor) -> ()", "scale(Tensor input, float factor) -> Tensor");
    let head = "import torch\nfrom torch.library import custom_op, triton_op\n\nfrom ._ops import add_op_namespace_prefix, ops\n\n\n";
    let tail = "\n\n__all__ = [\"ops\"]\n";
    let wrapped = "@custom_op(add_op_namespace_prefix(\"scaled\"), mutates_args=())\ndef scaled(x: torch.Tensor) -> torch.Tensor:\n    \
                   return ops.scale(x, 2.0)\n\n\n@scaled.register_fake\ndef _(x):\n    return torch.empty_like(x)\n";
    let traced = "@triton_op(add_op_namespace_prefix(\"scaled\"), mutates_args=())\ndef scaled(x: torch.Tensor) -> torch.Tensor:\n    \
                  return ops.scale(x, 2.0)\n";
    let bare = "def also(x):\n    return ops.scale(x, 3.0)\n";
    for (body, expected) in [
        (wrapped.to_owned(), vec![]),
        (traced.to_owned(), vec![]),
        (format!("{wrapped}\n\n{bare}"), vec!["torch/no-fake"]),
    ] {
        let init = format!("{head}{body}{tail}");
        let test = project(&[("torch-ext/torch_binding.cpp", &binding), ("torch-ext/scale_rows/__init__.py", &init)]);
        assert_eq!(found(&test, "p"), expected, "{body}");
    }
    // A schema behind one of torch's words for it is read as well.
    for (schema, expected) in [
        ("torch::schema(\"scale(Tensor! out, Tensor input, float factor) -> ()\", {})", vec![]),
        ("torch::schema(\"scale(Tensor out, Tensor input, float factor) -> ()\")", vec!["torch/undeclared-mutation"]),
    ] {
        let plain = "\"scale(Tensor! out, Tensor input, float factor) -> ()\"";
        let binding = clean()["torch-ext/torch_binding.cpp"].replace(plain, schema);
        assert_eq!(found(&project(&[("torch-ext/torch_binding.cpp", &binding)]), "p"), expected, "{schema}");
    }
    let layer = |member: &str, nn: &str| {
        format!("{nn}\n\n\nclass Scale(nn.Module):\n    {member}\n\n    def forward(self, x):\n        return x\n")
    };
    for (member, nn, expected) in [
        ("def extra_repr(self): return \"\"", "from torch import nn", vec![]),
        ("def helper(self): pass", "from torch import nn", vec!["python/layer-state"]),
        ("factor = 2", "import torch.nn as nn", vec!["python/layer-state"]),
        ("factor: float = 2.0", "from torch import nn", vec!["python/layer-state"]),
        ("factor: float", "from torch import nn", vec![]),
        ("def __init__(self): pass", "import torch\nnn = torch.nn", vec!["python/layer-state"]),
        ("def helper(self): pass", "from flax import linen as nn", vec![]),
    ] {
        let rules = |text: &str| -> Vec<String> {
            let test = project(&[("torch-ext/scale_rows/layers.py", text)]);
            found(&test, "p").into_iter().filter(|rule| rule != "python/import-not-allowed").collect()
        };
        let text = layer(member, nn);
        assert_eq!(rules(&text), expected, "{member} {nn}");
        for (base, import) in [("torch.nn.Module", "import torch"), ("Module", "from torch.nn import Module")] {
            let text = text.replace("nn.Module", base).replace(nn, import);
            let is_torch = !nn.contains("flax");
            assert_eq!(rules(&text), if is_torch { &expected[..] } else { &["python/layer-state"] }, "{member} {base}");
        }
    }
}

/// Mistakes in what binds an operation to its kernels, made in new projects: each is found without a card and a compiler.
#[test]
fn mistakes_in_the_contract_are_found() {
    const DECLARED: &str = "int64_t gate_stride, int64_t up_stride, int dtype, void* stream);";
    let test = Test::new();
    test.ok("init gated --op geglu,swiglu,swiglu_packed --owner someone --no-git");
    test.ok("init capped --op blank --owner someone --no-git");
    test.run("check --strict gated capped").expect(0, &["clean"]);
    // A comment is none of them.
    let header = test.at("gated/kernel_src/geglu/activation.cuh");
    let text = fs::read_to_string(&header).unwrap();
    fs::write(&header, format!("// ## swiglo_launch was renamed\n{text}")).unwrap();
    for (file, from, to, rule, says) in [
        (
            "gated/kernel.toml",
            "name = \"swiglu\"\n",
            "name = \"swiglu\"\nlauncher = \"swiglo_launch\"\n",
            "kernel-toml/launcher",
            "no source of build.toml has the launcher `swiglo_launch`; is it `swiglu_launch`?",
        ),
        (
            "gated/kernel.toml",
            "error = \"geglu_error\"",
            "error = \"geglu_eror\"",
            "kernel-toml/launcher",
            "no source of build.toml has the `error` function `geglu_eror`",
        ),
        (
            "gated/kernel.toml",
            "\"gate_stride\", \"up_stride\"], type",
            "\"gate_stride\"], type",
            "kernel-toml/launcher",
            "takes 10 arguments, and kernel.toml gives 9: `arguments` lacks `up_stride`",
        ),
        (
            "gated/kernel.toml",
            "{ scalars = [\"gate_first\", \"tanh\"], type = \"i32\" }",
            "{ scalars = [\"gate_first\", \"tanh\"], type = \"i64\" }",
            "kernel-toml/launcher",
            "`gate_first` is i64, which is int64_t, and the launcher takes `int` there",
        ),
        (
            "gated/kernel.toml",
            "defaults = { gate_first = 0, tanh = 0 }",
            "defaults = { gate_first = 0 }",
            "kernel-toml/schema",
            "gives no value to tanh",
        ),
        (
            "capped/kernel.toml",
            "function = \"softcap\"",
            "function = \"softcup\"",
            "kernel-toml/oracle",
            "kernel_src/softcap/reference.py has no function `softcup`; is it `softcap`?",
        ),
        (
            "gated/torch-ext/geglu.cpp",
            DECLARED,
            "int64_t gate_stride, int dtype, void* stream);",
            "torch/launcher-declaration",
            "`swiglu_launch` is declared with 9 parameters instead of 10",
        ),
        (
            "gated/torch-ext/gated/__init__.py",
            "    \"swiglu\",\n",
            "    \"swiglu\",\n    \"swiglu_\",\n",
            "python/all-undefined",
            "__all__ lists `swiglu_`, which this module neither defines nor imports",
        ),
        (
            "gated/build.toml",
            "someone/",
            "your-name/",
            "build-toml/placeholder-owner",
            "`your-name/gated` is a placeholder",
        ),
        ("gated/kernel_src/new/more.cu", "", "void more() {}\n", "sources/extra", "`kernel_src/new/more.cu`"),
    ] {
        let path = test.project.join(file);
        let text = fs::read_to_string(&path).unwrap_or_default();
        assert!(text.contains(from), "{file} lacks {from}");
        write(&path, text.replacen(from, to, 1));
        let ran = test.run(&format!("check --strict {}", file.split('/').next().unwrap()));
        ran.expect(1, &[says, rule]);
        if text.is_empty() {
            fs::remove_file(&path).unwrap();
        } else {
            write(&path, text);
        }
    }
    let path = test.project.join("gated/kernel.toml");
    let text = fs::read_to_string(&path).unwrap();
    write(&path, text.replacen("oracle = \"swiglu_backward\"", "oracle = \"swiglu_backwards\"", 1));
    test.run("ci gated").expect(1, &["none named `swiglu_backwards` is bundled", "Is it `swiglu_backward`?"]);
}

#[test]
fn ci_checks_the_text_first() {
    let test = Test::new();
    let bundled = root().join("kernels/rmsnorm");
    for (path, text) in snapshot(&bundled) {
        if !path.ends_with('/') {
            write(&test.project.join("p").join(path), text.split_once(' ').unwrap().1);
        }
    }
    let report = test.json("ci p");
    let check = &report["projects"][0]["checks"][1];
    assert_eq!((&check["group"], &check["status"]), (&"check".into(), &"passed".into()), "{check:#}");
    let path = test.project.join("p/build.toml");
    let build = fs::read_to_string(&path).unwrap();
    fs::write(&path, build.replace("license = \"Apache-2.0\"", "license = \"\"")).unwrap();
    let report = test.json("ci p");
    let check = &report["projects"][0]["checks"][1];
    assert_eq!(check["status"], "failed");
    assert!(check["text"].as_str().unwrap().contains("build-toml/empty-license"), "{check:#}");
}

/// No other folder is read or written: paths resolve only below the project.
#[test]
fn a_folder_may_be_named_through_a_link() {
    let test = project(&[("build.toml", "[general]\nlicense = \"\"\n")]);
    symlink("p", test.project.join("link")).unwrap();
    test.run("check link").expect(1, &["link/build.toml:"]);
    assert!(Path::new(&test.project).join("link").is_symlink());
}
