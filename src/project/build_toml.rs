//! `build.toml`, kernel-builder's file: edition 5, and the edition before it, which names none.
//!
//! Fields are checked as strictly as kernel-builder checks them, and their meaning more so: sources must exist.

use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Serialize;

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
    /// `[general] upstream`.
    pub upstream: Option<String>,
    /// `[general] source`.
    pub source: Option<String>,
    /// `[general.cuda] minver` and `maxver`.
    pub cuda_range: Range<Option<String>>,
    /// Python packages that the kernel needs with CUDA.
    pub python_depends: Vec<String>,
    /// Other kernels that it needs with CUDA.
    pub kernel_depends: Vec<KernelDepend>,
    /// The frameworks that have a table: `torch`, `torch-noarch`, `tvm-ffi`.
    pub frameworks: Vec<&'static str>,
    /// `[torch]`.
    pub torch: Option<TorchTable>,
    /// Every `[kernel.X]` with the cuda backend, in the file's order.
    pub kernels: Vec<KernelTable>,
}

/// A kernel that another one needs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct KernelDepend {
    /// owner/name.
    pub repo_id: String,
    /// Its version …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// … or its revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
}

/// `[torch]`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TorchTable {
    /// Sources and headers of the binding, relative to the project.
    pub sources: Vec<PathBuf>,
    /// Include folders, relative to the project.
    pub includes: Vec<PathBuf>,
    /// Flags for the C++ compiler.
    pub cxx_flags: Vec<String>,
    /// Endings, besides `py`, of the package's files.
    pub endings: Vec<String>,
    /// The oldest and the newest torch to build with.
    pub range: Range<Option<String>>,
    /// The oldest torch to run with, of the stable ABI; none: tied to one torch.
    pub stable_abi: Option<String>,
}

/// `[kernel.X]` with the cuda backend.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KernelTable {
    /// X.
    pub name: String,
    /// Sources and headers, relative to the project.
    pub sources: Vec<PathBuf>,
    /// Include folders, relative to the project.
    pub includes: Vec<PathBuf>,
    /// `cuda-capabilities`, as written: `9.0`, `9.0a`, `9.0+PTX`.
    pub capabilities: Vec<String>,
    /// Flags for nvcc.
    pub cuda_flags: Vec<String>,
    /// Flags for the C++ compiler.
    pub cxx_flags: Vec<String>,
    /// The oldest CUDA that it is compiled with.
    pub cuda_minver: Option<String>,
    /// `depends`.
    pub depends: Vec<String>,
}

/// What build.toml is read for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Purpose {
    /// The harness: one set of flags, `.cu` files alone.
    Harness,
    /// A variant for torch: all that kernel-builder compiles.
    Torch,
}

/// The edition that this binary reads besides the one without a number.
const EDITION: i64 = 5;

const BACKENDS: [&str; 8] = [
    "cann", "cpu", "cuda", "metal", "neuron", "rocm", "tpu", "xpu",
];

pub(super) fn read(
    document: &Document,
    root: &Path,
    purpose: Purpose,
) -> Result<BuildToml, InvalidProject> {
    let reader = Reader::new(document);
    let build = reader
        .parse()
        .and_then(|table| whole(&reader, table.get_ref(), root, purpose));
    match build {
        Some(build) if reader.is_sound() => Ok(build),
        _ => Err(document.invalid(reader.into_problems())),
    }
}

