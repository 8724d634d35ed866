//! The rules. Their ids never change; each has a page with rationale and fix.

use super::finding::Severity;

/// A rule.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// `group/name`.
    pub id: &'static str,
    /// The maximum severity of its findings.
    pub severity: Severity,
    /// The requirement, in one line.
    pub asks: &'static str,
    /// Whether `--fix` can fix its findings.
    pub fixable: bool,
    /// The page, in Markdown.
    pub page: &'static str,
}

macro_rules! rules {
    ($($severity:ident $group:literal $name:literal $fix:literal $asks:literal;)*) => {
        /// Every rule, by group. `docs/rules` has their pages.
        pub const RULES: &[Rule] = &[$(Rule {
            id: concat!($group, "/", $name),
            severity: Severity::$severity,
            asks: $asks,
            fixable: $fix,
            page: include_str!(concat!("../../docs/rules/", $group, "-", $name, ".md")),
        }),*];
    };
}

rules! {
    Error   "build-toml" "syntax" false "build.toml is TOML in UTF-8";
    Error   "build-toml" "schema" false "build.toml has the keys of edition 5, of the right types, and no others";
    Warning "build-toml" "edition" true "build.toml says `edition = 5`";
    Error   "build-toml" "empty-license" false "the license is named";
    Error   "build-toml" "no-backends" false "there is a backend to build for";
    Warning "build-toml" "backend-mismatch" false "backends and [kernel.X] sections agree";
    Error   "build-toml" "capability" false "architectures exist, and at least one of them is built";
    Error   "build-toml" "flag" false "flags choose how code is generated, and nothing else";
    Warning "build-toml" "newer-cards" false "a list of architectures has code or PTX for Blackwell";
    Error   "build-toml" "stable-abi" false "`stable-abi` is a version of torch, or one for each backend";
    Error   "build-toml" "version-range" false "minver is not above maxver";
    Error   "build-toml" "repo-id" false "`repo-id` is owner/name";
    Warning "build-toml" "placeholder-owner" false "`repo-id` names an owner of its own";
    Error   "name" "kernel" false "the name is small letters, digits and hyphens";
    Error   "name" "package" false "the Python package has the kernel's name and an __init__.py";
    Error   "depends" "not-allowed" false "dependencies are those that the builder knows";
    Error   "sources" "missing" false "every source and include folder that build.toml names can be read";
    Error   "sources" "outside" false "sources lie inside the project";
    Error   "sources" "unlisted" true "included headers of the project are listed in a `src`";
    Warning "sources" "extra" false "no source beside the listed ones is left out";
    Warning "sources" "data-not-shipped" false "data files of the package have an ending that `pyext` lists";
    Error   "torch" "pybind11" false "no pybind11";
    Error   "torch" "torch-extension-header" false "no <torch/extension.h>";
    Error   "torch" "fixed-namespace" false "ops are registered under the build's own namespace";
    Error   "torch" "no-register-extension" false "the binding has REGISTER_EXTENSION";
    Error   "torch" "full-abi-header" false "stable-ABI code includes stable headers only";
    Warning "torch" "no-fake" false "an op that returns tensors has a fake implementation";
    Warning "torch" "undeclared-mutation" false "an op that returns nothing says which tensors it writes";
    Error   "torch" "op-mismatch" false "every op is both defined and implemented";
    Error   "torch" "launcher-declaration" false "a function is declared as its source defines it";
    Error   "python" "absolute-import" true "the package imports its own modules relatively";
    Error   "python" "import-not-allowed" false "imports are the standard library, torch, or declared dependencies";
    Error   "python" "missing-module" false "relative imports name modules that are there";
    Error   "python" "setup-py" false "no hand-written setup.py";
    Error   "python" "fixed-namespace" false "ops are registered with add_op_namespace_prefix";
    Error   "python" "undeclared-namespace" false "ops are called through `ops` of ._ops";
    Error   "python" "unknown-op" false "called ops are defined";
    Warning "python" "ops-fallback" false "the import of ._ops has no fallback";
    Warning "python" "no-all" false "__init__.py lists its API in __all__";
    Error   "python" "all-undefined" false "what __all__ lists is there";
    Error   "python" "layer-state" false "layers have no constructor and no members of their own";
    Error   "cuda" "default-stream" false "launches name the caller's stream";
    Warning "cuda" "launch-unchecked" false "a failed launch is noticed";
    Error   "cuda" "dependent-wait" false "a kernel that may begin early waits for the one before it";
    Error   "cuda" "int32-index" false "an index up to a 64-bit count is 64 bits wide";
    Warning "cuda" "int32-count" false "numel() is not cut to 32 bits unchecked";
    Warning "cuda" "device-guard" false "a launch is on the device of its tensors";
    Error   "kernel-toml" "syntax" false "kernel.toml is TOML, with well-formed allows";
    Error   "kernel-toml" "schema" false "kernel.toml is right by itself: its keys, names and cases";
    Error   "kernel-toml" "launcher" false "launchers are there, and take what kernel.toml says";
    Error   "kernel-toml" "oracle" false "a Python oracle's file has its function";
    Warning "allow" "unused" false "an allow matches a finding";
    Error   "allow" "no-reason" false "an allow gives its reason";
    Error   "allow" "unknown-rule" false "an allow names a rule that there is";
}

/// Finds a rule by id.
pub(crate) fn find(id: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.id == id)
}
