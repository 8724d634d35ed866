//! Rules of build.toml's values, and of the names of things.

use super::finding::Edit;
use super::findings::Findings;
use super::load::Project;
use super::manifest::{Framework, Kind, Manifest, Words, version};
use crate::project::BUILD_TOML;
use crate::project::build_toml::is_kernel_name;

pub(super) fn check(project: &Project, findings: &mut Findings) {
    let manifest = &project.manifest;
    general(manifest, findings);
    backends(manifest, findings);
    for list in capabilities(manifest) {
        cuda_capabilities(manifest, list, findings);
    }
    for list in rocm(manifest) {
        rocm_archs(manifest, list, findings);
    }
    depends(manifest, findings);
    package(project, findings);
}

fn general(manifest: &Manifest, findings: &mut Findings) {
    let text = &manifest.text;
    if let Some(name) = &manifest.name
        && !is_kernel_name(&name.value)
    {
        let message = format!(
            "`{}` is no kernel name; use small letters, digits and hyphens, a letter first, no hyphen last, two at least",
            name.value
        );
        findings.add("name/kernel", text, &name.at, message);
    }
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
        // Behind a comment on that line, and with the file's own line ends.
        let line = text.content[at..]
            .find('\n')
            .map_or(text.content.len(), |end| at + end);
        let crlf = text.content[..line].ends_with('\r');
        let at = if crlf { line - 1 } else { line };
        if manifest.sound && text.exact {
            findings.mended_by(Edit {
                path: BUILD_TOML.to_owned(),
                at: at..at,
                text: format!("{}edition = 5", if crlf { "\r\n" } else { "\n" }),
                what: "wrote `edition = 5`".to_owned(),
            });
        }
    }
    for (what, low, high) in &manifest.ranges {
        if version(&low.value) > version(&high.value) {
            let message = format!(
                "{what}'s minver {} is above its maxver {}, which leaves nothing to build; swap or remove them",
                low.value, high.value
            );
            findings.add("build-toml/version-range", text, &low.at, message);
        }
    }
    if let Some(id) = &manifest.repo_id {
        let sound = id.value.split_once('/').is_some_and(|(owner, name)| {
            [owner, name].iter().all(|part| {
                !part.is_empty()
                    && part
                        .bytes()
                        .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
            })
        });
        if !sound {
            let message = format!(
                "`{}` is no repository of the Hub; write owner/name",
                id.value
            );
            findings.add("build-toml/repo-id", text, &id.at, message);
        }
    }
}

fn backends(manifest: &Manifest, findings: &mut Findings) {
    let text = &manifest.text;
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
    // A project of Python alone has no kernels, and one that begins may have none yet.
    if manifest.kernels.is_empty() {
        return;
    }
    for backend in &backends.items {
        let built = |kernel: &super::manifest::Kernel| {
            kernel
                .backend
                .as_ref()
                .is_none_or(|one| one.value == backend.value)
        };
        if !manifest.kernels.iter().any(built) {
            let message = format!(
                "no [kernel.X] is for `{}`: its variant would be built of the binding alone; add one, or take it out",
                backend.value
            );
            findings.add("build-toml/backend-mismatch", text, &backend.at, message);
        }
    }
}

fn capabilities(manifest: &Manifest) -> impl Iterator<Item = &Words> {
    let kernels = manifest
        .kernels
        .iter()
        .filter_map(|kernel| kernel.capabilities.as_ref());
    let framework = manifest
        .framework
        .as_ref()
        .and_then(|one: &Framework| one.capabilities.as_ref());
    kernels.chain(framework)
}

fn rocm(manifest: &Manifest) -> impl Iterator<Item = &Words> {
    let kernels = manifest
        .kernels
        .iter()
        .filter_map(|kernel| kernel.rocm_archs.as_ref());
    let framework = manifest
        .framework
        .as_ref()
        .and_then(|one: &Framework| one.rocm_archs.as_ref());
    kernels.chain(framework)
}

/// What NVIDIA has made since 5.0.
const EXISTING: [&str; 21] = [
    "5.0", "5.2", "5.3", "6.0", "6.1", "6.2", "7.0", "7.2", "7.5", "8.0", "8.6", "8.7", "8.8",
    "8.9", "9.0", "10.0", "10.1", "10.3", "11.0", "12.0", "12.1",
];

/// What kernel-builder compiles for.
const BUILT: [&str; 12] = [
    "7.0", "7.2", "7.5", "8.0", "8.6", "8.7", "8.9", "9.0", "10.0", "10.1", "11.0", "12.0",
];

