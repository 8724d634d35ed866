//! What a project may be called: the rules of kernel-builder and of the Hub, and no name that would hide another Python
//! package.

use std::fmt;

use thiserror::Error;

use super::catalog::Catalog;
use crate::check::is_stdlib_module;
use crate::project::manifest::is_kernel_name;

/// The longest name that a repository on the Hub can have.
const LONGEST: usize = 96;

/// Python's keywords in small letters, the soft ones too.
const KEYWORDS: [&str; 35] = [
    "and", "as", "assert", "async", "await", "break", "case", "class", "continue", "def", "del", "elif", "else",
    "except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "match", "nonlocal", "not",
    "or", "pass", "raise", "return", "try", "type", "while", "with", "yield",
];

/// Names that the module of an operation, or its layers, import or give to something else.
pub(super) const NAMES: [&str; 9] =
    ["self", "ctx", "torch", "nn", "ops", "kernel", "call", "once_differentiable", "add_op_namespace_prefix"];

/// Packages that are imported beside a kernel wherever it is used.
const PACKAGES: [&str; 24] = [
    "torch",
    "torchvision",
    "torchaudio",
    "functorch",
    "triton",
    "numpy",
    "scipy",
    "pytest",
    "kernels",
    "kernel_abi_check",
    "transformers",
    "diffusers",
    "accelerate",
    "safetensors",
    "huggingface_hub",
    "cuda",
    "nvidia",
    "liger_kernel",
    "quack",
    "flash_attn",
    "setuptools",
    "pip",
    "wheel",
    "packaging",
];

/// Folders of the project that Python would take for the package in the tests, and that of the layers beside the package.
const FOLDERS: [&str; 4] = ["tests", "benchmarks", "build", "layers"];

/// A project's name, such as `ltx-video-kernels`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Name(String);

/// Why a text is not a valid name, with a suggestion.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub(crate) struct BadName(String);

impl Name {
    /// Checks a name.
    pub(crate) fn parse(text: &str) -> Result<Self, BadName> {
        let shown: String = text.chars().take(100).collect();
        let shown = format!("{shown:?}");
        if text.contains(['/', '\\']) || matches!(text, "." | "..") {
            return Err(BadName(format!(
                "{shown} is a path, and NAME is the project's name; --dest says where it goes"
            )));
        }
        if text.len() > LONGEST {
            return Err(BadName(format!(
                "{shown} has {} bytes; a repository's name on the Hub has {LONGEST} at most",
                text.len()
            )));
        }
        if !is_kernel_name(text) {
            let better = mended(text).map(|better| format!("; `{better}` would do")).unwrap_or_default();
            return Err(BadName(format!(
                "{shown} is not a valid kernel name: small letters, digits and hyphens, a letter first, no hyphen last, two characters at least{better}"
            )));
        }
        if text.contains("--") {
            return Err(BadName(format!(
                "{shown} has two hyphens in a row, which the Hub refuses in a repository's name"
            )));
        }
        let name = Self(text.to_owned());
        let package = name.package();
        let taken = if KEYWORDS.contains(&package.as_str()) {
            "is a keyword of Python"
        } else if is_stdlib_module(&package) {
            "is a module of Python's standard library, which it would hide"
        } else if PACKAGES.contains(&package.as_str()) {
            "is a package that kernels are used beside, which it would hide"
        } else if FOLDERS.contains(&package.as_str()) {
            "is a folder of every kernel project"
        } else {
            return Ok(name);
        };
        Err(BadName(format!(
            "{shown} cannot be the project's name: its Python package would be `{package}`, which {taken}; \
             `{text}-kernels` would do"
        )))
    }

    /// The name of its Python package, `ltx_video_kernels`.
    pub(crate) fn package(&self) -> String {
        self.0.replace('-', "_")
    }

