//! A card of our own making: the unchanged program, with a driver and a compiler that run kernels on the processor
//! (`stand_in/`). What is about streams, clocks, clusters or CUDA's libraries needs a card; every decision of `verify` and
//! `bench` does not.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use kernels::bench::{BenchReport, Residency};
use kernels::verify::{Kind, VerifyReport};

use super::card::{self, Place};
use super::suite::{self, Candidate, Suite};
use super::support::cuda;

/// Sources about what only a card has.
const OF_A_CARD: [&str; 7] = ["legal", "load_time", "nodes", "prefetch", "races", "shared", "streams"];
/// Candidates that use a card's clock, traps, heap or alignment, or launches without end; one that patches the process that
/// loads it, which here also runs its kernels; and two that only cost time.
const BY_A_CARD: [&str; 15] = [
    "TRAPS_OUTSIDE",
    "COUNTS_FAR_BEHIND",
    "ANSWER_FAR_BEHIND",
    "STOPS_AFTER_A_WHILE",
    "STOPS_BACK_TO_BACK",
    "SLOW_START",
    "TRAPS",
    "NEVER_ENDS",
    "COUNTS_IN_THE_HEAP",
    "IDLE_IN_TURNS",
    "ALIGNED",
    "MISALIGNED",
    "PATCHES_THE_CLOCK",
    "HANGS",
    "ALLOCATES_WITHOUT_END",
];

fn without_a_card(candidate: &Candidate) -> bool {
    let define = candidate.define.as_deref().unwrap_or_default();
    !OF_A_CARD.contains(&candidate.source.as_str()) && !BY_A_CARD.contains(&define)
}

/// The sources of driver and compiler.
const FILES: [(&str, &str); 6] = [
    ("cuda_runtime.h", include_str!("stand_in/cuda_runtime.h")),
    ("cuda_fp16.h", include_str!("stand_in/cuda_fp16.h")),
    ("cuda_bf16.h", include_str!("stand_in/cuda_bf16.h")),
    ("nvcc.cpp", include_str!("stand_in/nvcc.cpp")),
    ("libcuda.cpp", include_str!("stand_in/libcuda.cpp")),
    ("contents.cu", include_str!("../../src/gpu/contents.cu")),
];

/// The folder of driver and compiler, made once for these sources.
fn kit() -> &'static Path {
    static KIT: OnceLock<PathBuf> = OnceLock::new();
    KIT.get_or_init(|| {
        let name = suite::hash(&FILES.map(|(name, text)| (name.to_owned(), text.to_owned())).into());
        let kit = cuda::cache().join(format!("stand-in-{}", &name[..16]));
        if kit.exists() {
            return kit;
        }
        fs::create_dir_all(cuda::cache()).unwrap();
        let made = tempfile::TempDir::new_in(cuda::cache()).unwrap();
        let at = |name: &str| made.path().join(name);
        for folder in ["bin", "lib64", "include", "driver", "cache"] {
            fs::create_dir(at(folder)).unwrap();
        }
        for (name, text) in FILES {
            fs::write(at("include").join(name), text).unwrap();
        }
        fs::write(at("lib64/libcudart_static.a"), "!<arch>\n").unwrap();
        let compile = |from: &str, to: &str, options: &[&str]| {
            let mut command = Command::new("g++");
            command.args(["-std=c++17", "-O2", "-w", "-I"]).arg(at("include")).args(options);
            command.arg(at("include").join(from)).arg("-o").arg(at(to));
            let output = command.output().unwrap();
            assert!(output.status.success(), "{from}: {}", String::from_utf8_lossy(&output.stderr));
        };
        compile("nvcc.cpp", "bin/nvcc", &[&format!("-DVERSION=\"13.0.stand-in-{}\"", &name[..8])]);
        compile("libcuda.cpp", "driver/libcuda.so", &["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1"]);
        std::os::unix::fs::symlink("libcuda.so", at("driver/libcuda.so.1")).unwrap();
        // Another process may have been faster.
        if fs::rename(made.path(), &kit).is_ok() {
            let _ = made.keep();
        }
        kit
    })
}

pub fn place() -> Place {
    let environment = vec![
        ("CUDA_HOME", kit().to_owned()),
        ("LD_LIBRARY_PATH", kit().join("driver")),
        ("KERNELS_CACHE", kit().join("cache")),
    ];
    Place { environment, without: Some(without_a_card) }
}

#[test]
fn without_a_card_the_cheats_of_host_functions_are_caught_and_their_twins_pass() {
    let suite = Suite::read();
    for define in BY_A_CARD {
        let known = suite.candidates().iter().any(|one| one.define.as_deref() == Some(define));
        assert!(known, "{define} is no candidate");
    }
    let record = card::run(&suite, &place());
    let wrong = record.wrong();
    assert!(wrong.is_empty(), "{} wrong:\n{}\n\n{}", wrong.len(), wrong.join("\n"), record.to_table());
    assert!(record.cheats.len() > 75, "{} cheats are not all that need no card", record.cheats.len());
}

/// A candidate that does all the work and says how long it takes.
fn timed(microseconds: &str) -> tempfile::TempDir {
    written("", microseconds)
}

/// The same, with a statement before the work.
pub fn written(first: &str, microseconds: &str) -> tempfile::TempDir {
    let scratch = tempfile::TempDir::with_prefix("kernels-cheats-").unwrap();
    let candidate = Candidate {
        source: "speed".to_owned(),
        define: None,
        dtypes: vec!["f32".to_owned()],
        bytes: None,
        small: true,
    };
    let mut files = candidate.files();
    let text = format!(
        "#include <stdio.h>\n#include <stdlib.h>\n#include <time.h>\n\n#include \"rms_norm.cuh\"\n__global__ void timed(Rows<float> a) {{\n  {first}\n  \
         norm_row(a, blockIdx.x);\n  \
         const double bytes = 4.0 * (2 * a.rows * a.width + a.width);\n  stand_in::takes({microseconds});\n}}\n\
         static int launch(const Call& call) {{ return launch_rows(timed, call); }}\n"
    );
    files.insert("candidate.cu".to_owned(), text);
    for (name, text) in files {
        fs::write(scratch.path().join(name), text).unwrap();
    }
    scratch
}

