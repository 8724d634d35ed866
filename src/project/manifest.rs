//! `build.toml` as it is written: every value with its place in the file, whatever is wrong with the rest.
//!
//! The one reader of kernel-builder's file, edition 5 and the one before it, which names none. `kernels build` refuses a
//! file with problems ([`super::build_toml`]); `kernels check` turns each problem into a finding.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;

use serde::Serialize;
use toml::de::DeTable;

use super::diagnostic::{Document, Problem};
use super::table::{Fields, Reader, Value};
use crate::base::arch::{Capability, EXISTING};

/// A string of the file, and its bytes, quotes included.
#[derive(Clone, Debug)]
pub(crate) struct Word {
    pub(crate) value: String,
    pub(crate) at: Range<usize>,
}

/// A list of strings, and its bytes, brackets included.
#[derive(Clone, Debug)]
pub(crate) struct Words {
    pub(crate) items: Vec<Word>,
    pub(crate) at: Range<usize>,
}

/// The whole file.
#[derive(Debug, Default)]
pub(crate) struct Manifest {
    pub(crate) name: Option<Word>,
    pub(crate) version: Option<u64>,
    pub(crate) license: Option<Word>,
    pub(crate) upstream: Option<Word>,
    pub(crate) source: Option<Word>,
    pub(crate) backends: Option<Words>,
    pub(crate) repo_id: Option<Word>,
    pub(crate) branch: Option<Word>,
    /// Python packages, by the backend that needs them; none: every backend.
    pub(crate) python_depends: Vec<(Option<&'static str>, Words)>,
    /// Other kernels, in the same way.
    pub(crate) kernel_depends: Vec<(Option<&'static str>, KernelDepend)>,
    /// `[general.cuda]` minver and maxver.
    pub(crate) cuda: VersionRange,
    /// Those that have a table, in the order of [`Kind::ALL`]. More than one is a problem.
    pub(crate) frameworks: Vec<Framework>,
    /// Every `[kernel.X]`, in the file's order.
    pub(crate) kernels: Vec<Kernel>,
    /// Where the first `[kernel.X]` stands; none: there is no `kernel`.
    pub(crate) kernels_at: Option<Range<usize>>,
    /// Behind which byte `edition` belongs, where the file has none.
    pub(crate) edition_after: Option<usize>,
}

/// The oldest and the newest version, both included.
#[derive(Clone, Debug, Default)]
pub(crate) struct VersionRange {
    pub(crate) low: Option<Word>,
    pub(crate) high: Option<Word>,
}

/// What binds the kernels to Python.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    Torch,
    Noarch,
    TvmFfi,
}

/// The table of what binds the kernels to Python.
#[derive(Clone, Debug)]
pub(crate) struct Framework {
    pub(crate) kind: Kind,
    pub(crate) src: Option<Words>,
    pub(crate) include: Option<Words>,
    pub(crate) pyext: Option<Words>,
    pub(crate) cxx_flags: Option<Words>,
    pub(crate) capabilities: Option<Words>,
    pub(crate) rocm_archs: Option<Words>,
    /// minver and maxver of torch.
    pub(crate) range: VersionRange,
    pub(crate) stable_abi: StableAbi,
}

/// The oldest torch to run with, of its stable ABI.
#[derive(Clone, Debug, Default)]
pub(crate) enum StableAbi {
    /// The build is tied to one torch.
    #[default]
    None,
    /// One for every backend.
    All(String),
    /// By backend.
    Of(BTreeMap<String, String>),
}

impl StableAbi {
    pub(crate) fn of(&self, backend: &str) -> Option<&str> {
        match self {
            Self::None => None,
            Self::All(version) => Some(version),
            Self::Of(versions) => versions.get(backend).map(String::as_str),
        }
    }
}

/// A `[kernel.X]`.
#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    pub name: Word,
    /// The whole table.
    pub(crate) at: Range<usize>,
    pub(crate) backend: Option<Word>,
    pub(crate) depends: Option<Words>,
    pub(crate) src: Option<Words>,
    pub(crate) include: Option<Words>,
    pub(crate) cxx_flags: Option<Words>,
    pub(crate) cuda_flags: Option<Words>,
    pub(crate) cuda_minver: Option<Word>,
    pub(crate) capabilities: Option<Words>,
    pub(crate) rocm_archs: Option<Words>,
}

/// A kernel that another one needs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct KernelDepend {
    /// owner/name.
    pub(crate) repo_id: String,
    /// Its version …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) version: Option<u64>,
    /// … or its revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) revision: Option<String>,
}

