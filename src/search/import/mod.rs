//! Import: torch modules as projects of which only the sources are to be written. A confined process describes each module
//! (`describe.py`); what torch itself computes in the task's type is judged as a candidate would be; the rest is text.

mod described;
mod own;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use walkdir::WalkDir;

use crate::against::{Describer, Interpreter};
use crate::base::disk;
use crate::project::Project;
use crate::verify::Choice;
use described::Described;

/// How long a module may take to be described.
const PATIENCE: Duration = Duration::from_secs(300);
/// Why there are no cases with NaN and infinity.
const FINITE: &str = "torch's own result in the task's type differs from its result in double precision where inputs are NaN or infinite";

/// A module that is to become a project.
#[derive(Clone, Debug)]
pub(crate) struct Module {
    /// The project's folder.
    pub(crate) name: String,
    pub(crate) operation: String,
    pub(crate) title: String,
    pub(crate) file: PathBuf,
    /// The arguments of `Model` and `get_inputs`.
    config: Value,
    /// Other values of some of them, for cases besides.
    more: Vec<Value>,
    license: Option<PathBuf>,
}

/// What became of a module.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Outcome {
    /// A project; torch's own result passes its verification.
    Verifies,
    /// The same, but the filters say that the task is worthless.
    Flagged,
    /// A project that torch's own result does not pass.
    TorchFails,
    /// No project.
    Unfit,
    /// Its folder is there already, and was not touched.
    Kept,
}

/// The report on a module; import.json of its project.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Imported {
    pub(crate) task: String,
    pub(crate) title: String,
    pub(crate) outcome: Outcome,
    /// Names with a sentence each: of the filters, or why it is no project, or what torch's own result fails.
    pub(crate) reasons: Vec<(String, String)>,
    /// What differs from the module.
    pub(crate) notes: Vec<(String, String)>,
    pub(crate) cases: u64,
    /// The largest error of torch's own result, in units of its budget.
    pub(crate) worst: f64,
    pub(crate) torch: String,
}

/// The tasks of a checkout of robust-kbench: folders with `func_forward.py` and `config_forward.json`. `only`: those whose
/// folder or title contains one of these.
pub(crate) fn robust_kbench(root: &Path, only: &[String]) -> Result<Vec<Module>> {
    let mut all = Vec::new();
    let license = Some(root.join("LICENSE")).filter(|path| path.is_file());
    for entry in WalkDir::new(root).sort_by_file_name() {
        let entry = entry.with_context(|| format!("cannot read {}", root.display()))?;
        let (folder, file) = (entry.path(), entry.path().join("func_forward.py"));
        if !entry.file_type().is_dir() || !file.is_file() || !folder.join("config_forward.json").is_file() {
            continue;
        }
        let module = from_folder(root, folder, file, license.clone())?;
        if only.is_empty() || only.iter().any(|text| module.name == *text || module.title.contains(text)) {
            all.push(module);
        }
    }
    if all.is_empty() {
        let which = if only.is_empty() { "" } else { " that --only names" };
        bail!("{} has no task{which}: folders with func_forward.py and config_forward.json", root.display());
    }
    all.sort_by_key(|module| natural(&module.name));
    Ok(all)
}

fn from_folder(root: &Path, folder: &Path, file: PathBuf, license: Option<PathBuf>) -> Result<Module> {
    let path = folder.join("config_forward.json");
    let text = disk::read_plain(&path, 1 << 20).with_context(|| format!("cannot read {}", path.display()))?;
    let configs: Map<String, Value> =
        serde_json::from_slice(&text).with_context(|| format!("cannot read {}", path.display()))?;
    let parts: Vec<String> =
        folder.strip_prefix(root)?.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    let parts = parts.into_iter().filter(|part| part != "tasks" && part != "kernelbench");
    let name = parts.collect::<Vec<_>>().join("-");
    // The module as KernelBench has it lies beside some, and has a name.
    let titled = fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path()));
    let title = titled
        .filter(|path| path.extension().is_some_and(|ending| ending == "py"))
        .filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned()))
        .find(|stem| stem.starts_with(|first: char| first.is_ascii_digit()))
        .map_or_else(|| name.clone(), |stem| stem.split_once('_').map_or(stem.clone(), |(_, rest)| rest.to_owned()));
    let of = |kind: &str| {
        let shared = ["shared", "input", "init"].map(|part| format!("{kind}_{part}_configs"));
        let lists = shared.map(|key| configs.get(&key).and_then(Value::as_array).cloned().unwrap_or_default());
        let mut all = vec![Map::new()];
        for list in lists.iter().filter(|list| !list.is_empty()) {
            let joined = |one: &Map<String, Value>, other: &Value| {
                let mut one = one.clone();
                one.extend(other.as_object().cloned().unwrap_or_default());
                one
            };
            all = all.iter().flat_map(|one| list.iter().map(|other| joined(one, other))).collect();
        }
        all.into_iter().map(Value::Object).collect::<Vec<_>>()
    };
    let config = of("single").swap_remove(0);
    Ok(Module {
        operation: identifier(&title),
        title: one_line(&title),
        name,
        file,
        config,
        more: of("multi"),
        license,
    })
}

