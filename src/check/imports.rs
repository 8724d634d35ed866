//! Rules for the imports of the Python package.

use std::collections::{BTreeMap, BTreeSet};

use super::build_toml::PYTHON_DEPENDS;
use super::finding::Edit;
use super::findings::Findings;
use super::load::{Module, Sources};
use super::python::{Import, Line, Python};
use crate::project::manifest::Kind;

pub(super) fn check(project: &Sources, findings: &mut Findings) {
    let Some(name) = project.python_name() else {
        return;
    };
    let loaded = loaded(project, &name);
    for module in &project.modules {
        let is_loaded = loaded.contains(module.python.text.path.as_str());
        for import in module.python.imports() {
            if !is_for_types(&module.python, &import) {
                import_of(project, &name, module, &import, is_loaded, findings);
            }
        }
    }
}

/// The files executed when the kernel is loaded: __init__.py, and its unconditional imports, transitively.
fn loaded<'p>(project: &'p Sources, name: &str) -> BTreeSet<&'p str> {
    let by_path: BTreeMap<&str, &Module> =
        project.modules.iter().map(|module| (module.python.text.path.as_str(), module)).collect();
    let ext = project.ext.unwrap_or("torch-ext");
    let start = format!("{ext}/{name}/__init__.py");
    let mut queue: Vec<&str> = by_path.get_key_value(start.as_str()).map(|(path, _)| *path).into_iter().collect();
    let mut loaded: BTreeSet<&str> = queue.iter().copied().collect();
    while let Some(path) = queue.pop() {
        let module = by_path[path];
        for import in module.python.imports() {
            if !is_certain(&module.python, &import) {
                continue;
            }
            let up = import.dots.saturating_sub(1);
            let Some(left) = module.package.len().checked_sub(up).filter(|_| import.dots > 0) else {
                continue;
            };
            let mut parts: Vec<&str> = module.package[..left].iter().map(String::as_str).collect();
            parts.extend(import.module.split('.').filter(|part| !part.is_empty()));
            // All parent packages, the module, and imported names that are modules.
            let mut targets: Vec<Vec<&str>> = (0..=parts.len()).map(|end| parts[..end].to_vec()).collect();
            for one in import.names.iter().flatten() {
                let mut below = parts.clone();
                below.push(one);
                targets.push(below);
            }
            for target in targets {
                let base = [&[ext, name], target.as_slice()].concat().join("/");
                for file in [format!("{base}.py"), format!("{base}/__init__.py")] {
                    if let Some((path, _)) = by_path.get_key_value(file.as_str())
                        && loaded.insert(*path)
                    {
                        queue.push(*path);
                    }
                }
            }
        }
    }
    loaded
}

/// Whether an import always runs with its file: not in a function, `try`, `if` or a loop, but also in a class and a `with`.
fn is_certain(python: &Python, import: &Import) -> bool {
    let first = python.word(python.lines[import.line].tokens.start);
    let always = |head: &Line| matches!(python.words(head).next(), Some("with" | "class"));
    python.blocks(import.line).all(always) && !matches!(first, "try" | "if")
}

/// `if TYPE_CHECKING:` never runs.
fn is_for_types(python: &Python, import: &Import) -> bool {
    let has = |head: &Line, word: &str| python.words(head).any(|one| one == word);
    python.blocks(import.line).any(|head| has(head, "TYPE_CHECKING") && !has(head, "not"))
}

fn import_of(
    project: &Sources,
    name: &str,
    module: &Module,
    import: &Import,
    is_loaded: bool,
    findings: &mut Findings,
) {
    let text = &module.python.text;
    if import.dots > 0 {
        relative(project, name, module, import, is_loaded, findings);
        return;
    }
    let top = import.module.split('.').next().unwrap_or_default();
    if top == name {
        let message = format!(
            "`{}` is imported absolutely, and a kernel is loaded under a name of its own; import it relatively, \
             with `from .`",
            import.module
        );
        findings.add("python/absolute-import", text, &import.at, message);
        if import.names.is_some() && text.exact {
            findings.fix_with(relative_edit(name, module, import));
        }
        return;
    }
    if is_allowed(project, top) || !is_certain(&module.python, import) {
        return;
    }
    // A sibling file imported as a top-level module, or a library of the same name.
    let own = text.path.rsplit('/').next().and_then(|file| file.strip_suffix(".py"));
    if own != Some(top) && is_module(project, name, &module.package, &[top]) {
        let message = format!(
            "`{top}` lies beside this file, and is looked for on Python's path; if it is meant, import it with \
             `from .`"
        );
        findings.add("python/absolute-import", text, &import.at, message);
        findings.unsure();
        return;
    }
    let message = format!(
        "`{top}` is neither of the standard library, nor torch, nor in python-depends, so the import fails where it \
         is not installed; do without it, or import it where it is needed"
    );
    findings.add("python/import-not-allowed", text, &import.at, message);
    // A file that is not imported by default harms only its importers, and NumPy is almost always installed.
    if !is_loaded || top == "numpy" {
        findings.unsure();
    }
}

