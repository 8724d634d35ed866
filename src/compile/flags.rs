//! The flags that a project may give to nvcc: an allow-list, shared by every builder and by `kernels check`.
//!
//! A flag of nvcc or of the host compiler can run a program (`-Xcompiler -wrapper,…`, `-B./bin`, `-ccbin`), read more flags
//! from a file (`-optf`, `@file`), include what no source names (`-include`), or write a file. What is not listed here is
//! refused.

/// What a flag takes.
#[derive(Clone, Copy)]
enum Takes {
    /// Nothing.
    Nothing,
    /// `-name=value` or `-name value`.
    Value(Value),
    /// `-name` followed at once by the value, or `-name value`.
    Joined(Value),
    /// Nothing, or `=true` and `=false`.
    Switch,
    /// A word behind the name, or a word with a value: warnings and instruction sets. `-Wa,`, `-Wl,` and `-Wp,` pass flags
    /// on, and have a comma; `-mllvm` passes on the next.
    Word,
    /// Flags of another program, separated by commas.
    For(&'static [(&'static str, Takes)]),
}

/// What a value may be.
#[derive(Clone, Copy)]
enum Value {
    /// A macro's name, with what it stands for.
    Macro,
    Number,
    /// One of these.
    Of(&'static [&'static str]),
    /// Words of these, separated by commas.
    Words(&'static [&'static str]),
    /// Numbers of diagnostics, separated by commas.
    Numbers,
}

use Takes::{For, Joined, Nothing, Switch, Word};
use Value::{Macro, Number, Numbers, Of, Words};

const LEVELS: Value = Of(&["0", "1", "2", "3", "fast"]);
const STANDARDS: Value = Of(&["c++11", "c++14", "c++17", "c++20", "c++23"]);

/// nvcc's own.
const NVCC: &[(&str, Takes)] = &[
    ("-D", Joined(Macro)),
    ("--define-macro", Takes::Value(Macro)),
    ("-U", Joined(Macro)),
    ("--undefine-macro", Takes::Value(Macro)),
    ("-O", Joined(LEVELS)),
    ("--optimize", Takes::Value(LEVELS)),
    ("-Ofc", Takes::Value(Of(&["0", "min", "mid", "max"]))),
    ("--Ofast-compile", Takes::Value(Of(&["0", "min", "mid", "max"]))),
    ("-std", Takes::Value(STANDARDS)),
    ("--std", Takes::Value(STANDARDS)),
    ("-g", Nothing),
    ("--debug", Nothing),
    ("-G", Nothing),
    ("--device-debug", Nothing),
    ("-lineinfo", Nothing),
    ("--generate-line-info", Nothing),
    ("-w", Nothing),
    ("--disable-warnings", Nothing),
    ("-use_fast_math", Switch),
    ("--use_fast_math", Switch),
    ("-ftz", Takes::Value(Of(&["true", "false"]))),
    ("--ftz", Takes::Value(Of(&["true", "false"]))),
    ("-prec-div", Takes::Value(Of(&["true", "false"]))),
    ("--prec-div", Takes::Value(Of(&["true", "false"]))),
    ("-prec-sqrt", Takes::Value(Of(&["true", "false"]))),
    ("--prec-sqrt", Takes::Value(Of(&["true", "false"]))),
    ("-fmad", Takes::Value(Of(&["true", "false"]))),
    ("--fmad", Takes::Value(Of(&["true", "false"]))),
    ("-maxrregcount", Takes::Value(Number)),
    ("--maxrregcount", Takes::Value(Number)),
    ("-extra-device-vectorization", Nothing),
    ("--extra-device-vectorization", Nothing),
    ("-restrict", Nothing),
    ("--restrict", Nothing),
    ("-expt-relaxed-constexpr", Nothing),
    ("--expt-relaxed-constexpr", Nothing),
    ("-expt-extended-lambda", Nothing),
    ("--expt-extended-lambda", Nothing),
    ("-extended-lambda", Nothing),
    ("--extended-lambda", Nothing),
    ("-res-usage", Nothing),
    ("--resource-usage", Nothing),
    ("-src-in-ptx", Nothing),
    ("--source-in-ptx", Nothing),
    ("-split-compile", Takes::Value(Number)),
    ("--split-compile", Takes::Value(Number)),
    ("-t", Joined(Number)),
    ("--threads", Takes::Value(Number)),
    ("-default-stream", Takes::Value(Of(&["legacy", "null", "per-thread"]))),
    ("--default-stream", Takes::Value(Of(&["legacy", "null", "per-thread"]))),
    ("-diag-suppress", Takes::Value(Numbers)),
    ("--diag-suppress", Takes::Value(Numbers)),
    ("-diag-warn", Takes::Value(Numbers)),
    ("--diag-warn", Takes::Value(Numbers)),
    ("-diag-error", Takes::Value(Numbers)),
    ("--diag-error", Takes::Value(Numbers)),
    ("-Werror", Takes::Value(Words(&["all-warnings", "cross-execution-space-call", "default-stream-launch"]))),
    ("--Werror", Takes::Value(Words(&["all-warnings", "cross-execution-space-call", "default-stream-launch"]))),
    ("-Wno-deprecated-gpu-targets", Nothing),
    ("-Wno-deprecated-declarations", Nothing),
    ("-static-global-template-stub", Takes::Value(Of(&["true", "false"]))),
    ("--static-global-template-stub", Takes::Value(Of(&["true", "false"]))),
    ("-rdc", Takes::Value(Of(&["false"]))),
    ("--relocatable-device-code", Takes::Value(Of(&["false"]))),
    ("-Xptxas", For(PTXAS)),
    ("--ptxas-options", For(PTXAS)),
    ("-Xcompiler", For(HOST)),
    ("--compiler-options", For(HOST)),
    ("-Xcudafe", For(CUDAFE)),
    ("-Xfatbin", For(FATBIN)),
    ("--fatbin-options", For(FATBIN)),
];

