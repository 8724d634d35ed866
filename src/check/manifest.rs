//! build.toml as it is written: every value with its place, whatever is wrong with the rest.
//!
//! The reader of `kernels build` refuses a file that it cannot compile; here every backend and framework is read, and
//! what is wrong becomes a finding.

use std::ops::Range;

use toml::de::{DeTable, DeValue};

use super::findings::Findings;
use super::text::Text;
use crate::project::BUILD_TOML;

/// A string of the file, and its bytes, quotes included.
#[derive(Clone, Debug)]
pub(super) struct Word {
    pub(super) value: String,
    pub(super) at: Range<usize>,
}

/// A list of strings, and its bytes, brackets included.
#[derive(Clone, Debug)]
pub(super) struct Words {
    pub(super) items: Vec<Word>,
    pub(super) at: Range<usize>,
}

/// What binds the kernels to Python.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    /// `[torch]`
    Torch,
    /// `[torch-noarch]`
    Noarch,
    /// `[tvm-ffi]`
    TvmFfi,
}

/// The framework's table.
#[derive(Clone, Debug)]
pub(super) struct Framework {
    pub(super) kind: Kind,
    pub(super) src: Option<Words>,
    pub(super) include: Option<Words>,
    pub(super) pyext: Option<Words>,
    pub(super) capabilities: Option<Words>,
    pub(super) rocm_archs: Option<Words>,
    /// The backends that are built with the stable ABI; none: not said, or wrong.
    pub(super) stable: StableAbi,
}

/// Which backends use torch's stable ABI.
#[derive(Clone, Debug, Default)]
pub(super) enum StableAbi {
    /// None of them.
    #[default]
    None,
    /// All of them.
    All,
    /// These.
    Some(Vec<String>),
}

impl StableAbi {
    pub(super) fn covers(&self, backend: &str) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Some(backends) => backends.iter().any(|one| one == backend),
        }
    }
}

/// A `[kernel.X]`.
#[derive(Clone, Debug)]
pub(super) struct Kernel {
    pub(super) name: Word,
    pub(super) backend: Option<Word>,
    pub(super) depends: Option<Words>,
    pub(super) src: Option<Words>,
    pub(super) include: Option<Words>,
    pub(super) capabilities: Option<Words>,
    pub(super) rocm_archs: Option<Words>,
}

/// The whole file.
#[derive(Debug)]
pub(super) struct Manifest {
    pub(super) text: Text,
    pub(super) name: Option<Word>,
    pub(super) license: Option<Word>,
    pub(super) backends: Option<Words>,
    pub(super) repo_id: Option<Word>,
    /// Lists of Python dependencies; of one backend, or of all.
    pub(super) python_depends: Vec<(Option<&'static str>, Words)>,
    /// Pairs of minver and maxver, and of what.
    pub(super) ranges: Vec<(&'static str, Word, Word)>,
    pub(super) framework: Option<Framework>,
    pub(super) kernels: Vec<Kernel>,
    /// Where an `edition` may be written: behind this byte, when the file has none.
    pub(super) edition_after: Option<usize>,
    /// Whether every key and type is as it should be.
    pub(super) sound: bool,
}

/// Backends that a project may be built for.
const BACKENDS: [&str; 8] = [
    "cann", "cpu", "cuda", "metal", "neuron", "rocm", "tpu", "xpu",
];
/// Backends that a `[kernel.X]` may have.
const COMPILED: [&str; 5] = ["cpu", "cuda", "metal", "rocm", "xpu"];

type Value<'t> = toml::Spanned<DeValue<'t>>;

struct Reader<'a> {
    text: &'a Text,
    /// How many bytes of the file stand before the text that was parsed: a byte-order mark.
    shift: usize,
    findings: &'a mut Findings,
    sound: bool,
}

/// Reads the file; what is wrong with its form is found on the way.
pub(super) fn read(text: Text, findings: &mut Findings) -> Manifest {
    let mut manifest = Manifest {
        text,
        name: None,
        license: None,
        backends: None,
        repo_id: None,
        python_depends: Vec::new(),
        ranges: Vec::new(),
        framework: None,
        kernels: Vec::new(),
        edition_after: None,
        sound: false,
    };
    let text = std::mem::replace(
        &mut manifest.text,
        Text::new(BUILD_TOML.to_owned(), String::new(), true),
    );
    if text.exact {
        let shift = text.content.len() - text.content.trim_start_matches('\u{feff}').len();
        let mut reader = Reader {
            text: &text,
            shift,
            findings,
            sound: true,
        };
        let (table, errors) = DeTable::parse_recoverable(&text.content[shift..]);
        for error in &errors {
            let at = error.span().unwrap_or(0..0);
            reader.fail(
                "build-toml/syntax",
                at,
                format!("no TOML: {}", error.message()),
            );
        }
        if errors.is_empty() {
            reader.whole(table.get_ref(), &mut manifest);
        }
        manifest.sound = reader.sound;
    } else {
        findings.add(
            "build-toml/syntax",
            &text,
            &(0..0),
            "not UTF-8, which TOML must be; save it as UTF-8",
        );
    }
    manifest.text = text;
    manifest
}

impl Reader<'_> {
    fn fail(&mut self, rule: &str, at: Range<usize>, message: impl Into<String>) {
        let at = self.at(&at);
        self.findings.add(rule, self.text, &at, message);
        self.sound = false;
    }

