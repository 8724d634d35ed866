//! Rules for the values of build.toml, and for names.

use super::finding::Edit;
use super::findings::Findings;
use super::load::Sources;
use super::text::Text;
use crate::base::arch::{Capability, KERNEL_BUILDER};
use crate::base::repo::Repo;
use crate::compile;
use crate::project::BUILD_TOML;
use crate::project::diagnostic::{Document, Problem};
use crate::project::manifest::{self, Fault, Kernel, Kind, Manifest, Words, is_kernel_name, numbers};

/// Reads the file and reports format errors. Also returns whether there were none.
pub(super) fn read(text: &Text, findings: &mut Findings) -> (Manifest, bool) {
    if !text.exact {
        let message = "not UTF-8, which TOML must be; save it as UTF-8";
        findings.add("build-toml/syntax", text, &(0..0), message);
        return (Manifest::default(), false);
    }
    let document = Document::new(BUILD_TOML.into(), text.content.clone());
    let (manifest, faults) = manifest::read(&document);
    for fault in &faults {
        let Problem { span, message, help } = &fault.problem;
        let parts: Vec<&str> = std::iter::once(message).chain(help).map(String::as_str).collect();
        findings.add(fault.rule, text, span, parts.join("; "));
    }
    (manifest, !faults.iter().any(Fault::is_of_form))
}

pub(super) fn check(project: &Sources, findings: &mut Findings) {
    general(project, findings);
    ranges(project, findings);
    repository(project, findings);
    backends(project, findings);
    architectures(project, findings);
    flags(project, findings);
    depends(project, findings);
    package(project, findings);
}

fn general(project: &Sources, findings: &mut Findings) {
    let (manifest, text) = (&project.manifest, &project.build);
    if let Some(license) = &manifest.license
        && license.value.trim().is_empty()
    {
        let message = "the license is empty; name the one of the sources, such as \"Apache-2.0\"";
        findings.add("build-toml/empty-license", text, &license.at, message);
    }
    if let Some(at) = manifest.edition_after {
        let message = "no `edition`, so this is read as the edition before 5, with a warning, and by no later builder; \
                       write `edition = 5`";
        findings.add("build-toml/edition", text, &(at..at), message);
        // After a comment on that line, with the file's line ending.
        let line = text.content[at..].find('\n').map_or(text.content.len(), |end| at + end);
        let crlf = text.content[..line].ends_with('\r');
        let at = if crlf { line - 1 } else { line };
        // A key of a [general] table, and of none written in another way.
        let begins = text.content[..at].rfind('\n').map_or(0, |end| end + 1);
        let key = text.content[begins..at].trim_start();
        let is_a_line = ["version", "name"]
            .iter()
            .any(|name| key.strip_prefix(name).is_some_and(|rest| rest.trim_start().starts_with('=')));
        if project.sound && text.exact && is_a_line {
            findings.fix_with(Edit {
                path: BUILD_TOML.to_owned(),
                at: at..at,
                text: format!("{}edition = 5", if crlf { "\r\n" } else { "\n" }),
                what: "wrote `edition = 5`".to_owned(),
            });
        }
    }
}

fn ranges(project: &Sources, findings: &mut Findings) {
    let manifest = &project.manifest;
    let torch = manifest.framework().map(|framework| ("torch", &framework.range));
    for (what, range) in std::iter::once(("CUDA", &manifest.cuda)).chain(torch) {
        if let (Some(low), Some(high)) = (&range.low, &range.high)
            && numbers(&low.value) > numbers(&high.value)
        {
            let message = format!(
                "{what}'s minver {} is above its maxver {}, which leaves nothing to build; swap or remove them",
                low.value, high.value
            );
            findings.add("build-toml/version-range", &project.build, &low.at, message);
        }
    }
}

fn repository(project: &Sources, findings: &mut Findings) {
    if let Some(id) = &project.manifest.repo_id {
        if id.value.parse::<Repo>().is_err() {
            let message = format!("`{}` is not a repository of the Hub; write owner/name", id.value);
            findings.add("build-toml/repo-id", &project.build, &id.at, message);
        } else if id.value.starts_with("your-name/") {
            let message =
                format!("`{}` is a placeholder; write your account or organisation on the Hub as the owner", id.value);
            findings.add("build-toml/placeholder-owner", &project.build, &id.at, message);
        }
    }
}

