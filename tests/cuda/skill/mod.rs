//! The text of the skill is correct: quotes, figures, limits, messages, and the projects extracted from its templates.
//! `UPDATE=1 cargo test --test cuda skill` updates the quotes.

mod emulated;
mod instructions;
mod messages;
mod quotes;
mod trials;
mod vendor;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::{copy, cuda, generated, program, root, torch};
use kernels::base::arch::Limits;
use kernels::skill::tokens;
use messages::{MESSAGES, Proof};
use quotes::{fences, pages, render, sources};
use tempfile::TempDir;

fn references() -> PathBuf {
    root().join("skills/cuda-kernels/references")
}

fn page(name: &str) -> String {
    fs::read_to_string(references().join(name)).unwrap()
}

#[test]
fn what_is_quoted_is_what_the_kernels_say() {
    let sources = sources();
    for page in pages() {
        let there = fs::read_to_string(&page).unwrap();
        let rendered = render(&page, &there, &sources);
        generated(&page, &rendered, "cuda skill");
    }
}

/// The files of assets/ that kernels/ has as well, each with where.
fn assets() -> Vec<(PathBuf, String)> {
    // The groups, by the project that they are of.
    const GROUPS: [(&str, &str); 8] = [
        ("rms_norm", "rmsnorm"),
        ("attention", "attention"),
        ("columns", "column_sum"),
        ("elementwise", "elementwise"),
        ("gated", "geglu"),
        ("rope", "rope"),
        ("softmax", "softmax"),
        ("transpose", "transpose"),
    ];
    // Launchers for one dtype or one layout, and descriptions, which the projects have in a longer form.
    const OWN: [&str; 6] = [
        "rms_norm/kernel_src/rms_norm/launch.cu",
        "rms_norm/kernel_src/reference.py",
        "rms_norm/kernel.toml",
        "gated/kernel_src/gated/launch.cu",
        "rope/kernel_src/rope/launch.cu",
        "rope/kernel_src/rope/tuning.h",
    ];
    let assets = root().join("skills/cuda-kernels/assets");
    let mut found = Vec::new();
    for entry in walkdir::WalkDir::new(&assets).sort_by_file_name().into_iter().map(Result::unwrap) {
        let inside = entry.path().strip_prefix(&assets).unwrap().to_str().unwrap().to_owned();
        let (group, path) = inside.split_once('/').unwrap_or((&inside, ""));
        let project = GROUPS.iter().find(|known| known.0 == group).map(|known| known.1);
        if entry.file_type().is_dir()
            || path == "build.toml"
            || OWN.contains(&inside.as_str())
            || group == "torch_binding"
        {
            continue;
        }
        let project = project.unwrap_or_else(|| panic!("assets/{group} is of no project of kernels/"));
        let name = path.rsplit('/').next().unwrap();
        found.push((
            entry.path().to_owned(),
            match path.matches('/').count() {
                0 => format!("kernels/{project}/{name}#start"),
                1 => format!("kernels/common/{name}"),
                _ => format!("kernels/{project}/kernel_src/{name}"),
            },
        ));
    }
    let registration = assets.join("torch_binding/by-hand/registration.h");
    found.push((registration, "src/variant/registration.h".to_owned()));
    found
}

#[test]
fn the_assets_are_what_the_kernels_have() {
    let sources = sources();
    let assets = assets();
    assert!(assets.len() > 60, "{}", assets.len());
    for (path, quote) in assets {
        let text = quotes::quoted(&path, &quote, &sources);
        generated(&path, &text, "cuda skill");
    }
}

/// What is read at once is read by every agent: some cut a file off behind 30 KB.
#[test]
fn a_page_has_at_most_6_000_tokens() {
    for page in pages() {
        let count = tokens::count(&fs::read_to_string(&page).unwrap());
        assert!(count <= 6_000, "{}: {count} tokens; move code to assets/", page.display());
    }
}

