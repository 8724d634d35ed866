//! `kernels build` with the real nvcc: what it reports of each kernel, what it recompiles, and what it refuses.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use crate::support::{Ran, Test, cuda, script, snapshot, write};
use kernels::base::arch::{self, Limits};
use serde_json::Value;

const UNIT: &str = r#"#include "kernels.cuh"
static __global__ void fixed(float *to) { to[threadIdx.x] = SCALE; }
extern "C" int launch(float *out, const float *x, long n, cudaStream_t stream) {
  hidden<4><<<1, 64, 0, stream>>>(x, out);
  fixed<<<1, 64, 0, stream>>>(out);
  return cudaGetLastError();
}
"#;

const HEADER: &str = r"#pragma once
#define SCALE 2.0f
namespace {
template <int N>
__global__ void __launch_bounds__(192) hidden(const float *from, float *to) {
  __shared__ float sums[96];
  sums[threadIdx.x % 96] = from[threadIdx.x];
  __syncthreads();
  to[threadIdx.x] = N * SCALE * sums[(threadIdx.x + 1) % 96];
}
}  // namespace
";

const KERNEL: &str = r#"format = 1

[[operation]]
name = "scale"
launcher = "launch"
oracle = { python = "reference.py", function = "scale" }
dtypes = ["f32"]
bytes = "2 * n * size(T)"
flops = "n"
arguments = [
  { tensor = "out", role = "output", shape = ["n"] },
  { tensor = "x", role = "input", shape = ["n"] },
  { scalar = "n", type = "i64" },
  { stream = true },
]

[[operation.verify]]
n = 64

[[operation.bench]]
n = 64
"#;

/// A project with one unit, one header and a private cache.
struct Project {
    test: Test,
    root: PathBuf,
}

impl Project {
    fn new() -> Self {
        Self::named("scale")
    }

    fn named(folder: &str) -> Self {
        let test = Test::without_git();
        let root = test.project.join(folder);
        let project = Self { test, root };
        project.lay(&project.root, &["scale.cu"]);
        project.write("src/scale.cu", UNIT);
        project.write("include/kernels.cuh", HEADER);
        project
    }

    /// A project of units of tests/build.
    fn of(unit: &str) -> Self {
        let test = Test::without_git();
        let root = test.project.join("project");
        let project = Self { test, root }.shared();
        project.lay(&project.root, &[unit]);
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/build");
        project.write(&format!("src/{unit}"), &fs::read_to_string(from.join(unit)).unwrap());
        project
    }

    /// With the shared objects, for tests that do not count compilations.
    fn shared(self) -> Self {
        cuda::share_objects(&self.cache());
        self
    }

    #[allow(clippy::unused_self)]
    fn lay(&self, root: &Path, units: &[&str]) {
        let units: Vec<String> = units.iter().map(|unit| format!("\"src/{unit}\"")).collect();
        fs::create_dir_all(root.join("include")).unwrap();
        write(
            &root.join("build.toml"),
            format!(
                "[general]\nname = \"scale\"\nversion = 1\nedition = 5\nlicense = \"Apache-2.0\"\n\
                 backends = [\"cuda\"]\n\n[torch]\nsrc = []\n\n[kernel.scale]\nbackend = \"cuda\"\n\
                 depends = []\ninclude = [\"include\"]\nsrc = [{}]\n",
                units.join(", ")
            ),
        );
        write(&root.join("kernel.toml"), KERNEL);
        write(&root.join("reference.py"), "def scale(x, n):\n    return x\n");
    }

    fn write(&self, path: &str, text: &str) {
        write(&self.root.join(path), text);
    }

    fn edit(&self, path: &str, from: &str, to: &str) {
        let text = fs::read_to_string(self.root.join(path)).unwrap();
        assert!(text.contains(from), "{text}");
        self.write(path, &text.replace(from, to));
    }

    fn command(&self, typed: &str) -> Command {
        let mut command = self.test.command();
        command
            .current_dir(&self.root)
            .env("CUDA_HOME", cuda::home())
            .env("KERNELS_CACHE", self.cache())
            .args(typed.split(' '));
        command
    }

    fn cache(&self) -> PathBuf {
        self.test.root().join("cache")
    }

    fn build(&self, options: &str) -> Ran {
        Ran::of(&mut self.command(format!("build {options}").trim()))
    }

    fn json(&self, options: &str) -> Value {
        let ran = self.build(&format!("--json {options}"));
        ran.json()
    }

    /// The number of units that a build compiled, and the digest of its device code.
    fn compiled(&self, options: &str) -> (u64, String) {
        let report = self.json(options);
        let digest = report["device_digest"].as_str();
        (report["compiled"].as_u64().unwrap(), digest.unwrap_or_else(|| panic!("{report:#}")).to_owned())
    }
}

/// Every kernel of a report with its architecture and cubin.
fn kernels(report: &Value) -> Vec<(u64, PathBuf, Value)> {
    let mut all = Vec::new();
    for target in report["targets"].as_array().unwrap() {
        for unit in target["units"].as_array().unwrap() {
            for kernel in unit["kernels"].as_array().unwrap() {
                all.push((target["arch"].as_u64().unwrap(), unit["cubin"].as_str().unwrap().into(), kernel.clone()));
            }
        }
    }
    all
}

#[test]
fn a_build_says_what_became_of_each_kernel() {
    let project = Project::new().shared();
    let report = project.json("--arch 90,75");
    let all = kernels(&report);
    let names: Vec<_> = all.iter().map(|(arch, _, kernel)| (*arch, kernel["name"].as_str().unwrap())).collect();
    let hidden = "(anonymous namespace)::hidden<4>(float const*, float*)";
    assert_eq!(names, [(75, hidden), (75, "fixed(float*)"), (90, hidden), (90, "fixed(float*)")]);
    for (_, _, kernel) in &all {
        let is_hidden = kernel["name"] == hidden;
        assert_eq!(kernel["max_threads"], if is_hidden { 192 } else { 1024 });
        assert_eq!(kernel["shared"], if is_hidden { 96 * 4 } else { 0 });
        assert!(kernel["registers"].as_u64().unwrap() > 3, "{kernel:#}");
        assert_eq!(kernel["loads"]["all"], u64::from(is_hidden));
        assert_eq!(kernel["stores"]["all"], 1);
    }
    // 5 blocks of 6 warps on 32 warps, 10 on 64.
    assert_eq!(all[0].2["occupancy"], 30.0 / 32.0);
    assert_eq!(all[2].2["occupancy"], 60.0 / 64.0);
    project.build("--arch 90").expect(
        0,
        &["sm_90", "(anonymous namespace)::hidden<4> ", "94 % (192)", "1 unit: 0 compiled, 1 from the cache"],
    );
}

