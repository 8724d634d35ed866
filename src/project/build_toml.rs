//! `build.toml`, kernel-builder's file: edition 5, and the edition before it, which names none.
//!
//! Fields are checked as strictly as kernel-builder checks them, and their meaning more so: sources must exist.

use std::ops::Range;
use std::path::{Path, PathBuf};

use super::diagnostic::{Document, InvalidProject};
use super::path::{Wanted, inside};
use super::table::{Fields, Reader, Value};

/// What is needed of `build.toml`.
#[derive(Clone, Debug, PartialEq)]
pub struct BuildToml {
    /// `[general] name`.
    pub name: String,
    /// `[general] version`.
    pub version: Option<u64>,
    /// 5, or none for the edition before it.
    pub edition: Option<u64>,
    /// `[general] license`.
    pub license: Option<String>,
    /// The `.cu` files of every `[kernel.X]` with the cuda backend, in the file's order, relative to the project.
    pub sources: Vec<PathBuf>,
    /// Their include folders, relative to the project.
    pub includes: Vec<PathBuf>,
    /// Their flags for nvcc.
    pub cuda_flags: Vec<String>,
    /// Their `cuda-capabilities`, as written: `9.0`.
    pub capabilities: Vec<String>,
}

/// The edition that this binary reads besides the one without a number.
const EDITION: i64 = 5;

const BACKENDS: [&str; 8] = [
    "cann", "cpu", "cuda", "metal", "neuron", "rocm", "tpu", "xpu",
];

pub(super) fn read(document: &Document, root: &Path) -> Result<BuildToml, InvalidProject> {
    let reader = Reader::new(document);
    let build = reader
        .parse()
        .and_then(|table| whole(&reader, table.get_ref(), root));
    match build {
        Some(build) if reader.is_sound() => Ok(build),
        _ => Err(document.invalid(reader.into_problems())),
    }
}

fn whole(reader: &Reader<'_>, table: &toml::de::DeTable<'_>, root: &Path) -> Option<BuildToml> {
    let file = Fields::new(reader, "build.toml", table, 0..0);
    let general = file.required("general", "[general]");
    let mut build = general.and_then(|value| read_general(reader, value));
    if let Some(torch) = file.get("torch") {
        read_torch(reader, torch, root);
    }
    if let Some(value) = file.get("torch-noarch")
        && let Some(table) = reader.table(value, "a table")
    {
        Fields::new(reader, "[torch-noarch]", table, value.span()).finish();
    }
    if let Some(value) = file.get("tvm-ffi")
        && let Some(table) = reader.table(value, "a table")
    {
        let fields = Fields::new(reader, "[tvm-ffi]", table, value.span());
        for key in ["include", "pyext", "src"] {
            fields.get(key).map(|value| reader.strings(value));
        }
        fields.finish();
    }
    let kernels = file.required("kernel", "[kernel.my_kernel]");
    if let Some(value) = kernels
        && let Some(table) = reader.table(value, "tables such as [kernel.my_kernel]")
    {
        let mut tables: Vec<_> = table.iter().collect();
        tables.sort_by_key(|(key, _)| key.span().start);
        let mut flags: Option<(Vec<String>, Range<usize>)> = None;
        for (key, value) in tables {
            let name = format!("[kernel.{}]", key.get_ref());
            read_kernel(reader, &name, value, root, build.as_mut(), &mut flags);
        }
        if let Some(build) = &build
            && build.sources.is_empty()
            && reader.is_sound()
        {
            reader.fail(
                value.span(),
                "no [kernel.X] with backend = \"cuda\" has a .cu file: there is nothing to compile",
                ["add, for example: src = [\"my_kernel.cu\"]".to_owned()],
            );
        }
    }
    file.finish();
    build
}