/// A mark that no page quotes only disturbs readers of the source.
#[test]
fn every_marked_region_is_quoted() {
    let mut quoted = BTreeSet::new();
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        quoted.extend(fences(&page, &text).iter().filter_map(|fence| fence.quote().map(str::to_owned)));
    }
    assert!(!quoted.is_empty(), "nothing is quoted");
    quoted.extend(assets().into_iter().map(|(_, quote)| quote));
    for (path, source) in sources() {
        for region in source.regions.keys() {
            assert!(quoted.contains(&format!("{path}#{region}")), "nobody quotes {path}#{region}");
        }
    }
}

#[test]
fn a_mark_that_is_wrong_is_told_of() {
    let whole = quotes::source("f", "a\n// [quote x]\nb\n  // [end quote]\nc\n");
    assert_eq!((whole.whole.as_str(), whole.regions["x"].as_str()), ("a\nb\nc\n", "b\n"));
    for wrong in [
        "// [quote x]\n",
        "// [end quote]\n",
        "// [quote x]\n// [quote y]\n// [end quote]\n",
        "// [quote x]\n// [end quote]\n// [quote x]\n// [end quote]\n",
    ] {
        let told = std::panic::catch_unwind(|| quotes::source("f", wrong));
        assert!(told.is_err(), "{wrong}");
    }
    let sources = BTreeMap::from([("k.cu".to_owned(), quotes::source("k.cu", "int a;\n"))]);
    let page = |quote: &str| format!("```cuda quote={quote}\n// file: k.cu\nint b;\n```\nrest\n");
    let shown = Path::new("page.md");
    assert_eq!(render(shown, &page("k.cu"), &sources), page("k.cu").replace("int b;", "int a;"));
    for quote in ["no.cu", "k.cu#none"] {
        let told = std::panic::catch_unwind(|| render(shown, &page(quote), &sources));
        assert!(told.is_err(), "{quote}");
    }
}

#[test]
fn it_costs_at_most_550_tokens_to_choose_it() {
    let text = fs::read_to_string(root().join("skills/cuda-kernels/SKILL.md")).unwrap();
    assert!(tokens::count(&text) <= 550, "{} tokens", tokens::count(&text));
}

/// Each page begins with when to read it.
#[test]
fn every_page_opens_with_when_to_read_it() {
    for page in pages().iter().filter(|page| !page.ends_with("SKILL.md")) {
        let text = fs::read_to_string(page).unwrap();
        assert!(text.starts_with("Read this "), "{}", page.display());
        let about = text.split("\n\n").next().unwrap();
        let count = tokens::count(&text);
        // A long page says so at its beginning.
        let said = about
            .replace('\n', " ")
            .split("About ")
            .nth(1)
            .and_then(|rest| rest.split(" tokens").next().map(|n| n.replace(',', "")))
            .and_then(|number| number.parse::<usize>().ok());
        match said {
            None => assert!(count < 5_000, "{}: {count} tokens, and its first lines do not say so", page.display()),
            Some(said) => {
                assert!(count.abs_diff(said) * 10 <= said, "{}: {count} tokens, not about {said}", page.display());
            }
        }
    }
}

/// tests/cuda/build.rs compares `Limits` with the toolkit's occupancy calculator.
#[test]
fn the_limits_in_the_guides_are_the_cards() {
    for (guide, arch) in [("h100", 90), ("a100", 80), ("t4", 75)] {
        let text = page(&format!("{guide}-optimization-guide.md"));
        let limits = Limits::of(arch).unwrap();
        let row = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(&format!("| {name} | ")));
            line.unwrap_or_else(|| panic!("{guide}: no row {name}")).trim_end_matches(" |").to_owned()
        };
        let threads = limits.warps * 32;
        assert_eq!(row("threads an SM, a block"), format!("{threads}, {}", limits.threads_a_block));
        assert_eq!(row("warps, blocks an SM"), format!("{}, {}", limits.warps, limits.blocks));
        assert_eq!(limits.registers, 65_536);
        assert_eq!(row("32-bit registers an SM, a thread"), "65,536, 255");
        let shared = limits.shared / 1024;
        assert_eq!(row("shared memory an SM"), format!("{shared} KB"));
        let a_block = (limits.shared - limits.shared_reserved) / 1024;
        assert!(row("shared memory a block").starts_with(&format!("48 KB static; {a_block} KB dynamic")), "{guide}");
        assert!(row("carve-outs of shared memory").ends_with(&format!("{shared} KB")), "{guide}");
    }
}

