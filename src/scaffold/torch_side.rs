//! What torch needs for an operation, made from its description in kernel.toml: binding, fake, gradient, layer, tests,
//! benchmark.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use anyhow::{Context, Result};
use sha2::{Digest as _, Sha256};

use super::binding::{declaration, function, schema};
use super::describe::{Argument, Described, list};
use super::embedded;
use super::name::class;
use super::shake::marked;
use crate::base::hex;

/// The templates.
const FOLDER: &str = "scaffold/blank";

/// The files by their path in the scaffold's folder of a family.
pub(super) fn render(kernel_toml: &str, name: &str) -> Result<BTreeMap<String, Vec<u8>>> {
    let forward =
        Described::of(kernel_toml, name)?.with_context(|| format!("kernel.toml has no operation `{name}`"))?;
    let backward = Described::of(kernel_toml, &format!("{name}_backward"))?;
    if let Some(backward) = &backward {
        backward.check_gradient_of(&forward)?;
    }
    let values = Side { forward: &forward, backward: backward.as_ref() }.values();
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
    let digest = hex(&Sha256::digest(text)[..8]);
    format!("{comment} `kernels add {name}` writes this file from kernel.toml, unless it was edited: {digest}\n")
}

/// Whether a file was made in this way, edited since or not.
pub(super) fn is_made(name: &str, bytes: &[u8]) -> bool {
    bytes.starts_with(format!("// `kernels add {name}` writes this file ").as_bytes())
}

/// Whether a file was made in this way and not edited since.
pub(super) fn is_unedited(name: &str, bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    text.split_once('\n')
        .is_some_and(|(first, rest)| ["#", "//"].iter().any(|comment| made(comment, name, rest).trim_end() == first))
}

/// An operation and its gradient.
struct Side<'a> {
    forward: &'a Described,
    backward: Option<&'a Described>,
}

