//! What torch needs of an operation, from its description in kernel.toml: binding, fake, gradient, layer, tests, benchmark.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use anyhow::{Context, Result};
use sha2::{Digest as _, Sha256};

use super::describe::{Argument, Described};
use super::embedded;
use super::shake::marked;

/// The templates.
const FOLDER: &str = "scaffold/blank";

/// The files by their path in the scaffold's folder of a family.
pub(super) fn render(kernel_toml: &str, name: &str) -> Result<BTreeMap<String, Vec<u8>>> {
    let forward =
        Described::of(kernel_toml, name)?.with_context(|| format!("kernel.toml has no operation `{name}`"))?;
    let backward = Described::of(kernel_toml, &format!("{name}_backward"))?;
    let values = values(&forward, backward.as_ref());
    let unwanted = backward.as_ref().map_or_else(|| BTreeSet::from(["gradient".to_owned()]), |_| BTreeSet::new());
    let mut files = BTreeMap::new();
    for (path, bytes) in embedded::below(FOLDER).filter(|(path, _)| !path.starts_with("kernel/")) {
        let mut text = marked(&String::from_utf8_lossy(bytes), &unwanted);
        for (placeholder, value) in &values {
            text = text.replace(placeholder, value);
        }
        let comment = if path.ends_with(".py") { "#" } else { "//" };
        files.insert(path.replace("blank", name), format!("{}{text}", made(comment, name, &text)).into_bytes());
    }
    Ok(files)
}

/// The first line of a file that follows kernel.toml.
fn made(comment: &str, name: &str, text: &str) -> String {
    let digest: String = Sha256::digest(text).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("{comment} `kernels add {name}` writes this file from kernel.toml, unless it was edited: {digest}\n")
}

/// Whether a file was made so, edited since or not.
pub(super) fn is_made(name: &str, bytes: &[u8]) -> bool {
    bytes.starts_with(format!("// `kernels add {name}` writes this file ").as_bytes())
}

/// Whether a file is as it was made.
pub(super) fn is_unedited(name: &str, bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    text.split_once('\n')
        .is_some_and(|(first, rest)| ["#", "//"].iter().any(|comment| made(comment, name, rest).trim_end() == first))
}

/// The class of an operation's layer.
pub(super) fn class(name: &str) -> String {
    let capital = |part: &str| part[..1].to_uppercase() + &part[1..];
    name.split('_').filter(|part| !part.is_empty()).map(capital).collect()
}

fn list<T: AsRef<str>>(items: impl IntoIterator<Item = T>) -> String {
    items.into_iter().map(|item| item.as_ref().to_owned()).collect::<Vec<_>>().join(", ")
}