fn read_general(reader: &Reader<'_>, value: &Value<'_>) -> Option<BuildToml> {
    let table = reader.table(value, "a table")?;
    let fields = Fields::new(reader, "[general]", table, value.span());
    let name = fields
        .required("name", "name = \"my-kernel\"")
        .and_then(|value| {
            let name = reader.string(value, "a string")?;
            if !is_kernel_name(name) {
                reader.fail(
                    value.span(),
                    format!("`{name}` is no kernel name"),
                    ["allowed: small letters, digits and hyphens; a letter first, no hyphen last, two characters at least".to_owned()],
                );
            }
            Some(name.to_owned())
        });
    let unsigned = |value| {
        reader
            .integer(value, 0, i64::from(u32::MAX))
            .map(i64::unsigned_abs)
    };
    let version = fields.get("version").and_then(unsigned);
    let edition = fields.get("edition").and_then(|value| {
        let edition = reader.integer(value, 0, i64::from(u32::MAX))?;
        if edition != EDITION {
            reader.fail(
                value.span(),
                format!("edition {edition} is not known"),
                [format!(
                    "this binary reads edition = {EDITION}, and the edition before it, which has no `edition`"
                )],
            );
        }
        Some(edition.unsigned_abs())
    });
    let license = fields
        .get("license")
        .and_then(|value| reader.string(value, "a string"))
        .map(str::to_owned);
    if let Some(value) = fields.required("backends", "backends = [\"cuda\"]") {
        let backends = reader.strings(value).unwrap_or_default();
        for (backend, span) in &backends {
            check_backend(reader, backend, span.clone());
        }
        if !backends.is_empty() && !backends.iter().any(|(backend, _)| backend == "cuda") {
            reader.fail(
                value.span(),
                "`backends` lacks \"cuda\", the one backend that this binary compiles",
                [],
            );
        }
    }
    for key in ["upstream", "source"] {
        fields
            .get(key)
            .map(|value| reader.string(value, "a string"));
    }
    read_depends(reader, &fields);
    for (key, what, versions, strings) in [
        ("cuda", "[general.cuda]", ["minver", "maxver"], None),
        (
            "hub",
            "[general.hub]",
            ["repo-id", "branch"],
            Some("a string"),
        ),
    ] {
        if let Some(value) = fields.get(key)
            && let Some(table) = reader.table(value, "a table")
        {
            let inner = Fields::new(reader, what, table, value.span());
            for key in versions {
                let Some(value) = inner.get(key) else {
                    continue;
                };
                let text = reader.string(value, strings.unwrap_or("a version such as \"13.0\""));
                if strings.is_none()
                    && let Some(text) = text
                {
                    check_version(reader, text, value.span());
                }
            }
            if key == "cuda" {
                read_depends(reader, &inner);
            }
            inner.finish();
        }
    }
    for key in ["neuron", "tpu", "xpu"] {
        if let Some(value) = fields.get(key)
            && let Some(table) = reader.table(value, "a table")
        {
            let inner = Fields::new(reader, format!("[general.{key}]"), table, value.span());
            read_depends(reader, &inner);
            inner.finish();
        }
    }
    fields.finish();
    Some(BuildToml {
        name: name?,
        version,
        edition,
        license,
        sources: Vec::new(),
        includes: Vec::new(),
        cuda_flags: Vec::new(),
        capabilities: Vec::new(),
    })
}

/// Other kernels and Python packages that the kernel needs.
fn read_depends(reader: &Reader<'_>, fields: &Fields<'_, '_, '_, '_>) {
    fields
        .get("kernel-depends")
        .map(|value| reader.list(value, "a list of tables"));
    fields
        .get("python-depends")
        .map(|value| reader.strings(value));
}

fn read_torch(reader: &Reader<'_>, value: &Value<'_>, root: &Path) {
    let Some(table) = reader.table(value, "a table") else {
        return;
    };
    let fields = Fields::new(reader, "[torch]", table, value.span());
    let sources = fields.get("src").and_then(|value| reader.strings(value));
    for (source, span) in sources.into_iter().flatten() {
        if let Err(message) = inside(root, &source, Wanted::File) {
            reader.fail(span, message, []);
        }
    }
    for key in ["include", "pyext", "cxx-flags"] {
        fields.get(key).map(|value| reader.strings(value));
    }
    for key in ["minver", "maxver"] {
        if let Some(value) = fields.get(key)
            && let Some(text) = reader.string(value, "a version such as \"2.11\"")
        {
            check_version(reader, text, value.span());
        }
    }
    if let Some(value) = fields.get("stable-abi") {
        read_stable_abi(reader, value);
    }
    fields.finish();
}

/// The oldest torch to run with, or a table with one for each backend. kernel-builder refuses `true`, as `kernels check`
/// says; nothing is compiled for torch here, so a project that has it is not kept from its card.
fn read_stable_abi(reader: &Reader<'_>, value: &Value<'_>) {
    const EXPECTED: &str = "a version such as \"2.11\", or a table with one for each backend";
    if value.get_ref().as_bool().is_some() {
        return;
    }
    if let Some(table) = value.get_ref().as_table() {
        for (backend, value) in table {
            check_backend(reader, backend.get_ref(), backend.span());
            if let Some(text) = reader.string(value, "a version such as \"2.11\"") {
                check_version(reader, text, value.span());
            }
        }
    } else if let Some(text) = reader.string(value, EXPECTED) {
        check_version(reader, text, value.span());
    }
}