    fn at(&self, at: &Range<usize>) -> Range<usize> {
        at.start + self.shift..at.end + self.shift
    }

    fn schema(&mut self, at: Range<usize>, message: impl Into<String>) {
        self.fail("build-toml/schema", at, message);
    }

    fn whole(&mut self, table: &DeTable<'_>, manifest: &mut Manifest) {
        let known = ["general", "kernel", "torch", "torch-noarch", "tvm-ffi"];
        self.unknown("build.toml", table, &known);
        match table.get("general") {
            Some(value) => self.general(value, manifest),
            None => self.schema(
                0..0,
                "build.toml lacks [general]; add it, with name, version, license and backends",
            ),
        }
        let frameworks: Vec<_> = table
            .iter()
            .filter_map(|(key, value)| {
                let kind = match key.get_ref().as_ref() {
                    "torch" => Kind::Torch,
                    "torch-noarch" => Kind::Noarch,
                    "tvm-ffi" => Kind::TvmFfi,
                    _ => return None,
                };
                Some((kind, key.span(), value))
            })
            .collect();
        match frameworks.as_slice() {
            [] => self.schema(
                0..0,
                "no framework; add [torch], [torch-noarch] for Python alone, or [tvm-ffi]",
            ),
            [(kind, _, value)] => manifest.framework = self.framework(*kind, value, manifest),
            [_, (_, span, _), ..] => self.schema(
                span.clone(),
                "a second framework; keep one of [torch], [torch-noarch] and [tvm-ffi]",
            ),
        }
        if let Some(value) = table.get("kernel")
            && let Some(kernels) = self.table(value, "[kernel.X] tables")
        {
            let mut all: Vec<_> = kernels.iter().collect();
            all.sort_by_key(|(key, _)| key.span().start);
            for (key, value) in all {
                let name = Word {
                    value: key.get_ref().to_string(),
                    at: self.at(&key.span()),
                };
                if let Some(kernel) = self.kernel(name, value) {
                    manifest.kernels.push(kernel);
                }
            }
        }
    }