/// The value of each placeholder.
fn values(forward: &Described, backward: Option<&Described>) -> Vec<(&'static str, String)> {
    let both: Vec<&Described> = std::iter::once(forward).chain(backward).collect();
    let (tensors, rows, scalars) = (forward.tensors(), forward.rows(), forward.scalars());
    let errors: BTreeSet<&str> = both.iter().map(|of| of.error.as_str()).collect();
    let errors = errors.iter().map(|error| format!("const char* {error}(int code);\n"));
    let names = |of: &Described| list(of.tensors().into_iter().chain(of.scalars().into_iter().map(|(name, ..)| name)));
    let fake = |of: &Described| list(of.outputs().iter().map(|_| format!("{0}.new_empty({0}.shape)", of.rows()[0])));
    let result = |of: &Described| match of.outputs().len() {
        1 => "torch.Tensor".to_owned(),
        count => format!("Tuple[{}]", list(vec!["torch.Tensor"; count])),
    };
    let gradients = backward.map(Described::outputs).unwrap_or_default();
    let has = |name: &&&str| gradients.iter().any(|gradient| *gradient == format!("d_{name}"));
    let needs = |name: &&str| {
        if rows.contains(name) {
            format!("{name}.requires_grad")
        } else {
            format!("({name} is not None and {name}.requires_grad)")
        }
    };
    let refused: Vec<&&str> = tensors.iter().filter(|name| !has(name)).collect();
    let refusal = format!(
        "\n    if torch.is_grad_enabled() and ({}):\n        raise RuntimeError(\"@OP@ has no gradient by {}; call it under torch.no_grad()\")",
        refused.iter().map(|name| needs(name)).collect::<Vec<_>>().join(" or "),
        list(&refused),
    );
    let value = |(_, ctype, default): &(&str, &str, Option<&str>)| {
        default.unwrap_or(if ctype.starts_with('f') { "1.0" } else { "1" }).to_owned()
    };
    let python = |ctype: &str| if ctype.starts_with('f') { "float" } else { "int" };
    let dict = |rows_are: &str, row_is: &str| {
        list(tensors.iter().map(|name| format!("\"{name}\": {}", if rows.contains(name) { rows_are } else { row_is })))
    };
    let by_name = tensors
        .iter()
        .map(|name| format!("{name}={name}"))
        .chain(scalars.iter().map(|scalar| format!("{}={}", scalar.0, value(scalar))));
    let quoted = |names: Vec<&&str>| {
        names.iter().fold(String::new(), |text, name| format!("{text}\"{name}\", ")).trim_end().to_owned()
    };
    let members =
        scalars.iter().fold(String::new(), |text, (name, ctype, _)| format!("{text}\n    {name}: {}", python(ctype)));
    let typed = |name: &str| {
        format!("{name}: {}", if rows.contains(&name) { "torch.Tensor" } else { "Optional[torch.Tensor]" })
    };
    let mut parameters: Vec<String> = tensors.iter().map(|name| typed(name)).collect();
    for (at, (name, ctype, _)) in scalars.iter().enumerate() {
        // No default in front of a parameter without one.
        let default =
            scalars[at..].iter().all(|(.., default)| default.is_some()).then(|| format!(" = {}", value(&scalars[at])));
        parameters.push(format!("{name}: {}{}", python(ctype), default.unwrap_or_default()));
    }
    let forwarded =
        tensors.iter().map(|name| (*name).to_owned()).chain(scalars.iter().map(|(name, ..)| format!("self.{name}")));
    let typing: Vec<&str> = [("Optional", rows.len() < tensors.len()), ("Tuple", forward.outputs().len() > 1)]
        .iter()
        .filter(|(_, used)| *used)
        .map(|(name, _)| *name)
        .collect();
    vec![
        ("@DECLARATIONS@", both.iter().map(|of| declaration(of)).chain(errors).collect()),
        ("@FUNCTIONS@", both.iter().map(|of| function(of)).collect()),
        ("@SCHEMAS@", both.iter().map(|of| schema(of)).collect()),
        (
            "@IMPLEMENTATIONS@",
            both.iter().map(|of| format!("  ops.impl(\"{0}\", BINDING(op_{0}));\n", of.name)).collect(),
        ),
        (
            "@TYPING@",
            if typing.is_empty() { String::new() } else { format!("from typing import {}\n\n", list(&typing)) },
        ),
        ("@NAMES@", names(forward)),
        ("@FAKE@", fake(forward)),
        ("@D_NAMES@", backward.map(&names).unwrap_or_default()),
        ("@D_FAKE@", backward.map(&fake).unwrap_or_default()),
        ("@D_OUTPUTS@", list(&gradients)),
        ("@D_ONE@", if gradients.len() == 1 { ",".to_owned() } else { String::new() }),
        ("@GRADIENTS@", list(forward.outputs().iter().map(|name| format!("d_{name}")))),
        (
            "@RETURNED@",
            list(
                tensors
                    .iter()
                    .map(|name| if has(&name) { format!("d_{name}") } else { "None".to_owned() })
                    .chain(scalars.iter().map(|_| "None".to_owned())),
            ),
        ),
        (
            "@SCALARS@",
            scalars.iter().fold(String::new(), |text, (name, ..)| format!("{text}{name}, ")).trim_end().to_owned(),
        ),
        ("@WANTED@", tensors.iter().filter(has).map(needs).collect::<Vec<_>>().join(" or ")),
        ("@REFUSAL@", if refused.is_empty() { String::new() } else { refusal }),
        ("@PARAMETERS@", list(&parameters)),
        ("@RESULT@", result(forward)),
        ("@ARGUMENTS@", documented(forward)),
        (
            "@RETURNS@",
            format!(
                "{} of ``{}``'s shape and dtype.{}",
                if forward.outputs().len() == 1 { "A contiguous tensor" } else { "Contiguous tensors" },
                rows[0],
                if gradients.is_empty() { "" } else { " With gradients." },
            ),
        ),
        ("@LAYER_RESULT@", if forward.outputs().len() == 1 { "torch.Tensor" } else { "tuple" }.to_owned()),
        ("@HAS_BACKWARD@", if refused.is_empty() { "True" } else { "False" }.to_owned()),
        ("@MEMBERS@", if members.is_empty() { members } else { format!("{members}\n") }),
        ("@FORWARD@", list(tensors.iter().map(|name| format!("{name}: torch.Tensor")))),
        ("@FORWARDED@", list(forwarded)),
        ("@SAME@", dict("x", "x.new_ones(x.shape[-1:])")),
        ("@DRAWN@", dict("draw(n, 3, width)", "draw(width)")),
        ("@BENCHED@", dict("draw(n, width)", "draw(width)")),
        ("@BY_NAME@", list(by_name)),
        ("@CALLED@", list(tensors.iter().map(|name| (*name).to_owned()).chain(scalars.iter().map(value)))),
        ("@DIFFERENTIABLE@", format!("({})", quoted(tensors.iter().filter(has).collect()))),
        ("@OTHERS@", quoted(rows.iter().skip(1).collect())),
        ("@TENSORS@", list(&tensors)),
        ("@FIRST@", rows[0].to_owned()),
        ("@REFERENCE@", forward.oracle.0.clone()),
        ("@FUNCTION@", forward.oracle.1.clone()),
        ("@SUMMARY@", forward.summary.clone()),
        ("@CLASS@", class(&forward.name)),
        ("@OP@", forward.name.clone()),
    ]
}

