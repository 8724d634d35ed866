//! Rules for registrations, calls and layers of the Python package.

use std::collections::BTreeSet;

use super::findings::Findings;
use super::load::{Module, Sources};
use super::ops::{self, Naming, Ops};
use super::python::Python;
use super::text::Text;
use crate::project::manifest::Kind;

pub(super) fn check(project: &Sources, ops: &Ops, findings: &mut Findings) {
    setup_py(project, findings);
    for module in &project.modules {
        namespaces(module, findings);
        unknown_ops(project, module, ops, findings);
        exports(module, findings);
        undefined(project, module, findings);
        layers(module, findings);
    }
}

/// Built-in namespaces of `torch.ops`, and its attributes that are not namespaces.
const OF_TORCH: [&str; 35] = [
    "_c10d_functional",
    "_c10d_functional_autograd",
    "_dtensor",
    "_native",
    "_native_aot",
    "_quantized",
    "_test",
    "aten",
    "c10d",
    "coor",
    "debug_mode_ops",
    "debugprims",
    "export",
    "flex_gemm",
    "fsdp",
    "higher_order",
    "inductor",
    "inductor_prims",
    "mkl",
    "mkldnn",
    "mkldnn_prepacked",
    "onednn",
    "prim",
    "prims",
    "profiler",
    "quantization",
    "quantized",
    "quantized_decomposed",
    "rngprims",
    "sparse",
    "static_runtime",
    "symm_mem",
    "torchvision",
    "load_library",
    "loaded_libraries",
];

fn namespaces(module: &Module, findings: &mut Findings) {
    let python = &module.python;
    let imported = ops::imported(python);
    for call in python.calls() {
        let library = call.path.ends_with(&["library".to_owned(), "Library".to_owned()])
            || call.path == ["Library"] && imported.contains(&"Library".to_owned());
        if library {
            let name = call.arguments.first().and_then(|first| python.string(first.clone()));
            if let Some(name) = name.filter(|name| !OF_TORCH.contains(&name.as_str())) {
                fixed(&python.text, &call.at, &name, findings);
            }
        } else if ops::torch_library(&call, &imported).is_some()
            && let Naming::Fixed(namespace, _) = ops::naming(python, &call)
            && !OF_TORCH.contains(&namespace.as_str())
        {
            fixed(&python.text, &call.at, &namespace, findings);
        }
    }
    for path in python.paths() {
        let words: Vec<&str> = path.clone().step_by(2).map(|at| python.word(at)).collect();
        if let ["torch", "ops", namespace, ..] = words.as_slice()
            && !OF_TORCH.contains(namespace)
        {
            let message = format!(
                "`torch.ops.{namespace}` is not the namespace of the build, whose own carries its hash; write \
                 `from ._ops import ops` and call `ops`"
            );
            findings.add("python/undeclared-namespace", &python.text, &python.bytes(&path), message);
        }
    }
}

fn fixed(text: &Text, at: &std::ops::Range<usize>, namespace: &str, findings: &mut Findings) {
    let message = format!(
        "the op is registered under `{namespace}`, which two loaded versions would share, and the builder refuses; \
         name it add_op_namespace_prefix(\"…\") of ._ops"
    );
    findings.add("python/fixed-namespace", text, at, message);
}

/// Finds calls of `ops.x` without a definition of `x`.
fn unknown_ops(project: &Sources, module: &Module, ops: &Ops, findings: &mut Findings) {
    let python = &module.python;
    let torch = project.manifest.framework().is_some_and(|one| one.kind == Kind::Torch);
    let imported = python.imports().into_iter().any(|import| {
        import.dots > 0
            && import.module == "_ops"
            && import.names.is_some_and(|names| names.iter().any(|name| name == "ops"))
    });
    if !torch || !imported || ops.opaque || ops.defined.is_empty() {
        return;
    }
    let names: BTreeSet<&str> =
        ops.defined.iter().map(|op| op.name.as_str()).chain(ops.python.iter().map(|op| op.name.as_str())).collect();
    let calls = python.calls();
    // `hasattr(ops, "x")` makes `x` optional.
    let asked: BTreeSet<String> = calls
        .iter()
        .filter(|call| {
            let last = call.path.last().map(String::as_str);
            matches!(last, Some("hasattr" | "getattr"))
        })
        .filter_map(|call| python.string(call.arguments.get(1)?.clone()))
        .collect();
    for call in calls {
        if let [object, op, rest @ ..] = call.path.as_slice()
            && object == "ops"
            && rest.iter().all(|word| word == "default")
            && !names.contains(op.as_str())
            && !op.starts_with('_')
            && !asked.contains(op)
        {
            let message =
                format!("no op `{op}` is defined; there are {}", names.iter().copied().collect::<Vec<_>>().join(", "));
            findings.add("python/unknown-op", &python.text, &call.at, message);
        }
    }
}

fn exports(module: &Module, findings: &mut Findings) {
    let python = &module.python;
    let top = module.package.is_empty() && python.text.path.ends_with("/__init__.py");
    let empty = python.lines.is_empty();
    if !top || empty {
        return;
    }
    let listed = python.tokens.iter().any(|token| &python.text.content[token.at.clone()] == "__all__");
    if !listed {
        let first = python.lines[0].tokens.clone();
        let message = "no __all__, and only what it lists is the kernel's API; add __all__ = [\"…\"]";
        findings.add("python/no-all", &python.text, &python.token_bytes(first.start), message);
    }
}

