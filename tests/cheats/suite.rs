//! `suite.toml`: the candidates, the findings that must catch them, and their projects.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use kernels::verify::Kind;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::support::hex;

/// The whole suite.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Suite {
    /// The table of tricks.
    pub row: Vec<Row>,
    /// Candidates that must be caught.
    pub cheat: Vec<Cheat>,
    /// Candidates that must pass, besides the twins.
    pub legal: Vec<Legal>,
}

/// One row of the table.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    pub number: u32,
    pub trick: String,
    /// Why no candidate can use the trick.
    pub why: Option<String>,
}

/// A candidate that must be caught.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cheat {
    pub name: String,
    pub rows: Vec<u32>,
    source: String,
    define: String,
    twin: Option<String>,
    #[serde(default)]
    pub command: Command,
    pub caught: Vec<Kind>,
    /// It may pass if it gained nothing.
    #[serde(default)]
    pub harmless: bool,
    #[serde(default = "f32_alone")]
    dtypes: Vec<String>,
    bytes: Option<String>,
}

/// A candidate that must pass.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Legal {
    pub name: String,
    pub source: String,
    pub define: String,
    #[serde(default)]
    pub command: Command,
    #[serde(default = "f32_alone")]
    dtypes: Vec<String>,
}

/// The command to run on a candidate.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, Ord, PartialEq, PartialOrd)]
#[serde(rename_all = "lowercase")]
pub enum Command {
    #[default]
    Verify,
    Bench,
}

/// A project that can be written to a folder.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct Candidate {
    pub source: String,
    pub define: Option<String>,
    pub dtypes: Vec<String>,
    pub bytes: Option<String>,
    /// Fewer rows, for a processor.
    pub small: bool,
}

/// What kernel.toml and the sources say of sizes, and what a processor gets, which runs the threads one after another.
const SMALLER: [[&str; 2]; 7] = [
    ["a.rows == 2048 && a.width == 1024", "a.rows == 20 && a.width == 32"],
    ["row == 1234", "row == 12"],
    ["rows = [1, 5]\nwidth = [1, 127, 1024, 5000]", "rows = 5\nwidth = [1, 127, 5000]"],
    ["rows = 66", "rows = 8"],
    ["rows = 3001\nwidth = 64", "rows = 2100\nwidth = 16"],
    ["rows = \"1..300\"", "rows = \"1..30\""],
    ["rows = 2048\nwidth = 1024", "rows = 20\nwidth = 32"],
];

const BYTES: &str = "(2 * rows * width + weight * width) * size(T)";

fn f32_alone() -> Vec<String> {
    vec!["f32".to_owned()]
}

/// `tests/cheats`.
pub fn folder() -> PathBuf {
    std::env::var_os("KERNELS_CHEATS")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cheats"), PathBuf::from)
}

fn file(name: &str) -> String {
    let path = folder().join(name);
    fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The names of all `.cu` files.
pub fn sources() -> Vec<String> {
    let name = |path: PathBuf| path.file_stem().unwrap().to_string_lossy().into_owned();
    let mut all: Vec<String> = fs::read_dir(folder().join("candidates"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "cu"))
        .map(name)
        .collect();
    all.sort();
    all
}

/// The defines that turn a `.cu` file into a cheat: the names in its preprocessor conditions.
pub fn defines(source: &str) -> BTreeSet<String> {
    let text = file(&format!("candidates/{source}.cu"));
    let set_inside: BTreeSet<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("#define "))
        .filter_map(|rest| rest.split([' ', '(']).next())
        .collect();
    let mut all = BTreeSet::new();
    for line in text.lines().filter(|line| line.starts_with('#')) {
        let words: Vec<&str> =
            line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| !word.is_empty()).collect();
        for pair in words.windows(2) {
            let asks = matches!(pair[0], "defined" | "ifdef" | "ifndef");
            if asks && !pair[1].starts_with("__") && !set_inside.contains(pair[1]) {
                all.insert(pair[1].to_owned());
            }
        }
    }
    // A condition that continues on the next line.
    for part in text.split("defined(").skip(1) {
        let word = part.split(')').next().unwrap();
        if !word.starts_with("__") {
            all.insert(word.to_owned());
        }
    }
    all
}

