//! The ops that a project's C++ and Python define, implement and fake.

use std::collections::BTreeMap;
use std::ops::Range;

use super::code::Code;
use super::load::{Module, Sources};
use super::python::{Call, Python};

/// Op definitions and uses in C++ and Python.
#[derive(Debug, Default)]
pub(super) struct Ops {
    /// `ops.def("relu(Tensor! out, Tensor input) -> ()")`
    pub(super) defined: Vec<Op>,
    /// `ops.impl("relu", …)`
    pub(super) implemented: Vec<Op>,
    /// Names that have a fake implementation, or that torch can trace.
    pub(super) faked: Vec<String>,
    /// Computed names in C++ registrations; then missing implementations cannot be reported.
    pub(super) opaque: bool,
    /// Computed names of fakes in Python.
    pub(super) opaque_fakes: bool,
    /// The ops that Python defines.
    pub(super) python: Vec<PythonOp>,
    /// Implementations in Python.
    pub(super) python_implements: bool,
    /// Method names called in Python, and whether all these calls are inside Python ops: such callees need no
    /// fake.
    pub(super) called: BTreeMap<String, bool>,
}

#[derive(Clone, Debug)]
pub(super) struct Op {
    /// The file.
    pub(super) path: String,
    /// The bytes of the string.
    pub(super) at: Range<usize>,
    /// Its name without the overload.
    pub(super) name: String,
    /// Parameters and returns of the schema; `None` if only a name is given.
    pub(super) schema: Option<(String, String)>,
    /// Whether the definition includes the implementation.
    pub(super) whole: bool,
}

/// An op defined in Python with `custom_op` or similar.
#[derive(Clone, Debug)]
pub(super) struct PythonOp {
    pub(super) module: usize,
    pub(super) at: Range<usize>,
    pub(super) name: String,
    /// The decorated function.
    pub(super) function: Option<String>,
    /// Whether it surely mutates no argument and returns something.
    pub(super) functional: bool,
}

/// Macros that begin a block of definitions.
pub(super) const LIBRARIES: [&str; 8] = [
    "TORCH_LIBRARY",
    "TORCH_LIBRARY_EXPAND",
    "TORCH_LIBRARY_FRAGMENT",
    "TORCH_LIBRARY_FRAGMENT_EXPAND",
    "STABLE_TORCH_LIBRARY",
    "STABLE_TORCH_LIBRARY_EXPAND",
    "STABLE_TORCH_LIBRARY_FRAGMENT",
    "STABLE_TORCH_LIBRARY_FRAGMENT_EXPAND",
];

/// Macros that begin a block of implementations for a dispatch key.
pub(super) const IMPLEMENTATIONS: [&str; 4] = [
    "TORCH_LIBRARY_IMPL",
    "TORCH_LIBRARY_IMPL_EXPAND",
    "STABLE_TORCH_LIBRARY_IMPL",
    "STABLE_TORCH_LIBRARY_IMPL_EXPAND",
];