fn run(command: &str, project: &Path, arguments: &[&str], late: &str) -> Output {
    let mut process = place().command();
    process.env("STAND_IN_LATE", late).args([command, "--json"]).arg(project).args(arguments).output().unwrap()
}

fn bench(microseconds: &str, arguments: &[&str], late: &str) -> Result<BenchReport, String> {
    let output = run("bench", timed(microseconds).path(), arguments, late);
    serde_json::from_slice(&output.stdout).map_err(|_| String::from_utf8(output.stderr).unwrap())
}

/// Which of the cases are too fast.
fn too_fast(gbs: f64, shape: &str) -> Vec<Residency> {
    let report = bench(&format!("bytes / {gbs}e3"), &["--rounds", "5", "--shape", shape], "").unwrap();
    let found: Vec<Kind> = report.findings.iter().map(|finding| finding.kind).collect();
    assert!(found.iter().all(|kind| *kind == Kind::TooFast), "{:?}", report.findings);
    let peak = |case: &&kernels::bench::CaseBench| {
        let peak = if case.residency == Residency::Cold { 1000.0 } else { 2048.0 };
        gbs > peak
    };
    let over: Vec<Residency> = report.cases.iter().filter(peak).map(|case| case.residency).collect();
    assert_eq!(found.len(), over.len(), "{:?}", report.findings);
    over
}

#[test]
fn a_launch_faster_than_the_memory_is_too_fast_and_one_hardly_slower_is_not() {
    // Cold and hot; the peaks are those of libcuda.cpp.
    let both = "rows=20,width=32";
    assert_eq!(too_fast(970.0, both), []);
    assert_eq!(too_fast(1030.0, both), [Residency::Cold]);
    assert_eq!(too_fast(2100.0, both), [Residency::Cold, Residency::Hot]);
    // So small that 512 slots stay in the L2.
    assert_eq!(too_fast(1990.0, "rows=1,width=32"), []);
    assert_eq!(too_fast(2100.0, "rows=1,width=32"), [Residency::Hot; 2]);
}

/// What `flops` says decides how much is compared with the oracle.
#[test]
fn operations_beyond_the_tensor_cores_are_too_many() {
    let project = timed("3");
    let path = project.path().join("kernel.toml");
    let text = fs::read_to_string(&path).unwrap();
    for (flops, kinds) in [("3e8", vec![]), ("5e8", vec![Kind::TooFast; 2])] {
        fs::write(&path, text.replace("flops = \"4 * rows * width\"", &format!("flops = \"{flops}\""))).unwrap();
        let output = run("bench", project.path(), &["--rounds", "5"], "");
        let report: BenchReport = serde_json::from_slice(&output.stdout).unwrap();
        let found: Vec<Kind> = report.findings.iter().map(|finding| finding.kind).collect();
        assert_eq!(found, kinds, "{:?}", report.findings);
    }
}