const CACHES: Value = Of(&["ca", "cg", "cs", "lu", "cv", "wb", "wt"]);

const PTXAS: &[(&str, Takes)] = &[
    ("-v", Nothing),
    ("--verbose", Nothing),
    ("-O", Joined(LEVELS)),
    ("--opt-level", Takes::Value(LEVELS)),
    ("-dlcm", Takes::Value(CACHES)),
    ("--def-load-cache", Takes::Value(CACHES)),
    ("-dscm", Takes::Value(CACHES)),
    ("--def-store-cache", Takes::Value(CACHES)),
    ("-warn-spills", Nothing),
    ("--warn-on-spills", Nothing),
    ("-warn-lmem-usage", Nothing),
    ("--warn-on-local-memory-usage", Nothing),
    ("-warn-double-usage", Nothing),
    ("--warn-on-double-precision-use", Nothing),
    ("-lineinfo", Nothing),
    ("--generate-line-info", Nothing),
    ("-suppress-double-demote-warning", Nothing),
    ("-allow-expensive-optimizations", Takes::Value(Of(&["true", "false"]))),
    ("--allow-expensive-optimizations", Takes::Value(Of(&["true", "false"]))),
    ("-disable-optimizer-constants", Nothing),
    ("--disable-optimizer-constants", Nothing),
    ("-maxrregcount", Takes::Value(Number)),
    ("--maxrregcount", Takes::Value(Number)),
    ("-register-usage-level", Takes::Value(Number)),
    ("--register-usage-level", Takes::Value(Number)),
];

/// The host compiler's.
const HOST: &[(&str, Takes)] = &[
    ("-W", Word),
    ("-m", Word),
    ("-O", Joined(LEVELS)),
    ("-g", Nothing),
    ("-w", Nothing),
    ("-std", Takes::Value(STANDARDS)),
    ("-fPIC", Nothing),
    ("-flto", Nothing),
    ("-fopenmp", Nothing),
    ("-pthread", Nothing),
    ("-funroll-loops", Nothing),
    ("-ffast-math", Nothing),
    ("-fno-strict-aliasing", Nothing),
    ("-fstrict-aliasing", Nothing),
    ("-fno-exceptions", Nothing),
    ("-fno-rtti", Nothing),
    ("-fno-gnu-unique", Nothing),
    ("-fvisibility", Takes::Value(Of(&["hidden", "default"]))),
    ("-fvisibility-inlines-hidden", Nothing),
    ("-fstack-protector-strong", Nothing),
    ("-fdiagnostics-color", Takes::Value(Of(&["always", "never", "auto"]))),
];