    /// The name.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The default owner of a repository on the Hub. There is no such account, so nothing is uploaded to it by mistake.
pub(crate) const NOBODY: &str = "your-name";

/// Checks the name of a user or an organisation on the Hub.
pub(crate) fn check_owner(text: &str) -> Result<(), BadName> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let sound = !text.is_empty()
        && text.len() <= LONGEST
        && text.bytes().all(is_part)
        && text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text.ends_with(|last: char| last.is_ascii_alphanumeric())
        && !text.contains("--")
        && !text.contains("..");
    if sound {
        return Ok(());
    }
    let shown: String = text.chars().take(100).collect();
    Err(BadName(format!(
        "--owner {shown:?}: no name of a user or an organisation on the Hub; letters, digits, `-`, `_` and `.`"
    )))
}

/// Whether it is a word of Python that can be no name. A soft keyword, such as `type`, can be one.
pub(super) fn is_python(text: &str) -> bool {
    matches!(text, "True" | "False" | "None") || KEYWORDS.contains(&text) && !["case", "match", "type"].contains(&text)
}

/// The class of an operation's layer.
pub(super) fn class(name: &str) -> String {
    let capital = |part: &str| part[..1].to_uppercase() + &part[1..];
    name.split('_').filter(|part| !part.is_empty()).map(capital).collect()
}

/// Checks the name of an operation of the user's own, beside others of the project.
pub(crate) fn check_operation(text: &str, catalog: &Catalog, others: &[String]) -> Result<(), BadName> {
    let is_part = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    let shown: String = text.chars().take(100).collect();
    let layer = || class(text);
    let same = || others.iter().find(|other| class(other) == layer());
    let layers = || catalog.families.iter().find(|family| family.layers.contains(&layer()));
    let wrong = if text.len() > LONGEST
        || !text.starts_with(|first: char| first.is_ascii_lowercase())
        || !text.bytes().all(is_part)
        || text.ends_with('_')
        || text.contains("__")
    {
        "small letters, digits and single `_`, a letter first, no `_` last".to_owned()
    } else if text.ends_with("_backward") {
        "`_backward` is the gradient of another operation".to_owned()
    } else if KEYWORDS.contains(&text)
        || ["layers", "ops", "binding", "torch_binding", "package", "kernel"].contains(&text)
    {
        "a file of the project, or a word of Python, has it".to_owned()
    } else if NAMES.contains(&text) {
        "the module of an operation uses it for something else".to_owned()
    } else if is_python(&layer()) {
        format!("its layer would be the class `{}`, which is a word of Python", layer())
    } else if catalog.families.iter().any(|family| family.name == text) || catalog.has_operation(text) {
        "a bundled operation, or its file, has it; `kernels add` without --blank adds that".to_owned()
    } else if others.iter().any(|other| other == text) {
        "it is named twice".to_owned()
    } else if let Some(other) = same() {
        format!("its layer would be the class `{}`, as that of `{other}` is", layer())
    } else if let Some(family) = layers() {
        format!("its layer would be the class `{}`, as one of the bundled `{}` is", layer(), family.name)
    } else {
        return Ok(());
    };
    Err(BadName(format!("--blank {shown:?}: no name for an operation: {wrong}")))
}

/// The name that was most likely meant: in lower case, with hyphens for invalid characters.
fn mended(text: &str) -> Option<String> {
    let plain: String =
        text.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect();
    let parts: Vec<&str> = plain.split('-').filter(|part| !part.is_empty()).collect();
    let better = parts.join("-");
    // A name that lost most of its letters is not what was meant.
    let kept = better.len() * 2 > text.chars().count();
    (kept && better != text && Name::parse(&better).is_ok()).then_some(better)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_wrong_name_is_mended_where_that_is_clear() {
        for (text, better) in [
            ("My_Kernels", Some("my-kernels")),
            ("ltx video", Some("ltx-video")),
            ("norm-", Some("norm")),
            ("-", None),
            ("9lives", None),
            ("ядро", None),
            ("Torch", None),
            ("x", None),
        ] {
            assert_eq!(mended(text).as_deref(), better, "{text}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_accepted_is_a_module_that_python_can_import(text in "[a-z0-9_. /A-Z-]{0,12}") {
            if let Ok(name) = Name::parse(&text) {
                let package = name.package();
                prop_assert!(package.starts_with(|c: char| c.is_ascii_lowercase()));
                prop_assert!(package.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'));
                prop_assert!(!package.contains("__"));
            }
        }
    }
}