fn whole(
    reader: &Reader<'_>,
    table: &toml::de::DeTable<'_>,
    root: &Path,
    purpose: Purpose,
) -> Option<BuildToml> {
    let file = Fields::new(reader, "build.toml", table, 0..0);
    let general = file.required("general", "[general]");
    let mut build = general.and_then(|value| read_general(reader, value));
    let torch = file.get("torch");
    let torch_table = torch.and_then(|value| read_torch(reader, value, root));
    let frameworks: Vec<&'static str> = ["torch", "torch-noarch", "tvm-ffi"]
        .into_iter()
        .filter(|name| table.contains_key(*name))
        .collect();
    if let Some(build) = &mut build {
        build.torch = torch_table;
        build.frameworks = frameworks;
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
    let kernels = match purpose {
        Purpose::Harness => file.required("kernel", "[kernel.my_kernel]"),
        Purpose::Torch => file.get("kernel"),
    };
    if let Some(value) = kernels
        && let Some(table) = reader.table(value, "tables such as [kernel.my_kernel]")
    {
        let mut tables: Vec<_> = table.iter().collect();
        tables.sort_by_key(|(key, _)| key.span().start);
        let mut flags: Option<(Vec<String>, Range<usize>)> = None;
        for (key, value) in tables {
            let name = format!("[kernel.{}]", key.get_ref());
            if let Some(mut kernel) = read_kernel(reader, &name, value, root, purpose) {
                kernel.name = key.get_ref().to_string();
                if purpose == Purpose::Harness {
                    same_flags(reader, &name, value, &kernel, &mut flags);
                }
                if let Some(build) = &mut build {
                    build.add(reader, value, kernel);
                }
            }
        }
        if purpose == Purpose::Harness
            && let Some(build) = &build
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
    let [upstream, source] = ["upstream", "source"].map(|key| {
        let value = fields.get(key)?;
        Some(reader.string(value, "a string")?.to_owned())
    });
    let (mut python_depends, mut kernel_depends) = read_depends(reader, &fields);
    let mut cuda_range = None..None;
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
            for inner_key in versions {
                let Some(value) = inner.get(inner_key) else {
                    continue;
                };
                let text = reader.string(value, strings.unwrap_or("a version such as \"13.0\""));
                if strings.is_none()
                    && let Some(text) = text
                {
                    check_version(reader, text, value.span());
                    let end = if inner_key == "minver" {
                        &mut cuda_range.start
                    } else {
                        &mut cuda_range.end
                    };
                    *end = Some(text.to_owned());
                }
            }
            if key == "cuda" {
                let (python, kernels) = read_depends(reader, &inner);
                python_depends.extend(python);
                kernel_depends.extend(kernels);
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
        upstream,
        source,
        cuda_range,
        python_depends,
        kernel_depends,
        frameworks: Vec::new(),
        torch: None,
        kernels: Vec::new(),
    })
}

/// Python packages and other kernels that the kernel needs.
fn read_depends(
    reader: &Reader<'_>,
    fields: &Fields<'_, '_, '_, '_>,
) -> (Vec<String>, Vec<KernelDepend>) {
    let kernels = fields
        .get("kernel-depends")
        .and_then(|value| reader.list(value, "a list of tables"))
        .unwrap_or_default()
        .into_iter()
        .filter_map(|value| read_kernel_depend(reader, value))
        .collect();
    let python = strings(reader, fields, "python-depends");
    (python, kernels)
}

fn read_kernel_depend(reader: &Reader<'_>, value: &Value<'_>) -> Option<KernelDepend> {
    const EXAMPLE: &str = "{ repo-id = \"owner/name\", version = 1 }";
    let table = reader.table(value, EXAMPLE)?;
    let fields = Fields::new(reader, "a kernel dependency", table, value.span());
    let repo_id = fields
        .required("repo-id", EXAMPLE)
        .and_then(|value| reader.string(value, "owner/name"));
    let version = fields
        .get("version")
        .and_then(|value| reader.integer(value, 0, i64::from(u32::MAX)));
    let revision = fields
        .get("revision")
        .and_then(|value| reader.string(value, "a string"));
    if version.is_some() == revision.is_some() {
        let message = "a kernel dependency has either `version` or `revision`";
        reader.fail(value.span(), message, [format!("for example: {EXAMPLE}")]);
    }
    fields.finish();
    Some(KernelDepend {
        repo_id: repo_id?.to_owned(),
        version: version.map(i64::unsigned_abs),
        revision: revision.map(str::to_owned),
    })
}

fn strings(reader: &Reader<'_>, fields: &Fields<'_, '_, '_, '_>, key: &'static str) -> Vec<String> {
    fields
        .get(key)
        .and_then(|value| reader.strings(value))
        .unwrap_or_default()
        .into_iter()
        .map(|(text, _)| text)
        .collect()
}

fn read_torch(reader: &Reader<'_>, value: &Value<'_>, root: &Path) -> Option<TorchTable> {
    let table = reader.table(value, "a table")?;
    let fields = Fields::new(reader, "[torch]", table, value.span());
    let mut torch = TorchTable::default();
    for (key, wanted, paths) in [
        ("src", Wanted::File, &mut torch.sources),
        ("include", Wanted::Folder, &mut torch.includes),
    ] {
        let named = fields.get(key).and_then(|value| reader.strings(value));
        for (name, span) in named.into_iter().flatten() {
            match inside(root, &name, wanted) {
                Ok(path) if paths.contains(&path) => {}
                Ok(path) => paths.push(path),
                Err(message) => reader.fail(span, message, []),
            }
        }
    }
    torch.endings = strings(reader, &fields, "pyext");
    torch.cxx_flags = strings(reader, &fields, "cxx-flags");
    for (key, end) in [
        ("minver", &mut torch.range.start),
        ("maxver", &mut torch.range.end),
    ] {
        if let Some(value) = fields.get(key)
            && let Some(text) = reader.string(value, "a version such as \"2.11\"")
        {
            check_version(reader, text, value.span());
            *end = Some(text.to_owned());
        }
    }
    torch.stable_abi = fields
        .get("stable-abi")
        .and_then(|value| read_stable_abi(reader, value));
    fields.finish();
    Some(torch)
}

/// The oldest torch to run with, or a table with one for each backend. kernel-builder refuses `true`, as `kernels check`
/// says; nothing is compiled for torch here, so a project that has it is not kept from its card.
fn read_stable_abi(reader: &Reader<'_>, value: &Value<'_>) -> Option<String> {
    const EXPECTED: &str = "a version such as \"2.11\", or a table with one for each backend";
    if value.get_ref().as_bool().is_some() {
        return None;
    }
    let mut cuda = None;
    if let Some(table) = value.get_ref().as_table() {
        for (backend, value) in table {
            check_backend(reader, backend.get_ref(), backend.span());
            if let Some(text) = reader.string(value, "a version such as \"2.11\"") {
                check_version(reader, text, value.span());
                if backend.get_ref() == "cuda" {
                    cuda = Some(text.to_owned());
                }
            }
        }
    } else if let Some(text) = reader.string(value, EXPECTED) {
        check_version(reader, text, value.span());
        cuda = Some(text.to_owned());
    }
    cuda
}

/// A `[kernel.X]`; none for another backend.
fn read_kernel(
    reader: &Reader<'_>,
    name: &str,
    value: &Value<'_>,
    root: &Path,
    purpose: Purpose,
) -> Option<KernelTable> {
    let table = reader.table(value, "a table")?;
    let fields = Fields::new(reader, name, table, value.span());
    let backend = fields
        .required("backend", "backend = \"cuda\"")
        .and_then(|value| {
            let backend = reader.string(value, "a string")?;
            check_backend(reader, backend, value.span());
            Some(backend)
        });
    let mut kernel = KernelTable::default();
    fields.required("depends", "depends = []");
    kernel.depends = strings(reader, &fields, "depends");
    let sources = fields
        .required("src", "src = [\"my_kernel.cu\"]")
        .and_then(|value| reader.strings(value))
        .unwrap_or_default();
    let include = fields
        .get("include")
        .and_then(|value| reader.strings(value));
    kernel.cxx_flags = strings(reader, &fields, "cxx-flags");
    if backend != Some("cuda") {
        for key in ["rocm-archs", "hip-flags", "sycl-flags"] {
            fields.get(key).map(|value| reader.strings(value));
        }
        fields.finish();
        return None;
    }
    let capabilities = fields
        .get("cuda-capabilities")
        .and_then(|value| reader.strings(value))
        .unwrap_or_default();
    for (capability, span) in capabilities {
        if !is_capability(&capability) {
            reader.fail(
                span,
                format!("`{capability}` is no compute capability"),
                ["write it with a point: \"9.0\", \"9.0a\", \"12.0\", \"9.0+PTX\"".to_owned()],
            );
        }
        kernel.capabilities.push(capability);
    }
    kernel.cuda_flags = strings(reader, &fields, "cuda-flags");
    if let Some(value) = fields.get("cuda-minver")
        && let Some(text) = reader.string(value, "a version such as \"13.0\"")
    {
        check_version(reader, text, value.span());
        kernel.cuda_minver = Some(text.to_owned());
    }
    fields.finish();
    for (source, span) in sources {
        match inside(root, &source, Wanted::File) {
            Ok(path) => match path.extension().and_then(|ending| ending.to_str()) {
                Some("cu") if kernel.sources.contains(&path) => {
                    reader.fail(span, format!("`{source}` is listed twice"), []);
                }
                Some("cu" | "h" | "hh" | "hpp" | "hxx" | "cuh" | "inl") => {
                    kernel.sources.push(path);
                }
                Some("cpp" | "cc" | "cxx") if purpose == Purpose::Torch => {
                    kernel.sources.push(path);
                }
                _ if purpose == Purpose::Torch => reader.fail(
                    span,
                    format!(
                        "`{source}` is neither a .cu file, nor C++ (.cpp, .cc, .cxx), nor a header"
                    ),
                    [],
                ),
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
            Ok(path) if kernel.includes.contains(&path) => {}
            Ok(path) => kernel.includes.push(path),
            Err(message) => reader.fail(span, message, []),
        }
    }
    Some(kernel)
}

/// The harness links all sources into one object by one set of flags.
fn same_flags(
    reader: &Reader<'_>,
    name: &str,
    value: &Value<'_>,
    kernel: &KernelTable,
    flags: &mut Option<(Vec<String>, Range<usize>)>,
) {
    let table = value.get_ref().as_table();
    let span = table
        .and_then(|table| table.get("cuda-flags"))
        .map_or(value.span(), toml::Spanned::span);
    match flags {
        Some((others, first)) if *others != kernel.cuda_flags => {
            let line = reader.document.line_of(first.start);
            reader.fail(
                span,
                format!("`cuda-flags` of {name} differ from those of the kernel at line {line}"),
                ["all cuda kernels of a project are compiled with the same flags".to_owned()],
            );
        }
        Some(_) => {}
        None => *flags = Some((kernel.cuda_flags.clone(), span)),
    }
}

impl BuildToml {
    /// Adds a kernel, and what of it counts for all.
    fn add(&mut self, reader: &Reader<'_>, value: &Value<'_>, kernel: KernelTable) {
        self.cuda_flags.clone_from(&kernel.cuda_flags);
        let is_cu = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "cu");
        for source in kernel.sources.iter().filter(|path| is_cu(path)) {
            if self.sources.contains(source) {
                let shown = source.display();
                reader.fail(value.span(), format!("`{shown}` is listed twice"), []);
            } else {
                self.sources.push(source.clone());
            }
        }
        for include in &kernel.includes {
            if !self.includes.contains(include) {
                self.includes.push(include.clone());
            }
        }
        for capability in &kernel.capabilities {
            if !self.capabilities.contains(capability) {
                self.capabilities.push(capability.clone());
            }
        }
        self.kernels.push(kernel);
    }

    /// The oldest compute capability that all of its kernels are for, without the point; 0 where none says.
    pub(super) fn oldest(&self) -> u32 {
        let number = |text: &String| {
            let digits = text.trim_end_matches("+PTX").trim_end_matches(['a', 'f']);
            digits.replace('.', "").parse().ok()
        };
        let oldest_of = |kernel: &KernelTable| kernel.capabilities.iter().filter_map(number).min();
        self.kernels.iter().filter_map(oldest_of).max().unwrap_or(0)
    }

    /// The name as Python writes it: the package's folder below `torch-ext`.
    pub fn python_name(&self) -> String {
        self.name.replace('-', "_")
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
    let text = text.strip_suffix("+PTX").unwrap_or(text);
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