const CUDAFE: &[(&str, Takes)] = &[
    ("--display_error_number", Nothing),
    ("--diag_suppress", Takes::Value(Numbers)),
    ("--diag_warning", Takes::Value(Numbers)),
    ("--diag_error", Takes::Value(Numbers)),
];

const FATBIN: &[(&str, Takes)] =
    &[("-compress-all", Nothing), ("--compress-all", Nothing), ("-compress-mode", Takes::Value(Of(COMPRESS)))];
const COMPRESS: &[&str] = &["default", "size", "speed", "balance", "none"];

/// What C++ is compiled with besides what [`HOST`] has.
const CXX: &[(&str, Takes)] = &[("-D", Joined(Macro)), ("-U", Joined(Macro))];

/// The first of a project's `cuda-flags` that is not allowed, and what to do instead.
pub(crate) fn refused(flags: &[String]) -> Option<(usize, String)> {
    refused_of(flags, &[NVCC], "cuda-flags")
}

/// The same of its `cxx-flags`.
pub(crate) fn refused_cxx(flags: &[String]) -> Option<(usize, String)> {
    refused_of(flags, &[CXX, HOST], "cxx-flags")
}

fn refused_of(flags: &[String], tables: &[&[(&str, Takes)]], key: &str) -> Option<(usize, String)> {
    let mut at = 0;
    while let Some(flag) = flags.get(at) {
        let next = flags.get(at + 1);
        let Some(taken) = allowed_in(tables, flag, next) else {
            let known = tables.iter().flat_map(|table| table.iter()).find(|(name, _)| name == flag);
            let next = next.filter(|_| known.is_some_and(|(_, takes)| !matches!(takes, Nothing | Switch)));
            let what = next.map_or_else(|| flag.clone(), |next| format!("{flag} {next}"));
            return Some((at, format!("{key}: {what} {}", reason(flag))));
        };
        at += taken;
    }
    None
}

/// Why a flag is refused, and what to do instead.
fn reason(flag: &str) -> &'static str {
    const OURS: [&str; 13] = [
        "-arch",
        "--gpu-architecture",
        "-gencode",
        "--generate-code",
        "-code",
        "--gpu-code",
        "-o",
        "-c",
        "-ccbin",
        "-M",
        "-keep",
        "--keep",
        "-E",
    ];
    const RELOCATABLE: [&str; 5] = ["-rdc", "--relocatable-device-code", "-dc", "--device-c", "-dlto"];
    let name = flag.split('=').next().unwrap_or(flag);
    if RELOCATABLE.contains(&name) {
        "asks for relocatable device code, which is not supported: every kernel must be whole in its own .cu file; \
         include what it calls, or build with kernel-builder"
    } else if OURS.contains(&name) {
        "cannot be set by a project; `kernels` sets it for every architecture that --arch and cuda-capabilities name"
    } else if ["-I", "-isystem", "--include-path"].iter().any(|option| name.starts_with(option)) {
        "cannot be set by a project; list folders of the project in `include`"
    } else {
        "cannot be set by a project: only flags that choose how code is generated, and macros, are allowed. \
         docs/kernel-toml.md lists them; take it out"
    }
}

/// How many words an allowed flag takes: itself, and the value behind it.
fn allowed_in(tables: &[&[(&str, Takes)]], flag: &str, next: Option<&String>) -> Option<usize> {
    tables.iter().flat_map(|table| table.iter()).find_map(|(name, takes)| one(name, *takes, flag, next))
}