#[test]
fn a_clock_that_runs_faster_than_the_host_s_is_not_believed() {
    // Launches that take the host 10 ms.
    for microseconds in ["1e7", "3e4"] {
        let report = bench(microseconds, &["--rounds", "5", "--shape", "rows=20,width=1024"], "").unwrap();
        assert_eq!(report.findings[0].kind, Kind::LaunchFailed);
        assert!(report.findings[0].message.contains("the events cannot be right"), "{}", report.findings[0].message);
        assert!(report.cases.is_empty());
    }
    // Of a launch that takes longer than this host needs for it, the host waits for the end.
    let report = bench("2000", &["--rounds", "5"], "").unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

#[test]
fn every_timed_launch_is_compared_and_slots_of_several_rounds_go_to_the_oracle() {
    let report = bench("3", &["--rounds", "10"], "").unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    for case in &report.cases {
        assert_eq!(case.kernel.samples, 10);
        assert!((case.kernel.median - 3.0).abs() < 1e-3, "{}", case.kernel.median);
        // Two rounds to warm up.
        assert_eq!(case.compared, 12 * u64::from(case.slots));
        // A slot a round, as they are small.
        assert_eq!(case.checked, 10);
        assert_eq!(case.remarks, [""; 0]);
        // A page is copied, which a kernel would take longer for.
        assert!((case.copy.median - 0.108).abs() < 1e-3, "{}", case.copy.median);
        assert_eq!(case.copy_by, "the driver's copy");
    }
    let (cold, hot) = (&report.cases[0], &report.cases[1]);
    assert_eq!((cold.residency, hot.residency), (Residency::Cold, Residency::Hot));
    assert!(u64::from(cold.slots) * cold.bytes >= 4 * report.card.l2_bytes);
    assert!((8..=50).contains(&hot.slots) && u64::from(hot.slots) * hot.bytes <= report.card.l2_bytes * 3 / 4);
}

#[test]
fn a_round_for_which_the_host_is_late_is_left_out_and_made_again() {
    let report = bench("3", &["--rounds", "10"], "7").unwrap();
    let remarks: Vec<&String> = report.cases.iter().flat_map(|case| &case.remarks).collect();
    assert!(remarks.iter().any(|remark| remark.contains("left out")), "{remarks:?}");
    assert!(report.cases.iter().all(|case| case.kernel.samples == 10));
    // It may be so for the kernel or for the copy alone.
    for late in ["1", "2"] {
        let why = bench("3", &["--rounds", "10"], late).unwrap_err();
        assert!(why.contains("the host was too late in 21 rounds"), "{late}: {why}");
    }
}

/// A candidate whose kernel.toml says this of its bytes and operations.
fn saying(bytes: &str, flops: &str, microseconds: &str) -> tempfile::TempDir {
    let project = timed(microseconds);
    let path = project.path().join("kernel.toml");
    let text = fs::read_to_string(&path).unwrap();
    let lines = text.lines().map(|line| match line.split_once(" = ") {
        Some(("bytes", _)) => format!("bytes = \"{bytes}\"\n"),
        Some(("flops", _)) => format!("flops = \"{flops}\"\n"),
        _ => format!("{line}\n"),
    });
    fs::write(&path, lines.collect::<String>()).unwrap();
    project
}

#[test]
fn a_case_needs_half_of_the_memory_for_its_slots_and_half_for_the_copies() {
    let run = |bytes: &str, shape: &str| {
        let project = saying(bytes, "0", "3");
        let output = run("bench", project.path(), &["--rounds", "5", "--shape", shape], "");
        let report: Option<BenchReport> = serde_json::from_slice(&output.stdout).ok();
        let found = report.iter().flat_map(|report| &report.findings).map(|finding| finding.kind).collect::<Vec<_>>();
        (found, String::from_utf8(output.stderr).unwrap())
    };
    let (small, large) = ("rows=20,width=32", "rows=20,width=786432");
    // Of 256 MB nine tenths are free. What kernel.toml says is more than the tensors have.
    assert_eq!(run("1e8", small).0, [Kind::TooManyBytes]);
    for (bytes, shape, needs) in [("2e8", small, "0.4 GB"), ("1000", large, "0.3 GB")] {
        let (found, why) = run(bytes, shape);
        assert!(
            found.is_empty() && why.contains(&format!("timing it needs {needs}, and the card has not enough")),
            "{why}"
        );
    }
}

#[test]
fn of_a_case_of_many_operations_one_slot_goes_to_the_oracle() {
    for (flops, checked) in [("5e10", 5), ("5.1e10", 1)] {
        let project = saying("5248", flops, "800");
        let output = run("bench", project.path(), &["--rounds", "5", "--shape", "rows=20,width=32"], "");
        let report: BenchReport = serde_json::from_slice(&output.stdout).unwrap();
        assert!(report.findings.is_empty(), "{:?}", report.findings);
        assert!(report.cases.iter().all(|case| case.checked == checked), "{flops}: {:?}", report.cases);
    }
}

#[test]
fn of_a_large_case_two_slots_go_to_the_oracle() {
    let report = bench("80", &["--rounds", "5", "--shape", "rows=8000,width=1000"], "").unwrap();
    let checked: Vec<(u32, u32)> = report.cases.iter().map(|case| (case.slots, case.checked)).collect();
    assert_eq!(checked, [(1, 2)], "{:?}", report.findings);
}

#[test]
fn the_copy_moves_the_bytes_of_the_case_in_the_fastest_way() {
    let report = bench("3", &["--rounds", "5", "--shape", "rows=20,width=1024"], "").unwrap();
    let case = &report.cases[0];
    // Half of 168 KB, in pages: three blocks of a kernel.
    assert!((case.copy.median - 0.203).abs() < 1e-3, "{}", case.copy.median);
    assert_eq!(case.copy_by, "a copy kernel");
}

#[test]
fn after_a_launch_that_loses_the_context_no_case_is_timed() {
    let project = written("*reinterpret_cast<volatile int*>(8) = 1;", "3");
    // So large that each has one slot, and no launches on parts of several.
    let shapes = ["--rounds", "5", "--shape", "rows=20,width=400000", "--shape", "rows=20,width=400001"];
    let output = run("bench", project.path(), &shapes, "");
    let report: BenchReport = serde_json::from_slice(&output.stdout).unwrap();
    let found: Vec<Kind> = report.findings.iter().map(|finding| finding.kind).collect();
    assert!(found == [Kind::LaunchFailed] && report.cases.is_empty(), "{:?}", report.findings);
}

/// The findings of `bench` for a kernel that does something else first.
fn timed_outputs(first: &str) -> Vec<String> {
    let project = written(first, "3");
    let output = run("bench", project.path(), &["--rounds", "30"], "");
    let report: BenchReport = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report.findings.len(), report.cases.len());
    assert!(report.findings.iter().all(|finding| finding.kind == Kind::TimedOutput), "{:?}", report.findings);
    report.findings.into_iter().map(|finding| finding.message).collect()
}

#[test]
fn a_slot_that_is_wrong_in_every_launch_differs_from_the_next_one() {
    // Every other slot: they lie an odd number of pages apart.
    for message in timed_outputs("if (reinterpret_cast<uint64_t>(a.out) >> 12 & 1) a.eps = 1;") {
        assert!(message.contains("when it was not timed, on the same inputs in slot"), "{message}");
    }
}

/// What its outputs do not show: a bit of an input that changes them by less than their budget, and memory in front of a tensor,
/// in one slot of 37, which the oracle hardly ever sees.
#[test]
fn what_a_timed_launch_writes_beside_its_outputs_is_found() {
    let once = "if (blockIdx.x == 0 && threadIdx.x == 0 && (unsigned long)a.out / 4096 % 37 == 0)";
    for (write, kind) in [("((unsigned*)a.x)[0] ^= 1;", Kind::InputModified), ("((float*)a.x)[-1] = 5;", Kind::RedZone)]
    {
        let project = written(&format!("{once} {write}"), "3");
        let output = run("bench", project.path(), &["--rounds", "5"], "");
        let report: BenchReport = serde_json::from_slice(&output.stdout).unwrap();
        assert!(report.findings.iter().all(|finding| finding.kind == kind), "{write}: {:?}", report.findings);
        let many = report.cases.iter().filter(|case| case.slots >= 37).count();
        let slots: Vec<u32> = report.cases.iter().map(|case| case.slots).collect();
        assert!(many > 0 && report.findings.len() >= many, "{write}: {slots:?} {:?}", report.findings);
    }
}

