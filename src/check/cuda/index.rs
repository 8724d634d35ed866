//! Rules for indices: 32-bit indices with 64-bit counts, and counts truncated to 32 bits on the way to a kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::super::code::{Code, Function, Launch, Parameter};
use super::super::findings::Findings;
use super::super::load::Sources;
use super::{NARROW, WIDE};

pub(super) fn check(project: &Sources, findings: &mut Findings) {
    let mut kernels: BTreeMap<&str, &Function> = BTreeMap::new();
    for unit in project.compiled() {
        for function in unit.code.functions.iter().filter(|one| one.global) {
            kernels.insert(&function.name, function);
        }
    }
    for unit in project.compiled() {
        let code = &unit.code;
        for function in &code.functions {
            if function.global {
                indices(code, function, findings);
            }
        }
        let mut said = BTreeMap::new();
        for launch in code.launches() {
            let Some(function) = code.function_at(launch.at) else {
                continue;
            };
            let said = said.entry(function.body.start).or_insert_with(|| Counts::of(code, function));
            if !function.global && !said.bounded {
                counts(code, &launch, said, &kernels, findings);
            }
        }
    }
}

/// Whether a parameter is a 64-bit integer, judged by its words.
fn is_wide(parameter: &Parameter) -> bool {
    let mut words = parameter.kind.iter().map(String::as_str);
    words.clone().any(|word| WIDE.contains(&word)) && !words.any(|word| matches!(word, "*" | "&" | "<"))
}

fn is_narrow(parameter: &Parameter) -> bool {
    let mut words = parameter.kind.iter().map(String::as_str);
    words.clone().any(|word| NARROW.contains(&word))
        && !words.any(|word| WIDE.contains(&word) || matches!(word, "*" | "&" | "<"))
}

/// The maximum number of indices checked per kernel.
const MOST: usize = 50;

/// Finds `int i = blockIdx.x * blockDim.x + threadIdx.x` with `i < n`, where `n` is a 64-bit parameter.
fn indices(code: &Code, function: &Function, findings: &mut Findings) {
    let counts: Vec<&str> = function
        .parameters
        .iter()
        .filter(|parameter| is_wide(parameter))
        .map(|parameter| parameter.name.as_str())
        .filter(|name| !name.is_empty())
        .collect();
    if counts.is_empty() {
        return;
    }
    let declared = function.body.clone().filter_map(|at| index_declared(code, at, &function.body));
    for index in declared.take(MOST) {
        let Some(count) = compared(code, function, &index.name, &counts) else {
            continue;
        };
        let bytes = code.token_bytes(index.at);
        if index.narrow {
            let message = format!(
                "`{}` has 32 bits and runs up to `{count}`, which has 64: beyond 2^31 elements it wraps and writes \
                 elsewhere; write `int64_t {} = static_cast<int64_t>(blockIdx.x) * …`",
                index.name, index.name
            );
            findings.add("cuda/int32-index", &code.text, &bytes, message);
        } else if !index.strides {
            let message = format!(
                "`{}` has 64 bits, and the product it is made of 32: it wraps before it is widened; write \
                 `static_cast<int64_t>(blockIdx.x) * …`, if the grid can be that large",
                index.name
            );
            findings.add("cuda/int32-index", &code.text, &bytes, message);
            findings.unsure();
        }
    }
}

struct Index {
    name: String,
    at: usize,
    narrow: bool,
    /// Whether it is the variable of a grid-stride loop, whose grid is small.
    strides: bool,
}

/// A variable declared at this token with a 32-bit product of `blockIdx`.
fn index_declared(code: &Code, at: usize, body: &Range<usize>) -> Option<Index> {
    let word = code.word(at);
    let narrow = NARROW.contains(&word) || word == "auto";
    if !narrow && !WIDE.contains(&word) || !is_first(code, at) {
        return None;
    }
    let mut name = at + 1;
    let mut wide = WIDE.contains(&word);
    while matches!(code.word(name), "int" | "long" | "unsigned" | "const") {
        wide |= code.word(name) == "long";
        name += 1;
    }
    if !code.is_name(name) || code.word(name + 1) != "=" {
        return None;
    }
    let mut end = name + 2;
    while end < body.end && !matches!(code.word(end), ";" | "," | "{" | "}") {
        if matches!(code.word(end), "(" | "[") {
            end = code.close(end)?;
        }
        end += 1;
    }
    let words: Vec<&str> = code.words(name + 2..end).collect();
    let known = |word: &&str| {
        matches!(*word, "blockIdx" | "blockDim" | "threadIdx" | "gridDim" | "x" | "y" | "z" | "." | "*" | "+" | "(" | ")" | "-" | ";")
            || word.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'u' | b'U'))
            // A constant by its spelling; a variable could have any width.
            || word.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
    };
    // Only a block index times the block size or a constant is certainly 32-bit.
    let product = words.contains(&"blockIdx") && words.contains(&"*") && words.iter().all(known);
    if !product {
        return None;
    }
    let before = at.checked_sub(1).map_or("", |before| code.word(before));
    // A parenthesis before a type is that of a loop, by `is_first`.
    let in_loop =
        before == "(" || before == "const" && at >= 3 && code.word(at - 3) == "for" && code.word(at - 2) == "(";
    let strides = in_loop || code.words(body.clone()).any(|word| word == "gridDim");
    Some(Index { name: code.word(name).to_owned(), at: name, narrow: narrow && !wide, strides })
}