type Values = Vec<(&'static str, String)>;

impl Side<'_> {
    /// Whether there is a gradient by a tensor.
    fn has(&self, name: &str) -> bool {
        let gradients = self.backward.map(Described::outputs).unwrap_or_default();
        gradients.iter().any(|gradient| gradient.strip_prefix("d_") == Some(name))
    }

    /// The condition that some tensors need a gradient.
    fn need(&self, by: bool) -> String {
        let tensors = self.forward.tensors().into_iter().filter(|name| self.has(name) == by);
        let needs = tensors.map(|name| {
            let needs = format!("{name}.requires_grad");
            if self.forward.rows().contains(&name) { needs } else { format!("({name} is not None and {needs})") }
        });
        needs.collect::<Vec<_>>().join(" or ")
    }

    fn gradient(&self) -> Values {
        let (forward, gradients) = (self.forward, self.backward.map(Described::outputs).unwrap_or_default());
        let given = |of: &Described| list(of.tensors().into_iter().chain(of.scalars().iter().map(|scalar| scalar.0)));
        let fake =
            |of: &Described| list(of.outputs().iter().map(|_| format!("{0}.new_empty({0}.shape)", of.rows()[0])));
        let tensors = forward.tensors();
        let returned = tensors.iter().map(|name| if self.has(name) { format!("d_{name}") } else { "None".to_owned() });
        let returned = returned.chain(vec!["None".to_owned(); forward.scalars().len()]);
        let refused = list(tensors.iter().filter(|name| !self.has(name)));
        let refusal = format!(
            "\n    if torch.is_grad_enabled() and ({}):\n        raise RuntimeError(\"@OP@ has no gradient by {refused}; call it under torch.no_grad()\")",
            self.need(false)
        );
        vec![
            ("@NAMES@", given(forward)),
            ("@CHECKED@", checked(forward)),
            ("@FAKE@", fake(forward)),
            ("@D_NAMES@", self.backward.map(given).unwrap_or_default()),
            ("@D_CHECKED@", self.backward.map(checked).unwrap_or_default()),
            ("@D_FAKE@", self.backward.map(fake).unwrap_or_default()),
            ("@D_OUTPUTS@", list(&gradients)),
            ("@D_ONE@", if gradients.len() == 1 { "," } else { "" }.to_owned()),
            ("@GRADIENTS@", list(forward.outputs().iter().map(|name| format!("d_{name}")))),
            ("@RETURNED@", list(returned)),
            ("@SCALARS@", tuple(forward.scalars().iter().map(|scalar| scalar.0))),
            ("@WANTED@", self.need(true)),
            ("@REFUSAL@", if refused.is_empty() { String::new() } else { refusal }),
            ("@HAS_BACKWARD@", if refused.is_empty() { "True" } else { "False" }.to_owned()),
        ]
    }

    fn functions(&self) -> Values {
        let (tensors, rows, scalars) = (self.forward.tensors(), self.forward.rows(), self.forward.scalars());
        let typed = |name: &&str| {
            format!("{name}: {}", if rows.contains(name) { "torch.Tensor" } else { "Optional[torch.Tensor]" })
        };
        let mut parameters: Vec<String> = tensors.iter().map(typed).collect();
        for (at, scalar) in scalars.iter().enumerate() {
            // A parameter with a default must not precede one without.
            let has_default = scalars[at..].iter().all(|(.., default)| default.is_some());
            let default = if has_default { format!(" = {}", value(scalar)) } else { String::new() };
            parameters.push(format!("{}: {}{default}", scalar.0, python(scalar.1)));
        }
        let outputs = self.forward.outputs().len();
        let (result, what) = match outputs {
            1 => ("torch.Tensor".to_owned(), "A contiguous tensor"),
            count => (format!("Tuple[{}]", list(vec!["torch.Tensor"; count])), "Contiguous tensors"),
        };
        let typing = [("Optional", rows.len() < tensors.len()), ("Tuple", outputs > 1)];
        let typing = list(typing.iter().filter(|(_, used)| *used).map(|(name, _)| name));
        let members: Vec<String> =
            scalars.iter().map(|scalar| format!("\n    {}: {}", scalar.0, python(scalar.1))).collect();
        let members = members.concat();
        let own = scalars.iter().map(|scalar| format!("self.{}", scalar.0));
        let gradients = if self.backward.is_some() { " With gradients." } else { "" };
        vec![
            ("@TYPING@", if typing.is_empty() { typing } else { format!("from typing import {typing}\n\n") }),
            ("@PARAMETERS@", list(&parameters)),
            ("@LAYER_RESULT@", if outputs == 1 { "torch.Tensor" } else { "tuple" }.to_owned()),
            ("@RESULT@", result),
            ("@ARGUMENTS@", documented(self.forward)),
            ("@RETURNS@", format!("{what} of ``{}``'s shape and dtype.{gradients}", rows[0])),
            ("@MEMBERS@", if members.is_empty() { members } else { format!("{members}\n") }),
            ("@FORWARD@", list(tensors.iter().map(|name| format!("{name}: torch.Tensor")))),
            ("@FORWARDED@", list(tensors.iter().map(|name| (*name).to_owned()).chain(own))),
        ]
    }

    fn tests(&self) -> Values {
        let (tensors, rows, scalars) = (self.forward.tensors(), self.forward.rows(), self.forward.scalars());
        let dict = |for_rows: &str, for_row: &str| {
            let of = |name| if rows.contains(name) { for_rows } else { for_row };
            list(tensors.iter().map(|name| format!("\"{name}\": {}", of(name))))
        };
        let by_name = tensors.iter().map(|name| format!("{name}={name}"));
        let by_name = by_name.chain(scalars.iter().map(|scalar| format!("{}={}", scalar.0, value(scalar))));
        let quoted = |name: &&str| format!("\"{name}\"");
        vec![
            ("@SAME@", dict("x", "x.new_ones(x.shape[-1:])")),
            ("@DRAWN@", dict("draw(n, 3, width)", "draw(width)")),
            ("@BENCHED@", dict("draw(n, width)", "draw(width)")),
            ("@BY_NAME@", list(by_name)),
            ("@CALLED@", list(tensors.iter().map(|name| (*name).to_owned()).chain(scalars.iter().map(value)))),
            ("@DIFFERENTIABLE@", format!("({})", tuple(tensors.iter().filter(|name| self.has(name)).map(quoted)))),
            ("@OTHERS@", tuple(rows.iter().skip(1).map(quoted))),
            ("@REFERENCE@", self.forward.oracle.0.clone()),
            ("@FUNCTION@", self.forward.oracle.1.clone()),
        ]
    }

    /// The value of each placeholder. A value may contain placeholders that follow it.
    fn values(&self) -> Values {
        let both: Vec<&Described> = std::iter::once(self.forward).chain(self.backward).collect();
        let errors: BTreeSet<&str> = both.iter().map(|of| of.error.as_str()).collect();
        let errors = errors.iter().map(|error| format!("const char* {error}(int code);\n"));
        let implementation = |of: &&Described| format!("  ops.impl(\"{0}\", BINDING(op_{0}));\n", of.name);
        let mut values: Values = vec![
            ("@DECLARATIONS@", both.iter().map(|of| declaration(of)).chain(errors).collect()),
            ("@FUNCTIONS@", both.iter().map(|of| function(of)).collect()),
            ("@SCHEMAS@", both.iter().map(|of| schema(of)).collect()),
            ("@IMPLEMENTATIONS@", both.iter().map(implementation).collect()),
        ];
        values.extend([self.gradient(), self.functions(), self.tests()].concat());
        values.extend([
            ("@TENSORS@", list(self.forward.tensors())),
            ("@FIRST@", self.forward.rows()[0].to_owned()),
            ("@SUMMARY@", self.forward.summary.clone()),
            ("@CLASS@", class(&self.forward.name)),
            ("@OP@", self.forward.name.clone()),
        ]);
        values
    }
}

/// What a fake checks: the devices, which the binding checks of real tensors.
fn checked(of: &Described) -> String {
    let first = of.rows()[0];
    let others = of.tensors().into_iter().filter(|name| *name != first);
    let lines = others.map(|name| {
        let absent = if of.rows().contains(&name) { String::new() } else { format!("{name} is None or ") };
        format!(
            "\n    torch._check({absent}{name}.device == {first}.device, lambda: \"{}: {name} must be on {first}'s device\")",
            of.name
        )
    });
    lines.collect()
}

/// Items of a tuple, each followed by a comma.
fn tuple<T: AsRef<str>>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| format!("{},", item.as_ref())).collect();
    items.join(" ")
}

/// The type of a number in Python.
fn python(ctype: &str) -> &'static str {
    if ctype.starts_with('f') { "float" } else { "int" }
}

/// A number for tests, if there is no default.
fn value((_, ctype, default): &(&str, &str, Option<&str>)) -> String {
    default.unwrap_or(if ctype.starts_with('f') { "1.0" } else { "1" }).to_owned()
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