/// Copies a row of the output from where its input lies elsewhere in the memory of the process, if what lies there can be
/// an output: other copies of the input have poison or anything else at that distance. Not from the heap, where the
/// harness has copies of slots: no kernel on a card reads that.
const COPIES: &str = "FILE* maps = fopen(\"/proc/self/maps\", \"r\");\n\
     unsigned long long from, to;\n\
     char line[400], mode[8];\n\
     const long out = (const char*)a.out - (const char*)a.x;\n\
     while (fgets(line, sizeof line, maps)) {\n\
     if (sscanf(line, \"%llx-%llx %7s\", &from, &to, mode) < 3 || mode[1] != 'w' || strstr(line, \"[heap]\")) continue;\n\
     for (const char* at = (const char*)from + 16384; at + 16384 < (const char*)to; at += 256) {\n\
     if (at == (const char*)a.x || memcmp(at, a.x, 64) != 0) continue;\n\
     const float* there = (const float*)(at + out) + blockIdx.x * a.out_stride;\n\
     bool output = there[0] != there[1];\n\
     for (int i = 0; i < a.width; ++i) output = output && fabsf(there[i]) > 1e-7f && fabsf(there[i]) < 100;\n\
     if (!output) continue;\n\
     memcpy(a.out + blockIdx.x * a.out_stride, there, a.width * 4);\n\
     fclose(maps);\n\
     return;\n\
     }\n\
     }\n\
     fclose(maps);\n";

#[test]
fn a_repeated_launch_cannot_copy_what_the_timed_one_left() {
    for message in timed_outputs(&format!("{COPIES} a.eps = 1 + (clock() & 1023) / 100.0f;")) {
        assert!(message.contains("when it was not timed"), "{message}");
    }
}

#[test]
fn a_second_launch_cannot_copy_what_the_first_one_left() {
    // Right within its budget, and otherwise each time.
    let project = written(&format!("{COPIES} a.eps += (clock() & 511) * 1e-9f;"), "3");
    let output = run("verify", project.path(), &["--native-only", "--shape", "rows=5,width=128"], "");
    let report: VerifyReport = serde_json::from_slice(&output.stdout).unwrap();
    let kinds: Vec<Kind> = report.findings.iter().map(|finding| finding.kind).collect();
    // Where anything else looks like an output, copying it is a wrong value as well.
    assert!(kinds.contains(&Kind::NotDeterministic), "{:?}", report.findings);
}

#[test]
fn what_is_wrong_in_all_slots_is_found_by_the_oracle() {
    // Timed inputs are multiples of 2^-20.
    let timed = "auto fits = [&](float x) { return x * 0x1p20f == floorf(x * 0x1p20f); };\n\
                 if (fits(a.x[5]) && fits(a.x[6]) && fits(a.x[7])) a.eps = 1;";
    for message in timed_outputs(timed) {
        assert!(message.contains("wrong-value in a timed launch"), "{message}");
    }
}

#[test]
fn verify_says_what_it_compared() {
    let project = timed("3");
    let output = run("verify", project.path(), &["--native-only", "--shape", "rows=5,width=100"], "");
    let report: VerifyReport = serde_json::from_slice(&output.stdout).unwrap();
    assert!(report.passed(), "{:?}", report.findings);
    let path = &report.paths[0];
    assert_eq!((path.cases, path.launches, path.elements), (1, 4, 3 * 500));
    assert!(path.worst > 0.0 && path.worst < 1.0);
    // A report that does not say which checks there were is of the first ones.
    assert_eq!(report.set, kernels::verify::SET);
    let mut json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(json.as_object_mut().unwrap().remove("set").is_some());
    assert_eq!(serde_json::from_value::<VerifyReport>(json).unwrap().set, 1);
}

#[test]
fn slots_that_are_copied_apart_from_their_launches_are_verified_as_well() {
    let verified = |first: &str| {
        let output = run("verify", written(first, "3").path(), &["--native-only", "--shape", "rows=9000,width=64"], "");
        serde_json::from_slice::<VerifyReport>(&output.stdout).unwrap()
    };
    let honest = verified("");
    assert!(honest.passed(), "{:?}", honest.findings);
    let path = &honest.paths[0];
    assert_eq!((path.cases, path.launches, path.elements), (1, 3, 2 * 9000 * 64));
    // Behind the case's memory, in the memory of the launches.
    let outside = verified("if (blockIdx.x == 0) reinterpret_cast<char*>(a.out)[9 << 20] = 3;");
    let kinds: Vec<Kind> = outside.findings.iter().map(|finding| finding.kind).collect();
    assert!(!kinds.is_empty() && kinds.iter().all(|kind| *kind == Kind::RedZone), "{:?}", outside.findings);
}

#[test]
fn a_small_case_does_not_reach_the_memory_of_the_large_ones() {
    // What it kept there from launch to launch, and put right before a larger case is launched, nothing would show.
    let project = written("if (a.rows == 5) reinterpret_cast<char*>(a.out)[25 << 20] = 3;", "3");
    let shapes = ["--native-only", "--shape", "rows=5,width=100", "--shape", "rows=1500,width=1024"];
    let output = run("verify", project.path(), &shapes, "");
    let report: VerifyReport = serde_json::from_slice(&output.stdout).unwrap();
    let found = &report.findings[0];
    // There is no memory, or that of the guarded copy.
    assert!([Kind::LaunchFailed, Kind::RedZone].contains(&found.kind), "{:?}", report.findings);
    assert_eq!(found.case.as_deref(), Some("rows=5 width=100 f32"));
}

/// The report on a newer card, which also runs the code of older ones, of a kernel with a statement before its work. Its code
/// differs between the paths.
fn on_a_newer_card(first: &str) -> VerifyReport {
    verified_on_a_newer_card(&format!("volatile int code = STAND_IN_ARCH; {first}"))
}

