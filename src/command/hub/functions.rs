//! `kernels hub verify --kernel-toml`: the functions of a variant, on the cases of a kernel.toml.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use crate::against::Interpreter;
use crate::against::functions::Functions;
use crate::base::plural;
use crate::cli::hub::Verify;
use crate::command::{prepare, verify};
use crate::gpu;
use crate::hub::name::{Name, System};
use crate::hub::variants::Kernel;
use crate::project::Project;
use crate::report::{Output, style};
use crate::verify::Choice;
use crate::verify::function::Given;
use crate::verify::random::fresh_seed;
use crate::verify::through::{self, Verified};

/// What a comparison of results cannot show.
const NOT_PROVED: &str = "results alone were compared: what computed them, memory beyond the tensors, the launcher's refusals \
                          and times were not";

pub(super) struct Harness {
    project: Project,
    python: Interpreter,
    choice: Choice,
}

impl Harness {
    /// `None` without --kernel-toml.
    pub(super) fn open(arguments: &Verify) -> Result<Option<Self>> {
        let Some(file) = &arguments.kernel_toml else { return Ok(None) };
        let choice = Choice {
            filter: arguments.filter.clone(),
            seed: Some(arguments.seed.unwrap_or_else(fresh_seed)),
            ordinal: arguments.device,
            ..Choice::default()
        };
        let project = Project::of_cases(file)?;
        let python = Interpreter::find(arguments.python.as_ref(), "--kernel-toml")?;
        Ok(Some(Self { project, python, choice }))
    }

    /// The variant that was named, else the one that the library would choose. A card that it needs must be there.
    pub(super) fn choose(&self, kernel: &Kernel, named: Option<&str>) -> Result<String> {
        let system = System::here(Some(&self.python.path));
        let fits = |name: &&Name| named.map_or_else(|| name.unsuitable(&system).is_none(), |named| name.text == named);
        let all = kernel.variants.iter().map(|variant| &variant.name);
        let Some(name) = all.filter(fits).max_by_key(|name| name.preference()) else {
            bail!(
                "{} has no variant whose functions could be run here; `kernels hub variants {}` says why",
                kernel.repo,
                kernel.repo
            );
        };
        self.card(name)?;
        Ok(name.text.clone())
    }

    /// The card on which a variant runs; `None` for the CPU.
    fn card(&self, name: &Name) -> Result<Option<usize>> {
        let ordinal = self.choice.ordinal;
        match name.backend() {
            "cpu" => Ok(None),
            "universal" => Ok(gpu::probe().is_ok().then_some(ordinal)),
            "cuda" => prepare::card(ordinal).map(|_| Some(ordinal)).with_context(|| name.text.clone()),
            other => bail!("{} is for {other}, whose functions are not run", name.text),
        }
    }

    /// Runs the functions of a variant, which lies in the folder `build` of `place`.
    pub(super) fn run(&self, place: &Path, name: &Name, output: Output) -> Result<Value> {
        let variant = place.join("build").join(&name.text);
        let mut functions = Functions::load(&self.python, place, &variant, self.card(name)?)?;
        let (seed, ready) = (self.choice.seed.unwrap_or_default(), &functions.ready);
        let on = format!("on {}, torch {}, library {}, seed {seed}", ready.device, ready.torch, ready.library);
        let held = format!("held: seccomp: no network; {}", ready.held);
        output.line(format!("  functions {on}"));
        output.line(style::faint(format!("    {held}")));
        let mut operations: Vec<Verified> = Vec::new();
        for operation in &self.project.spec.operations {
            let path = format!("{}, function", name.text);
            let call = &mut |given: &Given| functions.call(&self.project, given);
            let verified = through::verify((&self.project, operation), &self.choice, seed, &path, call)?;
            show(&verified, output);
            let lost = verified.lost;
            operations.push(verified);
            if lost {
                break;
            }
        }
        output.line(style::faint(format!("    {NOT_PROVED}")));
        let any = operations.iter().any(|one| one.calls > 0);
        if !any {
            output.error("  no function of it was verified");
        }
        let ok = any && operations.iter().all(|one| one.findings.is_empty());
        Ok(json!({"ok": ok, "seed": seed, "on": on, "held": held, "not_proved": NOT_PROVED, "operations": operations}))
    }
}

fn show(verified: &Verified, output: Output) {
    let Verified { report, .. } = verified;
    let operation = style::strong(&report.operation);
    if let Some(why) = verified.unverified() {
        output.line(format!("    {} {operation}: {why}", style::warning("not verified")));
        return;
    }
    output.line(format!(
        "    {operation}: {}, {} compared, oracle {}, largest error {:.2} of its budget",
        plural(report.cases, "case"),
        plural(report.elements, "element"),
        report.oracle,
        verified.worst
    ));
    if let Some(why) = &verified.refusal {
        output.line(format!(
            "    {} {operation}: it refuses {}, the first {why}",
            style::warning("remark"),
            plural(verified.refused, "case")
        ));
    }
    for finding in &verified.findings {
        verify::show_finding(finding, output);
    }
}