/// A module of one's own. `shapes`: a TOML file with the arguments under `[bench]`, and others under each `[[verify]]`.
pub(crate) fn module(file: &Path, shapes: &Path) -> Result<Module> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Shapes {
        bench: Map<String, Value>,
        #[serde(default)]
        verify: Vec<Map<String, Value>>,
    }
    let text = fs::read_to_string(shapes).with_context(|| format!("cannot read {}", shapes.display()))?;
    let shapes: Shapes = toml::from_str(&text).with_context(|| {
        format!(
            "{}: write the arguments of Model and get_inputs under [bench], and other sizes under [[verify]]",
            shapes.display()
        )
    })?;
    if !file.is_file() {
        bail!("there is no file {}", file.display());
    }
    let title = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let more = shapes.verify.into_iter().map(Value::Object).collect();
    let name = identifier(&title);
    if name.len() < 2 {
        bail!("{}: a project cannot be named `{name}`: give the file a longer name, such as relu2.py", file.display());
    }
    let file = std::path::absolute(file)?;
    let config = Value::Object(shapes.bench);
    Ok(Module { operation: name.clone(), title: one_line(&title), name, file, config, more, license: None })
}

fn one_line(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(100).collect()
}

/// Numbers in a name count by their value.
fn natural(name: &str) -> Vec<(String, u64)> {
    let parts = name.split(['-', '_']);
    parts
        .map(|part| (part.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned(), part.parse().unwrap_or(0)))
        .collect()
}

/// A name in C, Python and kernel.toml.
fn identifier(text: &str) -> String {
    let mut name: String =
        text.to_ascii_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    while name.contains("__") {
        name = name.replace("__", "_");
    }
    let name = name.trim_matches('_').chars().take(48).collect::<String>();
    let name = name.trim_end_matches('_');
    if name.starts_with(|first: char| first.is_ascii_lowercase()) { name.to_owned() } else { format!("task_{name}") }
}

/// Describes modules, one after another.
pub(crate) struct Importer {
    python: Interpreter,
    describer: Option<Describer>,
    out: PathBuf,
    /// The seed of the cases by which torch's own result is judged.
    seed: u64,
}

impl Importer {
    pub(crate) fn new(python: Interpreter, out: &Path, seed: u64) -> Result<Self> {
        fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
        Ok(Self { python, describer: None, out: out.to_owned(), seed })
    }

    /// Makes a project of a module in a folder of its name.
    pub(crate) fn import(&mut self, module: &Module) -> Result<Imported> {
        let folder = self.out.join(&module.name);
        let mut imported = Imported {
            task: module.name.clone(),
            title: module.title.clone(),
            outcome: Outcome::Kept,
            reasons: Vec::new(),
            notes: Vec::new(),
            cases: 0,
            worst: 0.0,
            torch: String::new(),
        };
        if folder.exists() {
            return Ok(imported);
        }
        let mut described = match self.described(module)? {
            Ok(described) => described,
            Err(reason) => {
                imported.outcome = Outcome::Unfit;
                imported.reasons.push(reason);
                return Ok(imported);
            }
        };
        imported.torch.clone_from(&described.torch);
        let staging = tempfile::Builder::new().prefix(".import-").tempdir_in(&self.out)?;
        write(staging.path(), module, &described, None)?;
        let failures = match self.judge(staging.path(), module, &mut described, &mut imported) {
            Ok(failures) => failures,
            Err(why) => {
                imported.outcome = Outcome::Unfit;
                imported.reasons.push(("not-described".to_owned(), format!("{why:#}")));
                return Ok(imported);
            }
        };
        imported.notes.splice(0..0, described.notes.clone());
        imported.outcome = match (failures.is_empty(), described.flags.is_empty()) {
            (false, _) => Outcome::TorchFails,
            (true, false) => Outcome::Flagged,
            (true, true) => Outcome::Verifies,
        };
        imported.reasons = if failures.is_empty() { described.flags } else { failures };
        fs::write(staging.path().join("import.json"), serde_json::to_string_pretty(&imported)? + "\n")?;
        disk::move_new(&staging.keep(), &folder).with_context(|| format!("cannot make {}", folder.display()))?;
        Ok(imported)
    }