fn read_kernel(
    reader: &Reader<'_>,
    name: &str,
    value: &Value<'_>,
    root: &Path,
    build: Option<&mut BuildToml>,
    flags: &mut Option<(Vec<String>, Range<usize>)>,
) {
    let Some(table) = reader.table(value, "a table") else {
        return;
    };
    let fields = Fields::new(reader, name, table, value.span());
    let backend = fields
        .required("backend", "backend = \"cuda\"")
        .and_then(|value| {
            let backend = reader.string(value, "a string")?;
            check_backend(reader, backend, value.span());
            Some(backend)
        });
    fields
        .required("depends", "depends = []")
        .map(|value| reader.strings(value));
    let sources = fields
        .required("src", "src = [\"my_kernel.cu\"]")
        .and_then(|value| reader.strings(value))
        .unwrap_or_default();
    let include = fields
        .get("include")
        .and_then(|value| reader.strings(value));
    fields.get("cxx-flags").map(|value| reader.strings(value));
    if backend != Some("cuda") {
        for key in ["rocm-archs", "hip-flags", "sycl-flags"] {
            fields.get(key).map(|value| reader.strings(value));
        }
        fields.finish();
        return;
    }
    let capabilities = fields
        .get("cuda-capabilities")
        .and_then(|value| reader.strings(value))
        .unwrap_or_default();
    for (capability, span) in &capabilities {
        if !is_capability(capability) {
            reader.fail(
                span.clone(),
                format!("`{capability}` is no compute capability"),
                ["write it with a point: \"9.0\", \"9.0a\", \"12.0\"".to_owned()],
            );
        }
    }
    let flags_value = fields.get("cuda-flags");
    let own: Vec<String> = flags_value
        .and_then(|value| reader.strings(value))
        .unwrap_or_default()
        .into_iter()
        .map(|(flag, _)| flag)
        .collect();
    if let Some(value) = fields.get("cuda-minver")
        && let Some(text) = reader.string(value, "a version such as \"13.0\"")
    {
        check_version(reader, text, value.span());
    }
    fields.finish();
    // All sources are linked into one object by one set of flags.
    match flags {
        Some((others, span)) if *others != own => {
            let line = reader.document.line_of(span.start);
            reader.fail(
                flags_value.map_or(value.span(), toml::Spanned::span),
                format!("`cuda-flags` of {name} differ from those of the kernel at line {line}"),
                ["all cuda kernels of a project are compiled with the same flags".to_owned()],
            );
        }
        Some(_) => {}
        None => {
            *flags = Some((
                own.clone(),
                flags_value.map_or(value.span(), toml::Spanned::span),
            ));
        }
    }
    let Some(build) = build else {
        return;
    };
    build.cuda_flags = own;
    for (capability, _) in capabilities {
        if !build.capabilities.contains(&capability) {
            build.capabilities.push(capability);
        }
    }
    for (source, span) in sources {
        match inside(root, &source, Wanted::File) {
            Ok(path) => match path.extension().and_then(|ending| ending.to_str()) {
                Some("cu") if build.sources.contains(&path) => {
                    reader.fail(span, format!("`{source}` is listed twice"), []);
                }
                Some("cu") => build.sources.push(path),
                Some("h" | "hh" | "hpp" | "cuh" | "inl") => {}
                _ => reader.fail(
                    span,
                    format!("`{source}` is neither a .cu file nor a header"),
                    [
                        "only .cu files are compiled here; C++ for torch goes into [torch] src"
                            .to_owned(),
                    ],
                ),
            },
            Err(message) => reader.fail(
                span,
                message,
                ["write the file, or take it out of `src`".to_owned()],
            ),
        }
    }
    for (folder, span) in include.into_iter().flatten() {
        match inside(root, &folder, Wanted::Folder) {
            Ok(path) if build.includes.contains(&path) => {}
            Ok(path) => build.includes.push(path),
            Err(message) => reader.fail(span, message, []),
        }
    }
}

fn check_backend(reader: &Reader<'_>, backend: &str, span: Range<usize>) {
    if !BACKENDS.contains(&backend) {
        reader.fail(
            span,
            format!("unknown backend `{backend}`"),
            [format!("allowed: {}", BACKENDS.join(", "))],
        );
    }
}

fn check_version(reader: &Reader<'_>, text: &str, span: Range<usize>) {
    let is_version = text
        .split('.')
        .all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()));
    if !is_version {
        reader.fail(
            span,
            format!("`{text}` is no version"),
            ["numbers with points between: \"13.0\"".to_owned()],
        );
    }
}

/// What kernel-builder takes as a project's name: `^[a-z][-a-z0-9]*[a-z0-9]$`.
pub(crate) fn is_kernel_name(name: &str) -> bool {
    name.len() >= 2
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && !name.ends_with('-')
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

fn is_capability(text: &str) -> bool {
    let digits = text.trim_end_matches(['a', 'f']);
    text.len() - digits.len() <= 1
        && digits.split_once('.').is_some_and(|(major, minor)| {
            (1..=2).contains(&major.len())
                && minor.len() == 1
                && major
                    .bytes()
                    .chain(minor.bytes())
                    .all(|byte| byte.is_ascii_digit())
        })
}