fn one(name: &str, takes: Takes, flag: &str, next: Option<&String>) -> Option<usize> {
    let rest = flag.strip_prefix(name)?;
    let behind = |value: Value| if rest.is_empty() { next.filter(|next| value.holds(next)).map(|_| 2) } else { None };
    let equals = rest.strip_prefix('=');
    match takes {
        Nothing => rest.is_empty().then_some(1),
        Switch => (rest.is_empty() || rest == "=true" || rest == "=false").then_some(1),
        Takes::Value(value) => equals.filter(|text| value.holds(text)).map(|_| 1).or_else(|| behind(value)),
        Joined(value) => {
            let joined = (!rest.is_empty() && value.holds(rest)) || equals.is_some_and(|text| value.holds(text));
            if joined { Some(1) } else { behind(value) }
        }
        Word => {
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_+=".contains(c);
            (!rest.is_empty() && rest != "llvm" && rest.chars().all(plain)).then_some(1)
        }
        For(table) => match (equals, rest.is_empty()) {
            (Some(text), _) => passed(table, text).then_some(1),
            (None, true) => next.filter(|next| passed(table, next)).map(|_| 2),
            _ => None,
        },
    }
}

/// Whether each of the flags, separated by commas, is allowed for another program.
fn passed(table: &'static [(&str, Takes)], text: &str) -> bool {
    // nvcc passes these through a shell, and splits at commas, which an escape or a quote would hide.
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=,+".contains(c);
    text.chars().all(plain) && {
        let flags: Vec<String> = text.split(',').map(str::to_owned).collect();
        refused_of(&flags, &[table], "").is_none()
    }
}

impl Value {
    fn holds(self, text: &str) -> bool {
        let each = |words: &str, right: &dyn Fn(&str) -> bool| words.split(',').all(right);
        let number = |word: &str| !word.is_empty() && word.len() < 10 && word.bytes().all(|byte| byte.is_ascii_digit());
        match self {
            Macro => is_macro(text),
            Number => number(text),
            Of(words) => words.contains(&text),
            Words(words) => each(text, &|word| words.contains(&word)),
            Numbers => each(text, &number),
        }
    }
}

