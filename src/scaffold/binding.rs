//! The C++ of an operation's binding, from its description in kernel.toml.

use std::fmt::Write as _;

use super::describe::{Argument, Described, list};

fn ctype(name: &str) -> &'static str {
    match name {
        "i32" => "int32_t",
        "i64" => "int64_t",
        "f32" => "float",
        _ => "double",
    }
}

/// How the binding declares the launcher.
pub(super) fn declaration(of: &Described) -> String {
    let parameters = of.arguments.iter().map(|argument| match argument {
        Argument::Output(name) => format!("void* {name}"),
        Argument::Rows(name) | Argument::Row(name, _) => format!("const void* {name}"),
        Argument::Scalar { name, ctype: given, .. } => format!("{} {name}", ctype(given)),
        Argument::Count => "int64_t rows".to_owned(),
        Argument::Width => "int64_t width".to_owned(),
        Argument::Stride(name) => format!("int64_t {name}_stride"),
        Argument::DType => "int dtype".to_owned(),
        Argument::Stream => "void* stream".to_owned(),
    });
    format!("int {}({});\n", of.launcher, list(parameters))
}

/// The schema with which the op is registered in torch.
pub(super) fn schema(of: &Described) -> String {
    let tensor = |argument: &Argument| match argument {
        Argument::Rows(name) => Some(format!("Tensor {name}")),
        Argument::Row(name, _) => Some(format!("Tensor? {name}")),
        _ => None,
    };
    let scalars = of.scalars();
    let scalars = scalars
        .iter()
        .map(|(name, ctype, _)| format!("{} {name}", if ctype.starts_with('f') { "float" } else { "int" }));
    let outputs = of.outputs().len();
    let result = if outputs == 1 { "Tensor".to_owned() } else { format!("({})", list(vec!["Tensor"; outputs])) };
    format!(
        "  ops.def(\"{}({}) -> {result}\");\n",
        of.name,
        list(of.arguments.iter().filter_map(tensor).chain(scalars))
    )
}

/// The function that torch calls.
pub(super) fn function(of: &Described) -> String {
    let (rows, outputs) = (of.rows(), of.outputs());
    let first = rows[0];
    let parameters = of.arguments.iter().filter_map(|argument| match argument {
        Argument::Rows(name) => Some(format!("const Tensor& {name}")),
        Argument::Row(name, _) => Some(format!("const OptionalTensor& {name}")),
        _ => None,
    });
    let scalars = of.scalars();
    let scalars = scalars
        .iter()
        .map(|(name, ctype, _)| format!("{} {name}", if ctype.starts_with('f') { "double" } else { "int64_t" }));
    let result = if outputs.len() == 1 {
        "Tensor".to_owned()
    } else {
        format!("std::tuple<{}>", list(vec!["Tensor"; outputs.len()]))
    };
    let mut text = if outputs.len() > 2 { give(&result, outputs.len()) } else { String::new() };
    let _ = writeln!(text, "{result} op_{}({}) {{", of.name, list(parameters.chain(scalars)));
    let _ = write!(
        text,
        "  Call call(\"{}\", \"{first}\", {first});\n  const Array& {first}_array = call.first();\n",
        of.name
    );
    for name in &rows[1..] {
        let _ = write!(
            text,
            "  const Array {name}_array = call.array(\"{name}\", {name});\n  call.same_shape({name}_array, {first}_array);\n"
        );
    }
    for name in &rows {
        let _ = writeln!(text, "  const Input {name}_rows = call.input({name}_array, {name});");
    }
    for argument in &of.arguments {
        if let Argument::Row(name, _) = argument {
            let _ = writeln!(text, "  const void* {name}_row = call.row(\"{name}\", {name}, {first}_rows.width);");
        }
    }
    for (name, ctype, _) in of.scalars() {
        if ctype == "i32" {
            let _ = writeln!(
                text,
                "  if ({name} != static_cast<int32_t>({name})) call.fail(\"{name} does not fit 32 bits: \", {name});"
            );
        }
    }
    text.push_str("  call.begin();\n");
    for name in &outputs {
        let _ = writeln!(text, "  Tensor {name} = call.empty(Shape({first}_array));");
    }
    let given = of.arguments.iter().map(|argument| passed(argument, &rows));
    let returned = if outputs.len() == 1 {
        outputs[0].to_owned()
    } else {
        format!("{{{}}}", list(outputs.iter().map(|name| format!("std::move({name})"))))
    };
    let _ = write!(text, "  call.check({}({}), {});\n  return {returned};\n}}\n\n", of.launcher, list(given), of.error);
    text
}

/// The expression that the launcher gets for an argument.
fn passed(argument: &Argument, rows: &[&str]) -> String {
    let first = rows[0];
    match argument {
        Argument::Output(name) => format!("{name}.data()"),
        Argument::Rows(name) => format!("{name}_rows.data"),
        Argument::Row(name, _) => format!("{name}_row"),
        Argument::Scalar { name, ctype: given, .. } => format!("static_cast<{}>({name})", ctype(given)),
        Argument::Count => format!("{first}_rows.count"),
        Argument::Stride(name) if rows.contains(&name.as_str()) => format!("{name}_rows.stride"),
        Argument::Width | Argument::Stride(_) => format!("{first}_rows.width"),
        Argument::DType => "call.dtype()".to_owned(),
        Argument::Stream => "call.stream()".to_owned(),
    }
}

/// The code that returns more results to torch than binding.h supports.
fn give(result: &str, count: usize) -> String {
    let one = |at| format!("  stack[{at}] = torch::stable::detail::from(std::get<{at}>(results).release());\n");
    let all = (0..count).map(one).collect::<Vec<_>>().concat();
    format!(
        "}}  // namespace\n\nnamespace binding {{\ninline void give(StableIValue* stack, {result} results) {{\n{all}}}\n\
         }}  // namespace binding\n\nnamespace {{\n\n"
    )
}