impl Suite {
    pub fn read() -> Self {
        toml::from_str(&file("suite.toml")).unwrap_or_else(|e| panic!("suite.toml: {e}"))
    }

    /// All projects, without duplicates.
    pub fn candidates(&self) -> BTreeSet<Candidate> {
        let of_cheat = |cheat: &Cheat| [cheat.candidate(), cheat.twin()];
        let mut all: BTreeSet<Candidate> = self.cheat.iter().flat_map(of_cheat).collect();
        all.extend(self.legal.iter().map(Legal::candidate));
        all
    }

    /// The generated page: the tricks and what catches them.
    pub fn to_markdown(&self) -> String {
        let mut page = String::from(
            "# Kernels that cheat, and kernels that do not\n\n\
             <!-- Written from suite.toml: UPDATE=1 cargo test --test cheats the_page -->\n\n\
             Every candidate is a small RMSNorm project, `candidates/SOURCE.cu`. One `#define` makes it a cheat; \
             without it (or with the twin's own) it is an honest twin. `kernels verify` and `kernels bench` must \
             report every cheat with one of the listed kinds of findings, and must report nothing for the twins. \
             *Or harmless* means that the candidate may also pass if it gained nothing: it has as many samples as \
             its twin, is no faster, changed no file, and got no access that the sandbox forbids (a candidate \
             with such access returns an error, which is not one of the listed kinds).\n\n\
             `cargo test --test cheats` runs the tests that need no GPU; on a machine with a GPU it also runs the \
             suite. `KERNELS_RECORD=evidence/harness-GPU.json` records the results, and a test that needs no GPU \
             compares the record with these files.\n\n\
             | row | trick | candidates |\n|---|---|---|\n",
        );
        for row in &self.row {
            let text = row.why.as_ref().map_or_else(
                || {
                    let of_row = |cheat: &&Cheat| cheat.rows.contains(&row.number);
                    let names: Vec<&str> = self.cheat.iter().filter(of_row).map(|cheat| cheat.name.as_str()).collect();
                    names.join("; ")
                },
                |why| format!("none. {why}"),
            );
            writeln!(page, "| {} | {} | {text} |", row.number, row.trick).unwrap();
        }
        page.push_str("\n## Cheats\n\n| candidate | source | command | caught as |\n|---|---|---|---|\n");
        for cheat in &self.cheat {
            let kinds: Vec<String> = cheat.caught.iter().map(|kind| kind_name(*kind)).collect();
            writeln!(
                page,
                "| {} | {} `{}` | {} | {}{} |",
                cheat.name,
                cheat.source,
                cheat.define,
                cheat.command.name(),
                kinds.join(", "),
                if cheat.harmless { ", or harmless" } else { "" },
            )
            .unwrap();
        }
        page.push_str(
            "\n## Difficult but honest\n\nThese candidates must pass, like the twins.\n\n\
             | candidate | source | command |\n|---|---|---|\n",
        );
        for legal in &self.legal {
            writeln!(page, "| {} | {} `{}` | {} |", legal.name, legal.source, legal.define, legal.command.name())
                .unwrap();
        }
        page
    }
}

/// A digest of all files that define the tests: the suite, the project files, the sources.
pub fn digest() -> String {
    let mut files: BTreeMap<String, String> =
        ["suite.toml", "build.toml", "kernel.toml"].iter().map(|name| ((*name).to_owned(), file(name))).collect();
    for name in sources()
        .iter()
        .map(|source| format!("candidates/{source}.cu"))
        .chain(HEADERS.iter().map(|name| format!("candidates/{name}")))
    {
        let text = file(&name);
        files.insert(name, text);
    }
    hash(&files)
}

