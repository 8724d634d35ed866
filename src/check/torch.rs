//! Rules for the C++ binding.

use super::code::Include;
use super::findings::Findings;
use super::load::{Sources, Unit};
use super::ops::{Library, Ops, libraries};
use crate::project::manifest::{Framework, Kind};

pub(super) fn check(project: &Sources, ops: &Ops, findings: &mut Findings) {
    let framework = project.manifest.framework();
    for unit in project.compiled() {
        headers(unit, framework, findings);
        for library in libraries(&unit.code) {
            namespace(unit, &library, findings);
        }
        pybind(unit, findings);
    }
    if framework.is_some_and(|framework| framework.kind == Kind::Torch) {
        extension(project, findings);
        mismatch(project, ops, findings);
    }
    fakes(project, ops, findings);
    mutations(project, ops, findings);
}

fn headers(unit: &Unit, framework: Option<&Framework>, findings: &mut Findings) {
    let text = &unit.code.text;
    let stable = framework.is_some_and(|framework| {
        let mut backends = unit.backends.iter();
        !unit.backends.is_empty() && backends.all(|backend| framework.stable_abi.of(backend).is_some())
    });
    for include in unit.code.includes() {
        let Include { name, at, .. } = include;
        let before = findings.0.len();
        if matches!(name.as_str(), "torch/extension.h" | "torch/python.h" | "torch/csrc/utils/pybind.h") {
            let message = format!(
                "<{name}> brings pybind11 and all of Python's ABI; include <torch/library.h>, or \
                 <torch/csrc/stable/library.h> with stable-abi"
            );
            findings.add("torch/torch-extension-header", text, &at, message);
        } else if name.starts_with("pybind11/") {
            let message = format!(
                "<{name}>: a pybind11 module is tied to one version of Python; register ops with TORCH_LIBRARY_EXPAND"
            );
            findings.add("torch/pybind11", text, &at, message);
        } else if stable && is_full_abi(&name) {
            let message = format!(
                "<{name}> is not of torch's stable ABI, which build.toml asks for; use torch/csrc/stable/ and \
                 torch/headeronly/, or remove stable-abi"
            );
            findings.add("torch/full-abi-header", text, &at, message);
        }
        // The active preprocessor branch is unknown here.
        if include.conditional && findings.0.len() > before {
            findings.unsure();
        }
    }
}

/// Whether a header of torch requires the exact torch version of the build: all but those of its stable ABI do.
fn is_full_abi(name: &str) -> bool {
    let begins = |starts: &[&str]| starts.iter().any(|start| name.starts_with(start));
    begins(&["torch/", "c10/", "ATen/", "caffe2/"])
        && !begins(&["torch/csrc/stable/", "torch/headeronly/", "torch/csrc/inductor/aoti_torch/c/"])
}

fn pybind(unit: &Unit, findings: &mut Findings) {
    for at in 0..unit.code.len() {
        let word = unit.code.word(at);
        if matches!(word, "PYBIND11_MODULE" | "PYBIND11_EMBEDDED_MODULE") && unit.code.word(at + 1) == "(" {
            let message = format!(
                "{word} is tied to one version of Python and one torch; register ops with TORCH_LIBRARY_EXPAND and \
                 REGISTER_EXTENSION"
            );
            let bytes = unit.code.token_bytes(at);
            findings.add("torch/pybind11", &unit.code.text, &bytes, message);
        }
    }
}

/// torch's own namespaces, in which registrations concern torch's ops.
const OF_TORCH: [&str; 5] = ["aten", "_", "prims", "prim", "_c10d_functional"];

fn namespace(unit: &Unit, library: &Library, findings: &mut Findings) {
    let code = &unit.code;
    let name: String = code.words(library.namespace.clone()).collect();
    // A macro may expand to the build's namespace; only a lower-case name is certainly literal.
    let is_macro = name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_');
    if is_macro || OF_TORCH.contains(&name.as_str()) || name.is_empty() {
        return;
    }
    let message = format!(
        "ops are registered under `{name}`, which two loaded versions would share; write TORCH_LIBRARY_EXPAND or its \
         like with TORCH_EXTENSION_NAME"
    );
    findings.add("torch/fixed-namespace", &code.text, &code.bytes(&library.namespace), message);
}