/// Dispatch keys whose implementations serve as fakes.
const TRACED: [&str; 4] =
    ["Meta", "CompositeImplicitAutograd", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional"];

#[derive(Debug)]
pub(super) struct Library {
    /// The token of the macro's name.
    pub(super) at: usize,
    /// The tokens of the namespace.
    pub(super) namespace: Range<usize>,
    /// The dispatch key of a block of implementations.
    pub(super) key: Option<String>,
    /// The variable on which the block calls methods.
    pub(super) variable: String,
    /// The tokens between the braces.
    pub(super) body: Range<usize>,
}

pub(super) fn libraries(code: &Code) -> Vec<Library> {
    let mut found = Vec::new();
    for at in 0..code.len() {
        let word = code.word(at);
        let defines = LIBRARIES.contains(&word);
        if !(defines || IMPLEMENTATIONS.contains(&word)) {
            continue;
        }
        let Some((arguments, close)) = code.arguments(at + 1) else {
            continue;
        };
        let Some(end) = code.close(close + 1).filter(|_| code.word(close + 1) == "{") else {
            continue;
        };
        let [namespace, .., variable] = arguments.as_slice() else {
            continue;
        };
        found.push(Library {
            at,
            namespace: namespace.clone(),
            key: (!defines).then(|| code.words(arguments[1].clone()).collect()),
            variable: code.words(variable.clone()).collect(),
            body: close + 2..end,
        });
    }
    found
}

pub(super) fn gather(project: &Sources) -> Ops {
    let mut ops = Ops::default();
    for unit in project.compiled() {
        for library in libraries(&unit.code) {
            registrations(&unit.code, &library, &mut ops);
        }
    }
    for (index, module) in project.modules.iter().enumerate() {
        python(index, module, &mut ops);
    }
    ops
}

fn registrations(code: &Code, library: &Library, ops: &mut Ops) {
    // A macro, a function that is given the library, a chained call: what these register is not known.
    let mut calls = library.body.clone().filter(|at| code.word(*at) == library.variable && code.word(*at + 1) == ".");
    let mut read = library.body.start;
    let is_read = calls.try_for_each(|at| {
        let (_, close) = code
            .arguments(at + 3)
            .filter(|_| at == read && matches!(code.word(at + 2), "def" | "impl" | "set_python_module"))?;
        read = close + 2;
        (code.word(close + 1) == ";").then_some(())
    });
    ops.opaque |= is_read.is_none() || read < library.body.end;
    for at in library.body.clone() {
        let method = code.word(at + 2);
        if code.word(at) != library.variable || code.word(at + 1) != "." {
            continue;
        }
        if !matches!(method, "def" | "impl") {
            continue;
        }
        let Some((arguments, _)) = code.arguments(at + 3) else {
            continue;
        };
        let Some((text, bytes)) = arguments.first().and_then(|first| literal(code, first)) else {
            ops.opaque = true;
            continue;
        };
        let (name, schema) = parse(&text);
        if method == "def" {
            let is_tag = |argument: &Range<usize>| {
                code.word(argument.start) == "{" || code.words(argument.clone()).any(|word| word == "Tag")
            };
            let whole = arguments[1..].iter().any(|argument| !is_tag(argument));
            ops.defined.push(Op { path: code.text.path.clone(), at: bytes, name, schema, whole });
            continue;
        }
        let by_key = library.key.as_deref().is_some_and(|key| TRACED.contains(&key));
        let by_argument = arguments[1..].iter().any(|argument| {
            let mut words = code.words(argument.clone());
            words.any(|word| matches!(word, "kMeta" | "kCompositeImplicitAutograd") || TRACED.contains(&word))
        });
        if by_key || by_argument {
            ops.faked.push(name.clone());
        }
        ops.implemented.push(Op { path: code.text.path.clone(), at: bytes, name, schema: None, whole: false });
    }
}

/// The first argument's string: a literal, or the literal in `torch::schema( … )`.
fn literal(code: &Code, argument: &Range<usize>) -> Option<(String, Range<usize>)> {
    if let Some(text) = code.string(argument.clone()) {
        return Some((text, code.bytes(argument)));
    }
    let open = argument.clone().find(|at| code.word(*at) == "(")?;
    if !matches!(code.word(open.checked_sub(1)?), "schema" | "TORCH_SELECTIVE_SCHEMA" | "TORCH_SELECTIVE_NAME") {
        return None;
    }
    let (inner, _) = code.arguments(open)?;
    let first = inner.first()?;
    Some((code.string(first.clone())?, code.bytes(first)))
}

/// Splits a schema into name, parameters and returns.
fn parse(text: &str) -> (String, Option<(String, String)>) {
    let (name, rest) = match text.split_once('(') {
        Some((name, rest)) => (name, Some(rest)),
        None => (text, None),
    };
    let name = name.trim().rsplit("::").next().unwrap_or_default();
    let name = name.split('.').next().unwrap_or_default().trim().to_owned();
    // The parameters may contain parentheses: `Tensor(a!) out`.
    let schema = rest.and_then(|rest| {
        let mut depth = 1_usize;
        let close = rest.char_indices().find_map(|(at, character)| {
            match character {
                '(' => depth += 1,
                ')' => depth -= 1,
                _ => {}
            }
            (depth == 0).then_some(at)
        })?;
        let returns = rest[close + 1..].trim().strip_prefix("->")?;
        Some((rest[..close].to_owned(), returns.trim().to_owned()))
    });
    (name, schema)
}

/// Functions of torch.library with an op name as first argument.
pub(super) const NAMING: [&str; 14] = [
    "custom_op",
    "triton_op",
    "define",
    "impl",
    "impl_abstract",
    "register_fake",
    "register_kernel",
    "register_autograd",
    "register_vmap",
    "register_torch_dispatch",
    "register_autocast",
    "infer_schema",
    "opcheck",
    "get_kernel",
];

/// The call's last name, if the call is to torch.library or an import from it.
pub(super) fn torch_library<'c>(call: &'c Call, imported: &[String]) -> Option<&'c str> {
    let (last, before) = call.path.split_last()?;
    let named = match before {
        [] => imported.contains(last),
        [torch, library] => torch == "torch" && library == "library",
        [library] => library == "library",
        _ => false,
    };
    (named && NAMING.contains(&last.as_str())).then_some(last.as_str())
}

/// The names imported from torch.library.
pub(super) fn imported(python: &Python) -> Vec<String> {
    python
        .imports()
        .into_iter()
        .filter(|import| import.dots == 0 && import.module == "torch.library")
        .flat_map(|import| import.names.unwrap_or_default())
        .collect()
}

#[derive(Clone, Debug)]
pub(super) enum Naming {
    /// `add_op_namespace_prefix("relu")`
    Prefixed(String),
    /// `"relu::relu"`: the namespace and the name.
    Fixed(String, String),
    /// Computed otherwise.
    Unknown,
}