/// The edition that is read besides the one without a number.
const EDITION: i64 = 5;

/// Backends that a project may be built for.
const BACKENDS: [&str; 8] = ["cann", "cpu", "cuda", "metal", "neuron", "rocm", "tpu", "xpu"];
/// Backends that a `[kernel.X]` may have.
const COMPILED: [&str; 5] = ["cpu", "cuda", "metal", "rocm", "xpu"];

/// The rules of `kernels check` that a problem may break.
const SCHEMA: &str = "build-toml/schema";
const SYNTAX: &str = "build-toml/syntax";
const STABLE_ABI: &str = "build-toml/stable-abi";
const CAPABILITY: &str = "build-toml/capability";
const NAME: &str = "name/kernel";

/// Something wrong with the file.
#[derive(Debug)]
pub(crate) struct Fault {
    /// The rule of `kernels check`.
    pub(crate) rule: &'static str,
    pub(crate) problem: Problem,
    /// kernel-builder refuses it, and nothing that this program builds depends on it.
    pub(crate) tolerated: bool,
}

impl Fault {
    /// Whether a key or a value of the file is not of the form that it must have.
    pub(crate) fn is_of_form(&self) -> bool {
        [SCHEMA, SYNTAX, STABLE_ABI].contains(&self.rule)
    }
}

/// Reads the file, and finds everything that is wrong with its form.
pub(crate) fn read(document: &Document) -> (Manifest, Vec<Fault>) {
    let file = File { reader: Reader::new(document), faults: RefCell::default() };
    let mut manifest = Manifest::default();
    let table = file.reader.parse();
    let rule = if table.is_some() { SCHEMA } else { SYNTAX };
    if let Some(table) = &table {
        file.whole(table.get_ref(), &mut manifest);
    }
    let mut faults = file.faults.into_inner();
    let problems = file.reader.into_problems().into_iter();
    faults.extend(problems.map(|problem| Fault { rule, problem, tolerated: false }));
    (manifest, faults)
}

impl Manifest {
    /// What binds the kernels to Python, where that is one framework.
    pub(crate) fn framework(&self) -> Option<&Framework> {
        match &self.frameworks[..] {
            [one] => Some(one),
            _ => None,
        }
    }
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Torch, Self::Noarch, Self::TvmFfi];

    /// The table's name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Torch => "torch",
            Self::Noarch => "torch-noarch",
            Self::TvmFfi => "tvm-ffi",
        }
    }
}

impl Words {
    /// The strings themselves, of a list that may not be there.
    pub(crate) fn texts(list: Option<&Self>) -> Vec<String> {
        let items = list.into_iter().flat_map(|list| &list.items);
        items.map(|word| word.value.clone()).collect()
    }
}

/// The file being read.
struct File<'d> {
    reader: Reader<'d>,
    /// Those of a rule of their own, or tolerated.
    faults: RefCell<Vec<Fault>>,
}