/// Every kernel's symbol is in the cubin, the PTX and the library of its architecture.
fn holds_its_symbols(report: &Value) {
    let holds = |path: &Value, symbol: &str| {
        let bytes = fs::read(path.as_str().unwrap()).unwrap();
        bytes.windows(symbol.len()).any(|window| window == symbol.as_bytes())
    };
    let target = &report["targets"][0];
    for (_, _, kernel) in kernels(report) {
        let symbol = kernel["symbol"].as_str().unwrap();
        for file in [&target["library"], &target["units"][0]["cubin"], &target["units"][0]["ptx"]] {
            assert!(holds(file, symbol), "{symbol} is not in {file}");
        }
    }
}

#[test]
fn the_cubin_the_ptx_and_the_library_hold_the_same_symbols() {
    let project = Project::new().shared();
    let report = project.json("--arch 90");
    holds_its_symbols(&report);
    let target = &report["targets"][0];
    let library = target["library"].as_str().unwrap();
    let listed = Command::new("nm").args(["-D", "--defined-only", library]).output().unwrap();
    let exported: Vec<String> = String::from_utf8(listed.stdout)
        .unwrap()
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2).map(str::to_owned))
        .filter(|symbol| symbol.starts_with("cu") || symbol == "launch")
        .collect();
    assert_eq!(exported, ["launch"], "the runtime's own symbols stay inside");
}

/// The same sources in several folders: symbols of an anonymous namespace carry a digest of the path.
#[test]
fn checkouts_that_build_at_once_leave_a_cache_whose_parts_fit() {
    let project = Project::new();
    let roots = ["a", "b", "c", "d"].map(|name| project.test.project.join(name));
    for root in &roots {
        project.lay(root, &["scale.cu"]);
        write(&root.join("src/scale.cu"), UNIT);
        write(&root.join("include/kernels.cuh"), HEADER);
    }
    let build = |root: &PathBuf| Ran::ok(project.command("build --json --arch 90").current_dir(root));
    thread::scope(|scope| {
        for root in &roots {
            scope.spawn(move || build(root));
        }
    });
    for root in &roots {
        holds_its_symbols(&serde_json::from_str(&build(root).out).unwrap());
    }
    // Compiled anew in one of them, the others have its objects.
    holds_its_symbols(
        &serde_json::from_str(&Ran::ok(project.command("build --json --force --arch 90").current_dir(&roots[1])).out)
            .unwrap(),
    );
    holds_its_symbols(&serde_json::from_str(&build(&roots[2]).out).unwrap());
}

#[test]
fn the_widths_of_accesses_are_those_that_nvdisasm_shows() {
    let Some(nvdisasm) = cuda::nvdisasm() else {
        return crate::support::not_run("no nvdisasm to compare with; ./test fetches it, or set KERNELS_NVDISASM");
    };
    let project = Project::of("widths.cu");
    let archs: Vec<String> = arch::known().iter().map(ToString::to_string).collect();
    let report = project.json(&format!("--arch {}", archs.join(",")));
    let mut disassembled: BTreeMap<PathBuf, BTreeMap<String, [u64; 4]>> = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for (arch, cubin, kernel) in kernels(&report) {
        let counts = disassembled.entry(cubin.clone()).or_insert_with(|| {
            let ran = Command::new(&nvdisasm).arg(&cubin).output().unwrap();
            assert!(ran.status.success(), "{ran:?}");
            count(&String::from_utf8(ran.stdout).unwrap(), &mut seen)
        });
        let figure = |of: &str, which: &str| kernel[of][which].as_u64().unwrap();
        let ours = [figure("loads", "all"), figure("loads", "wide"), figure("stores", "all"), figure("stores", "wide")];
        let symbol = kernel["symbol"].as_str().unwrap();
        assert_eq!(ours, counts[symbol], "sm_{arch} {}", kernel["name"]);
    }
    for instruction in [
        "LDG.U8",
        "LDG.U16",
        "LDG.S16",
        "LDG",
        "LDG.64",
        "LDG.128",
        "LDG.256",
        "STG.U8",
        "STG.U16",
        "STG",
        "STG.64",
        "STG.128",
        "STG.256",
        "LD.128",
        "ST.128",
        "LDGSTS",
        "LDGSTS.64",
        "LDGSTS.128",
        "UBLKCP.S.G",
        "UBLKCP.G.S",
        "UTMALDG",
        "UTMASTG",
    ] {
        let is_there = seen
            .iter()
            .any(|known: &String| instruction.split('.').all(|part| known.split('.').any(|word| word == part)));
        // The compiler may choose a signed or an unsigned 16-bit load.
        assert!(is_there || instruction.ends_with("16"), "the sample has no {instruction}: {seen:?}");
    }
}

/// Loads, wide loads, stores and wide stores of each function of a disassembly, by the names of instructions.
fn count(text: &str, seen: &mut BTreeSet<String>) -> BTreeMap<String, [u64; 4]> {
    let mut all: BTreeMap<String, [u64; 4]> = BTreeMap::new();
    let mut function = None;
    for line in text.lines() {
        if let Some(name) = line.strip_prefix(".text.") {
            function = name.strip_suffix(':').map(str::to_owned);
            all.entry(function.clone().unwrap()).or_default();
        }
        let (Some(function), Some((_, code))) = (&function, line.split_once("*/")) else {
            continue;
        };
        let code = code.trim_start();
        let code = match code.strip_prefix('@') {
            Some(predicated) => predicated.split_once(' ').unwrap().1.trim_start(),
            None => code,
        };
        let name = code.split([' ', ';']).next().unwrap();
        let words: Vec<&str> = name.split('.').collect();
        let (load, wide) = match words[0] {
            "LDG" | "LD" | "LDGSTS" => (true, words.contains(&"128") || words.contains(&"256")),
            "STG" | "ST" => (false, words.contains(&"128") || words.contains(&"256")),
            "UTMALDG" => (true, true),
            "UTMASTG" | "UTMAREDG" | "UBLKRED" => (false, true),
            "UBLKCP" if words[1..].starts_with(&["S", "G"]) => (true, true),
            "UBLKCP" if words[1..].starts_with(&["G", "S"]) => (false, true),
            _ => continue,
        };
        seen.insert(name.to_owned());
        let counts = all.get_mut(function).unwrap();
        let at = if load { 0 } else { 2 };
        counts[at] += 1;
        counts[at + 1] += u64::from(wide);
    }
    all
}