/// `NAME` or `NAME=value`. A value is a number or a name: nvcc passes it through a shell.
fn is_macro(text: &str) -> bool {
    let (name, value) = text.split_once('=').unwrap_or((text, ""));
    let start = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    start
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && value.chars().all(|c| c.is_ascii_alphanumeric() || "_+-.:".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refuses(flags: &[&str]) -> bool {
        let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        refused(&flags).is_some()
    }

    #[test]
    fn a_flag_that_runs_reads_or_writes_is_refused_in_every_spelling() {
        let file: [&[&str]; 46] = [
            &["-Xcompiler", "-wrapper,sh,evil"],
            &["-Xcompiler=-wrapper,sh,evil"],
            &["--compiler-options", "-wrapper,sh"],
            &["-Xcompiler", "-fPIC,-wrapper,sh"],
            &["-Xcompiler", "-B./bin"],
            &["-Xcompiler=-Bbin"],
            &["-Xcompiler", "-fplugin=./a.so"],
            &["-Xcompiler", "-specs=a"],
            &["-Xcompiler", "-include", "-Xcompiler", "a.h"],
            &["-Xcompiler", "@file"],
            &["-Xcompiler", "-Wa,-I,x"],
            &["-Xcompiler", "-Wl,-plugin,x"],
            &["-Xcompiler", "-Wp,-MD,x"],
            &["-Xcompiler", "-fdump-tree-all=x"],
            &["-Xcompiler", "-fprofile-use=x"],
            &["-Xcompiler", "-fPIC'\\''"],
            &["-Xcompiler", "-D$(id)"],
            &["-B./bin"],
            &["-optf=file"],
            &["-optf", "file"],
            &["--options-file", "file"],
            &["@file"],
            &["-include", "a.h"],
            &["--pre-include=a.h"],
            &["-ccbin", "bin"],
            &["-ccbin=bin"],
            &["--compiler-bindir", "bin"],
            &["--compiler-bindir=bin"],
            &["--keep-dir", "x"],
            &["--keep"],
            &["--dlink-time-opt"],
            &["-Xptxas", "--options-file=x"],
            &["-Xptxas", "-o,x"],
            &["-Xptxas", "-v,--output-file=x"],
            &["-Xptxas", "evil.ptx"],
            &["-Xlinker", "-plugin"],
            &["-Xnvlink", "x"],
            &["-Xcudafe", "--gen_c_file_name=x"],
            &["-Xcicc", "x"],
            &["-ldir", "x"],
            &["--libdevice-directory=x"],
            &["-target-dir", "x"],
            &["-I/etc"],
            &["-I", "../other"],
            &["-DA=`id`"],
            &["-DA=$(id)"],
        ];
        for flags in file {
            assert!(refuses(flags), "{flags:?}");
        }
        // What follows a refused value is not taken for one.
        for flags in [
            &["evil.cu"] as &[&str],
            &["-D", "-include"],
            &["--run"],
            &["-x", "c"],
            &["-idp", "sh"],
            &["-D"],
            &["-Xcompiler"],
            &[""],
            &["-time", "x"],
            &["-fdevice-time-trace", "x"],
            &["-prof"],
            &["--use-local-env"],
            &["-O3", "-std=c++17", "-MF", "x"],
            &["-fdevice-syntax-only"],
            &["-arch=sm_90"],
            &["-lto"],
            &["--system-include=x"],
            &["-rdc=true"],
            &["-use_fast_math=x"],
            &["-use_fast_maths"],
            &["-D1A"],
            &["-maxrregcount="],
            &["-maxrregcount=2x"],
            &["-maxrregcount=1234567890"],
            &["-Xcompiler", "-m"],
            &["-Xcompiler", "-mllvm"],
            &["-DA-B=1"],
            &["-DA=\"x\""],
            &["-DA=\\"],
            &["-DA=1\n-B."],
        ] {
            assert!(refuses(flags), "{flags:?}");
        }
    }

    #[test]
    fn a_refusal_names_the_flag_its_value_and_its_place() {
        let flags = |flags: &[&str]| flags.iter().map(|flag| (*flag).to_owned()).collect::<Vec<_>>();
        let said = |found: Option<(usize, String)>| {
            found.map(|(at, why)| (at, why.split(" cannot ").next().map(str::to_owned)))
        };
        let is = |at: usize, what: &str| Some((at, Some(what.to_owned())));
        assert_eq!(said(refused(&flags(&["-O3", "-D", "A=1", "-include", "a.h"]))), is(3, "cuda-flags: -include"));
        assert_eq!(said(refused(&flags(&["-lineinfo", "-D", "A=`id`"]))), is(1, "cuda-flags: -D A=`id`"));
        assert_eq!(said(refused_cxx(&flags(&["-O3", "-DA=1", "-fplugin=x"]))), is(2, "cxx-flags: -fplugin=x"));
        assert_eq!(refused_cxx(&flags(&["-O2", "-DA", "-Wall"])), None);
        // What is nvcc's alone.
        assert_eq!(said(refused_cxx(&flags(&["--use_fast_math"]))), is(0, "cxx-flags: --use_fast_math"));
    }

    #[test]
    fn a_flag_that_chooses_how_code_is_generated_is_allowed() {
        for flags in [
            &["-O3", "--use_fast_math", "-lineinfo", "-std=c++20"] as &[&str],
            &["-O", "2", "-DX", "-DX=1", "-D", "X=2", "-DTYPE=common::BF16", "-UX"],
            &["-Xptxas", "-O2,-v", "-Xptxas=-dlcm=ca", "--ptxas-options=-warn-spills"],
            &["-Xcompiler", "-fPIC,-Wall,-Wno-unused", "-Xcompiler=-O2"],
            &["--expt-relaxed-constexpr", "--expt-extended-lambda", "-maxrregcount=24", "--maxrregcount", "32"],
            &["-diag-suppress=177,550", "-Xcudafe", "--diag_suppress=177", "-t4", "--threads=2", "-rdc=false"],
            &["-ftz=true", "-Xfatbin=-compress-all", "-use_fast_math=true", "--use_fast_math=false"],
        ] {
            let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
            assert_eq!(refused(&flags), None);
        }
    }
}