fn cuda_capabilities(manifest: &Manifest, list: &Words, findings: &mut Findings) {
    let mut sound = true;
    for word in &list.items {
        if !EXISTING.contains(&bare(&word.value)) {
            sound = false;
            let message = format!(
                "`{}` is no compute capability; write one with a point, such as \"9.0\" or \"9.0a\"",
                word.value
            );
            findings.add("build-toml/capability", &manifest.text, &word.at, message);
        }
    }
    let built = |word: &super::manifest::Word| BUILT.contains(&bare(&word.value));
    if sound && !list.items.is_empty() && !list.items.iter().any(built) {
        let message = format!(
            "none of these is compiled by kernel-builder; add one of {}",
            BUILT.join(", ")
        );
        findings.add("build-toml/capability", &manifest.text, &list.at, message);
    }
}

/// Without `+PTX` and the letter of an architecture's own features.
fn bare(capability: &str) -> &str {
    let plain = capability.strip_suffix("+PTX").unwrap_or(capability);
    plain.strip_suffix(['a', 'f']).unwrap_or(plain)
}

fn rocm_archs(manifest: &Manifest, list: &Words, findings: &mut Findings) {
    for word in &list.items {
        let digits = word.value.strip_prefix("gfx").unwrap_or_default();
        let sound = matches!(digits.len(), 3 | 4)
            && digits
                .bytes()
                .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if !sound {
            let message = format!(
                "`{}` is no ROCm architecture; write one such as \"gfx942\"",
                word.value
            );
            findings.add("build-toml/capability", &manifest.text, &word.at, message);
        }
    }
}

/// What `depends` of a [kernel.X] may hold.
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

/// A backend or all, a dependency, and the modules that it brings.
type PythonDepends = (Option<&'static str>, &'static str, &'static [&'static str]);

/// What `python-depends` may hold.
pub(super) const PYTHON_DEPENDS: [PythonDepends; 6] = [
    (None, "einops", &["einops"]),
    (None, "helion", &["helion"]),
    (None, "tvm-ffi", &["tvm_ffi"]),
    // It depends on cuda-python and NumPy itself.
    (
        Some("cuda"),
        "nvidia-cutlass-dsl",
        &["cutlass", "cuda", "numpy"],
    ),
    (Some("neuron"), "nki", &["nki"]),
    (Some("xpu"), "onednn", &["onednn"]),
];

fn depends(manifest: &Manifest, findings: &mut Findings) {
    for kernel in &manifest.kernels {
        for word in kernel.depends.iter().flat_map(|list| &list.items) {
            if !DEPENDS.contains(&word.value.as_str()) {
                let message = format!(
                    "the builder has no `{}`; it has {}",
                    word.value,
                    DEPENDS.join(", ")
                );
                findings.add("depends/not-allowed", &manifest.text, &word.at, message);
            }
        }
    }
    for (backend, list) in &manifest.python_depends {
        for word in &list.items {
            let known = PYTHON_DEPENDS
                .iter()
                .any(|(of, name, _)| of == backend && *name == word.value);
            if !known {
                let allowed: Vec<_> = PYTHON_DEPENDS
                    .iter()
                    .filter(|(of, ..)| of == backend)
                    .map(|(_, name, _)| *name)
                    .collect();
                let message = format!(
                    "`{}` is no Python dependency that a kernel may have here; allowed: {}",
                    word.value,
                    if allowed.is_empty() {
                        "none".to_owned()
                    } else {
                        allowed.join(", ")
                    }
                );
                findings.add("depends/not-allowed", &manifest.text, &word.at, message);
            }
        }
    }
}

/// The Python package lies where the builder looks for it.
fn package(project: &Project, findings: &mut Findings) {
    let manifest = &project.manifest;
    let (Some(name), Some(framework)) = (&manifest.name, &manifest.framework) else {
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
    if !project
        .package_files
        .contains(&format!("{folder}/__init__.py"))
    {
        let other = other_package(project, ext, &python)
            .map(|other| format!("; there is {ext}/{other}: rename it, or the kernel"))
            .unwrap_or_default();
        let message = format!(
            "the kernel `{}` needs {folder}/__init__.py, its Python package{other}",
            name.value
        );
        findings.add("name/package", &manifest.text, &name.at, message);
    } else if project.root.join(&folder).join(&python).exists() {
        let message = format!(
            "{folder} holds another `{python}`, the layout of old builders, which this one refuses; move its files up"
        );
        findings.add("name/package", &manifest.text, &name.at, message);
    }
}

fn other_package(project: &Project, ext: &str, wanted: &str) -> Option<String> {
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