/// `from pkg.sub import x` in `pkg/layers/__init__.py` becomes `from ..sub import x`.
fn relative_edit(name: &str, module: &Module, import: &Import) -> Edit {
    let rest = import.module.strip_prefix(name).unwrap_or_default();
    let dots = ".".repeat(module.package.len() + 1);
    let text = format!("{dots}{}", rest.strip_prefix('.').unwrap_or_default());
    Edit {
        path: module.python.text.path.clone(),
        at: import.at.clone(),
        what: format!("`from {}` is `from {text}`", import.module),
        text,
    }
}

/// Modules available wherever torch and `kernels` are: both, and their dependencies.
const THERE: [&str; 17] = [
    "torch",
    "triton",
    "kernels",
    "filelock",
    "fsspec",
    "huggingface_hub",
    "jinja2",
    "mpmath",
    "networkx",
    "packaging",
    "setuptools",
    "sympy",
    "tomlkit",
    "tqdm",
    "typing_extensions",
    "yaml",
    "__future__",
];

fn is_allowed(project: &Sources, top: &str) -> bool {
    let manifest = &project.manifest;
    let declared = manifest.python_depends.iter().flat_map(|(_, list)| &list.items).any(|word| {
        PYTHON_DEPENDS.iter().any(|(_, depends, modules)| *depends == word.value && modules.contains(&top))
    });
    let tvm = manifest.framework().is_some_and(|one| one.kind == Kind::TvmFfi);
    let tpu = manifest.backends.iter().flat_map(|list| &list.items).any(|word| word.value == "tpu");
    declared
        || THERE.contains(&top)
        || super::is_stdlib_module(top)
        || tvm && top == "tvm_ffi"
        // TPU kernels use their framework, which cannot be declared as a dependency.
        || tpu && matches!(top, "jax" | "torch_tpu")
}

/// Whether the package has a module: a file, or a folder with Python files.
fn is_module(project: &Sources, name: &str, package: &[String], parts: &[&str]) -> bool {
    let ext = project.ext.unwrap_or("torch-ext");
    let mut path = format!("{ext}/{name}");
    for part in package.iter().map(String::as_str).chain(parts.iter().copied()) {
        path = format!("{path}/{part}");
    }
    let folder = format!("{path}/");
    project.package_files.contains(&format!("{path}.py"))
        || project.package_files.contains(&format!("{path}.pyi"))
        || project.package_files.range(folder.clone()..).next().is_some_and(|file| file.starts_with(&folder))
}

fn relative(project: &Sources, name: &str, module: &Module, import: &Import, is_loaded: bool, findings: &mut Findings) {
    let python = &module.python;
    let tried = python.blocks(import.line).any(|head| python.word(head.tokens.start) == "try")
        || python.word(python.lines[import.line].tokens.start) == "try";
    let up = import.dots - 1;
    let Some(left) = module.package.len().checked_sub(up) else {
        let message = "the relative import leaves the package; use fewer dots";
        findings.add("python/missing-module", &python.text, &import.at, message);
        return;
    };
    let package = &module.package[..left];
    let is_ops = package.is_empty() && import.module == "_ops";
    if is_ops {
        if tried {
            let message = "the builder writes _ops.py, and a fallback hides that it is missing: ops would get a \
                           namespace of their own; import it without try";
            findings.add("python/ops-fallback", &python.text, &import.at, message);
        }
        return;
    }
    // An import inside `try` may fail.
    if tried {
        return;
    }
    let parts: Vec<&str> = import.module.split('.').filter(|part| !part.is_empty()).collect();
    // `from . import x` may refer to a name defined in __init__.py.
    if parts.is_empty() || is_module(project, name, package, &parts) {
        return;
    }
    let shown = format!("{}{}", ".".repeat(import.dots), import.module);
    let message = format!("there is no module `{shown}` in the package; write it, or correct the import");
    findings.add("python/missing-module", &python.text, &import.at, message);
    if !is_loaded || !is_certain(python, import) {
        findings.unsure();
    }
}