pub(super) fn naming(python: &Python, call: &Call) -> Naming {
    let Some(first) = call.arguments.first() else {
        return Naming::Unknown;
    };
    if let Some(text) = python.string(first.clone()) {
        return match text.split_once("::") {
            Some((namespace, name)) => {
                let name = name.split(['(', '.']).next().unwrap_or_default().trim();
                Naming::Fixed(namespace.to_owned(), name.to_owned())
            }
            None => Naming::Unknown,
        };
    }
    let open = first.clone().find(|at| python.word(*at) == "(");
    if let Some(open) = open
        && open > first.start
        && python.word(open - 1) == "add_op_namespace_prefix"
        && let Some(name) = python.string(open + 1..first.end.saturating_sub(1))
    {
        let name = name.split(['(', '.']).next().unwrap_or_default().trim();
        return Naming::Prefixed(name.to_owned());
    }
    Naming::Unknown
}

fn python(index: usize, module: &Module, ops: &mut Ops) {
    let python = &module.python;
    let imported = imported(python);
    let calls = python.calls();
    // `@_relu.register_fake`: the decorator's object is an op defined in Python.
    for path in python.paths() {
        let last = python.word(path.end - 1);
        if matches!(last, "register_fake" | "impl_abstract") && path.len() >= 3 {
            ops.faked.push(python.word(path.end - 3).to_owned());
        }
        ops.python_implements |= matches!(last, "register_kernel" | "impl");
    }
    for call in &calls {
        if let [_, .., name] = call.path.as_slice() {
            let wrapped = is_in_an_op(python, call.line);
            *ops.called.entry(name.clone()).or_insert(true) &= wrapped;
        }
        let Some(function) = torch_library(call, &imported) else {
            // `Library` methods define ops, often in functions that take their names.
            ops.opaque |= call.path.last().is_some_and(|last| matches!(last.as_str(), "define" | "Library"));
            continue;
        };
        let naming = naming(python, call);
        let name = match &naming {
            Naming::Prefixed(name) | Naming::Fixed(_, name) => Some(name.clone()),
            Naming::Unknown => None,
        };
        match (function, name) {
            ("register_fake" | "impl_abstract", Some(name)) => ops.faked.push(name),
            ("register_fake" | "impl_abstract", None) => ops.opaque_fakes = true,
            ("custom_op" | "triton_op" | "define", Some(name)) => {
                ops.python.push(PythonOp {
                    module: index,
                    at: call.at.clone(),
                    name,
                    function: decorated(python, call.line),
                    // torch traces a triton_op.
                    functional: function == "custom_op" && is_functional(python, call),
                });
            }
            ("custom_op" | "triton_op" | "define", None) => ops.opaque = true,
            _ => {}
        }
    }
}

/// Whether a line is in a function that a decorator makes an op.
fn is_in_an_op(python: &Python, line: usize) -> bool {
    let Some(inside) = python.lines.get(line).map(|line| &line.inside) else {
        return false;
    };
    inside.iter().any(|head| {
        let above = python.lines[..*head].iter().rev();
        above.take_while(|line| python.word(line.tokens.start) == "@").any(|line| {
            python.words(line).any(|word| matches!(word, "custom_op" | "triton_op" | "add_op_namespace_prefix"))
        })
    })
}

/// The function decorated at this line.
fn decorated(python: &Python, line: usize) -> Option<String> {
    let first = python.lines.get(line)?;
    if python.word(first.tokens.start) != "@" {
        return None;
    }
    let below = python.lines.get(line + 1..)?.iter();
    let head = below.into_iter().find(|line| python.word(line.tokens.start) != "@")?;
    let mut words = python.words(head).skip_while(|word| *word != "def");
    words.next()?;
    words.next().map(str::to_owned)
}

/// Whether a `custom_op` declares no mutation, and its function is annotated with a return type.
fn is_functional(python: &Python, call: &Call) -> bool {
    let mutates_nothing = call.arguments.iter().any(|argument| {
        let words: Vec<&str> = argument.clone().map(|at| python.word(at)).collect();
        matches!(
            words.as_slice(),
            ["mutates_args", "=", "(", ")"] | ["mutates_args", "=", "[", "]"] | ["mutates_args", "=", "{", "}"]
        )
    });
    let Some(lines) = python.lines.get(call.line..) else {
        return false;
    };
    let head = lines.iter().find(|line| python.word(line.tokens.start) != "@");
    let returns: Vec<&str> = head.map(|head| python.words(head).collect()).unwrap_or_default();
    let arrow = returns.windows(3).find(|words| words[..2] == ["-", ">"]);
    mutates_nothing && arrow.is_some_and(|words| words[2] != "None")
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn schemas_are_taken_apart() {
        let (name, schema) = parse("ns::relu.out(Tensor x, *, Tensor(a!) out) -> Tensor(a!)");
        assert_eq!(name, "relu");
        assert_eq!(schema, Some(("Tensor x, *, Tensor(a!) out".to_owned(), "Tensor(a!)".to_owned())));
        assert_eq!(parse("relu"), ("relu".to_owned(), None));
        assert_eq!(parse("relu(Tensor x").1, None);
    }
}
