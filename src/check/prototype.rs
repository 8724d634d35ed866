//! `extern "C"` functions: what they take, as defined and as declared elsewhere. C linkage has no types, so neither compiler
//! nor linker notices when the two differ.

use std::collections::BTreeMap;
use std::ops::Range;

use super::code::{Code, Parameter};
use super::findings::Findings;
use super::load::Sources;

/// A definition or a declaration.
#[derive(Debug)]
pub(super) struct Prototype {
    pub(super) parameters: Vec<Typed>,
    /// The bytes of the name.
    pub(super) at: Range<usize>,
    is_definition: bool,
}

/// A parameter.
#[derive(Debug)]
pub(super) struct Typed {
    pub(super) name: String,
    /// As written, without the name.
    pub(super) text: String,
    /// None: a type that is not known here.
    pub(super) kind: Option<Kind>,
}

/// How a parameter is passed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    Pointer,
    I32,
    I64,
    F32,
    F64,
}

/// The definitions of a function in a file: several, if a condition of the preprocessor chooses one.
pub(super) fn defined(code: &Code, name: &str) -> impl Iterator<Item = Prototype> {
    all(code)
        .into_iter()
        .filter_map(move |(of, prototype)| (of == name && prototype.is_definition).then_some(prototype))
}

/// Every function that a file declares must take what the file that defines it says. Of several definitions, one that a condition
/// chooses, none is compared: the declaration may have conditions of its own.
pub(super) fn check(project: &Sources, findings: &mut Findings) {
    let mut definitions = BTreeMap::new();
    let prototypes: Vec<_> = project.compiled().map(|unit| (unit, all(&unit.code))).collect();
    for (unit, found) in &prototypes {
        for (name, prototype) in found.iter().filter(|(_, one)| one.is_definition) {
            definitions.entry(name.as_str()).or_insert_with(Vec::new).push((unit, prototype));
        }
    }
    for (unit, found) in &prototypes {
        for (name, declared) in found.iter().filter(|(_, one)| !one.is_definition) {
            let Some([(there, definition)]) = definitions.get(name.as_str()).map(Vec::as_slice) else {
                continue;
            };
            if let Some(fault) = differs(declared, definition) {
                let place = there.code.text.line(definition.at.start);
                let message = format!("`{name}` is declared {fault} than at {}:{place}", there.code.text.path);
                findings.add("torch/launcher-declaration", &unit.code.text, &declared.at, message);
            }
        }
    }
}

fn differs(declared: &Prototype, definition: &Prototype) -> Option<String> {
    let (here, there) = (declared.parameters.len(), definition.parameters.len());
    if here != there {
        return Some(format!("with {here} parameters instead of {there}, so it takes others"));
    }
    declared.parameters.iter().zip(&definition.parameters).find_map(|(one, other)| {
        let (kind, own) = (one.kind?, other.kind?);
        (kind != own).then(|| {
            let name = if other.name.is_empty() { &one.name } else { &other.name };
            format!("with `{}` for `{name}`, which is another type", one.text)
        })
    })
}

/// Every function of C linkage.
fn all(code: &Code) -> Vec<(String, Prototype)> {
    let blocks: Vec<Range<usize>> = (0..code.len())
        .filter(|at| is_extern_c(code, *at) && code.word(at + 2) == "{")
        .filter_map(|at| Some(at + 2..code.close(at + 2)?))
        .collect();
    let mut found = Vec::new();
    for at in 1..code.len() {
        let of_type = code.is_name(at - 1) || code.word(at - 1) == "*";
        if code.word(at + 1) != "(" || !of_type || !code.is_name(at) || code.function_at(at).is_some() {
            continue;
        }
        let Some((parts, close)) = code.arguments(at + 1) else {
            continue;
        };
        let mut behind = close + 1;
        if code.word(behind) == "noexcept" {
            behind =
                code.close(behind + 1).filter(|_| code.word(behind + 1) == "(").map_or(behind + 1, |close| close + 1);
        }
        let is_definition = code.word(behind) == "{";
        let is_linked = || blocks.iter().any(|block| block.contains(&at)) || says_extern_c(code, at);
        if !(is_definition || code.word(behind) == ";") || !is_linked() {
            continue;
        }
        let parts = parts.into_iter().filter(|part| code.words(part.clone()).collect::<Vec<_>>() != ["void"]);
        let parameters = parts.map(|part| typed(is_array(code, part.clone()), code.parameter(part))).collect();
        let prototype = Prototype { parameters, at: code.token_bytes(at), is_definition };
        found.push((code.word(at).to_owned(), prototype));
    }
    found
}

fn is_extern_c(code: &Code, at: usize) -> bool {
    code.word(at) == "extern" && code.string(at + 1..at + 2).as_deref() == Some("C")
}

/// Whether the statement of a function's name begins with `extern "C"`.
fn says_extern_c(code: &Code, name: usize) -> bool {
    let start = (0..name).rev().find(|at| matches!(code.word(*at), ";" | "{" | "}")).map_or(0, |at| at + 1);
    (start..name).any(|at| is_extern_c(code, at))
}

/// Whether a parameter is written as an array, which is passed as a pointer; `[[` begins an attribute.
fn is_array(code: &Code, part: Range<usize>) -> bool {
    let mut at = part.start;
    while at < part.end {
        match code.word(at) {
            "[" if code.word(at + 1) == "[" => at = code.close(at).unwrap_or(part.end),
            "[" => return true,
            "=" => return false,
            _ => {}
        }
        at += 1;
    }
    false
}

fn typed(is_array: bool, parameter: Parameter) -> Typed {
    let words: Vec<&str> = parameter
        .kind
        .iter()
        .map(String::as_str)
        .filter(|word| !matches!(*word, "const" | "std" | "::" | ":"))
        .collect();
    let kind = match words[..] {
        _ if is_array || words.contains(&"*") => Some(Kind::Pointer),
        ["cudaStream_t" | "CUstream"] => Some(Kind::Pointer),
        ["int" | "int32_t" | "uint32_t" | "unsigned" | "signed"] | ["unsigned" | "signed", "int"] => Some(Kind::I32),
        ["int64_t" | "uint64_t" | "size_t" | "ptrdiff_t" | "long"] | ["long", "long"] => Some(Kind::I64),
        ["float"] => Some(Kind::F32),
        ["double"] => Some(Kind::F64),
        _ => None,
    };
    let text = parameter.kind.join(" ");
    Typed { name: parameter.name, text: if is_array { text + "[]" } else { text }, kind }
}