    fn general(&mut self, value: &Value<'_>, manifest: &mut Manifest) {
        let Some(table) = self.table(value, "a table") else {
            return;
        };
        self.unknown(
            "[general]",
            table,
            &[
                "name",
                "version",
                "edition",
                "license",
                "upstream",
                "source",
                "backends",
                "cuda",
                "hub",
                "kernel-depends",
                "neuron",
                "python-depends",
                "tpu",
                "xpu",
            ],
        );
        for key in ["name", "version", "license", "backends"] {
            if !table.contains_key(key) {
                let at = value.span();
                self.schema(at, format!("[general] lacks `{key}`; add it"));
            }
        }
        manifest.name = self.word(table, "name");
        manifest.license = self.word(table, "license");
        manifest.backends = self.words(table, "backends");
        for backend in manifest.backends.iter().flat_map(|list| list.items.clone()) {
            self.backend(&backend, &BACKENDS);
        }
        self.integer(table, "version");
        self.edition(table, manifest);
        for key in ["upstream", "source"] {
            self.word(table, key);
        }
        self.python_depends(table, None, manifest);
        for (key, backend) in [
            ("cuda", "cuda"),
            ("neuron", "neuron"),
            ("tpu", "tpu"),
            ("xpu", "xpu"),
        ] {
            let Some(inner) = table
                .get(key)
                .and_then(|value| self.table(value, "a table"))
            else {
                continue;
            };
            let known: &[&str] = if key == "cuda" {
                &["minver", "maxver", "kernel-depends", "python-depends"]
            } else {
                &["kernel-depends", "python-depends"]
            };
            self.unknown(&format!("[general.{key}]"), inner, known);
            self.python_depends(inner, Some(backend), manifest);
            if key == "cuda" {
                self.range("CUDA", inner, manifest);
            }
        }
        if let Some(hub) = table
            .get("hub")
            .and_then(|value| self.table(value, "a table"))
        {
            self.unknown("[general.hub]", hub, &["repo-id", "branch"]);
            manifest.repo_id = self.word(hub, "repo-id");
            self.word(hub, "branch");
        }
    }

    /// Notes where a missing `edition` belongs: on the line behind the one of `version`, else of `name`.
    fn edition(&mut self, table: &DeTable<'_>, manifest: &mut Manifest) {
        match table.get("edition") {
            None => {
                let neighbour = table.get("version").or_else(|| table.get("name"));
                manifest.edition_after = neighbour.map(|value| self.at(&value.span()).end);
            }
            Some(value) => {
                let number = match value.get_ref() {
                    DeValue::Integer(integer) => {
                        i64::from_str_radix(integer.as_str(), integer.radix()).ok()
                    }
                    _ => None,
                };
                if number != Some(5) {
                    self.schema(
                        value.span(),
                        "the edition must be the number 5, the one that kernel-builder reads; write `edition = 5`",
                    );
                }
            }
        }
    }

    fn framework(
        &mut self,
        kind: Kind,
        value: &Value<'_>,
        manifest: &mut Manifest,
    ) -> Option<Framework> {
        let table = self.table(value, "a table")?;
        let (name, known): (_, &[&str]) = match kind {
            Kind::Torch => (
                "[torch]",
                &[
                    "include",
                    "minver",
                    "maxver",
                    "pyext",
                    "src",
                    "stable-abi",
                    "cxx-flags",
                ],
            ),
            // Without a hyphen, as kernel-builder spells the two of this table, and with it, as its pages do.
            Kind::Noarch => (
                "[torch-noarch]",
                &[
                    "pyext",
                    "cuda_capabilities",
                    "rocm_archs",
                    "cuda-capabilities",
                    "rocm-archs",
                ],
            ),
            Kind::TvmFfi => ("[tvm-ffi]", &["include", "pyext", "src", "cxx-flags"]),
        };
        self.unknown(name, table, known);
        if kind == Kind::TvmFfi && !table.contains_key("src") {
            self.schema(
                value.span(),
                "[tvm-ffi] lacks `src`; add the binding's files",
            );
        }
        self.words(table, "cxx-flags");
        if kind == Kind::Torch {
            self.range("torch", table, manifest);
        }
        let either =
            |reader: &mut Self, a, b| reader.words(table, a).or_else(|| reader.words(table, b));
        Some(Framework {
            kind,
            src: self.words(table, "src"),
            include: self.words(table, "include"),
            pyext: self.words(table, "pyext"),
            capabilities: either(self, "cuda-capabilities", "cuda_capabilities"),
            rocm_archs: either(self, "rocm-archs", "rocm_archs"),
            stable: self.stable_abi(table),
        })
    }