#[test]
fn occupancy_is_that_of_the_toolkits_own_calculator() {
    let test = Test::without_git();
    let program = test.root().join("occupancy");
    let compiled = Command::new("g++")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/build/occupancy.cpp"))
        .arg("-I")
        .arg(cuda::home().join("include"))
        .arg("-o")
        .arg(&program)
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{compiled:?}");
    let mut questions = String::new();
    let mut ours = Vec::new();
    for arch in arch::known() {
        let limits = Limits::of(arch).unwrap();
        for registers in [1, 16, 24, 31, 32, 33, 40, 48, 63, 64, 65, 96, 128, 168, 255] {
            for shared in [0, 1, 1024, 4000, 16_384, 33_000, 49_152] {
                for threads in [1, 32, 33, 64, 96, 128, 192, 256, 288, 384, 512, 768, 1024] {
                    let numbers = [
                        arch,
                        limits.warps * 32,
                        limits.blocks,
                        limits.shared,
                        limits.shared_reserved,
                        limits.registers,
                        registers,
                        shared,
                        threads,
                    ];
                    let words: Vec<_> = numbers.iter().map(u32::to_string).collect();
                    questions += &format!("{}\n", words.join(" "));
                    ours.push(limits.resident_blocks(registers, shared, threads));
                }
            }
        }
    }
    let file = test.root().join("questions");
    fs::write(&file, &questions).unwrap();
    let asked = Command::new(&program).stdin(fs::File::open(&file).unwrap()).output().unwrap();
    let theirs: Vec<u32> = String::from_utf8(asked.stdout).unwrap().lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(ours.len(), theirs.len());
    for ((question, ours), theirs) in questions.lines().zip(ours).zip(theirs) {
        assert_eq!(ours, theirs, "{question}");
    }
}

#[test]
fn what_is_unchanged_is_not_compiled_again_and_what_is_changed_is() {
    let project = Project::new();
    assert_eq!(project.compiled("--arch 90").0, 1);
    assert_eq!(project.compiled("--arch 90").0, 0);
    assert_eq!(project.compiled("--arch 80,90").0, 1, "only sm_80 is new");
    assert_eq!(project.compiled("--arch 90 --force").0, 1);
    // A header's bytes decide, and its first version is still in the cache.
    project.edit("include/kernels.cuh", "2.0f", "3.0f");
    assert_eq!(project.compiled("--arch 90").0, 1);
    project.edit("include/kernels.cuh", "3.0f", "2.0f");
    assert_eq!(project.compiled("--arch 90").0, 0);
    // A header that nothing reads, and a second unit, leave the first one alone.
    project.write("src/other.cuh", HEADER);
    project.write("src/second.cu", "__global__ void second(float* x) { *x = 1.0f; }\n");
    assert_eq!(project.compiled("--arch 90").0, 0);
    project.edit("build.toml", "\"src/scale.cu\"", "\"src/scale.cu\", \"src/second.cu\"");
    assert_eq!(project.compiled("--arch 90").0, 1);
    // A new header beside the source takes precedence over the one that was read, and so would one by the name of the system's.
    project.write("src/kernels.cuh", &HEADER.replace("2.0f", "5.0f"));
    assert_eq!(project.compiled("--arch 90").0, 1);
    project.write("include/cuda_runtime.h", "#include_next <cuda_runtime.h>\n");
    assert_eq!(project.compiled("--arch 90").0, 2);
    // Where code asks which files there are, each name counts.
    project.write("src/second.cu", "#if __has_include(\"third.cuh\")\n#error third\n#endif\n");
    assert_eq!(project.compiled("--arch 90").0, 1);
    project.write("src/third.cuh", "");
    project.build("--arch 90").expect(1, &["third"]);
    project.edit("build.toml", ", \"src/second.cu\"", "");
    // Flags.
    project.edit("build.toml", "depends = []", "depends = []\ncuda-flags = [\"--use_fast_math\"]");
    assert_eq!(project.compiled("--arch 90").0, 1);
    // A date in the future does not mean that the file is being edited.
    let header = fs::File::options().append(true).open(project.root.join("src/kernels.cuh")).unwrap();
    let tomorrow = std::time::SystemTime::now() + std::time::Duration::from_secs(86_400);
    header.set_modified(tomorrow).unwrap();
    assert_eq!(project.compiled("--arch 90 --force").0, 1);
    // A deleted header is an error, not a stale success.
    fs::remove_file(project.root.join("src/kernels.cuh")).unwrap();
    fs::remove_file(project.root.join("include/kernels.cuh")).unwrap();
    project.build("--arch 90").expect(1, &["kernels.cuh: No such file"]);
}

#[test]
fn the_digest_is_of_the_device_code_alone() {
    let project = Project::new();
    let (_, digest) = project.compiled("--arch 90");
    assert_eq!(project.compiled("--arch 90 --force").1, digest);
    // A comment, and different line numbers.
    project.write("src/scale.cu", &format!("// A comment.\n\n\n{UNIT}"));
    let (compiled, commented) = project.compiled("--arch 90");
    assert_eq!((compiled, &commented), (1, &digest));
    // Another folder: the symbols of the anonymous namespace change, the code does not.
    let elsewhere = Project::named("another folder's \u{e9}");
    assert_eq!(elsewhere.compiled("--arch 90").1, digest);
    // Host code is not in the digest.
    project.edit("src/scale.cu", "return cuda", "if (n < 0) return 1;\n  return cuda");
    assert_eq!(project.compiled("--arch 90").1, digest);
    // Small changes of device code: a constant, a launch bound, shared memory, a table.
    let mut digests = BTreeSet::from([digest]);
    for (from, to) in [
        ("SCALE 2.0f", "SCALE 2.5f"),
        ("bounds__(192)", "bounds__(160)"),
        ("sums[96]", "sums[97]"),
        ("namespace {", "__device__ float table[2] = {1, 2};\nnamespace {"),
        ("table[2] = {1, 2}", "table[2] = {1, 3}"),
    ] {
        project.edit("include/kernels.cuh", from, to);
        assert!(digests.insert(project.compiled("--arch 90").1), "{from} → {to}");
    }
}