impl File<'_> {
    fn fault(&self, rule: &'static str, span: Range<usize>, message: String, help: &str) {
        self.push(rule, span, message, help, false);
    }

    fn tolerate(&self, rule: &'static str, span: Range<usize>, message: &str, help: &str) {
        self.push(rule, span, message.to_owned(), help, true);
    }

    fn push(&self, rule: &'static str, span: Range<usize>, message: String, help: &str, tolerated: bool) {
        self.faults.borrow_mut().push(Fault {
            rule,
            problem: Problem { span, message, help: vec![help.to_owned()] },
            tolerated,
        });
    }

    fn whole(&self, table: &DeTable<'_>, manifest: &mut Manifest) {
        let fields = Fields::new(&self.reader, "build.toml", table, 0..0);
        if let Some(value) = fields.required("general", "[general]") {
            self.general(value, manifest);
        }
        let tables: Vec<_> = Kind::ALL.into_iter().filter_map(|kind| Some((kind, fields.get(kind.name())?))).collect();
        match &tables[..] {
            [] => self.tolerate(
                SCHEMA,
                0..0,
                "no framework",
                "add [torch], [torch-noarch] for Python alone, or [tvm-ffi]",
            ),
            [_] => {}
            [.., (_, second)] => self.tolerate(
                SCHEMA,
                second.span(),
                "a second framework",
                "keep one of [torch], [torch-noarch] and [tvm-ffi]",
            ),
        }
        let frameworks = tables.iter().filter_map(|(kind, value)| self.framework(*kind, value));
        manifest.frameworks = frameworks.collect();
        if let Some(value) = fields.get("kernel") {
            manifest.kernels_at = Some(value.span());
            let kernels = self.reader.table(value, "tables such as [kernel.my_kernel]");
            let mut kernels: Vec<_> = kernels.into_iter().flatten().collect();
            kernels.sort_by_key(|(key, _)| key.span().start);
            manifest.kernels = kernels
                .into_iter()
                .filter_map(|(key, value)| {
                    let name = Word { value: key.get_ref().to_string(), at: key.span() };
                    self.kernel(name, value)
                })
                .collect();
        }
        fields.finish();
    }

    fn general(&self, value: &Value<'_>, manifest: &mut Manifest) {
        let Some(table) = self.reader.table(value, "a table") else {
            return;
        };
        let fields = Fields::new(&self.reader, "[general]", table, value.span());
        fields.required("name", "name = \"my-kernel\"");
        manifest.name = self.word(&fields, "name");
        if let Some(name) = manifest.name.as_ref().filter(|name| !is_kernel_name(&name.value)) {
            self.fault(
                NAME,
                name.at.clone(),
                format!("`{}` is not a valid kernel name", name.value),
                "allowed: small letters, digits and hyphens; a letter first, no hyphen last, two characters at least",
            );
        }
        for (key, example) in [("version", "version = 1"), ("license", "license = \"Apache-2.0\"")] {
            if fields.get(key).is_none() {
                let message = format!("[general] lacks `{key}`");
                let help = format!("add, for example: {example}");
                self.tolerate(SCHEMA, value.span(), &message, &help);
            }
        }
        manifest.version = fields.get("version").and_then(|value| self.unsigned(value));
        manifest.license = self.word(&fields, "license");
        self.edition(&fields, manifest);
        manifest.upstream = self.word(&fields, "upstream");
        manifest.source = self.word(&fields, "source");
        fields.required("backends", "backends = [\"cuda\"]");
        manifest.backends = self.words(&fields, "backends");
        for backend in manifest.backends.iter().flat_map(|list| &list.items) {
            self.backend(backend, &BACKENDS, false);
        }
        self.depends(&fields, None, manifest);
        self.by_backend(&fields, manifest);
        if let Some(value) = fields.get("hub")
            && let Some(table) = self.reader.table(value, "a table")
        {
            let inner = Fields::new(&self.reader, "[general.hub]", table, value.span());
            manifest.repo_id = self.word(&inner, "repo-id");
            manifest.branch = self.word(&inner, "branch");
            inner.finish();
        }
        fields.finish();
    }

    /// `[general.cuda]` and its like.
    fn by_backend(&self, fields: &Fields<'_, '_, '_, '_>, manifest: &mut Manifest) {
        for backend in ["cuda", "neuron", "tpu", "xpu"] {
            if let Some(value) = fields.get(backend)
                && let Some(table) = self.reader.table(value, "a table")
            {
                let what = format!("[general.{backend}]");
                let inner = Fields::new(&self.reader, what, table, value.span());
                if backend == "cuda" {
                    manifest.cuda = self.range(&inner);
                }
                self.depends(&inner, Some(backend), manifest);
                inner.finish();
            }
        }
    }

    /// The edition; where it is missing, notes that it belongs behind `version`, else behind `name`.
    fn edition(&self, fields: &Fields<'_, '_, '_, '_>, manifest: &mut Manifest) {
        let Some(value) = fields.get("edition") else {
            let neighbour = fields.get("version").or_else(|| fields.get("name"));
            manifest.edition_after = neighbour.map(|value| value.span().end);
            return;
        };
        if let Some(edition) = self.reader.integer(value, 0, i64::from(u32::MAX))
            && edition != EDITION
        {
            self.fault(
                SCHEMA,
                value.span(),
                format!("edition {edition} is not known"),
                "write `edition = 5`, the one that kernel-builder reads",
            );
        }
    }

    fn depends(&self, fields: &Fields<'_, '_, '_, '_>, backend: Option<&'static str>, manifest: &mut Manifest) {
        let python = self.words(fields, "python-depends");
        manifest.python_depends.extend(python.map(|words| (backend, words)));
        let kernels = fields
            .get("kernel-depends")
            .and_then(|value| self.reader.list(value, "a list of tables"))
            .unwrap_or_default();
        let kernels = kernels.into_iter().filter_map(|value| self.kernel_depend(value));
        manifest.kernel_depends.extend(kernels.map(|kernel| (backend, kernel)));
    }

    fn kernel_depend(&self, value: &Value<'_>) -> Option<KernelDepend> {
        const EXAMPLE: &str = "{ repo-id = \"owner/name\", version = 1 }";
        let table = self.reader.table(value, EXAMPLE)?;
        let fields = Fields::new(&self.reader, "a kernel dependency", table, value.span());
        fields.required("repo-id", EXAMPLE);
        let repo_id = self.word(&fields, "repo-id");
        let version = fields.get("version").and_then(|value| self.unsigned(value));
        let revision = self.word(&fields, "revision");
        if version.is_some() == revision.is_some() {
            let message = "a kernel dependency has either `version` or `revision`".to_owned();
            self.fault(SCHEMA, value.span(), message, &format!("for example: {EXAMPLE}"));
        }
        fields.finish();
        Some(KernelDepend { repo_id: repo_id?.value, version, revision: revision.map(|revision| revision.value) })
    }

    fn framework(&self, kind: Kind, value: &Value<'_>) -> Option<Framework> {
        let table = self.reader.table(value, "a table")?;
        let fields = Fields::new(&self.reader, format!("[{}]", kind.name()), table, value.span());
        let mut framework = Framework {
            kind,
            src: None,
            include: None,
            pyext: self.words(&fields, "pyext"),
            cxx_flags: None,
            capabilities: None,
            rocm_archs: None,
            range: VersionRange::default(),
            stable_abi: StableAbi::None,
        };
        if kind == Kind::Noarch {
            // Without a hyphen, as kernel-builder spells these, and with it, as its pages do.
            let either = |a, b| self.words(&fields, a).or_else(|| self.words(&fields, b));
            framework.capabilities = either("cuda-capabilities", "cuda_capabilities");
            framework.rocm_archs = either("rocm-archs", "rocm_archs");
            self.capabilities(framework.capabilities.as_ref());
        } else {
            framework.src = self.words(&fields, "src");
            framework.include = self.words(&fields, "include");
            framework.cxx_flags = self.words(&fields, "cxx-flags");
        }
        if kind == Kind::Torch {
            framework.range = self.range(&fields);
            framework.stable_abi = self.stable_abi(&fields);
        }
        if kind == Kind::TvmFfi && framework.src.is_none() {
            self.tolerate(SCHEMA, value.span(), "[tvm-ffi] lacks `src`", "add the binding's files");
        }
        fields.finish();
        Some(framework)
    }

    fn stable_abi(&self, fields: &Fields<'_, '_, '_, '_>) -> StableAbi {
        const NEXT: &str =
            "write the oldest torch to run with, such as stable-abi = \"2.11\", or a table with one for each backend";
        let Some(value) = fields.get("stable-abi") else {
            return StableAbi::None;
        };
        if let Some(text) = value.get_ref().as_str()
            && is_version(text)
        {
            return StableAbi::All(text.to_owned());
        }
        let Some(table) = value.get_ref().as_table() else {
            let at = value.span();
            if value.get_ref().as_bool().is_some() {
                // What is not compiled for torch can do without it.
                self.tolerate(STABLE_ABI, at, "kernel-builder refuses a boolean as stable-abi", NEXT);
            } else {
                self.fault(STABLE_ABI, at, "no version of torch".to_owned(), NEXT);
            }
            return StableAbi::None;
        };
        let mut versions = BTreeMap::new();
        for (key, value) in table {
            let backend = key.get_ref().to_string();
            let version = value.get_ref().as_str().unwrap_or_default();
            if !BACKENDS.contains(&backend.as_str()) || !is_version(version) {
                let message = format!("`{backend} = …` is not a backend and a version of torch");
                self.fault(STABLE_ABI, key.span(), message, NEXT);
            }
            versions.insert(backend, version.to_owned());
        }
        StableAbi::Of(versions)
    }

    fn kernel(&self, name: Word, value: &Value<'_>) -> Option<Kernel> {
        let table = self.reader.table(value, "a table such as [kernel.my_kernel]")?;
        let what = format!("[kernel.{}]", name.value);
        let fields = Fields::new(&self.reader, what, table, value.span());
        fields.required("backend", "backend = \"cuda\"");
        fields.required("depends", "depends = []");
        fields.required("src", "src = [\"my_kernel.cu\"]");
        let mut kernel = Kernel {
            name,
            at: value.span(),
            backend: self.word(&fields, "backend"),
            depends: self.words(&fields, "depends"),
            src: self.words(&fields, "src"),
            include: self.words(&fields, "include"),
            cxx_flags: self.words(&fields, "cxx-flags"),
            cuda_flags: None,
            cuda_minver: None,
            capabilities: None,
            rocm_archs: None,
        };
        // Which other keys there may be depends on the backend.
        let Some(backend) = kernel.backend.clone() else {
            return Some(kernel);
        };
        self.backend(&backend, &COMPILED, true);
        match backend.value.as_str() {
            "cuda" => {
                kernel.cuda_flags = self.words(&fields, "cuda-flags");
                kernel.cuda_minver = self.version(&fields, "cuda-minver");
                kernel.capabilities = self.words(&fields, "cuda-capabilities");
                self.capabilities(kernel.capabilities.as_ref());
            }
            "rocm" => {
                kernel.rocm_archs = self.words(&fields, "rocm-archs");
                self.words(&fields, "hip-flags");
            }
            "xpu" => {
                self.words(&fields, "sycl-flags");
            }
            _ => {}
        }
        fields.finish();
        Some(kernel)
    }

    /// `tolerate`: what is a backend, but none that is compiled, is of no consequence here.
    fn backend(&self, backend: &Word, known: &[&str], tolerate: bool) {
        if !known.contains(&backend.value.as_str()) {
            let message = format!("unknown backend `{}`", backend.value);
            let tolerated = tolerate && BACKENDS.contains(&backend.value.as_str());
            let help = format!("allowed: {}", known.join(", "));
            self.push(SCHEMA, backend.at.clone(), message, &help, tolerated);
        }
    }

    fn capabilities(&self, list: Option<&Words>) {
        for word in list.into_iter().flat_map(|list| &list.items) {
            let known = Capability::parse(&word.value).map(|one| one.number);
            if known.is_none_or(|number| !EXISTING.contains(&number)) {
                self.fault(
                    CAPABILITY,
                    word.at.clone(),
                    format!("`{}` is not a compute capability", word.value),
                    "write one with a point: \"9.0\", \"9.0a\", \"12.0\", \"9.0+PTX\"",
                );
            }
        }
    }

    fn range(&self, fields: &Fields<'_, '_, '_, '_>) -> VersionRange {
        VersionRange { low: self.version(fields, "minver"), high: self.version(fields, "maxver") }
    }

    fn version(&self, fields: &Fields<'_, '_, '_, '_>, key: &'static str) -> Option<Word> {
        let word = self.word(fields, key)?;
        if !is_version(&word.value) {
            let message = format!("`{}` is not a version of two parts", word.value);
            self.fault(SCHEMA, word.at, message, "kernel-builder takes two numbers with a point between: \"13.0\"");
            return None;
        }
        Some(word)
    }

    fn unsigned(&self, value: &Value<'_>) -> Option<u64> {
        let number = self.reader.integer(value, 0, i64::from(u32::MAX))?;
        Some(number.unsigned_abs())
    }

    fn word(&self, fields: &Fields<'_, '_, '_, '_>, key: &'static str) -> Option<Word> {
        let value = fields.get(key)?;
        self.string(value)
    }

    fn string(&self, value: &Value<'_>) -> Option<Word> {
        Some(Word { value: self.reader.string(value, "a string")?.to_owned(), at: value.span() })
    }

    fn words(&self, fields: &Fields<'_, '_, '_, '_>, key: &'static str) -> Option<Words> {
        let value = fields.get(key)?;
        let items = self.reader.list(value, "a list of strings")?.into_iter();
        Some(Words { items: items.filter_map(|item| self.string(item)).collect(), at: value.span() })
    }
}

/// Whether kernel-builder takes it for a version: two numbers with a point between.
fn is_version(text: &str) -> bool {
    text.split('.').count() == 2 && numbers(text).is_some()
}

/// The numbers of a version, trailing zeros left out.
pub(crate) fn numbers(version: &str) -> Option<Vec<u64>> {
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let mut numbers =
        version.split('.').map(|part| part.parse().ok().filter(|_| digits(part))).collect::<Option<Vec<u64>>>()?;
    while numbers.last() == Some(&0) {
        numbers.pop();
    }
    Some(numbers)
}

/// What kernel-builder takes as a project's name: `^[a-z][-a-z0-9]*[a-z0-9]$`.
pub(crate) fn is_kernel_name(name: &str) -> bool {
    name.len() >= 2
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && !name.ends_with('-')
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::numbers;

    #[test]
    fn versions_are_numbers() {
        assert_eq!(numbers("2.10"), Some(vec![2, 10]));
        assert_eq!(numbers("13.0"), numbers("13"));
        for text in ["", "2.", "a", "2.x", "+2", "-1"] {
            assert_eq!(numbers(text), None, "{text}");
        }
    }
}