/// The lines of a guide's table of limits: names and values.
fn limits_in(text: &str) -> Vec<(&str, &str)> {
    let table = text.split("| limit | value |\n|---|---|\n").nth(1);
    let lines = table.expect("a table of limits").lines();
    lines
        .map_while(|line| line.strip_prefix("| ")?.strip_suffix(" |"))
        .map(|line| line.split_once(" | ").unwrap())
        .collect()
}

/// The table and the guides must agree; a new line needs a source.
#[test]
fn the_figures_in_the_guides_are_those_of_the_vendors_documents() {
    for guide in ["h100", "a100", "t4"] {
        let text = page(&format!("{guide}-optimization-guide.md"));
        let said: BTreeSet<_> = limits_in(&text).into_iter().collect();
        let known: BTreeSet<_> =
            vendor::FIGURES.iter().filter(|figure| figure.0 == guide).map(|figure| (figure.1, figure.2)).collect();
        let wrong: Vec<_> = said.symmetric_difference(&known).collect();
        assert!(wrong.is_empty(), "{guide}: not in the guide and in tests/skill/vendor.rs: {wrong:#?}");
    }
    for (guide, row, _, document) in vendor::FIGURES {
        assert!(!document.is_empty(), "{guide}: {row}");
    }
}

/// The numbers before `word`: 132 of "over 132 SMs".
fn numbers_before(text: &str, word: &str) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    for (at, _) in text.match_indices(word) {
        let before = text[..at].rsplit(|c: char| !c.is_ascii_digit()).next();
        found.extend(before.and_then(|number| number.parse::<u32>().ok()));
    }
    found
}

/// The sentences use the same figures.
#[test]
fn what_the_guides_work_out_of_those_figures_is_right() {
    for card in vendor::CARDS {
        let text = page(&format!("{}-optimization-guide.md", card.guide));
        let one_line = in_one_line(&text);
        assert_eq!(numbers_before(&one_line, " SMs"), BTreeSet::from([card.sms]), "{}: SMs", card.guide);
        assert_eq!(numbers_before(&one_line, " MB of L2"), BTreeSet::from([card.l2_mb]), "{}: L2", card.guide);
        let fastest = f64::from(card.gbs[1]);
        // 1 GB/s is one byte per nanosecond.
        let each = (fastest / f64::from(card.sms)).round();
        let rate = format!("{} over {} SMs is {each} bytes a nanosecond an SM", card.as_said, card.sms);
        assert!(one_line.contains(&rate), "{}: no '{rate}'", card.guide);
        let rotated = format!("{} MB", 4 * card.l2_mb);
        assert!(one_line.contains(&rotated), "{}: {rotated}", card.guide);
        // fp32 results, or instructions, for each 6 bytes.
        let fits = f64::from(card.sms * card.fp32_a_cycle) * card.boost_ghz * 6.0 / card.counted_gbs;
        let some = format!("some {}", fits.floor());
        assert!(one_line.contains(&some), "{}: no '{some}'", card.guide);
    }
    let [_, a100, t4] = vendor::CARDS.map(|card| card.gbs);
    let thousands = |n: u32| format!("{},{:03}", n / 1000, n % 1000);
    let bandwidths = format!("{} or {} (A100), {} (T4)", thousands(a100[0]), thousands(a100[1]), t4[0]);
    assert!(page("a100-optimization-guide.md").contains(&bandwidths), "{bandwidths}");
    assert!(page("t4-optimization-guide.md").contains(&format!("MB x 1000 / {}", t4[0])));
}