fn backends(project: &Sources, findings: &mut Findings) {
    let (manifest, text) = (&project.manifest, &project.build);
    let Some(backends) = &manifest.backends else {
        return;
    };
    if backends.items.is_empty() {
        let message = "no backend, so nothing is built; list those that the kernels are for, such as [\"cuda\"]";
        findings.add("build-toml/no-backends", text, &backends.at, message);
        return;
    }
    for kernel in &manifest.kernels {
        let Some(backend) = &kernel.backend else {
            continue;
        };
        if !backends.items.iter().any(|one| one.value == backend.value) {
            let message = format!(
                "[kernel.{}] is for `{}`, which `backends` lacks, so it is never built; add it there",
                kernel.name.value, backend.value
            );
            findings.add("build-toml/backend-mismatch", text, &backend.at, message);
        }
    }
    // A Python-only project has no kernels, and a new one may not have any yet.
    if manifest.kernels.is_empty() {
        return;
    }
    for backend in &backends.items {
        let built = |kernel: &Kernel| kernel.backend.as_ref().is_none_or(|one| one.value == backend.value);
        if !manifest.kernels.iter().any(built) {
            let message = format!(
                "no [kernel.X] is for `{}`: its variant would be built of the binding alone; add one, or take it out",
                backend.value
            );
            findings.add("build-toml/backend-mismatch", text, &backend.at, message);
        }
    }
}

fn architectures(project: &Sources, findings: &mut Findings) {
    let manifest = &project.manifest;
    let framework = manifest.framework();
    let kernels = manifest.kernels.iter();
    let lists = kernels.filter_map(|kernel| kernel.capabilities.as_ref());
    for list in lists.chain(framework.and_then(|one| one.capabilities.as_ref())) {
        if !cuda_capabilities(&project.build, list, findings) {
            newer_cards(&project.build, list, findings);
        }
    }
    let kernels = manifest.kernels.iter();
    let lists = kernels.filter_map(|kernel| kernel.rocm_archs.as_ref());
    for list in lists.chain(framework.and_then(|one| one.rocm_archs.as_ref())) {
        rocm_archs(&project.build, list, findings);
    }
}

/// At least one capability must be supported by kernel-builder. Malformed ones are reported by the reader. Whether it
/// found none.
fn cuda_capabilities(text: &Text, list: &Words, findings: &mut Findings) -> bool {
    let known = list.items.iter().filter_map(|word| Capability::parse(&word.value));
    let known: Vec<u32> = known.map(|capability| capability.number).collect();
    let built = known.iter().any(|number| KERNEL_BUILDER.contains(number));
    let none = known.len() == list.items.len() && !known.is_empty() && !built;
    if none {
        let all = KERNEL_BUILDER.map(|number| Capability::new(number).to_string());
        let message = format!("none of these is compiled by kernel-builder; add one of {}", all.join(", "));
        findings.add("build-toml/capability", text, &list.at, message);
    }
    none
}

/// Flags that `kernels` gives to no compiler.
fn flags(project: &Sources, findings: &mut Findings) {
    let mut check = |list: Option<&Words>, refused: fn(&[String]) -> Option<(usize, String)>| {
        let Some(list) = list else { return };
        if let Some((at, why)) = refused(&Words::texts(Some(list))) {
            let place = list.items.get(at).map_or(&list.at, |word| &word.at);
            findings.add("build-toml/flag", &project.build, place, why);
        }
    };
    let manifest = &project.manifest;
    let cuda = |kernel: &&Kernel| kernel.backend.as_ref().is_some_and(|backend| backend.value == "cuda");
    for kernel in manifest.kernels.iter().filter(cuda) {
        check(kernel.cuda_flags.as_ref(), compile::flags::refused);
        check(kernel.cxx_flags.as_ref(), compile::flags::refused_cxx);
    }
    check(manifest.framework().and_then(|one| one.cxx_flags.as_ref()), compile::flags::refused_cxx);
}

/// Some capability runs on all of Blackwell, by machine code or by PTX; a list with features of one architecture alone
/// (9.0a) is for that one on purpose.
fn newer_cards(text: &Text, list: &Words, findings: &mut Findings) {
    let known: Vec<Capability> = list.items.iter().filter_map(|word| Capability::parse(&word.value)).collect();
    let newer = |one: &Capability| one.number >= LAST_BLACKWELL || one.ptx || one.suffix.is_some();
    if let Some(newest) = known.iter().max()
        && !known.iter().any(newer)
    {
        let message = format!(
            "nothing here runs on a card newer than {newest}, Blackwell's 12.0 among them: leave the key out, or add \
             \"10.0\" and \"12.0+PTX\""
        );
        findings.add("build-toml/newer-cards", text, &list.at, message);
    }
}