fn verified_on_a_newer_card(first: &str) -> VerifyReport {
    let project = written(first, "3");
    let mut process = place().command();
    process.env("STAND_IN_ARCH", "90").args(["verify", "--json", "--shape", "rows=5,width=100"]).arg(project.path());
    let output = process.output().unwrap();
    let report: VerifyReport = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    let paths: Vec<(u32, bool)> = report.paths.iter().map(|path| (path.arch, path.jit)).collect();
    assert_eq!(paths, [(90, false), (80, true), (75, true)]);
    assert_eq!(output.status.success(), report.passed());
    report
}

#[test]
fn all_code_paths_are_verified_and_each_has_its_own_findings() {
    let report = on_a_newer_card("");
    assert!(report.passed(), "{:?}", report.findings);
    let all: Vec<_> = report.paths.iter().map(|path| (path.cases, path.launches, path.elements)).collect();
    // What the first one left is compared with two launches of each other one.
    assert_eq!(all, [(1, 4, 3 * 500), (1, 2, 2 * 500), (1, 2, 2 * 500)]);
    assert_eq!(report.operations[0].cases, 3);

    let report = on_a_newer_card("if (STAND_IN_ARCH == 80) a.eps = 1;");
    assert!(!report.findings.is_empty());
    for finding in &report.findings {
        assert_eq!(
            (finding.kind, finding.path.as_str()),
            (Kind::WrongValue, "compute_80 through the driver's compiler")
        );
    }
}

#[test]
fn what_differs_from_the_first_code_path_is_judged_by_itself() {
    // The first path's verdict is of results that the others do not have.
    let report = on_a_newer_card("if (STAND_IN_ARCH == 90) a.eps = 1;");
    assert!(!report.findings.is_empty() && report.findings.iter().all(|finding| finding.path == "sm_90"));
    let elements: Vec<_> = report.paths.iter().map(|path| path.elements).collect();
    assert_eq!(elements[1..], [1500, 1500], "{report:?}");
    // Another rounding, which is as good.
    let report = on_a_newer_card("if (STAND_IN_ARCH == 80) a.eps *= 1.2f;");
    assert!(report.passed(), "{:?}", report.findings);
    let all: Vec<_> = report.paths.iter().map(|path| (path.elements, path.worst.to_bits())).collect();
    assert_eq!((all[0].0, all[1].0, all[2]), (1500, 1500, (1000, all[0].1)));
    assert_ne!(all[0].1, all[1].1);
    // What is written beside the results is each path's own.
    let report = on_a_newer_card("if (STAND_IN_ARCH == 75 && blockIdx.x == 0) a.out[-1] = 3;");
    assert!(!report.findings.is_empty());
    for finding in &report.findings {
        assert_eq!((finding.kind, finding.path.as_str()), (Kind::RedZone, "compute_75 through the driver's compiler"));
    }
}

#[test]
fn a_code_path_with_the_code_of_another_is_not_run() {
    let report = verified_on_a_newer_card("");
    let all: Vec<_> = report.paths.iter().map(|path| (path.arch, path.code_of, path.elements)).collect();
    assert_eq!(all, [(90, None, 1500), (80, Some(75), 0), (75, None, 1000)]);
    assert_eq!(report.operations[0].cases, 2);
}

#[test]
fn shapes_of_the_bench_are_verified_on_the_path_that_is_timed() {
    let project = timed("3");
    let mut process = place().command();
    let output = process.env("STAND_IN_ARCH", "90").args(["verify", "--json"]).arg(project.path()).output().unwrap();
    let report: VerifyReport = serde_json::from_slice(&output.stdout).unwrap();
    let [first, alike, older] = &report.paths[..] else { panic!("{:?}", report.paths) };
    assert_eq!((report.operations[0].timed, first.cases), (1, older.cases + 1));
    assert_eq!(alike.code_of, Some(75));
}

#[test]
fn that_no_case_is_left_is_said_however_many_code_paths_there_are() {
    let project = timed("3");
    for arch in ["75", "90"] {
        let mut process = place().command();
        let output = process
            .env("STAND_IN_ARCH", arch)
            .args(["verify", "--filter", "none"])
            .arg(project.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains("no case is left of candidate"), "{arch}: {said}");
    }
}

#[test]
fn a_code_path_that_loses_the_context_does_not_take_the_others_with_it() {
    for (arch, path) in [(75, "compute_75 through the driver's compiler"), (90, "sm_90")] {
        let lost = format!("if (STAND_IN_ARCH == {arch}) *reinterpret_cast<volatile int*>(8) = 1;");
        let report = on_a_newer_card(&lost);
        let found: Vec<_> = report.findings.iter().map(|finding| (finding.kind, finding.path.as_str())).collect();
        assert_eq!(found, [(Kind::LaunchFailed, path)]);
        for path in &report.paths {
            // Launches, elements, and launches outside of capture.
            let expected = match (path.arch, arch) {
                (path, lost) if path == lost => (0, 0, 0),
                (90, _) => (4, 1500, 1),
                // With a first path that told nothing, all launches follow the two.
                (_, 90) => (6, 1500, 2),
                _ => (2, 1000, 1),
            };
            assert_eq!((path.launches, path.elements, path.direct), expected, "{} without {arch}", path.arch);
        }
    }
}

#[test]
fn no_code_path_finds_what_another_one_left() {
    // They have the same inputs, and each is in a process of its own.
    let first = "char name[40];\n\
                 for (int arch : {75, 80, 90}) {\n\
                 snprintf(name, sizeof name, \"SEEN_%d_%08x\", arch, __float_as_uint(a.x[0]));\n\
                 if (arch == STAND_IN_ARCH) setenv(name, \"1\", 1);\n\
                 else if (getenv(name)) a.eps = 1;\n}";
    let report = on_a_newer_card(first);
    assert!(report.passed(), "{:?}", report.findings);
}