#[test]
fn what_was_tried_is_recorded_of_the_code_as_it_is() {
    trials::hold();
}

fn in_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The text of a page without code, tables generated from evidence/, and the table of limits.
fn prose(page: &Path) -> String {
    let text = &fs::read_to_string(page).unwrap();
    let inside: BTreeSet<usize> = fences(page, text).into_iter().flat_map(|f| f.lines).collect();
    let limits: BTreeSet<String> = if text.contains("| limit | value |") {
        let row = |(name, value)| format!("| {name} | {value} |");
        limits_in(text).into_iter().map(row).collect()
    } else {
        BTreeSet::new()
    };
    let mut rendered = false;
    let mut lines = Vec::new();
    for (number, line) in text.lines().enumerate() {
        rendered = rendered || line.starts_with("<!-- evidence:");
        let limit = limits.contains(line);
        if !rendered && !limit && !inside.contains(&number) {
            lines.push(line);
        }
        rendered = rendered && line != "<!-- /evidence -->";
    }
    in_one_line(&lines.join("\n"))
}

/// A number with a unit of measurement.
fn measured(text: &str) -> Vec<String> {
    let unit = fancy_regex::Regex::new(
        r"[0-9][0-9.,]*(?: to [0-9][0-9.,]*)? ?(?:%|µs|us\b|ms\b|microseconds|GB/s|TB/s|TFLOP/s|times (?:as )?(?:fast|slow))",
    );
    let found = unit.unwrap();
    let found = found.find_iter(text);
    found.map(|one| one.unwrap().as_str().to_owned()).collect()
}

/// A figure in a sentence comes from a recorded trial, the vendors' tables or the records, or is a goal.
#[test]
fn no_page_says_a_figure_that_nothing_holds() {
    // Goals; impossible values; rates, which what_the_guides_work_out_of_those_figures_is_right checks; and those below.
    const HELD: &[&str] = &[
        ">= 90 % of a copy",
        "90 % is the goal. Well over 100 %",
        "Stop at 90 % of the copy",
        "stay below 90 %",
        "at 2 microseconds that is",
        "3.35 TB/s over 132 SMs",
        "6 bytes an element (two inputs, an output, bf16), 3.35 TB/s",
        "2,039 GB/s over 108 SMs",
        "6 bytes an element and 2 TB/s",
        "320 GB/s over 40 SMs",
        "(an H100's reaches 85 to 90 % of it from 130 MB on",
        "2048 % 6 = 2",
    ];
    let said = trials::said();
    for page in pages() {
        let name = page.file_name().unwrap().to_string_lossy().into_owned();
        let mut text = prose(&page);
        for sentence in said.iter().filter(|sentence| sentence.page == name) {
            assert!(text.contains(&sentence.words), "{name} does not say what was recorded: {}", sentence.words);
            text = text.replace(&sentence.words, "");
        }
        for held in HELD {
            text = text.replace(held, "");
        }
        let loose = measured(&text);
        assert!(loose.is_empty(), "{name}: nothing holds {loose:?}");
    }
    for sentence in &said {
        let there = pages().iter().any(|page| page.ends_with(&sentence.page));
        assert!(there, "no page {}", sentence.page);
    }
}