/// Whether a type begins here, outside casts, templates and longer types.
fn is_first(code: &Code, at: usize) -> bool {
    let Some(before) = at.checked_sub(1) else {
        return true;
    };
    match code.word(before) {
        ";" | "{" | "}" | "const" | "::" | ":" => true,
        "(" => before >= 1 && code.word(before - 1) == "for",
        _ => false,
    }
}

/// The count with which a name is compared in the function: `i < n`, `n > i`, `i >= n`.
fn compared<'c>(code: &Code, function: &Function, name: &str, counts: &[&'c str]) -> Option<&'c str> {
    for at in function.body.clone() {
        if !matches!(code.word(at), "<" | ">") {
            continue;
        }
        let right = if code.word(at + 1) == "=" { at + 2 } else { at + 1 };
        let left = at.checked_sub(1)?;
        for (one, other) in [(left, right), (right, left)] {
            let count = counts.iter().find(|count| code.word(other) == **count);
            // `i < n / 4` has another bound, and `a[i] < n` compares an element.
            let whole = !matches!(code.word(right + 1), "/" | ">" | "." | "[" | "(" | "-")
                && left.checked_sub(1).is_none_or(|before| !matches!(code.word(before), "." | ">" | "/" | "*"));
            if code.word(one) == name
                && whole
                && let Some(count) = count
            {
                return Some(count);
            }
        }
    }
    None
}

/// Finds `int n = x.numel();` or `static_cast<int>(x.numel())` passed to a launch.
fn counts(
    code: &Code,
    launch: &Launch,
    said: &Counts<'_>,
    kernels: &BTreeMap<&str, &Function>,
    findings: &mut Findings,
) {
    for (position, argument) in launch.arguments.iter().enumerate() {
        let words: Vec<&str> = code.words(argument.clone()).collect();
        let cast = match words.as_slice() {
            ["static_cast", "<", kind, ">", "(", inner @ .., ")"]
            | ["(", kind, ")", inner @ ..]
            | [kind, "(", inner @ .., ")"] => NARROW.contains(kind) && is_numel(inner),
            // Converted implicitly to the kernel's 32-bit parameter.
            inner if is_numel(inner) => kernels
                .get(launch.kernel.as_str())
                .and_then(|kernel| kernel.parameters.get(position))
                .is_some_and(is_narrow),
            [name] => said.narrow.contains(name),
            _ => false,
        };
        if cast {
            let message = format!(
                "`{}` is numel() cut to 32 bits: a tensor of 2^31 elements or more is read as a smaller one; pass \
                 int64_t, or check the size first",
                words.concat()
            );
            findings.add("cuda/int32-count", &code.text, &code.bytes(argument), message);
        }
    }
}

/// Exactly `x.numel()`.
fn is_numel(words: &[&str]) -> bool {
    match words {
        [path @ .., ".", "numel", "(", ")"] | [path @ .., "-", ">", "numel", "(", ")"] => path.iter().all(|word| {
            matches!(*word, "." | "-" | ">") || word.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        }),
        _ => false,
    }
}

/// Facts about counts in a function, computed once for all its launches.
struct Counts<'c> {
    /// Whether it checks 32-bit limits.
    bounded: bool,
    /// The names in `int name = x.numel();`.
    narrow: BTreeSet<&'c str>,
}

impl<'c> Counts<'c> {
    fn of(code: &'c Code, function: &Function) -> Self {
        let body = function.body.clone();
        Self {
            bounded: is_bounded(code, function),
            narrow: body.filter(|at| is_narrow_count(code, *at, function.body.end)).map(|at| code.word(at)).collect(),
        }
    }
}

/// Whether `at` is a 32-bit variable initialised with `numel()`.
fn is_narrow_count(code: &Code, at: usize, end: usize) -> bool {
    let declares =
        code.word(at + 1) == "=" && at.checked_sub(1).is_some_and(|before| NARROW.contains(&code.word(before)));
    if !declares {
        return false;
    }
    // Such initialisers have at most this length.
    let mut value = at + 2..end.min(at + 40);
    let start = value.start;
    let Some(end) = value.find(|end| code.word(*end) == ";") else {
        return false;
    };
    let words: Vec<&str> = code.words(start..end).collect();
    let (["static_cast", "<", _, ">", "(", value @ .., ")"] | ["(", _, ")", value @ ..] | value) = words.as_slice();
    is_numel(value)
}

/// Whether a function checks 32-bit limits.
fn is_bounded(code: &Code, function: &Function) -> bool {
    code.words(function.body.clone()).any(|word| {
        matches!(word, "INT_MAX" | "INT32_MAX" | "UINT32_MAX" | "UINT_MAX" | "numeric_limits" | "canUse32BitIndexMath")
            || word.starts_with("0x7fffffff")
            || word.replace('\'', "").starts_with("2147483647")
    })
}