/// `setmaxnreg` and `wgmma` are in 9.0a alone: a list that names it says so to the compiler, and which cards are left.
#[test]
fn code_for_one_architecture_is_compiled_where_the_capabilities_name_its_suffix() {
    let project = Project::new();
    let plain = project.compiled("--arch 90").1;
    project.edit("build.toml", "depends = []", "depends = []\ncuda-capabilities = [\"8.0\", \"9.0\"]");
    let (compiled, digest) = project.compiled("--arch 90");
    assert_eq!((compiled, &digest), (0, &plain));
    // Nothing of 9.0a is used yet; the unit is compiled anew, and so are others' caches.
    project.edit("build.toml", "\"9.0\"", "\"9.0a\"");
    assert_eq!(project.compiled("--arch 90").0, 1);
    let special = "\n#ifdef __CUDA_ARCH_FEAT_SM90_ALL\n  asm volatile(\"setmaxnreg.dec.sync.aligned.u32 64;\");\n#endif\n  __syncthreads();";
    project.edit("include/kernels.cuh", "\n  __syncthreads();", special);
    let report = project.build("--json --arch 80,90").json();
    let codes = |report: &Value| -> Vec<String> {
        report["targets"].as_array().unwrap().iter().map(|target| target["code"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(codes(&report), ["sm_80", "sm_90a"]);
    assert_ne!(project.compiled("--arch 90").1, plain);
    project.build("--arch 90").expect(0, &["sm_90a"]);
    // Without the guard the older code does not compile, and without the suffix nothing does.
    project.edit("include/kernels.cuh", "#ifdef __CUDA_ARCH_FEAT_SM90_ALL", "#if 1");
    project.build("--arch 80").expect(1, &["does not compile for sm_80", "setmaxnreg"]);
    project.edit("build.toml", "\"8.0\", \"9.0a\"", "\"9.0a\"");
    project.build("--arch 90").expect(0, &["sm_90a"]);
    project.build("--arch 100").expect(1, &["not for sm_100", "9.0a"]);
    assert_eq!(codes(&project.build("--json --arch 80,90,100").json()), ["sm_90a"]);
    project.edit("build.toml", "\"9.0a\"", "\"9.0\"");
    project.build("--arch 90").expect(1, &["does not compile for sm_90:", "setmaxnreg"]);
}

/// Host code is compiled once if it is the same for all architectures; the library is identical to that of a build for
/// one architecture.
#[test]
fn a_library_is_the_same_whatever_else_is_compiled_beside_it() {
    let edits: [(&str, &str, &str); 4] = [
        ("nothing", "", ""),
        (
            "host code that asks which architectures it is compiled for",
            "return cudaGetLastError();",
            "const int archs[] = {__CUDA_ARCH_LIST__};\n  return archs[0] == 750 ? cudaGetLastError() : 7;",
        ),
        (
            "a variable of one architecture",
            "static __global__ void fixed(float *to) {",
            "#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900\n__device__ float more = 1;\n#else\n#define more 2\n\
             #endif\nstatic __global__ void fixed(float *to) { to[0] = more;",
        ),
        (
            "a kernel's name that says the architectures",
            "static __global__ void fixed(float *to) {",
            "#define JOIN(A, B) A##B\n#define NAME(LIST) JOIN(of_, LIST)\n#define FIRST(A, ...) NAME(A)\n\
             #define ALL(...) FIRST(__VA_ARGS__)\nnamespace ALL(__CUDA_ARCH_LIST__) {\n\
             __global__ void named(float *to) { to[1] = 3; }\n}\nstatic __global__ void fixed(float *to) {",
        ),
    ];
    let libraries = |project: &Project, options: &str| -> BTreeMap<u64, Vec<u8>> {
        project.json(options)["targets"]
            .as_array()
            .unwrap()
            .iter()
            .map(|target| {
                let library = fs::read(target["library"].as_str().unwrap()).unwrap();
                (target["arch"].as_u64().unwrap(), library)
            })
            .collect()
    };
    for (what, from, to) in edits {
        let project = Project::new();
        if !from.is_empty() {
            project.edit("src/scale.cu", from, to);
        }
        let together = libraries(&project, "--arch 75,80,90");
        for arch in [75, 80, 90] {
            fs::remove_dir_all(project.cache()).unwrap();
            let alone = libraries(&project, &format!("--arch {arch}"));
            assert!(together[&arch] == alone[&arch], "{what}, sm_{arch}");
        }
    }
}

#[test]
fn an_overrun_budget_fails_the_build_by_name() {
    let project = Project::new().shared();
    let budgets = |text: &str| project.write("kernel.toml", &format!("{KERNEL}\n{text}"));
    budgets("[[budget]]\nkernel = \"*hidden*\"\nregisters = 4\nshared_bytes = 383\narch = [90]\n");
    let ran = project.build("--arch 80,90");
    ran.expect(1, &["budget 1", "hidden<4> on sm_90: registers", "shared_bytes 384, allowed 383"]);
    assert!(!ran.err.contains("sm_80"), "{ran:#?}");
    // One line per limit, however many kernels exceed it.
    budgets("[[budget]]\nkernel = \"*\"\nregisters = 1\n");
    let ran = project.build("--arch 90");
    ran.expect(1, &["allowed 1, and in 1 more kernel\n"]);
    assert_eq!(ran.err.matches("over budget").count(), 1, "{ran:#?}");
    budgets("[[budget]]\nkernel = \"fixed\"\nwide_access = true\noccupancy = 1.0\nspill_bytes = 0\n");
    project.build("--arch 90").expect(1, &["fixed on sm_90: wide_access 0 of 0 loads"]);
    budgets("[[budget]]\nkernel = \"fixed\"\nregisters = 255\nspill_bytes = 0\nstack_bytes = 0\n");
    project.build("--arch 90").expect(0, &[]);
    budgets("[[budget]]\nkernel = \"fxied\"\nregisters = 255\n");
    project.build("--arch 90").expect(1, &["no kernel has that name", "fxied"]);
    assert_eq!(project.json("--arch 90")["over_budget"].as_array().unwrap().len(), 1);
}

#[test]
fn a_budget_can_be_for_one_file_or_folder() {
    let project = Project::new().shared();
    project.lay(&project.root, &["scale.cu", "other/more.cu"]);
    write(
        &project.root.join("src/other/more.cu"),
        "__global__ void busy(float *to) { __shared__ float s[64]; s[threadIdx.x] = 1; __syncthreads(); to[0] = s[9]; }\n\
         extern \"C\" int more(float *to, cudaStream_t s) { busy<<<1, 64, 0, s>>>(to); return 0; }\n",
    );
    let budgets = |text: &str| project.write("kernel.toml", &format!("{KERNEL}\n{text}"));
    let shared = |source: &str, bytes: u32| {
        format!("[[budget]]\nsource = \"{source}\"\nkernel = \"*\"\nshared_bytes = {bytes}\n")
    };
    budgets(&(shared("src/other", 256) + &shared("src/scale.cu", 384)));
    project.build("--arch 90").expect(0, &[]);
    budgets(&(shared("src/other/more.cu", 255) + &shared("src", 384)));
    let ran = project.build("--arch 90");
    ran.expect(1, &["budget 1", "busy on sm_90: shared_bytes 256, allowed 255"]);
    assert!(!ran.err.contains("hidden"), "{ran:#?}");
    // A budget of a folder ignores kernels of other folders, also those whose names begin with its name.
    budgets(&shared("src/other", 999).replace('*', "*hidden*"));
    project.build("--arch 90").expect(1, &["no kernel has that name"]);
    budgets(&shared("src/oth", 999));
    project.build("--arch 90").expect(1, &["src/oth", "cannot be found"]);
    budgets(&shared("../src", 999));
    project.build("--arch 90").expect(1, &["leaves the project's folder"]);
}

#[test]
fn spills_and_stacks_are_seen() {
    let project = Project::new().shared();
    project.edit("build.toml", "depends = []", "depends = []\ncuda-flags = [\"-maxrregcount=24\"]");
    let sums: String = (0..64).map(|i| format!("float v{i} = from[{i} * n];\n")).collect();
    let uses: String = (0..64).map(|i| format!("to[{i} * n] = v{i} * v{};\n", 63 - i)).collect();
    project.write(
        "src/scale.cu",
        &format!(
            "extern \"C\" __global__ void crowded(const float *from, float *to, int n) {{\n{sums}__syncthreads();\n{uses}}}\n\
             extern \"C\" int launch(float *, const float *, long, cudaStream_t) {{ return 1; }}\n"
        ),
    );
    let report = project.json("--arch 80");
    let kernel = &kernels(&report)[0].2;
    assert_eq!(kernel["name"], "crowded");
    assert!(kernel["spill_stores"].as_u64().unwrap() > 0, "{kernel:#}");
    assert!(kernel["spill_loads"].as_u64().unwrap() > 0, "{kernel:#}");
    assert!(kernel["stack"].as_u64().unwrap() > 0, "{kernel:#}");
}

#[test]
fn the_compilers_words_come_with_the_projects_own_paths() {
    let project = Project::new().shared();
    project.edit("include/kernels.cuh", "sums[96];", "sums[96]");
    let ran = project.build("--arch 80,90");
    ran.expect(1, &["src/scale.cu does not compile for sm_", "include/kernels.cuh(7): error"]);
    assert!(!ran.err.contains(project.root.to_str().unwrap()), "{ran:#?}");
    assert_eq!(ran.err.matches("does not compile").count(), 1, "told once: {ran:#?}");
    // A warning is an error.
    project.edit("include/kernels.cuh", "sums[96]\n", "sums[96];\n  int unused;\n");
    project.build("--arch 90").expect(1, &["unused", "include/kernels.cuh(7)"]);
}

#[test]
fn the_environment_does_not_change_what_is_compiled() {
    let project = Project::new();
    let (_, digest) = project.compiled("--arch 90");
    let mut command = project.command("build --json --force --arch 90");
    command
        .env("NVCC_APPEND_FLAGS", "-DSCALE=7.0f --use_fast_math")
        .env("NVCC_PREPEND_FLAGS", "-O0")
        .env("CPATH", "/nowhere")
        .env("SOURCE_DATE_EPOCH", "1");
    let report: Value = serde_json::from_str(&Ran::of(&mut command).out).unwrap();
    assert_eq!(report["device_digest"], digest);
}

#[test]
fn a_folder_may_have_any_name_that_a_shell_leaves_alone() {
    let project = Project::named("it's a \u{201c}project\u{201d} & (more); #1");
    project.build("--arch 90").expect(0, &["1 compiled"]);
    let project = Project::named("a $(touch PWNED) folder");
    project.build("--arch 90").expect(1, &["through a shell", "rename it"]);
    assert!(!crate::support::exists(project.root.join("PWNED")));
}

#[test]
fn the_project_is_only_read() {
    let project = Project::new().shared();
    let before = snapshot(&project.root);
    project.build("--arch 90").expect(0, &[]);
    assert_eq!(snapshot(&project.root), before);
}

#[test]
fn a_cache_that_cannot_be_written_is_named() {
    let project = Project::new();
    let file = project.test.root().join("file");
    fs::write(&file, "").unwrap();
    Ran::of(project.command("build --arch 90").env("KERNELS_CACHE", file.join("cache")))
        .expect(1, &["KERNELS_CACHE", "file/cache"]);
}

#[test]
fn a_full_disk_fails_with_a_word_and_leaves_nothing_half() {
    let project = Project::new();
    let full = "ulimit -f 20; exec \"$0\" build --arch 90";
    let typed = project.command("build");
    let mut command = Command::new("/bin/sh");
    command.args(["-c", full]).arg(typed.get_program()).current_dir(&project.root).env_clear();
    command.envs(typed.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let ran = Ran::of(&mut command);
    ran.expect(1, &["no space is left in", "KERNELS_CACHE"]);
    project.build("--arch 90").expect(0, &["1 compiled"]);
    let left: Vec<_> = fs::read_dir(project.cache().join("work")).unwrap().collect();
    assert!(left.len() <= 1, "{left:?}");
}

#[test]
fn a_damaged_cache_is_mended() {
    let project = Project::new();
    let report = project.json("--arch 90");
    let target = &report["targets"][0];
    let digest = report["device_digest"].as_str().unwrap();
    for file in [&target["units"][0]["cubin"], &target["units"][0]["ptx"]] {
        fs::remove_file(file.as_str().unwrap()).unwrap();
        fs::write(file.as_str().unwrap(), "no cubin").unwrap();
        assert_eq!(project.compiled("--arch 90"), (1, digest.to_owned()));
    }
    let library = Path::new(target["library"].as_str().unwrap());
    fs::remove_file(library).unwrap();
    fs::write(library, "no library").unwrap();
    assert_eq!(project.compiled("--arch 90").0, 0, "linked again");
    assert_eq!(&fs::read(library).unwrap()[..4], b"\x7fELF");
    for folder in ["objects", "manifests"] {
        for entry in fs::read_dir(project.cache().join(folder)).unwrap().flatten() {
            let path = entry.path();
            let file = if path.is_dir() { path.join("entry.json") } else { path };
            fs::write(file, "{").unwrap();
        }
    }
    assert_eq!(project.compiled("--arch 90"), (1, digest.to_owned()));
}

#[test]
fn builds_at_once_agree() {
    let project = Project::new();
    let running: Vec<_> = (0..3)
        .map(|at| {
            let typed = if at == 0 { "build --json --force --arch 90" } else { "build --json --arch 90" };
            project.command(typed).stdout(std::process::Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let mut digests = BTreeSet::new();
    for child in running {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        digests.insert(report["device_digest"].as_str().unwrap().to_owned());
    }
    assert_eq!(digests.len(), 1);
    assert_eq!(project.compiled("--arch 90").0, 0);
}

#[test]
fn what_is_missing_or_unknown_is_said_with_the_next_step() {
    let project = Project::new().shared();
    project.build("--arch 88").expect(2, &["88 is not known", "75, 80, 86, 87, 89, 90, 100, 103, 110, 120, 121"]);
    let bare = project.test.root().join("bin");
    fs::create_dir(&bare).unwrap();
    Ran::of(project.command("build --arch 90").env("PATH", &bare)).expect(1, &["g++", "install it"]);
    Ran::of(project.command("build --arch 90").env("CXX", "no-such-compiler")).expect(1, &["CXX=no-such-compiler"]);
    project.edit("build.toml", "depends = []", "depends = []\ncuda-flags = [\"-rdc=true\"]");
    project.build("--arch 90").expect(1, &["relocatable device code"]);
    project.edit("build.toml", "-rdc=true", "-arch=sm_90");
    project.build("--arch 90").expect(1, &["-arch=sm_90 cannot be set by a project"]);
}

#[test]
fn many_kernels_are_shown_a_template_a_row() {
    let project = Project::new().shared();
    let launches: String = (1..=31).map(|n| format!("  hidden<{n}><<<1, 64, 0, stream>>>(x, out);\n")).collect();
    project.edit("src/scale.cu", "  hidden<4><<<1, 64, 0, stream>>>(x, out);\n", &launches);
    let ran = project.build("--arch 90");
    ran.expect(0, &["(anonymous namespace)::hidden × 31 ", "in 0 of 31", "fixed ", "32 kernels"]);
    assert_eq!(ran.out.matches("hidden").count(), 1, "{ran:#?}");
    assert_eq!(kernels(&project.json("--arch 90")).len(), 32);
}

#[test]
fn a_killed_build_leaves_nothing_that_counts() {
    let project = Project::new();
    let work = project.cache().join("work");
    let mut child = project.command("build --arch 90").spawn().unwrap();
    let busy = || {
        fs::read_dir(&work)
            .into_iter()
            .flatten()
            .flatten()
            .any(|entry| fs::read_dir(entry.path()).into_iter().flatten().count() > 2)
    };
    while !busy() {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it could be killed");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!project.cache().join("objects").exists());
    assert_eq!(project.compiled("--arch 90").0, 1);
}

/// Each of these ran a program or read a file of the user's while the project was built.
#[test]
fn a_project_neither_runs_programs_nor_reads_files_of_others_while_it_is_built() {
    let project = Project::new();
    let outside = project.test.root();
    let secret = outside.join("secret.h");
    fs::write(&secret, "#define SECRET 1\n").unwrap();
    let evil = project.root.join("evil");
    script(&evil, format!("echo ran > {}\nexec \"$@\"", outside.join("ran").display()));
    for flags in [
        "\"-Xcompiler\", \"-wrapper,./evil\"",
        "\"-Xcompiler=-B.\"",
        "\"-optf=flags\"",
        "\"-ccbin\", \"./evil\"",
        "\"--compiler-bindir=.\"",
        "\"-include\", \"secret.h\"",
        "\"@flags\"",
        "\"-Xptxas\", \"--options-file,flags\"",
        "\"-Xlinker\", \"-plugin\"",
        "\"--keep-dir=.\"",
    ] {
        project.edit("build.toml", "depends = []", &format!("depends = []\ncuda-flags = [{flags}]"));
        project.build("--arch 90").expect(1, &["cuda-flags: ", "cannot be set by a project"]);
        project.edit("build.toml", &format!("depends = []\ncuda-flags = [{flags}]"), "depends = []");
    }
    let whole = fs::read_to_string(project.root.join("src/scale.cu")).unwrap();
    project.write("src/notes.txt", "1");
    for (line, said) in [
        (format!("#include \"{}\"", secret.display()), "secret.h: Permission denied"),
        (format!("asm(\".incbin \\\"{}\\\"\");", secret.display()), "file not found"),
        // In the project, but nothing that the digest covers.
        ("asm(\".incbin \\\"src/notes.txt\\\"\");".to_owned(), "file not found"),
        ("#include \"notes.txt\"".to_owned(), "which the project's digest covers"),
    ] {
        project.write("src/scale.cu", &format!("{whole}\n{line}\n"));
        project.build("--arch 90").expect(1, &[said]);
    }
    // What `.incbin` reads is a dependency like a header.
    project.write("src/table.inc", "one");
    project.write("src/scale.cu", &format!("{whole}\nasm(\".incbin \\\"src/table.inc\\\"\");\n"));
    assert_eq!(project.compiled("--arch 90").0, 1);
    assert_eq!(project.compiled("--arch 90").0, 0);
    project.write("src/table.inc", "two");
    assert_eq!(project.compiled("--arch 90").0, 1);
    // So is what a header hides that calls itself the system's.
    project.write("src/scale.cu", &format!("#include \"outer.h\"\n{whole}"));
    project.write("src/outer.h", "#pragma GCC system_header\n#include \"inner.h\"\n");
    project.write("src/inner.h", "#define INNER 1\n");
    assert_eq!(project.compiled("--arch 90").0, 1);
    project.write("src/inner.h", "#define INNER 2\n");
    assert_eq!(project.compiled("--arch 90").0, 1);
    assert!(!outside.join("ran").exists());
}

#[test]
fn figures_that_were_edited_in_the_cache_are_not_believed() {
    let project = Project::new();
    let report = project.json("--arch 90");
    let registers = kernels(&report)[0].2["registers"].as_u64().unwrap();
    for entry in fs::read_dir(project.cache().join("objects")).unwrap() {
        let path = entry.unwrap().path().join("entry.json");
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace(&format!("\"registers\":{registers}"), "\"registers\":7")).unwrap();
    }
    let report = project.json("--arch 90");
    assert_eq!(kernels(&report)[0].2["registers"], registers);
    assert_eq!(report["compiled"], 1, "{report:#}");
}

#[test]
fn a_budget_is_compared_on_its_own_architectures_alone_and_said_where_they_are_not_built() {
    let project = Project::new().shared();
    let budgets = |text: &str| project.write("kernel.toml", &format!("{KERNEL}\n{text}"));
    budgets("[[budget]]\nkernel = \"*hidden*\"\nregisters = 4\narch = [90]\n");
    let ran = project.build("--arch 80");
    ran.expect(0, &["budget 1 (kernel = \"*hidden*\") is for sm_90, which was not compiled for"]);
    assert_eq!(project.json("--arch 80")["budgets_not_compared"].as_array().unwrap().len(), 1);
    assert_eq!(project.json("--arch 80")["over_budget"], serde_json::json!([]));
    // A kernel of other architectures alone is none that the budget is for.
    project.edit(
        "src/scale.cu",
        "extern \"C\" int",
        "#if __CUDA_ARCH__ < 900\n__global__ void old(int *to) { *to = 1; }\n#endif\nextern \"C\" int",
    );
    budgets("[[budget]]\nkernel = \"old\"\nregisters = 255\narch = [90]\n");
    project.build("--arch 80,90").expect(1, &["budget 1 (kernel = \"old\"): no kernel has that name on sm_90"]);
}

#[test]
fn what_a_source_prints_is_not_taken_for_ptxas_report() {
    let unit = |printed: &str| {
        format!(
            "{printed}\nextern \"C\" __global__ void one(float *to) {{ __shared__ float s[96]; s[threadIdx.x] = *to; \
             __syncthreads(); *to = s[5]; }}\nextern \"C\" __global__ void two(float *to) {{ *to = 2; }}\n\
             extern \"C\" int launch(float *, const float *, long, cudaStream_t) {{ return 1; }}\n"
        )
    };
    let project = Project::new();
    project.write("kernel.toml", &format!("{KERNEL}\n[[budget]]\nkernel = \"*\"\nspill_bytes = 0\nshared_bytes = 0\n"));
    let entry = |kernel: &str| format!("ptxas info    : Compiling entry function '{kernel}' for 'sm_90'");
    let frame = |spilled: u64| format!("    0 bytes stack frame, {spilled} bytes spill stores, 0 bytes spill loads");
    let properties = |of: &str| format!("ptxas info    : Function properties for {of}");
    let used = "ptxas info    : Used 4 registers, used 0 barriers";
    let reports = [
        // Of a kernel that there is: before its own, or in its place.
        vec![entry("one"), properties("one"), frame(4_294_967_290), used.to_owned()],
        vec![entry("one"), frame(4_294_967_290)],
        vec![entry("two"), used.to_owned()],
        // Of none.
        vec![entry("three"), properties("three"), frame(0), used.to_owned()],
        vec![frame(4)],
        vec![used.to_owned()],
        vec![properties("one")],
    ];
    for (at, lines) in reports.iter().enumerate() {
        let text = lines.join("\\n");
        let mut ways = vec![format!("#pragma message(\"\\n{text}\\n\")")];
        if at == 0 {
            ways.push(format!("#ifndef __CUDA_ARCH__\n{}\n#endif", ways[0]));
            ways.push(format!(
                "[[deprecated(\"\\n{text}\\n\")]] inline int old() {{ return 1; }}\ninline int other() {{ return old(); }}"
            ));
        }
        for printed in ways {
            project.write("src/scale.cu", &unit(&printed));
            // In this locale gcc prints line ends as they are.
            let ran = Ran::of(project.command("build --arch 90").env("LC_ALL", "C.UTF-8"));
            assert_eq!(ran.code, 1, "{printed}: {ran:#?}");
            // It is refused, or does not change what is said.
            let refused = ran.err.contains("no source prints such lines") || ran.err.contains("does not compile");
            let over = "over budget: budget 1 (kernel = \"*\"): one on sm_90: shared_bytes 384, allowed 0\n";
            assert!(refused || ran.err == over, "{printed}: {ran:#?}");
        }
    }
    // Other words are a source's own affair.
    project.write("src/scale.cu", &unit("#pragma message(\"ptxas info: Used 3 registers\")"));
    project.build("--arch 90").expect(1, &["one on sm_90: shared_bytes 384, allowed 0"]);
}

#[test]
fn functions_that_kernels_call_count_for_each_of_them() {
    let project = Project::new().shared();
    project.write(
        "src/scale.cu",
        "__device__ __noinline__ float deep(float *p, int n) { float a[32]; for (int i = 0; i < 32; i++) a[i] = p[i * n];\n\
         float s = 0; for (int i = 0; i < n; i++) s += a[(i * 7) & 31]; return s; }\n\
         __device__ __noinline__ float again(float *p, int n) { return n > 0 ? again(p + 1, n - 1) * p[n] + 1 : p[0]; }\n\
         extern \"C\" __global__ void one(float *p, int n) { p[0] = deep(p, n) + 1; }\n\
         extern \"C\" __global__ void two(float *p, int n) { p[0] = deep(p, n) * 2; }\n\
         extern \"C\" __global__ void three(float *p, int n) { p[0] = again(p, n); }\n\
         extern \"C\" __global__ void four(float *p) { p[0] = 1; }\n\
         extern \"C\" int launch(float *, const float *, long, cudaStream_t) { return 1; }\n",
    );
    let report = project.json("--arch 75,90,120");
    let of = |kernel: &Value| ["spill_stores", "stack"].map(|figure| kernel[figure].as_u64().unwrap());
    for (arch, _, kernel) in kernels(&report) {
        let [spilled, stack] = of(&kernel);
        let (least_spilled, least_stack) = match kernel["name"].as_str().unwrap() {
            "three" => (1, 1),
            "four" => (0, 0),
            _ => (0, 128),
        };
        assert!(spilled >= least_spilled && stack >= least_stack, "sm_{arch} {kernel:#}");
        assert!(kernel["name"] != "four" || spilled + stack == 0, "sm_{arch} {kernel:#}");
    }
}

#[test]
fn shared_memory_and_stacks_that_were_edited_in_the_cache_are_not_believed() {
    let project = Project::new();
    let report = project.json("--arch 90");
    for (from, to) in [
        ("\"shared\":384", "\"shared\":0"),
        ("\"spill_stores\":0,\"spill_loads\":0", "\"spill_stores\":4294967295,\"spill_loads\":9"),
    ] {
        for entry in fs::read_dir(project.cache().join("objects")).unwrap() {
            let path = entry.unwrap().path().join("entry.json");
            let text = fs::read_to_string(&path).unwrap();
            fs::write(&path, text.replace(from, to)).unwrap();
        }
        let again = project.json("--arch 90");
        assert_eq!(again["compiled"], 1, "{again:#}");
        assert_eq!(again["targets"][0]["units"][0]["kernels"], report["targets"][0]["units"][0]["kernels"]);
    }
}

/// A compiler and Python read bytes; what is no UTF-8 has a meaning too.
#[test]
fn bytes_that_are_no_utf_8_count_in_the_digest() {
    let project = Project::new().shared();
    let digest = || kernels::project::Project::open(&project.root).unwrap().source_digest;
    for (path, before, after) in [
        ("src/scale.cu", format!("{UNIT}\n#if '"), "' == '\\377'\n#error 255\n#endif\n"),
        ("src/\u{fffd}.inc", String::new(), ""),
        ("reference.py", "# coding: latin-1\ndef scale(x, n):\n    return x * ord('".to_owned(), "')\n"),
    ] {
        let with = |byte: &[u8]| {
            write(&project.root.join(path), [before.as_bytes(), byte, after.as_bytes()].concat());
            digest()
        };
        let digests = BTreeSet::from([with(b"\xfe"), with(b"\xff"), with("\u{fffd}".as_bytes())]);
        assert_eq!(digests.len(), 3, "{path}");
        with(b"x");
    }
    // Names, too.
    let name = |byte: u8| project.root.join(std::ffi::OsStr::from_bytes(&[b's', b'r', b'c', b'/', byte, b'.', b'h']));
    write(&name(0xfe), "int a;\n");
    let first = digest();
    fs::rename(name(0xfe), name(0xff)).unwrap();
    assert_ne!(digest(), first);
}

/// The digest sees no links to folders, so nothing is read through one.
#[test]
fn a_folder_that_is_a_link_does_not_choose_what_is_compiled() {
    let project = Project::new();
    for version in ["1", "2"] {
        project.write(&format!("src/v{version}/scale.h"), &format!("#define EPS {version}.0f\n"));
        project.write(&format!("src/v{version}/d/other.h"), "");
    }
    let link = |to: &str| {
        let _ = fs::remove_file(project.root.join("src/cur"));
        std::os::unix::fs::symlink(to, project.root.join("src/cur")).unwrap();
    };
    for name in ["cur/../scale.h", "./cur/../scale.h", "cur/../../v1/scale.h"] {
        project.write("src/scale.cu", &format!("#include \"{name}\"\n{UNIT}"));
        for to in ["v1/d", "v2/d"] {
            link(to);
            project.build("--arch 90").expect(1, &["scale.h was read", "the project's digest does not cover"]);
        }
        // Nor where a file lies where the name leads without the file system.
        project.write("src/scale.h", "#define EPS 3.0f\n");
        project.build("--arch 90").expect(1, &["scale.h was read"]);
        fs::remove_file(project.root.join("src/scale.h")).unwrap();
    }
    // What is no link is read, a file that is a link with it, and its text counts.
    project.write("src/v1/d/first.h", "#include \"../scale.h\"\n");
    project.write("src/scale.cu", &format!("#include \"v1/d/first.h\"\n{UNIT}"));
    assert_eq!(project.compiled("--arch 90").0, 1);
    fs::remove_file(project.root.join("src/v1/scale.h")).unwrap();
    std::os::unix::fs::symlink("../v2/scale.h", project.root.join("src/v1/scale.h")).unwrap();
    assert_eq!(project.compiled("--arch 90").0, 1);
    assert_eq!(project.compiled("--arch 90").0, 0);
}

/// Neither the digest nor the cache knows which folders there are.
#[test]
fn no_folder_s_presence_chooses_what_is_compiled() {
    let project = Project::new();
    let source = |line: &str| project.write("src/scale.cu", &format!("{line}\n{UNIT}"));
    for line in [
        "#if __has_include(\"docs/../scale.cu\")\n#define DOCS\n#endif",
        "#if __has_include(\"./docs/./../scale.cu\")\n#define DOCS\n#endif",
        "#if __has_\\\ninclude(\"docs/../scale.cu\")\n#define DOCS\n#endif",
        "#if __has_include_next(<docs/../kernels.cuh>)\n#define DOCS\n#endif",
        "#if defined(__has_include) && /* x */ __has_include /* y */ ( \"docs/../scale.cu\")\n#define DOCS\n#endif",
        "#define NAME \"docs/../scale.cu\"\n#if __has_include(NAME)\n#define DOCS\n#endif",
        "#define HAS __has_include\n#if HAS(\"docs/../scale.cu\")\n#define DOCS\n#endif",
        "#define HAS(X) __has_include(X)\n#if HAS(\"scale.cu\")\n#define DOCS\n#endif",
        "#define PASTED(A, B) A##B\n#if PASTED(__has_, include)(\"docs/../scale.cu\")\n#define DOCS\n#endif",
        "#define DOT() .\n#define TEXT(X) #X\n#define WHOLE(X) TEXT(X)\n\
         #if __has_include(WHOLE(docs/DOT()DOT()/scale.cu))\n#define DOCS\n#endif",
    ] {
        source(line);
        project.build("--arch 90").expect(1, &["src/scale.cu", "`..`", "written out"]);
    }
    source("#if HAS(\"docs/../scale.cu\")\n#define DOCS\n#endif");
    project.edit("build.toml", "depends = []", "depends = []\ncuda-flags = [\"-DHAS=__has_include\"]");
    project.build("--arch 90").expect(1, &["`..`", "written out"]);
    project.edit("build.toml", "depends = []\ncuda-flags = [\"-DHAS=__has_include\"]", "depends = []");
    // A header found through a folder that is there, in place of another's where it is not.
    project.write("src/eps.h", "#define EPS 1\n");
    project.write("include/eps.h", "#define EPS 2\n");
    project.write("include/docs/more.h", "");
    for line in [
        "#include \"docs/../eps.h\"",
        "#define UP ..\n#define TEXT(X) #X\n#define WHOLE(X) TEXT(X)\n#include WHOLE(docs/UP/eps.h)",
    ] {
        source(line);
        project.build("--arch 90").expect(1, &["docs/../eps.h was read"]);
        fs::create_dir(project.root.join("src/docs")).unwrap();
        project.build("--arch 90").expect(1, &["docs/../eps.h was read"]);
        fs::remove_dir(project.root.join("src/docs")).unwrap();
    }
    // Files may be asked for, those above too; each name counts, however the question is spelled.
    project.write("src/deep/asks.h", "#pragma once\n#if __has_\\\ninclude(\"../third.cuh\")\n#error third\n#endif\n");
    source("#ifdef __has_include\n#include \"deep/../deep/asks.h\"\n#endif");
    assert_eq!(project.compiled("--arch 90").0, 1);
    assert_eq!(project.compiled("--arch 90").0, 0);
    project.write("src/third.cuh", "");
    project.build("--arch 90").expect(1, &["third"]);
    // What no compiler may read is not there for it, or an error.
    fs::remove_file(project.root.join("src/third.cuh")).unwrap();
    for name in ["notes.txt", "other"] {
        project.write(
            "src/deep/asks.h",
            &format!("#if __has_include(\"{name}\") || __has_include(\"../{name}\")\n#error there\n#endif\n"),
        );
        assert_eq!(project.compiled("--arch 90").0, 1);
        project.write(&if name == "other" { "src/other/notes.txt".to_owned() } else { format!("src/{name}") }, "");
        project.build("--arch 90 --force").expect(1, &["the project's digest covers"]);
    }
    // Nor is a file there through a link to a folder.
    project.write("src/deep/asks.h", "#if __has_include(\"link/kernels.cuh\")\n#error there\n#endif\n");
    assert_eq!(project.compiled("--arch 90").0, 1);
    project.write("src/deep/asks.h", "#if !__has_include(\"link/kernels.cuh\")\n#error not there\n#endif\n");
    for to in ["../../include", "/usr/include", "../../include/docs"] {
        let link = project.root.join("src/deep/link");
        std::os::unix::fs::symlink(to, &link).unwrap();
        let ran = project.build("--arch 90");
        ran.expect(1, &[if to == "../../include" { "asks for link/kernels.cuh" } else { "not there" }]);
        fs::remove_file(link).unwrap();
    }
}