/// The bandwidth of a copy as a fraction of the datasheet's.
#[test]
fn a_copy_reaches_what_the_a100s_guide_says_of_the_h100s() {
    let (mut least, mut most) = (f64::MAX, 0.0_f64);
    for entry in fs::read_dir(root().join("evidence")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|end| end != "json") {
            continue;
        }
        let record: serde_json::Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let Some(peak) = record["card"]["peak_gbs"].as_f64() else {
            continue;
        };
        if !record["card"]["name"].as_str().is_some_and(|name| name.contains("H100")) {
            continue;
        }
        for case in record["cases"].as_array().into_iter().flatten() {
            let (Some(bytes), Some(copy)) = (case["bytes"].as_f64(), case["copy"]["median"].as_f64()) else {
                continue;
            };
            if case["residency"] == "cold" && bytes >= 130e6 {
                let share = 100.0 * bytes / copy / 1e3 / peak;
                (least, most) = (least.min(share), most.max(share));
            }
        }
    }
    let words = format!("reaches {least:.0} to {most:.0} % of it from 130 MB on");
    let text = in_one_line(&page("a100-optimization-guide.md"));
    assert!(text.contains(&words), "{words}");
}

/// For each instruction, the last architecture without it and the first with it.
#[test]
fn ptxas_has_the_instructions_where_the_guides_say() {
    let ptxas = cuda::home().join("bin/ptxas");
    let folder = TempDir::with_prefix("kernels-").unwrap();
    let source = folder.path().join("k.ptx");
    for (guide, words, instruction, first) in instructions::CLAIMS {
        assert!(
            page(&format!("{guide}-optimization-guide.md")).contains(words),
            "{guide}: '{words}' is in tests/cuda/skill/instructions.rs and not there"
        );
        let targets = instructions::TARGETS;
        let at = targets.iter().position(|target| target == first).expect("a target");
        for target in &targets[at.saturating_sub(1)..=at] {
            fs::write(&source, instructions::kernel(instruction, target)).unwrap();
            let (taken, said) =
                run(Command::new(&ptxas).arg(format!("-arch=sm_{target}")).args(["-o", "/dev/null"]).arg(&source));
            assert_eq!(taken, target == first, "sm_{target}: {instruction}\n{said}");
            // The error is about the target, not about the syntax.
            assert!(taken || said.contains("target"), "{instruction}\n{said}");
        }
    }
}

#[test]
fn what_op_writes_is_what_the_page_says() {
    let text = in_one_line(&page("kernel-templates.md"));
    assert!(
        text.contains("in-place form where it has one (`rms_norm_backward`, `rope_in_place`), and nothing else of")
    );
    for (op, named) in [
        ("layer_norm", &["layer_norm"][..]),
        ("rms_norm", &["rms_norm", "rms_norm_backward"]),
        ("rope", &["rope", "rope_in_place"]),
    ] {
        let folder = TempDir::with_prefix("kernels-").unwrap();
        let (written, said) = kernels(folder.path(), &["init", "mine", "--op", op, "--no-git"]);
        assert!(written, "{said}");
        let toml = fs::read_to_string(folder.path().join("mine/kernel.toml")).unwrap();
        let toml: toml::Value = toml::from_str(&toml).unwrap();
        let operations = toml["operation"].as_array().unwrap().iter();
        let names: Vec<_> = operations.map(|one| one["name"].as_str().unwrap()).collect();
        assert_eq!(names, named, "{op}");
    }
}

/// The commands alone: docs/own-operation.md is tested with its kernel.
#[test]
fn an_operation_that_is_not_here_starts_as_the_page_says() {
    let text = in_one_line(&page("kernel-templates.md"));
    assert!(text.contains("`kernels init P --op NEAREST` (here `layer_norm`), `cd P`, `kernels add --blank ln_gelu`"));
    let folder = TempDir::with_prefix("kernels-").unwrap();
    let project = folder.path().join("mine");
    for (here, arguments) in [
        (folder.path(), &["init", "mine", "--op", "layer_norm", "--owner", "me", "--no-git"][..]),
        (&project, &["add", "--blank", "ln_gelu"]),
        (&project, &["add", "ln_gelu"]),
        (&project, &["check", "--strict"]),
    ] {
        let (done, said) = kernels(here, arguments);
        assert!(done, "{arguments:?}: {said}");
    }
    for file in ["ln_gelu.cu", "reference.py"] {
        assert!(project.join("kernel_src/ln_gelu").join(file).is_file(), "{file}");
        assert!(text.contains(file), "{file}");
    }
}