    /// The description, or why there is none.
    fn described(&mut self, module: &Module) -> Result<Result<Described, (String, String)>> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Answer {
            Unfit { unfit: (String, String) },
            Described(Box<Described>),
        }
        let request = json!({
            "file": module.file, "config": module.config, "more": module.more, "threads": crate::base::cores(),
        });
        let asked = match &mut self.describer {
            Some(describer) => describer.ask(&request, PATIENCE),
            None => self.describer.insert(Describer::start(&self.python)?).ask(&request, PATIENCE),
        };
        let line = match asked {
            Ok(line) => line,
            Err(why) => {
                // The next module gets a process of its own.
                self.describer = None;
                return Ok(Err(("not-described".to_owned(), format!("{why:#}"))));
            }
        };
        Ok(match serde_json::from_str(&line).context("reading what the process says of a module") {
            Ok(Answer::Described(described)) => Ok(*described),
            Ok(Answer::Unfit { unfit }) => Err(unfit),
            Err(why) => Err(("not-described".to_owned(), format!("{why:#}"))),
        })
    }

    /// What torch's own result fails. Kinds of inputs that it fails are taken out of the project, and noted.
    fn judge(
        &self,
        folder: &Path,
        module: &Module,
        described: &mut Described,
        imported: &mut Imported,
    ) -> Result<Vec<(String, String)>> {
        let run = |filter: Option<String>| -> Result<_> {
            let project = Project::open(folder)?;
            let operation = project.spec.operations.first().context("kernel.toml has no operation")?;
            own::verify(&project, operation, &Choice { filter, ..Choice::default() }, self.seed)
        };
        let mut verified = run(None)?;
        if !verified.findings.is_empty() {
            let kinds: Vec<String> = described.tables.iter().flat_map(|table| table.inputs.clone()).collect();
            let mut dropped = Vec::new();
            for kind in kinds.into_iter().chain(["non-finite".to_owned()]) {
                if !run(Some(format!(" {kind} ")))?.findings.is_empty()
                    || !run(Some(format!(": {kind} ")))?.findings.is_empty()
                {
                    dropped.push(kind);
                }
            }
            described.tables.iter_mut().for_each(|table| table.inputs.retain(|kind| !dropped.contains(kind)));
            described.tables.retain(|table| table.name != "values" || !table.inputs.is_empty());
            let finite_only = dropped.iter().any(|kind| kind == "non-finite").then_some(FINITE);
            write(folder, module, described, finite_only)?;
            verified = run(None)?;
            let said = |kind: &String| {
                let text = format!(
                    "inputs of the kind {kind} are left out: torch's own result is over its budget of errors there"
                );
                ("left-out".to_owned(), text)
            };
            imported.notes.extend(dropped.iter().map(said));
        }
        imported.cases = verified.report.cases;
        imported.worst = verified.worst;
        let mut failures: Vec<(String, String)> =
            verified.findings.iter().take(3).map(|finding| (finding.kind.name(), finding.message.clone())).collect();
        failures.extend(verified.unverified().map(|why| ("not-run".to_owned(), why.to_owned())));
        if verified.refused > 0 && verified.unverified().is_none() {
            failures.push(("refused".to_owned(), verified.refusal.unwrap_or_default()));
        }
        Ok(failures)
    }
}

/// Writes the project's files.
fn write(folder: &Path, module: &Module, described: &Described, finite_only: Option<&str>) -> Result<()> {
    let text = disk::read_plain(&module.file, 1 << 20);
    let text = text.with_context(|| format!("cannot read {}", module.file.display()))?;
    let source = String::from_utf8(text).with_context(|| format!("{} is not UTF-8", module.file.display()))?;
    let license = module.license.as_ref().map(fs::read_to_string).transpose()?;
    let is_apache = license.as_ref().is_some_and(|text| text.contains("Apache License"));
    let spdx = if is_apache { "Apache-2.0" } else { "other" };
    let operation = &module.operation;
    let mut files = vec![
        ("build.toml".to_owned(), described::build_toml(operation, spdx)),
        ("kernel.toml".to_owned(), described.kernel_toml(operation, &module.title, finite_only)),
        ("reference.py".to_owned(), format!("{}\n{}", source.trim_end(), described.function)),
        (format!("{operation}.cu"), described.source(operation, &module.title)),
    ];
    files.extend(license.map(|text| ("LICENSE".to_owned(), text)));
    for (name, text) in files {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