/// Lines about the arguments.
fn documented(of: &Described) -> String {
    let rows = of.rows();
    let alike = if rows.len() > 1 { "of one shape ``[..., width]`` and one dtype," } else { "``[..., width]`` in" };
    let mut text = format!(
        "        {}: {alike} float32, float16 or bfloat16. Rows may be any\n            distance apart; what is no rows at one distance is copied first.\n",
        list(&rows)
    );
    for argument in &of.arguments {
        let _ = match argument {
            Argument::Row(name, optional) => {
                writeln!(
                    text,
                    "        {name}: ``[width]`` of ``{}``'s dtype{}.",
                    rows[0],
                    if *optional { ", or None" } else { "" }
                )
            }
            Argument::Scalar { name, ctype, .. } => writeln!(text, "        {name}: a number, {ctype} in the kernel."),
            _ => Ok(()),
        };
    }
    text
}

fn ctype(name: &str) -> &'static str {
    match name {
        "i32" => "int32_t",
        "i64" => "int64_t",
        "f32" => "float",
        _ => "double",
    }
}

fn declaration(of: &Described) -> String {
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

fn schema(of: &Described) -> String {
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
fn function(of: &Described) -> String {
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
    let mut text = String::new();
    if outputs.len() > 2 {
        let give =
            |at: usize| format!("  stack[{at}] = torch::stable::detail::from(std::get<{at}>(results).release());\n");
        let all: String = (0..outputs.len()).map(give).collect();
        let _ = write!(
            text,
            "}}  // namespace\n\nnamespace binding {{\ninline void give(StableIValue* stack, {result} results) {{\n{all}}}\n}}  // namespace binding\n\nnamespace {{\n\n"
        );
    }
    let _ = write!(text, "{result} op_{}({}) {{\n", of.name, list(parameters.chain(scalars)));
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
    text.push_str("  call.begin();\n");
    for name in &outputs {
        let _ = writeln!(text, "  Tensor {name} = call.empty(Shape({first}_array));");
    }
    let given = of.arguments.iter().map(|argument| match argument {
        Argument::Output(name) => format!("{name}.data()"),
        Argument::Rows(name) => format!("{name}_rows.data"),
        Argument::Row(name, _) => format!("{name}_row"),
        Argument::Scalar { name, ctype: given, .. } => format!("static_cast<{}>({name})", ctype(given)),
        Argument::Count => format!("{first}_rows.count"),
        Argument::Stride(name) if rows.contains(&name.as_str()) => format!("{name}_rows.stride"),
        Argument::Width | Argument::Stride(_) => format!("{first}_rows.width"),
        Argument::DType => "call.dtype()".to_owned(),
        Argument::Stream => "call.stream()".to_owned(),
    });
    let returned = if outputs.len() == 1 {
        outputs[0].to_owned()
    } else {
        format!("{{{}}}", list(outputs.iter().map(|name| format!("std::move({name})"))))
    };
    let _ = write!(text, "  call.check({}({}), {});\n  return {returned};\n}}\n\n", of.launcher, list(given), of.error);
    text
}