/// A digest of the code that judges: the rooms that run launches and compare what they leave, without comments, tests and
/// visibility.
pub fn harness() -> String {
    let mut files = BTreeMap::new();
    for room in ["gpu", "verify", "bench", "oracle", "confine"] {
        let folder = folder().join("../../src").join(room);
        let entries = fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
        for path in entries.map(|entry| entry.unwrap().path()) {
            let text = fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]").next().unwrap_or_default().lines();
            let mut code: String = code.map(str::trim).filter(|line| !line.starts_with("//")).collect();
            // Visibility and the breaks of lines decide nothing.
            for word in ["pub(crate) ", "pub(super) ", "pub ", " ", ","] {
                code = code.replace(word, "");
            }
            files.insert(format!("{room}/{}", path.file_name().unwrap().to_string_lossy()), code);
        }
    }
    hash(&files)
}

/// A digest of files by name.
pub fn hash(files: &BTreeMap<String, String>) -> String {
    let mut hash = Sha256::new();
    for (name, text) in files {
        hash.update(format!("{name}\0{}\0{text}", text.len()));
    }
    hex(&hash.finalize())
}

const HEADERS: [&str; 2] = ["rms_norm.cuh", "half.cuh"];

impl Cheat {
    pub fn candidate(&self) -> Candidate {
        Candidate {
            source: self.source.clone(),
            define: Some(self.define.clone()),
            dtypes: self.dtypes.clone(),
            bytes: self.bytes.clone(),
            small: false,
        }
    }

    /// The same project without the cheat.
    pub fn twin(&self) -> Candidate {
        Candidate { define: self.twin.clone(), bytes: None, ..self.candidate() }
    }
}

impl Legal {
    pub fn candidate(&self) -> Candidate {
        Candidate {
            source: self.source.clone(),
            define: Some(self.define.clone()),
            dtypes: self.dtypes.clone(),
            bytes: None,
            small: false,
        }
    }
}

impl Command {
    pub fn name(self) -> &'static str {
        match self {
            Self::Verify => "verify",
            Self::Bench => "bench",
        }
    }
}

impl Candidate {
    /// The files of the project, by name.
    pub fn files(&self) -> BTreeMap<String, String> {
        let quoted: Vec<String> = self.dtypes.iter().map(|name| format!("\"{name}\"")).collect();
        let mut spec = file("kernel.toml")
            .replace("{dtypes}", &format!("[{}]", quoted.join(", ")))
            .replace("{bytes}", self.bytes.as_deref().unwrap_or(BYTES));
        let define = self.define.as_ref().map_or_else(String::new, |name| format!("#define {name}\n"));
        let mut source = file(&format!("candidates/{}.cu", self.source));
        for [from, to] in SMALLER.iter().filter(|_| self.small) {
            spec = spec.replace(from, to);
            source = source.replace(from, to);
        }
        let mut all = BTreeMap::from([
            ("build.toml".to_owned(), file("build.toml")),
            ("kernel.toml".to_owned(), spec),
            ("candidate.cu".to_owned(), format!("{define}{source}")),
        ]);
        for header in HEADERS {
            all.insert(header.to_owned(), file(&format!("candidates/{header}")));
        }
        all
    }

    /// Everything that defines its behaviour, in one text.
    pub fn text(&self) -> String {
        format!("{:?}", self.files())
    }

    /// The name of its folder.
    pub fn slug(&self) -> String {
        let define = self.define.as_deref().unwrap_or("honest").to_ascii_lowercase();
        let lie = if self.bytes.is_some() { "-bytes" } else { "" };
        format!("{}-{define}-{}{lie}", self.source, self.dtypes.join("-"))
    }

    /// Writes the project below a folder, and returns its path.
    pub fn write(&self, below: &Path) -> PathBuf {
        let folder = below.join(self.slug());
        fs::create_dir_all(&folder).unwrap();
        for (name, text) in self.files() {
            fs::write(folder.join(name), text).unwrap();
        }
        folder
    }

    /// The changes in the folder of a written project.
    pub fn changed(&self, folder: &Path) -> Vec<String> {
        self.files()
            .into_iter()
            .filter(|(name, text)| fs::read_to_string(folder.join(name)).ok().as_ref() != Some(text))
            .map(|(name, _)| name)
            .collect()
    }
}

/// A finding's kind as text.
pub fn kind_name(kind: Kind) -> String {
    let text = serde_json::to_value(kind).unwrap();
    text.as_str().unwrap().to_owned()
}
