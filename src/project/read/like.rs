//! `like` and `in_place`: an operation that differs from another in little.

use super::super::formula::listed;
use super::super::table::{Reader, Value};
use super::super::{Argument, Formula, Operation, Role};
use super::Draft;

/// The operation that another is like: one of those before it.
pub(super) fn base<'a>(reader: &Reader<'_>, value: &Value<'_>, before: &'a [Draft]) -> Option<&'a Draft> {
    let name = reader.string(value, "the name of an operation")?;
    let found = before.iter().find(|draft| draft.operation.name == name);
    if found.is_none() {
        let names = before.iter().map(|draft| draft.operation.name.as_str());
        reader.fail(
            value.span(),
            format!("no operation `{name}` before this one"),
            [format!("operations before it: {}", listed(names))],
        );
    }
    found
}

/// What an operation takes from its base, without the arguments and defaults of some names: `without = ["inverse"]`.
pub(super) fn without(reader: &Reader<'_>, value: Option<&Value<'_>>, base: &Draft) -> Operation {
    // Strides of its own have defaults of their own.
    let mut rest = Operation { defaults: base.defaults.clone(), ..base.operation.clone() };
    let names = value.and_then(|value| reader.list(value, "a list of names")).into_iter().flatten();
    for value in names {
        let Some(unwanted) = reader.string(value, "a name") else {
            continue;
        };
        let before = rest.arguments.len();
        rest.arguments.retain(|argument| argument.name() != unwanted);
        if rest.defaults.remove(unwanted).is_none() && rest.arguments.len() == before {
            reader.fail(value.span(), format!("`{}` has no `{unwanted}`", rest.name), []);
        }
    }
    rest
}

/// The arguments that a string names: `"x"`, or with all between them `"x..stream"`.
pub(super) fn named(reader: &Reader<'_>, value: &Value<'_>, text: &str, base: Option<&Operation>) -> Vec<Argument> {
    let Some(base) = base else {
        let help = "only an operation with `like` names arguments: those of the operation that it is like";
        reader.fail(value.span(), "expected a table, found a string", [help.to_owned()]);
        return Vec::new();
    };
    let (first, last) = text.split_once("..").unwrap_or((text, text));
    let find = |name: &str| {
        let found = base.arguments.iter().position(|argument| argument.name() == name);
        if found.is_none() {
            let known = base.arguments.iter().map(Argument::name);
            reader.fail(
                value.span(),
                format!("`{}` has no argument `{name}`", base.name),
                [format!("its arguments: {}", listed(known))],
            );
        }
        found
    };
    match (find(first), find(last)) {
        (Some(first), Some(last)) if first <= last => base.arguments[first..=last].to_vec(),
        (Some(_), Some(_)) => {
            reader.fail(value.span(), format!("`{last}` stands before `{first}`"), []);
            Vec::new()
        }
        _ => Vec::new(),
    }
}

/// `in_place = { x = "out" }`: the result takes the place of an input, and the output goes, with the scalars and defaults
/// that only it used.
pub(super) fn make_in_place(reader: &Reader<'_>, value: &Value<'_>, operation: &mut Operation) {
    let expected = "inputs with their outputs, { x = \"out\" }";
    for (input, output) in reader.table(value, expected).into_iter().flatten() {
        let Some(output_name) = reader.string(output, "the name of an output") else {
            continue;
        };
        let input_name = input.get_ref().as_ref();
        if !has_tensor(operation, input_name, Role::Input) {
            reader.fail(input.span(), format!("no input `{input_name}`"), []);
        } else if !has_tensor(operation, output_name, Role::Output) {
            reader.fail(output.span(), format!("no output `{output_name}`"), []);
        } else if has_alternatives(operation, Some(output_name)) {
            reader.fail(
                output.span(),
                format!("output `{output_name}` has `alternatives`, and a result in place of an input has none"),
                ["declare the arguments of this operation, with an output of its own".to_owned()],
            );
        } else {
            replace(operation, input_name, output_name);
        }
    }
}

fn has_tensor(operation: &Operation, wanted: &str, of: Role) -> bool {
    operation
        .arguments
        .iter()
        .any(|argument| matches!(argument, Argument::Tensor { name, role, .. } if name == wanted && *role == of))
}

/// Whether several numbers are right for the elements of an output: of this name, or of any.
pub(super) fn has_alternatives(operation: &Operation, wanted: Option<&str>) -> bool {
    operation.arguments.iter().any(|argument| match argument {
        Argument::Tensor { name, alternatives, .. } => alternatives.is_some() && wanted.is_none_or(|one| one == name),
        _ => false,
    })
}

fn replace(operation: &mut Operation, input: &str, output: &str) {
    let strides = output_strides(operation, output);
    operation.arguments.retain(|argument| !matches!(argument, Argument::Tensor { name, .. } if name == output));
    for argument in &mut operation.arguments {
        if let Argument::Tensor { name, role, .. } = argument
            && name == input
        {
            *role = Role::InOut;
        }
    }
    let unused: Vec<String> = strides.into_iter().filter(|name| !in_tensors(operation, name)).collect();
    operation.arguments.retain(|argument| !matches!(argument, Argument::Scalar { name, .. } if unused.contains(name)));
    operation.defaults.retain(|name, _| !unused.contains(name));
}

/// The names that the strides of a tensor are.
fn output_strides(operation: &Operation, output: &str) -> Vec<String> {
    let strides = operation.arguments.iter().find_map(|argument| match argument {
        Argument::Tensor { name, strides, .. } if name == output => strides.as_ref(),
        _ => None,
    });
    strides.into_iter().flatten().filter_map(Formula::as_name).map(str::to_owned).collect()
}

fn in_tensors(operation: &Operation, wanted: &str) -> bool {
    operation.arguments.iter().any(|argument| match argument {
        Argument::Tensor { shape, strides, .. } => {
            shape.iter().chain(strides.iter().flatten()).any(|formula| formula.names().any(|(name, _)| name == wanted))
        }
        _ => false,
    })
}