fn rocm_archs(text: &Text, list: &Words, findings: &mut Findings) {
    for word in &list.items {
        let digits = word.value.strip_prefix("gfx").unwrap_or_default();
        let sound =
            matches!(digits.len(), 3 | 4) && digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if !sound {
            let message = format!("`{}` is not a ROCm architecture; write one such as \"gfx942\"", word.value);
            findings.add("build-toml/capability", text, &word.at, message);
        }
    }
}

const LAST_BLACKWELL: u32 = 120;

/// Valid entries of `depends` in a [kernel.X].
const DEPENDS: [&str; 11] = [
    "cutlass_2_10",
    "cutlass_3_5",
    "cutlass_3_6",
    "cutlass_3_8",
    "cutlass_3_9",
    "cutlass_4_0",
    "cutlass_4_4",
    "cutlass_4_5",
    "metal-cpp",
    "sycl_tla",
    "torch",
];

/// A backend (or all), a dependency, and the modules that it provides.
type PythonDepends = (Option<&'static str>, &'static str, &'static [&'static str]);

/// Valid entries of `python-depends`.
pub(super) const PYTHON_DEPENDS: [PythonDepends; 6] = [
    (None, "einops", &["einops"]),
    (None, "helion", &["helion"]),
    (None, "tvm-ffi", &["tvm_ffi"]),
    // It depends on cuda-python and NumPy.
    (Some("cuda"), "nvidia-cutlass-dsl", &["cutlass", "cuda", "numpy"]),
    (Some("neuron"), "nki", &["nki"]),
    (Some("xpu"), "onednn", &["onednn"]),
];

fn depends(project: &Sources, findings: &mut Findings) {
    let manifest = &project.manifest;
    for kernel in &manifest.kernels {
        for word in kernel.depends.iter().flat_map(|list| &list.items) {
            if !DEPENDS.contains(&word.value.as_str()) {
                let message = format!("the builder has no `{}`; it has {}", word.value, DEPENDS.join(", "));
                findings.add("depends/not-allowed", &project.build, &word.at, message);
            }
        }
    }
    for (backend, list) in &manifest.python_depends {
        for word in &list.items {
            let known = PYTHON_DEPENDS.iter().any(|(of, name, _)| of == backend && *name == word.value);
            if !known {
                let allowed: Vec<_> =
                    PYTHON_DEPENDS.iter().filter(|(of, ..)| of == backend).map(|(_, name, _)| *name).collect();
                let message = format!(
                    "`{}` is not a Python dependency that a kernel may have here; allowed: {}",
                    word.value,
                    if allowed.is_empty() { "none".to_owned() } else { allowed.join(", ") }
                );
                findings.add("depends/not-allowed", &project.build, &word.at, message);
            }
        }
    }
}

/// The Python package must be where the builder looks for it.
fn package(project: &Sources, findings: &mut Findings) {
    let manifest = &project.manifest;
    let (Some(name), Some(framework)) = (&manifest.name, manifest.framework()) else {
        return;
    };
    if !project.is_bound() || !is_kernel_name(&name.value) {
        return;
    }
    let python = name.value.replace('-', "_");
    let ext = match framework.kind {
        Kind::TvmFfi => "tvm-ffi-ext",
        Kind::Torch | Kind::Noarch => "torch-ext",
    };
    let folder = format!("{ext}/{python}");
    if !project.package_files.contains(&format!("{folder}/__init__.py")) {
        let other = other_package(project, ext, &python)
            .map(|other| format!("; there is {ext}/{other}: rename it, or the kernel"))
            .unwrap_or_default();
        let message = format!("the kernel `{}` needs {folder}/__init__.py, its Python package{other}", name.value);
        findings.add("name/package", &project.build, &name.at, message);
    } else if project.root.join(&folder).join(&python).exists() {
        let message = format!(
            "{folder} holds another `{python}`, the layout of old builders, which this one refuses; move its files up"
        );
        findings.add("name/package", &project.build, &name.at, message);
    }
}

fn other_package(project: &Sources, ext: &str, wanted: &str) -> Option<String> {
    let entries = std::fs::read_dir(project.root.join(ext)).ok()?;
    let mut names: Vec<String> = entries
        .flatten()
        .filter(|entry| entry.path().join("__init__.py").is_file())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name != wanted)
        .collect();
    names.sort();
    names.into_iter().next()
}