/// Names in `__all__` that occur nowhere else in the module, and are no module beside it.
fn undefined(project: &Sources, module: &Module, findings: &mut Findings) {
    let python = &module.python;
    let star = |import: &super::python::Import| import.names.iter().flatten().any(|name| name == "*");
    let dynamic = (0..python.tokens.len())
        .any(|at| matches!(python.word(at), "__getattr__" | "globals" | "locals" | "vars" | "dir"));
    if dynamic || python.imports().iter().any(star) {
        return;
    }
    let folder = python.text.path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let has_file = |name: &str| project.package_files.iter().any(|path| path.starts_with(&format!("{folder}/{name}")));
    for line in python.lines.iter().filter(|line| python.word(line.tokens.start) == "__all__") {
        // Of a comprehension, a condition or a call a text may be anything.
        if line.tokens.clone().any(|at| matches!(python.word(at), "for" | "if" | "split")) {
            continue;
        }
        for at in line.tokens.clone() {
            let is_listed =
                matches!(python.word(at - 1), "[" | "(" | ",") && matches!(python.word(at + 1), "]" | ")" | ",");
            let Some(name) = python.string(at..at + 1).filter(|_| is_listed) else {
                continue;
            };
            let is_there = (0..python.tokens.len()).any(|other| python.is_name(other) && python.word(other) == name);
            if !is_there && !has_file(&name) {
                let message = format!("__all__ lists `{name}`, which this module neither defines nor imports");
                findings.add("python/all-undefined", &python.text, &python.token_bytes(at), message);
            }
        }
    }
}

/// Layers replace the `forward` of a user's module; `kernels` rejects layers with other members.
fn layers(module: &Module, findings: &mut Findings) {
    let python = &module.python;
    let file = python.text.path.rsplit('/').next().unwrap_or_default();
    let package: Vec<&str> = module.package.iter().map(String::as_str).collect();
    let of_layers = matches!((package.as_slice(), file), ([], "layers.py") | (["layers"], "__init__.py"));
    // `nn` may be another library's.
    let of_torch = python.imports().into_iter().any(|import| {
        let names = import.names.unwrap_or_default();
        import.module.starts_with("torch.nn")
            || import.module == "torch" && (names.is_empty() || names.iter().any(|name| name == "nn"))
    });
    if !of_layers || !of_torch {
        return;
    }
    for (index, line) in python.lines.iter().enumerate() {
        let words: Vec<&str> = python.words(line).collect();
        let ["class", class, "(", bases @ .., ")", ":"] = words.as_slice() else {
            continue;
        };
        let is_layer = line.inside.is_empty()
            && !class.starts_with('_')
            && (bases == ["nn", ".", "Module"] || bases == ["torch", ".", "nn", ".", "Module"] || bases == ["Module"]);
        if !is_layer {
            continue;
        }
        for member in python.lines[index + 1..]
            .iter()
            .take_while(|line| line.inside.contains(&index))
            .filter(|line| line.inside.last() == Some(&index))
        {
            layer_member(python, class, member, findings);
        }
    }
}

/// Members that a layer may override from torch's Module without adding new ones.
const OF_MODULE: [&str; 24] = [
    "forward",
    "extra_repr",
    "apply",
    "buffers",
    "call_super_init",
    "children",
    "compile",
    "cpu",
    "cuda",
    "double",
    "dump_patches",
    "eval",
    "float",
    "half",
    "load_state_dict",
    "modules",
    "named_parameters",
    "parameters",
    "register_buffer",
    "requires_grad_",
    "state_dict",
    "to",
    "train",
    "training",
];

fn layer_member(python: &Python, class: &str, member: &super::python::Line, findings: &mut Findings) {
    let words: Vec<&str> = python.words(member).take(4).collect();
    let name = match words.as_slice() {
        ["def", name, ..] | ["async", "def", name, ..] | [name, "=", ..] => *name,
        // An annotation alone is no member: it tells what the adopting class has.
        [name, ":", ..] => {
            let assigns = python.words(member).any(|word| word == "=");
            if !assigns {
                return;
            }
            *name
        }
        _ => return,
    };
    let own = matches!(name, "can_torch_compile" | "has_backward") || OF_MODULE.contains(&name);
    if own || name.starts_with("__") && name != "__init__" {
        return;
    }
    let start = member.tokens.start;
    let message = format!(
        "the layer {class} has `{name}`, and `kernels` accepts only layers whose one member is `forward`; move it out of the class"
    );
    findings.add("python/layer-state", &python.text, &python.bytes(&(start..start + 2)), message);
}

/// The builder ignores a project's own setup.py and fails if one exists.
fn setup_py(project: &Sources, findings: &mut Findings) {
    let path = "setup.py";
    let full = project.root.join(path);
    if !full.is_file() {
        return;
    }
    let Ok(text) = Text::read(&full, path.to_owned()) else {
        return;
    };
    let python = Python::new(text);
    let extension = python.imports().into_iter().find(|import| import.module.contains("cpp_extension"));
    // The builder writes these for local work; CMake's only if something is compiled.
    let framework = project.manifest.framework();
    let noarch = framework.is_some_and(|framework| framework.kind == Kind::Noarch);
    let beside = |file| project.root.join(file).is_file();
    let written = beside("pyproject.toml") && (noarch || beside("CMakeLists.txt"));
    if extension.is_none() && written {
        return;
    }
    let at = extension.map_or(0..0, |import| import.at);
    let message = "a hand-written setup.py: the builder does not run it, and does not write its own over it; say in \
                   build.toml what to build, and remove it";
    findings.add("python/setup-py", &python.text, &at, message);
}