    fn stable_abi(&mut self, table: &DeTable<'_>) -> StableAbi {
        const NEXT: &str = "write the oldest torch to run with, such as stable-abi = \"2.11\"";
        let Some(value) = table.get("stable-abi") else {
            return StableAbi::None;
        };
        match value.get_ref() {
            DeValue::String(text) if version(text).is_some() => StableAbi::All,
            DeValue::Table(backends) => {
                for (key, value) in backends {
                    let text = value.get_ref().as_str();
                    if !BACKENDS.contains(&key.get_ref().as_ref())
                        || text.and_then(version).is_none()
                    {
                        let message = format!(
                            "`{} = …` is no backend and version of torch; {NEXT}",
                            key.get_ref()
                        );
                        self.fail("build-toml/stable-abi", key.span(), message);
                    }
                }
                StableAbi::Some(
                    backends
                        .keys()
                        .map(|key| key.get_ref().to_string())
                        .collect(),
                )
            }
            DeValue::Boolean(truth) => {
                let message = format!(
                    "kernel-builder takes a version here and refuses `{truth}`; {NEXT}, or remove the key"
                );
                self.fail("build-toml/stable-abi", value.span(), message);
                StableAbi::None
            }
            _ => {
                self.fail(
                    "build-toml/stable-abi",
                    value.span(),
                    format!("no version of torch; {NEXT}"),
                );
                StableAbi::None
            }
        }
    }

    fn kernel(&mut self, name: Word, value: &Value<'_>) -> Option<Kernel> {
        let table = self.table(value, "a table such as [kernel.my_kernel]")?;
        let what = format!("[kernel.{}]", name.value);
        let backend = self.word(table, "backend");
        let extra: &[&str] = match backend.as_ref().map(|word| word.value.as_str()) {
            Some("cuda") => &["cuda-capabilities", "cuda-flags", "cuda-minver"],
            Some("rocm") => &["rocm-archs", "hip-flags"],
            Some("xpu") => &["sycl-flags"],
            _ => &[],
        };
        let known: Vec<&str> = ["backend", "cxx-flags", "depends", "include", "src"]
            .iter()
            .chain(extra)
            .copied()
            .collect();
        if let Some(backend) = &backend {
            self.backend(backend, &COMPILED);
            self.unknown(&what, table, &known);
        }
        for key in ["backend", "depends", "src"] {
            if !table.contains_key(key) {
                self.fail_at(
                    "build-toml/schema",
                    &name.at,
                    format!("{what} lacks `{key}`; add it"),
                );
            }
        }
        for key in ["cxx-flags", "cuda-flags", "hip-flags", "sycl-flags"] {
            self.words(table, key);
        }
        self.version(table, "cuda-minver");
        Some(Kernel {
            name,
            backend,
            depends: self.words(table, "depends"),
            src: self.words(table, "src"),
            include: self.words(table, "include"),
            capabilities: self.words(table, "cuda-capabilities"),
            rocm_archs: self.words(table, "rocm-archs"),
        })
    }

    fn fail_at(&mut self, rule: &str, at: &Range<usize>, message: String) {
        self.findings.add(rule, self.text, at, message);
        self.sound = false;
    }

    fn backend(&mut self, backend: &Word, known: &[&str]) {
        if !known.contains(&backend.value.as_str()) {
            let message = format!(
                "unknown backend `{}`; one of {}",
                backend.value,
                known.join(", ")
            );
            self.fail_at("build-toml/schema", &backend.at, message);
        }
    }

    fn python_depends(
        &mut self,
        table: &DeTable<'_>,
        backend: Option<&'static str>,
        manifest: &mut Manifest,
    ) {
        if let Some(words) = self.words(table, "python-depends") {
            manifest.python_depends.push((backend, words));
        }
    }

    fn range(&mut self, what: &'static str, table: &DeTable<'_>, manifest: &mut Manifest) {
        let (low, high) = (self.version(table, "minver"), self.version(table, "maxver"));
        if let (Some(low), Some(high)) = (low, high) {
            manifest.ranges.push((what, low, high));
        }
    }

    fn version(&mut self, table: &DeTable<'_>, key: &str) -> Option<Word> {
        let word = self.word(table, key)?;
        if version(&word.value).is_none() {
            let message = format!(
                "`{}` is no version; write numbers with points between, \"13.0\"",
                word.value
            );
            self.fail_at("build-toml/schema", &word.at, message);
            return None;
        }
        Some(word)
    }

    fn integer(&mut self, table: &DeTable<'_>, key: &str) {
        if let Some(value) = table.get(key) {
            let is = matches!(value.get_ref(), DeValue::Integer(number) if !number.as_str().starts_with('-'));
            if !is {
                self.schema(
                    value.span(),
                    format!("`{key}` must be a whole number, not below 0; write one"),
                );
            }
        }
    }

