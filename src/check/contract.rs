//! Rules for kernel.toml against the sources: the launchers that it describes, and its oracles.

use std::fs;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::findings::Findings;
use super::load::Sources;
use super::prototype::{Kind, Prototype, defined};
use super::python::Python;
use super::text::Text;
use crate::base::text::nearest;
use crate::project::{Argument, CType, KERNEL_TOML, Operation, OracleRef, kernel_toml_problems};

pub(super) fn check(project: &Sources, findings: &mut Findings) {
    let path = project.root.join(KERNEL_TOML);
    let text = match Text::read_inside(&project.root, KERNEL_TOML) {
        Ok(text) if text.exact => text,
        // Reported with the allows that it may have, as is a file that cannot be read.
        Ok(_) => return,
        Err(error) => {
            if !path.is_file() && path.symlink_metadata().is_ok() {
                let message = format!("cannot be read ({error}); put a file there, or remove it");
                let nothing = Text::new(KERNEL_TOML.to_owned(), String::new(), true);
                findings.add("kernel-toml/syntax", &nothing, &(0..0), message);
            }
            return;
        }
    };
    // A file that only allows findings describes no launcher.
    let (table, errors) = DeTable::parse_recoverable(&text.content);
    let (Some(tables), true) = (table.get_ref().get("operation"), errors.is_empty()) else {
        return;
    };
    let (spec, problems) = kernel_toml_problems(&text.content, &project.root);
    for problem in &problems {
        let help = problem.help.first().map(|help| format!("; {help}")).unwrap_or_default();
        findings.add("kernel-toml/schema", &text, &problem.span, format!("{}{help}", problem.message));
    }
    let Some(spec) = spec.filter(|_| problems.is_empty()) else {
        return;
    };
    for (operation, table) in spec.operations.iter().zip(tables.get_ref().as_array().into_iter().flatten()) {
        let at = |key: &str| place(table, key);
        launcher(project, operation, &text, at("launcher"), at("arguments"), findings);
        oracle(project, operation, &text, &at("oracle"), findings);
    }
}

/// Where a key's value stands, or else the name of the operation.
fn place(table: &Spanned<DeValue<'_>>, key: &str) -> Range<usize> {
    let value = |key| table.get_ref().get(key).map(Spanned::span);
    value(key).or_else(|| value("name")).unwrap_or_else(|| table.span())
}

fn launcher(
    project: &Sources,
    operation: &Operation,
    text: &Text,
    name_at: Range<usize>,
    arguments_at: Range<usize>,
    findings: &mut Findings,
) {
    const RULE: &str = "kernel-toml/launcher";
    for (what, name) in [("launcher", Some(&operation.launcher)), ("`error` function", operation.error.as_ref())] {
        let Some(name) = name.filter(|name| !is_mentioned(project, name)) else {
            continue;
        };
        let functions = project.compiled().flat_map(|unit| &unit.code.functions).map(|one| one.name.as_str());
        let near = nearest(name, functions).map(|near| format!("; is it `{near}`?")).unwrap_or_default();
        let message = format!("no source of build.toml has the {what} `{name}`{near}");
        findings.add(RULE, text, &name_at, message);
    }
    let found: Vec<_> = project
        .compiled()
        .flat_map(|unit| defined(&unit.code, &operation.launcher).map(move |prototype| (unit, prototype)))
        .collect();
    // Which of several is compiled, their conditions say.
    let [(unit, prototype)] = found.as_slice() else {
        return;
    };
    if let Some(fault) = mismatch(operation, prototype) {
        let place = unit.code.text.line(prototype.at.start);
        let message = format!("{fault} (`{}` at {}:{place})", operation.launcher, unit.code.text.path);
        findings.add(RULE, text, &arguments_at, message);
    }
}

/// Whether a name occurs in what is compiled, or might be pasted together there.
fn is_mentioned(project: &Sources, name: &str) -> bool {
    project.compiled().any(|unit| {
        let code = &unit.code;
        (0..code.len()).any(|at| code.word(at) == name) || code.has_in_directives("##") || code.has_in_directives(name)
    })
}

/// How the launcher's parameters differ from `arguments`.
fn mismatch(operation: &Operation, prototype: &Prototype) -> Option<String> {
    let parameters = &prototype.parameters;
    let names: Vec<&str> = operation.arguments.iter().map(Argument::name).collect();
    if parameters.len() != names.len() {
        let lacking = parameters.iter().find(|one| !one.name.is_empty() && !names.contains(&one.name.as_str()));
        let extra = names.iter().find(|name| !parameters.iter().any(|one| one.name == **name));
        let which = if parameters.len() > names.len() {
            lacking.map(|one| format!(": `arguments` lacks `{}`", one.name))
        } else {
            extra.map(|name| format!(": it does not take `{name}`"))
        };
        let (takes, gives) = (parameters.len(), names.len());
        return Some(format!(
            "the launcher takes {takes} arguments, and kernel.toml gives {gives}{}",
            which.unwrap_or_default()
        ));
    }
    operation.arguments.iter().zip(parameters).find_map(|(argument, parameter)| {
        let (given, stated) = match argument {
            Argument::Tensor { .. } => (Kind::Pointer, "a tensor, which is a pointer"),
            Argument::Stream => (Kind::Pointer, "a cudaStream_t"),
            Argument::DType { .. } => (Kind::I32, "the code of a dtype, which is an int"),
            Argument::Scalar { ctype, .. } => match ctype {
                CType::I32 => (Kind::I32, "i32, which is int32_t"),
                CType::I64 => (Kind::I64, "i64, which is int64_t"),
                CType::F32 => (Kind::F32, "f32, which is float"),
                CType::F64 => (Kind::F64, "f64, which is double"),
            },
        };
        let differs = parameter.kind.is_some_and(|kind| kind != given);
        differs.then(|| {
            let name = argument.name();
            format!("`{name}` is {stated}, and the launcher takes `{}` there", parameter.text)
        })
    })
}

/// A Python oracle's file must have the function.
fn oracle(project: &Sources, operation: &Operation, text: &Text, at: &Range<usize>, findings: &mut Findings) {
    let OracleRef::Python { file, function } = &operation.oracle else {
        return;
    };
    let path = file.to_string_lossy().into_owned();
    let Ok(source) = fs::canonicalize(project.root.join(file)).and_then(|full| Text::read(&full, path.clone())) else {
        return;
    };
    let python = Python::new(source);
    let is_named = |at: usize| python.is_name(at) && python.word(at) == function;
    let star =
        python.imports().iter().any(|one| one.names.as_ref().is_some_and(|names| names.contains(&"*".to_owned())));
    if star || (0..python.tokens.len()).any(is_named) {
        return;
    }
    let functions = (1..python.tokens.len()).filter(|at| python.word(at - 1) == "def").map(|at| python.word(at));
    let near = nearest(function, functions).map(|near| format!("; is it `{near}`?")).unwrap_or_default();
    findings.add("kernel-toml/oracle", text, at, format!("{path} has no function `{function}`{near}"));
}