/// Without `PyInit_NAME`, the extension cannot be imported.
fn extension(project: &Sources, findings: &mut Findings) {
    let initialises = project.compiled().any(|unit| {
        let code = &unit.code;
        (0..code.len()).any(|at| {
            let word = code.word(at);
            matches!(word, "REGISTER_EXTENSION" | "PyMODINIT_FUNC" | "PYBIND11_MODULE") || word.starts_with("PyInit_")
        })
    });
    if initialises {
        return;
    }
    for unit in project.compiled() {
        let mut blocks = libraries(&unit.code).into_iter();
        let Some(library) = blocks.find(|library| library.key.is_none()) else {
            continue;
        };
        let message = "no REGISTER_EXTENSION(TORCH_EXTENSION_NAME), so Python cannot import what is built; write it \
                       below the registrations";
        let bytes = unit.code.token_bytes(library.at);
        findings.add("torch/no-register-extension", &unit.code.text, &bytes, message);
        return;
    }
}

fn mismatch(project: &Sources, ops: &Ops, findings: &mut Findings) {
    if ops.opaque {
        return;
    }
    for op in &ops.implemented {
        let defined =
            ops.defined.iter().any(|one| one.name == op.name) || ops.python.iter().any(|one| one.name == op.name);
        if !defined && let Some(unit) = project.unit(&op.path) {
            let message =
                format!("`{}` is implemented but not defined; write its schema with def, or correct the name", op.name);
            findings.add("torch/op-mismatch", &unit.code.text, &op.at, message);
        }
    }
    if ops.python_implements {
        return;
    }
    for op in &ops.defined {
        let implemented = op.whole || ops.implemented.iter().any(|one| one.name == op.name);
        if !implemented && let Some(unit) = project.unit(&op.path) {
            let message = format!(
                "`{}` is defined but not implemented, so a call fails; add impl for its backend, or correct the name",
                op.name
            );
            findings.add("torch/op-mismatch", &unit.code.text, &op.at, message);
        }
    }
}

const NO_FAKE: &str = "returns tensors and has no fake implementation, so torch.compile stops at it; add \
                       @torch.library.register_fake(add_op_namespace_prefix(…))";

fn fakes(project: &Sources, ops: &Ops, findings: &mut Findings) {
    if ops.opaque_fakes {
        return;
    }
    for op in &ops.defined {
        let Some((_, returns)) = &op.schema else {
            continue;
        };
        // torch itself fakes ops that only return their mutated arguments.
        let fresh = returns.contains("Tensor") && !returns.contains('!');
        let wrapped = ops.called.get(&op.name).is_some_and(|wrapped| *wrapped);
        if fresh
            && !op.whole
            && !wrapped
            && !ops.faked.contains(&op.name)
            && let Some(unit) = project.unit(&op.path)
        {
            let message = format!("`{}` {NO_FAKE}", op.name);
            findings.add("torch/no-fake", &unit.code.text, &op.at, message);
        }
    }
    for op in &ops.python {
        let by_function = op.function.as_ref().is_some_and(|name| ops.faked.contains(name));
        if op.functional && !by_function && !ops.faked.contains(&op.name) {
            let message = format!("`{}` {NO_FAKE}", op.name);
            findings.add("torch/no-fake", &project.modules[op.module].python.text, &op.at, message);
        }
    }
}

fn mutations(project: &Sources, ops: &Ops, findings: &mut Findings) {
    for op in &ops.defined {
        let Some((takes, returns)) = &op.schema else {
            continue;
        };
        let nothing = returns.trim_matches(['(', ')', ' ']).is_empty();
        if nothing
            && takes.contains("Tensor")
            && !takes.contains('!')
            && let Some(unit) = project.unit(&op.path)
        {
            let message = format!(
                "`{}` returns nothing and is said to write nothing, so torch.compile may drop it; mark what it writes: \
                 `Tensor! out`",
                op.name
            );
            findings.add("torch/undeclared-mutation", &unit.code.text, &op.at, message);
        }
    }
}