#[test]
fn no_two_cases_have_the_same_numbers() {
    // Two of the four launches of a case have the same inputs.
    let first = "char name[40], width[40];\n\
                 snprintf(name, sizeof name, \"FIRST_%08x\", __float_as_uint(a.x[0]));\n\
                 snprintf(width, sizeof width, \"%lld\", (long long)a.width);\n\
                 if (getenv(name) && strcmp(getenv(name), width) != 0) a.eps = 1;\n\
                 setenv(name, width, 1);";
    let project = written(first, "3");
    let shapes = ["--native-only", "--shape", "rows=1,width=100", "--shape", "rows=1,width=101"];
    let output = run("verify", project.path(), &shapes, "");
    let report: VerifyReport = serde_json::from_slice(&output.stdout).unwrap();
    assert!(report.passed(), "{:?}", report.findings);
}

/// The findings of `verify` for a launcher that does something else with arguments that it is to refuse, and then returns 1. `rows` of
/// kernel.toml's rows to be refused replaces the candidates'.
fn refusing(first: &str, refused: &str) -> Vec<(Kind, String)> {
    let project = timed("3");
    let write = |name: &str, edit: &dyn Fn(String) -> String| {
        let path = project.path().join(name);
        fs::write(&path, edit(fs::read_to_string(&path).unwrap())).unwrap();
    };
    write("kernel.toml", &|text| {
        let (head, _) = text.split_once("[[operation.reject]]").unwrap();
        format!("{head}[[operation.reject]]\n{refused}\n")
    });
    write("candidate.cu", &|text| {
        let arguments = "out, x, weight, scratch, rows, width, out_stride, x_stride, eps, weight_offset, round_first, dtype, stream";
        text.replace(
            "#include \"rms_norm.cuh\"",
            "#define rms_norm_launch right\n#include \"rms_norm.cuh\"\n#undef rms_norm_launch",
        ) + &format!(
            "extern \"C\" int rms_norm_launch(void* out, const void* x, const void* weight, float* scratch, int64_t rows, \
                 int64_t width, int64_t out_stride, int64_t x_stride, float eps, float weight_offset, int round_first, int dtype, \
                 cudaStream_t stream) {{\n  {first}\n  return right({arguments});\n}}\n"
        )
    });
    let output = run("verify", project.path(), &[], "");
    let report: VerifyReport = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&output.stderr)));
    report.findings.into_iter().map(|finding| (finding.kind, finding.message)).collect()
}

#[test]
fn a_refusal_launches_nothing_and_is_of_the_arguments_that_it_was_given() {
    let negative = "rows = -1\nwidth = 1024";
    assert_eq!(refusing("", negative), []);
    let launches =
        "if (rows < 0) return right(out, x, weight, scratch, 1, width, width, width, eps, 0, 0, dtype, stream), 1;";
    let found = refusing(launches, negative);
    assert!(
        matches!(found.as_slice(), [(Kind::NotRefused, why)] if why.contains("returned 1, having launched 1 kernel(s)")),
        "{found:?}"
    );
    // A pointer lies as far beyond its tensor as kernel.toml says.
    let beyond = "rows = 5\nwidth = 77\npointers = { x = \"+4\" }";
    assert_eq!(refusing("if (width == 77 && reinterpret_cast<uint64_t>(x) % 16 == 4) return 1;", beyond), []);
    let found = refusing("if (width == 77 && reinterpret_cast<uint64_t>(x) % 16 == 12) return 1;", beyond);
    assert!(matches!(found.as_slice(), [(Kind::NotRefused, _)]), "{found:?}");
}

#[test]
fn variables_of_the_device_are_named_in_the_report() {
    let remarks = |text: &str| {
        let project = timed("3");
        let path = project.path().join("candidate.cu");
        fs::write(&path, fs::read_to_string(&path).unwrap().replace("__global__ void timed", text)).unwrap();
        let output = run("bench", project.path(), &["--rounds", "5"], "");
        let report: BenchReport = serde_json::from_slice(&output.stdout).unwrap();
        report.remarks.into_iter().filter(|remark| remark.contains("device variables")).collect::<Vec<_>>()
    };
    assert_eq!(remarks("__global__ void timed"), [""; 0]);
    let found = remarks("__device__ float kept[3];\n__global__ void timed");
    assert_eq!(found, ["12 bytes of device variables get their initial content again before each round"]);
}

#[test]
fn nothing_is_recorded_without_a_card() {
    let project = timed("3");
    let output = run("bench", project.path(), &["--record", "--rounds", "5"], "");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("nothing is recorded"), "{said}");
    assert!(!project.path().join("evidence").exists());
}