    fn word(&mut self, table: &DeTable<'_>, key: &str) -> Option<Word> {
        let value = table.get(key)?;
        let word = value.get_ref().as_str().map(|text| Word {
            value: text.to_owned(),
            at: self.at(&value.span()),
        });
        if word.is_none() {
            self.schema(
                value.span(),
                format!("`{key}` must be a string; put it in quotes"),
            );
        }
        word
    }

    fn words(&mut self, table: &DeTable<'_>, key: &str) -> Option<Words> {
        let value = table.get(key)?;
        let DeValue::Array(array) = value.get_ref() else {
            self.schema(
                value.span(),
                format!("`{key}` must be a list of strings; write {key} = [ … ]"),
            );
            return None;
        };
        let mut items = Vec::new();
        for item in array {
            match item.get_ref().as_str() {
                Some(text) => items.push(Word {
                    value: text.to_owned(),
                    at: self.at(&item.span()),
                }),
                None => self.schema(
                    item.span(),
                    format!("`{key}` holds strings alone; put this in quotes"),
                ),
            }
        }
        Some(Words {
            items,
            at: self.at(&value.span()),
        })
    }

    fn table<'v, 't>(&mut self, value: &'v Value<'t>, expected: &str) -> Option<&'v DeTable<'t>> {
        let table = value.get_ref().as_table();
        if table.is_none() {
            self.schema(
                value.span(),
                format!("expected {expected}; write it as one"),
            );
        }
        table
    }

    fn unknown(&mut self, what: &str, table: &DeTable<'_>, known: &[&str]) {
        let mut keys: Vec<_> = table.keys().collect();
        keys.sort_by_key(|key| key.span().start);
        for key in keys {
            if !known.contains(&key.get_ref().as_ref()) {
                let message = format!(
                    "unknown key `{}` in {what}, which kernel-builder refuses; allowed: {}",
                    key.get_ref(),
                    known.join(", ")
                );
                self.schema(key.span(), message);
            }
        }
    }
}

/// The numbers of a version, trailing zeros left out.
pub(super) fn version(text: &str) -> Option<Vec<u64>> {
    let mut numbers = text
        .split('.')
        .map(|part| {
            part.parse()
                .ok()
                .filter(|_| part.bytes().all(|byte| byte.is_ascii_digit()))
        })
        .collect::<Option<Vec<u64>>>()?;
    while numbers.last() == Some(&0) {
        numbers.pop();
    }
    Some(numbers)
}

/// The bytes of a TOML file's comments, without the `#`.
pub(super) fn comments(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(offset) = text[at..].find(['#', '"', '\'']) {
        at += offset;
        let rest = &text[at..];
        let line = rest.find('\n').unwrap_or(rest.len());
        if rest.starts_with('#') {
            found.push(at + 1..at + rest[..line].trim_end_matches('\r').len());
            at += line;
            continue;
        }
        let quote = &rest[..1];
        let triple = quote.repeat(3);
        let (open, close, end) = if rest.starts_with(&triple) {
            (3, triple.as_str(), rest.len())
        } else {
            (1, quote, line)
        };
        let mut inside = open;
        while inside < end && !rest[inside..].starts_with(close) {
            if quote == "\"" && rest[inside..].starts_with('\\') {
                inside += 1;
            }
            inside += rest[inside..].chars().next().map_or(1, char::len_utf8);
        }
        at = text.len().min(at + end.min(inside + close.len()).max(open));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_not_in_strings() {
        let text = "a = \"# no\" # one\r\nb = '''\n# no\n''' #two\nc = \"\\\"# no\"\nd = \"open # no\n#three";
        let found: Vec<_> = comments(text).into_iter().map(|at| &text[at]).collect();
        assert_eq!(found, [" one", "two", "three"]);
    }

    #[test]
    fn versions_are_numbers() {
        assert_eq!(version("2.10"), Some(vec![2, 10]));
        assert_eq!(version("13.0"), version("13"));
        for text in ["", "2.", "a", "2.x", "+2", "-1"] {
            assert_eq!(version(text), None, "{text}");
        }
    }
}
