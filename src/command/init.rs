//! `kernels init`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use serde_json::json;

use super::failure::Usage;
use crate::base::text::for_shell;
use crate::base::{bundle, plural};
use crate::cli::project::Init;
use crate::report::{Output, style};
use crate::scaffold::name::{NOBODY, check_owner};
use crate::scaffold::place::Destination;
use crate::scaffold::{Catalog, Family, Name, compose};

/// Writes a new project, or lists the available operations.
pub(crate) fn run(arguments: &Init, output: Output) -> Result<ExitCode> {
    let catalog = Catalog::embedded()?;
    if arguments.list {
        list(&catalog, output);
        return Ok(ExitCode::SUCCESS);
    }
    let usage = |text: String| anyhow::Error::new(Usage(text));
    let (name, operations) = name_and_operations(arguments, &catalog);
    let Some(name) = name else {
        return Err(usage("name the project: kernels init my-kernels --op rms_norm".to_owned()));
    };
    let name = Name::parse(name).map_err(|error| usage(error.to_string()))?;
    let owner = arguments.owner.as_deref().unwrap_or(NOBODY);
    check_owner(owner).map_err(|error| usage(error.to_string()))?;
    let choices = catalog.select(operations, &arguments.models).map_err(|error| usage(error.to_string()))?;
    if choices.is_empty() {
        return Err(usage(format!(
            "say what is to be in {name}: --op with some of {}, --op blank for a small kernel to start from, or --for {}; \
             `kernels init --list` says what each is",
            names(catalog.families.iter().flat_map(|family| family.operations.keys())),
            names(catalog.sets.iter().map(|set| &set.name)),
        )));
    }
    let dest = arguments.dest.clone().unwrap_or_else(|| PathBuf::from(name.as_str()));
    let place = Destination::find(&dest)?;
    let project = compose(&name, owner, &choices, &[])?;
    let message = format!("{name}, as kernels {} writes it", bundle::version());
    let placed = place.write(&project, !arguments.no_git, &message)?;
    for left in &placed.removed {
        output.note(format!("removed {}, which a run that was killed had left", left.display()));
    }
    output.line(format!(
        "{} {}",
        style::strong(place.path.display()),
        style::faint(format!(
            "{} files, {} of {}",
            project.files.len(),
            plural(project.operations.len(), "operation"),
            names(choices.iter().map(|choice| &choice.family.name)),
        ))
    ));
    output.line(format!("  {}", placed.git.sentence()));
    let go = format!("cd {}", for_shell(&dest));
    output.line(format!("next:\n  {go}"));
    for (command, what) in NEXT {
        output.line(format!("  {command:<24} {}", style::faint(what)));
    }
    output.json(&json!({
        "name": name.as_str(),
        "package": name.package(),
        "path": place.path.to_string_lossy(),
        "families": choices.iter().map(|choice| &choice.family.name).collect::<Vec<_>>(),
        "operations": project.operations,
        "files": project.files.keys().collect::<Vec<_>>(),
        "git": placed.git,
        "removed": placed.removed.iter().map(|path| path.to_string_lossy()).collect::<Vec<_>>(),
        "next": std::iter::once(go.as_str()).chain(NEXT.map(|(command, _)| command)).collect::<Vec<_>>(),
    }));
    Ok(ExitCode::SUCCESS)
}

/// clap reads `--op a b NAME` as three operations.
fn name_and_operations<'a>(arguments: &'a Init, catalog: &Catalog) -> (Option<&'a String>, &'a [String]) {
    match (&arguments.name, &arguments.op[..]) {
        (None, [operations @ .., last]) if !operations.is_empty() && !catalog.has_operation(last) => {
            (Some(last), operations)
        }
        (name, operations) => (name.as_ref(), operations),
    }
}

/// Next steps for a new project.
const NEXT: [(&str, &str); 5] = [
    ("kernels check", "what would fail on the Hub"),
    ("kernels build", "registers, spills, occupancy; needs nvcc and no card"),
    ("kernels build --torch", "what torch loads"),
    ("kernels verify", "right or wrong, on a card"),
    ("kernels bench", "how fast, beside a copy"),
];

fn names<'a>(names: impl Iterator<Item = &'a String>) -> String {
    names.map(String::as_str).collect::<Vec<_>>().join(", ")
}

fn list(catalog: &Catalog, output: Output) {
    output.line(style::strong("--op"));
    for family in &catalog.families {
        output.line(format!("  {:<21} {}", family.name, style::faint(&family.description)));
        for (name, what) in &family.operations {
            output.line(format!("    {name:<19} {what}"));
        }
        for name in &family.also {
            output.line(format!("    {name:<19} the same, to make your own"));
        }
    }
    output.line(style::strong("--for"));
    for set in &catalog.sets {
        let of = names(set.families.iter());
        output.line(format!("  {:<10} {of}", set.name));
        if !set.description.is_empty() {
            output.line(format!("  {:<10} {}", "", style::faint(&set.description)));
        }
    }
    let families: &[Family] = &catalog.families;
    output.json(&json!({ "families": families, "sets": catalog.sets }));
}