/// The page about writing cases names every kind of `inputs` of kernel.toml.
#[test]
fn the_kinds_of_inputs_are_named() {
    let docs = fs::read_to_string(root().join("docs/kernel-toml.md")).unwrap();
    let table = docs.split("| `inputs` | floating-point inputs are |\n|---|---|\n");
    let lines = table.last().unwrap().lines();
    let kinds: Vec<_> = lines.map_while(|line| line.strip_prefix("| ")?.split(" | ").next()).collect();
    assert!(kinds.len() > 4, "{kinds:?}");
    let text = page("kernel-templates.md");
    let cases = text.split("**The cases.**").nth(1).unwrap();
    let cases = cases.split("\n8. ").next().unwrap();
    for kind in kinds {
        assert!(cases.contains(kind), "{kind}");
    }
}

fn run(command: &mut Command) -> (bool, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let said = [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    (status.success(), said.concat())
}

/// A folder with the files of these groups of assets, each over the one before, as kernel-templates.md says to copy them.
fn copied(groups: &[&str]) -> TempDir {
    let folder = TempDir::with_prefix("kernels-").unwrap();
    let skill = root().join("skills/cuda-kernels");
    let said = page("kernel-templates.md");
    for group in groups {
        assert!(
            said.contains("cp -r path/to/cuda-kernels/assets/rms_norm/. ."),
            "kernel-templates.md says how to copy"
        );
        let from = skill.join("assets").join(group);
        copy(&from, folder.path());
    }
    folder
}

fn kernels(folder: &Path, arguments: &[&str]) -> (bool, String) {
    run(Command::new(program())
        .args(arguments)
        .current_dir(folder)
        .env("CUDA_HOME", cuda::home())
        .env("KERNELS_CACHE", cuda::cache()))
}

/// A page's project has no findings, compiles for its architectures, and stays within its budgets.
#[test]
fn what_is_extracted_is_a_project() {
    for (name, operations) in [
        ("", vec!["rms_norm", "add_rms_norm"]),
        ("softmax", vec!["softmax"]),
        ("columns", vec!["column_sum"]),
        ("elementwise", vec!["bias_gelu_scale_residual"]),
        ("transpose", vec!["transpose"]),
        ("attention", vec!["attention"]),
    ] {
        let groups: Vec<&str> = ["rms_norm", name].into_iter().filter(|group| !group.is_empty()).collect();
        let folder = copied(&groups);
        if !name.is_empty() {
            // As the page says.
            fs::remove_dir_all(folder.path().join("kernel_src/rms_norm")).unwrap();
            fs::remove_file(folder.path().join("kernel_src/reference.py")).unwrap();
        }
        let toml = fs::read_to_string(folder.path().join("kernel.toml")).unwrap();
        for operation in operations {
            assert!(toml.contains(&format!("name = \"{operation}\"")), "{name}");
        }
        let (clean, said) = kernels(folder.path(), &["check", "--strict"]);
        assert!(clean, "{name}: {said}");
        let (built, said) = kernels(folder.path(), &["build", "--arch", "90"]);
        assert!(built, "{name}: {said}");
    }
}

#[test]
fn the_templates_with_their_binding_are_what_torch_loads() {
    let folder = copied(&["rms_norm", "torch_binding"]);
    let path = folder.path().join("build.toml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("your-name/", "someone/")).unwrap();
    let (clean, said) = kernels(folder.path(), &["check", "--strict"]);
    assert!(clean, "{said}");
    // Where `kernels build --torch` looks for them.
    torch::headers();
    let (built, said) = kernels(folder.path(), &["build", "--torch"]);
    assert!(built, "{said}");
    let torches = match torch::torches() {
        Ok(torches) => torches,
        Err(why) => return crate::support::not_run(&format!("the templates' op in torch: {why}")),
    };
    loads(&torches, folder.path());
}

fn loads(torches: &torch::Torches, folder: &Path) {
    let script = "from pathlib import Path\nfrom kernels import get_local_kernel\nimport torch\n\
        kernel = get_local_kernel(Path('.').resolve())\n\
        assert kernel.__all__ == ['rms_norm', 'add_rms_norm']\n\
        from torch._subclasses.fake_tensor import FakeTensorMode\n\
        with FakeTensorMode():\n    x = torch.empty(3, 8, device='cuda')\n    assert kernel.rms_norm(x).shape == x.shape\n";
    let (loaded, said) = run(torches.newest().arg("-c").arg(script).current_dir(folder));
    assert!(loaded, "{said}");
}

/// The manual build without `kernels` and without kernel-builder.
#[test]
fn a_variant_that_is_built_by_hand_is_what_the_hubs_library_loads() {
    let torches = match torch::torches() {
        Ok(torches) => torches,
        Err(why) => return crate::support::not_run(&format!("a variant built by hand: {why}")),
    };
    let folder = copied(&["rms_norm", "torch_binding"]);
    let text = page("torch-binding.md");
    let script = text
        .split("```bash\n")
        .find(|block| block.starts_with("ID="))
        .and_then(|block| block.split("```\n").next())
        .expect("torch-binding.md says how to build by hand");
    let (built, said) = run(Command::new("bash")
        .args(["-ec", script])
        .current_dir(&folder)
        .env("TORCH", torch::headers().join("torch"))
        .env("CUDA_HOME", cuda::home()));
    assert!(built, "{said}");
    loads(&torches, folder.path());
}

/// The other launchers of the templates, which no project of kernels/ has.
#[test]
fn the_launchers_of_gated_and_rope_compile_for_every_card() {
    for (name, source) in [("gated", "gated/launch.cu"), ("rope", "rope/launch.cu")] {
        let folder = copied(&["rms_norm", name]);
        let mut nvcc = nvcc();
        for arch in [75, 80, 90] {
            nvcc.arg("-gencode").arg(format!("arch=compute_{arch},code=sm_{arch}"));
        }
        nvcc.args(["-Werror", "all-warnings", "-I", "kernel_src", "-c", "-o", "launch.o"])
            .arg(format!("kernel_src/{source}"))
            .current_dir(&folder);
        let (compiled, said) = run(&mut nvcc);
        assert!(compiled, "{name}: {said}");
    }
}

fn nvcc() -> Command {
    let mut nvcc = Command::new(cuda::home().join("bin/nvcc"));
    nvcc.arg("-std=c++17");
    nvcc
}

/// The bold code in troubleshooting.md: `**…**` around backticks.
fn said_to_be_seen() -> Vec<String> {
    let mut found = Vec::new();
    for line in page("troubleshooting.md").lines() {
        for part in line.split("**").skip(1).step_by(2) {
            if part.starts_with('`') && part.ends_with('`') {
                found.push(part.trim_matches('`').to_owned());
            }
        }
    }
    found
}

#[test]
fn every_message_of_troubleshooting_has_its_proof() {
    let there = said_to_be_seen();
    let text = page("troubleshooting.md");
    let known: BTreeSet<&str> = MESSAGES.iter().map(|(message, _)| *message).collect();
    for message in &there {
        assert!(
            known.contains(message.as_str()),
            "tests/cuda/skill/messages.rs does not say how '{message}' comes about"
        );
    }
    let python = fs::read_to_string(root().join("tests/skill/test_messages.py")).unwrap();
    for (message, proof) in MESSAGES {
        assert!(text.contains(message), "troubleshooting.md has no '{message}'");
        match proof {
            Proof::Python => {
                let begins = message.split('…').next().unwrap();
                assert!(python.contains(begins), "test_messages.py has no '{message}'");
            }
            Proof::Not(why) => {
                println!("not run: '{message}': {why}");
            }
            Proof::Runtime(code) => assert!(
                text.contains(&format!("{message}`** ({code})")),
                "troubleshooting.md does not say that '{message}' is {code}"
            ),
            _ => {}
        }
    }
}

#[test]
fn the_compilers_say_what_troubleshooting_says_they_say() {
    let folder = TempDir::with_prefix("kernels-").unwrap();
    let source = folder.path().join("source.cu");
    for (message, proof) in MESSAGES {
        let said = match proof {
            Proof::Nvcc(text, flags) => {
                fs::write(&source, text).unwrap();
                run(nvcc().args(*flags).args(["-c", "-o", "/dev/null"]).arg(&source)).1
            }
            Proof::Gxx(text) => {
                fs::write(folder.path().join("source.cpp"), text).unwrap();
                run(Command::new("g++")
                    .args(["-std=c++17", "-DTORCH_TARGET_VERSION=0x020b000000000000", "-c", "-o", "/dev/null"])
                    .arg("-I")
                    .arg(torch::headers().join("torch/include"))
                    .arg(folder.path().join("source.cpp"))
                    .env("LC_ALL", "C.UTF-8"))
                .1
            }
            Proof::Linker => {
                fs::write(&source, "int main() { return 0; }").unwrap();
                let (linked, said) =
                    run(nvcc().arg("-o").arg(folder.path().join("program")).arg(&source).env_remove("LIBRARY_PATH"));
                if linked {
                    crate::support::not_run("nvcc without its libraries' folder: this toolkit finds them");
                    continue;
                }
                said
            }
            _ => continue,
        };
        assert!(said.contains(message), "'{message}' is not in:\n{said}");
    }
}

/// The runtime's error texts, and the cases that the template's launcher refuses, which need no GPU.
#[test]
fn the_runtime_and_the_launcher_say_it_too() {
    let folder = copied(&["rms_norm"]);
    let mut text = String::from("#include <cstdio>\n#include <cuda_runtime.h>\nint main() {\n");
    for (_, proof) in MESSAGES {
        if let Proof::Runtime(code) = proof {
            text.push_str(&format!("  puts(cudaGetErrorString(static_cast<cudaError_t>({code})));\n"));
        }
    }
    // Negative rows and an unknown type are refused before the driver is called. Zero rows are not an error.
    let text = format!(
        "{}{text}  puts(rms_norm_error(rms_norm_launch(0, 0, 0, -1, 8, 8, 8, 1e-6f, 0, 0, 2, 0)));\n  \
         puts(rms_norm_error(rms_norm_launch(0, 0, 0, 1, 8, 8, 8, 1e-6f, 0, 0, 7, 0)));\n  \
         puts(rms_norm_error(rms_norm_launch(0, 0, 0, 0, 8, 8, 8, 1e-6f, 0, 0, 2, 0)));\n}}\n",
        "#include <cstdint>\nextern \"C\" int rms_norm_launch(void*, const void*, const void*, int64_t, int64_t, int64_t, \
         int64_t, float, float, int, int, void*);\nextern \"C\" const char* rms_norm_error(int);\n"
    );
    fs::write(folder.path().join("main.cu"), text).unwrap();
    let (built, said) = run(nvcc()
        .args(["-arch=sm_90", "-I", "kernel_src", "-o", "program", "main.cu", "kernel_src/rms_norm/launch.cu"])
        .arg("-L")
        .arg(cuda::home().join("lib"))
        .current_dir(&folder));
    assert!(built, "{said}");
    let (done, said) = run(&mut Command::new(folder.path().join("program")));
    assert!(done, "{said}");
    for (message, proof) in MESSAGES {
        if matches!(proof, Proof::Runtime(_)) {
            assert!(said.lines().any(|line| line == *message), "{message}: {said}");
        }
    }
    for refused in ["rows and width must not be negative", "dtype must be 0 (f32), 1 (f16) or 2 (bf16)", "no error"] {
        assert!(said.lines().any(|line| line == refused), "{refused}: {said}");
    }
}