#[test]
fn all_contents_are_new_in_every_round_and_every_launch_finds_another_word_in_place_of_its_output() {
    // One element has some 2^21 values: among the pairs of launches of a slot two are equal once in some 200 runs.
    let say = r#"if (blockIdx.x == 0)
    if (FILE* log = fopen(getenv("STAND_IN_LOG"), "a")) {
      const auto bits = __float_as_uint;
      fprintf(log, "%p %x-%x-%x %x %x\n", static_cast<void*>(a.out), bits(a.x[4]), bits(a.x[5]), bits(a.x[6]), bits(a.out[5]), bits(a.out[6]));
      fclose(log);
    }"#;
    let project = written(say, "3");
    let log = project.path().join("log");
    let mut process = place().command();
    let output =
        process.env("STAND_IN_LOG", &log).args(["bench", "--rounds", "5"]).arg(project.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = fs::read_to_string(log).unwrap();
    let mut slots: BTreeMap<&str, Vec<[&str; 2]>> = BTreeMap::new();
    for line in text.lines() {
        let [slot, x, out, next] = <[&str; 4]>::try_from(line.split(' ').collect::<Vec<_>>()).unwrap();
        assert_eq!(out, next, "the output is one word before every launch, not what an earlier launch left");
        slots.entry(slot).or_default().push([x, out]);
    }
    assert!(slots.len() > 40, "{}", slots.len());
    let mut inputs: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (slot, seen) in &slots {
        for [x, _] in seen {
            inputs.entry(x).or_default().insert(slot);
        }
    }
    // Of seven rounds each slot has two launches, and one of each pair of halves. A slot at the beginning of the memory is one of a
    // cold case and one of a hot.
    let halves = |slots: usize| slots.next_power_of_two().trailing_zeros() as usize;
    let cold = 14 + halves(slots.len());
    let hot = slots.values().filter(|seen| seen.len() > cold).count();
    let both = cold + 14 + halves(hot);
    // The inputs of each slot come again in the slot before, those of the first in the last: every timed output is compared.
    let (twice, rounds) = (inputs.values().filter(|slots| slots.len() == 2).count(), 7 * (slots.len() + hot));
    assert!(twice.abs_diff(rounds) * 50 < rounds, "inputs that two slots had: {twice} of {rounds}");
    for (slot, seen) in slots {
        let distinct = |place: usize| seen.iter().map(|one| one[place]).collect::<BTreeSet<_>>().len();
        assert!([cold, both].contains(&seen.len()), "{slot}: {cold} or {both} of {seen:?}");
        assert_eq!(distinct(0), seen.len(), "the inputs of {slot}, timed and repeated: {seen:?}");
        assert_eq!(distinct(1), seen.len(), "what {slot} held in place of its output: {seen:?}");
    }
}

#[test]
fn a_search_ends_with_the_right_elite_and_every_finding_by_name() {
    let task = timed("3");
    let proposals = tempfile::TempDir::with_prefix("kernels-cheats-").unwrap();
    let source = |project: &Path| fs::read_to_string(project.join("candidate.cu")).unwrap();
    let propose = |name: &str, text: &str| {
        fs::create_dir(proposals.path().join(name)).unwrap();
        fs::write(proposals.path().join(name).join("candidate.cu"), text).unwrap();
    };
    propose("1-slow", &source(timed("4.5").path()));
    propose("2-wrong", &source(written("a.eps = 1;", "1").path()));
    propose("3-empty", &source(timed("1").path()).replace("norm_row(a, blockIdx.x);", ""));
    propose("4-good", &source(timed("1.5").path()));
    propose(
        "5-same-code",
        &source(timed("1.5").path()).replace("const double bytes", "double unused = 0; const double bytes"),
    );
    propose("6-broken", "int x");
    let run_folder = proposals.path().join(".run");
    let command = |words: &[&str]| {
        let output = place().command().arg("search").args(words).arg("--json").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()
    };
    let folder = format!("dir:{}", proposals.path().display());
    let (task, out) = (task.path().to_str().unwrap(), run_folder.to_str().unwrap());
    let report = command(&["run", task, "--proposer", &folder, "--out", out, "--islands", "1"]);
    assert_eq!(report["best"], 4, "{report:#}");
    let row = |id: usize| {
        let row = &report["candidates"][id];
        (
            row["standing"].as_str().unwrap(),
            row["stage"].as_str().unwrap_or(""),
            row["findings"][0].as_str().unwrap_or(""),
        )
    };
    assert_eq!(row(0), ("confirmed", "", ""));
    assert_eq!(row(1), ("timed", "", ""));
    assert_eq!(row(2), ("caught", "verify-few", "wrong-value"));
    assert_eq!(row(3), ("caught", "verify-few", "unwritten"));
    assert_eq!(row(4), ("confirmed", "", ""));
    assert_eq!(row(5), ("same", "identity", "same-code"));
    assert_eq!(row(6), ("caught", "compile", "does-not-compile"));
    // Without torch nothing was timed beside it: no speed-up, and the reason. Twice as fast is measured twice.
    let good = command(&["show", "4", out]);
    assert!(good["confirmed"]["speedup"].is_null() && good["confirmed"]["why"].is_string(), "{good:#}");
    assert_eq!(good["confirmed"]["runs"], 2);
    let (waited, idle) = waits(&run_folder);
    assert!(
        waited >= 4 && idle < 2.0,
        "{waited} candidates waited for the card, which was idle for {idle:.2} s meanwhile"
    );
}

/// How many compiled candidates waited for the card, and the longest time that it had nothing to do meanwhile: what is left of a
/// wait is a process to start.
fn waits(run: &Path) -> (usize, f64) {
    let text = fs::read_to_string(run.join("events.jsonl")).unwrap();
    let (mut ready, mut waits, mut busy) = (std::collections::BTreeMap::new(), Vec::new(), Vec::new());
    for line in text.lines() {
        let event: serde_json::Value = serde_json::from_str(line).unwrap();
        let (data, time) = (&event["data"], |key: &str| event["data"][key].as_f64().unwrap());
        match event["kind"].as_str().unwrap() {
            "compiled" => drop(ready.insert(data["candidate"].as_u64().unwrap(), time("ended"))),
            "judged" if time("started") > 0.0 => {
                waits.push((ready[&data["candidate"].as_u64().unwrap()], time("started")));
                busy.push((time("started"), time("ended")));
            }
            "confirmed" => busy.push((time("started"), time("ended"))),
            _ => {}
        }
    }
    busy.sort_by(|one, other| one.partial_cmp(other).unwrap());
    let idle = |(from, to): &(f64, f64)| {
        let (mut at, mut idle) = (*from, 0.0);
        for (start, end) in busy.iter().filter(|(start, _)| start < to) {
            idle += (start - at).max(0.0);
            at = at.max(*end);
        }
        idle + (to - at).max(0.0)
    };
    (waits.len(), waits.iter().map(idle).fold(0.0, f64::max))
}

/// The names of the projects and the groups of checks in the lines that `ci` prints, in their order.
fn groups(lines: &[u8]) -> String {
    let mut groups: Vec<String> = Vec::new();
    for line in String::from_utf8_lossy(lines).lines() {
        let mut words = line.split_whitespace();
        let group = match (words.next(), words.next()) {
            (Some("✓" | "✗" | "–"), Some(group)) => group.to_owned(),
            (Some("candidate"), _) => "of:candidate".to_owned(),
            _ => continue,
        };
        if groups.last() != Some(&group) {
            groups.push(group);
        }
    }
    groups.join(" ")
}

#[test]
fn what_is_timed_has_the_card_for_itself_after_all_projects_are_verified() {
    let projects = [written("", "3"), written("if (a.width > 1) a.eps = 1;", "3"), written("", "4")];
    let command = || {
        let mut process = place().command();
        process.env("STAND_IN_ARCH", "80").arg("ci");
        process
    };
    let ci = |options: &[&str]| {
        let mut process = command();
        process.args(options).args(projects.iter().map(tempfile::TempDir::path)).output().unwrap()
    };
    let report: serde_json::Value = serde_json::from_slice(&ci(&["--json"]).stdout).unwrap();
    let status = |project: usize, group: &str| {
        let checks = report["projects"][project]["checks"].as_array().unwrap();
        let some = checks.iter().filter(|check| check["group"] == group);
        some.map(|check| check["status"].as_str().unwrap()).collect::<BTreeSet<_>>()
    };
    let expected = [("passed", "passed"), ("failed", "skipped"), ("passed", "passed")];
    for (project, (verify, bench)) in expected.into_iter().enumerate() {
        assert_eq!(report["projects"][project]["dir"], projects[project].path().to_str().unwrap());
        assert_eq!(status(project, "verify"), BTreeSet::from([verify]));
        assert_eq!(status(project, "bench"), BTreeSet::from([bench]));
    }
    // Of one project they follow, of several they are last. A failed check is not among these lines.
    let first = "of:candidate read build budgets evidence";
    let mut alone = command();
    let alone = alone.arg(projects[0].path()).output().unwrap();
    assert_eq!(groups(&alone.stdout), format!("{first} verify bench"));
    let of_some = [projects[0].path(), projects[2].path()];
    let some = command().args(of_some).output().unwrap();
    let [verify, bench] = ["verify", "bench"].map(|group| format!("of:candidate {group} of:candidate {group}"));
    assert_eq!(groups(&some.stdout), format!("{first} {first} {verify} {bench}"));
}

#[test]
fn a_project_for_older_cards_is_verified_and_timed_by_what_the_driver_compiles() {
    let project = written("", "3");
    let build = project.path().join("build.toml");
    let text = fs::read_to_string(&build).unwrap();
    fs::write(&build, text.replace("backend = \"cuda\"\n", "backend = \"cuda\"\ncuda-capabilities = [\"9.0a\"]\n"))
        .unwrap();
    let mut process = place().command();
    let output = process.env("STAND_IN_ARCH", "100").args(["ci", "--json"]).arg(project.path()).output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let checks = report["projects"][0]["checks"].as_array().unwrap();
    for (group, expected) in [("build", vec!["sm_90"]), ("verify", vec!["compute_90 through the driver's compiler"])] {
        let some = checks.iter().filter(|check| check["group"] == group && check["status"] == "passed");
        assert_eq!(some.map(|check| check["name"].as_str().unwrap()).collect::<Vec<_>>(), expected, "{report}");
    }
    assert!(checks.iter().any(|check| check["group"] == "bench" && check["status"] == "passed"), "{report}");
}

/// A statement that makes each block take 20 ms of the host's time.
const SLOWLY: &str = "timespec time = {0, 20000000};\n  nanosleep(&time, nullptr);";

#[test]
fn a_run_that_is_stopped_while_it_verifies_reports_what_was_verified_and_names_the_rest() {
    use std::io::BufRead;
    let projects = [written("", "3"), written(SLOWLY, "3")];
    let [quick, slow] = [0, 1].map(|index: usize| projects[index].path().to_str().unwrap());
    let junit = tempfile::NamedTempFile::new().unwrap();
    let mut process = place().command();
    process.env("STAND_IN_ARCH", "80").args(["ci", "--junit"]).arg(junit.path()).args([quick, slow]);
    let mut ci = process.stdout(std::process::Stdio::piped()).spawn().unwrap();
    let lines = std::io::BufReader::new(ci.stdout.take().unwrap()).lines();
    let seen = lines.map_while(Result::ok).any(|line| line.contains("verify   compute_75"));
    assert!(Command::new("kill").args(["-TERM", &ci.id().to_string()]).status().unwrap().success() && seen);
    assert_eq!(ci.wait().unwrap().code(), Some(143));
    let text = fs::read_to_string(junit.path()).unwrap();
    assert!(text.contains(&format!("not verified: {slow}; not timed: {quick}")), "{text}");
    assert!(text.contains("compute_75 through"), "{text}");
}

#[test]
fn a_verification_ends_with_the_run_that_waits_for_it() {
    let project = written(SLOWLY, "3");
    let path = project.path().to_str().unwrap();
    let workers = || {
        let all = fs::read_dir("/proc").unwrap().filter_map(|one| fs::read(one.ok()?.path().join("cmdline")).ok());
        let texts = all.map(|line| String::from_utf8_lossy(&line).into_owned());
        texts.filter(|line| line.contains("__worker") && line.contains(path)).count()
    };
    let within = |what: &str, holds: &dyn Fn() -> bool| {
        let start = std::time::Instant::now();
        while !holds() {
            assert!(start.elapsed().as_secs() < 60, "{what}");
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    };
    let mut process = place().command();
    process.env("STAND_IN_ARCH", "90").arg("ci").arg(path).stdout(std::process::Stdio::null());
    let mut ci = process.spawn().unwrap();
    within("nothing is verified", &|| workers() >= 2);
    ci.kill().unwrap();
    ci.wait().unwrap();
    within("a verification goes on", &|| workers() == 0);
}
