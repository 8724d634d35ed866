//! An operation of kernel.toml as torch sees it: rows of elements in, rows out.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail, ensure};
use toml::{Table, Value};

use super::name::{NAMES, is_python};
use super::slice::{flattened, name, resolved, tables};

/// What else the binding and the tests have by name where an argument's could be taken for it.
const OTHERS: [&str; 10] =
    ["Array", "Call", "Input", "OptionalTensor", "Shape", "Tensor", "binding", "dtype", "reference", "std"];

/// The keywords of C++, and what C++ lets nobody name otherwise.
const CPP: &str = "alignas alignof asm auto bool break case catch char char8_t char16_t char32_t class const consteval constexpr \
    constinit const_cast continue co_await co_return co_yield decltype default delete do double dynamic_cast else \
    enum explicit export extern false float for friend goto if inline int long mutable namespace new noexcept \
    nullptr operator private protected public register reinterpret_cast requires return short signed sizeof static \
    static_assert static_cast struct switch template this thread_local throw true try typedef typeid typename \
    union unsigned using virtual void volatile wchar_t while and and_eq bitand bitor compl concept not not_eq or \
    or_eq xor xor_eq int32_t int64_t NULL";

/// An argument of a launcher.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Argument {
    /// A result, of the first input's shape.
    Output(String),
    /// An input of rows.
    Rows(String),
    /// One row for all rows, `[width]`, and whether it may be absent.
    Row(String, bool),
    /// A number that torch passes, and its default.
    Scalar {
        name: String,
        ctype: String,
        default: Option<String>,
    },
    Count,
    Width,
    /// The row stride of a tensor.
    Stride(String),
    DType,
    Stream,
}

/// An operation.
#[derive(Clone, Debug)]
pub(super) struct Described {
    pub(super) name: String,
    pub(super) launcher: String,
    pub(super) error: String,
    /// The file and the function of its oracle.
    pub(super) oracle: (String, String),
    /// The comment before it.
    pub(super) summary: String,
    pub(super) arguments: Vec<Argument>,
}

impl Described {
    /// The operation of this name; `None` if kernel.toml does not have it.
    pub(super) fn of(text: &str, wanted: &str) -> Result<Option<Self>> {
        let file: Table = text.parse().context("kernel.toml is not TOML")?;
        let all = tables(&file, "operation");
        let Some(found) = all.iter().find(|operation| name(operation) == wanted) else { return Ok(None) };
        let table = resolved(&all, found)?;
        let word = |key: &str| table.get(key).and_then(Value::as_str).map(str::to_owned);
        let oracle = table.get("oracle").and_then(Value::as_table).and_then(|oracle| {
            Some((oracle.get("python")?.as_str()?.to_owned(), oracle.get("function")?.as_str()?.to_owned()))
        });
        let described = Self {
            name: wanted.to_owned(),
            launcher: word("launcher").unwrap_or_else(|| format!("{wanted}_launch")),
            error: word("error").with_context(|| unfit(wanted, "it has no `error` function"))?,
            oracle: oracle.with_context(|| unfit(wanted, "its oracle is not a Python function"))?,
            summary: summary(text, wanted),
            arguments: arguments(&table)
                .with_context(|| unfit(wanted, "not every argument can be told from torch's tensors"))?,
        };
        ensure!(!described.rows().is_empty(), unfit(wanted, "it has no input"));
        ensure!(!described.outputs().is_empty(), unfit(wanted, "it has no output"));
        if let Some(why) = described.unusable() {
            bail!(
                "the torch side of {wanted} cannot be made from kernel.toml: {why}; give the argument another name there"
            );
        }
        Ok(Some(described))
    }

    /// Checks that this operation has the inputs and outputs of the gradient of another.
    pub(super) fn check_gradient_of(&self, forward: &Self) -> Result<()> {
        let gradients: Vec<String> = forward.outputs().iter().map(|name| format!("d_{name}")).collect();
        for name in self.tensors() {
            let is_known = forward.tensors().contains(&name) || gradients.iter().any(|gradient| gradient == name);
            ensure!(
                is_known,
                unfit(
                    &self.name,
                    &format!("its input `{name}` is no input of {}, and none of {}", forward.name, list(&gradients))
                )
            );
        }
        for (name, ..) in self.scalars() {
            let is_known = forward.scalars().iter().any(|scalar| scalar.0 == name);
            ensure!(is_known, unfit(&self.name, &format!("its number `{name}` is none of {}", forward.name)));
        }
        for name in self.outputs() {
            let is_known = name.strip_prefix("d_").is_some_and(|name| forward.rows().contains(&name));
            ensure!(
                is_known,
                unfit(&self.name, &format!("its output `{name}` is not d_ and the name of an input of rows"))
            );
        }
        Ok(())
    }

    /// Why the name of an argument can be none in what is made.
    fn unusable(&self) -> Option<String> {
        let named = self.names(|argument| match argument {
            Argument::Output(name) | Argument::Rows(name) | Argument::Row(name, _) | Argument::Scalar { name, .. } => {
                Some(name)
            }
            _ => None,
        });
        for name in named {
            let what = if is_python(name) {
                "a word of Python"
            } else if CPP.split_whitespace().any(|word| word == name) {
                "a word of C++"
            } else if NAMES.contains(&name) || OTHERS.contains(&name) {
                "what something else is called in the binding, the module or its tests"
            } else if name == self.name && self.tensors().contains(&name) {
                "the operation's own name"
            } else {
                continue;
            };
            return Some(format!("its argument `{name}` is {what}"));
        }
        let mut local = Vec::new();
        for argument in &self.arguments {
            match argument {
                Argument::Rows(name) => local.extend([name.clone(), format!("{name}_array"), format!("{name}_rows")]),
                Argument::Row(name, _) => local.extend([name.clone(), format!("{name}_row")]),
                Argument::Output(name) | Argument::Scalar { name, .. } => local.push(name.clone()),
                _ => {}
            }
        }
        let declared = self.arguments.iter().map(|argument| match argument {
            Argument::Count => "rows".to_owned(),
            Argument::Width => "width".to_owned(),
            Argument::Stride(name) => format!("{name}_stride"),
            Argument::DType => "dtype".to_owned(),
            Argument::Stream => "stream".to_owned(),
            Argument::Output(name) | Argument::Rows(name) | Argument::Row(name, _) | Argument::Scalar { name, .. } => {
                name.clone()
            }
        });
        let twice = |names: Vec<String>| {
            let at = (1..names.len()).find(|at| names[..*at].contains(&names[*at]))?;
            Some(format!("the binding would have two `{}`", names[at]))
        };
        twice(local).or_else(|| twice(declared.collect()))
    }

    fn names(&self, wanted: impl Fn(&Argument) -> Option<&String>) -> Vec<&str> {
        self.arguments.iter().filter_map(wanted).map(String::as_str).collect()
    }

    pub(super) fn outputs(&self) -> Vec<&str> {
        self.names(|argument| if let Argument::Output(name) = argument { Some(name) } else { None })
    }

    /// The inputs of rows. The first one determines the device and the dtype of all.
    pub(super) fn rows(&self) -> Vec<&str> {
        self.names(|argument| if let Argument::Rows(name) = argument { Some(name) } else { None })
    }

    /// The tensors that torch passes.
    pub(super) fn tensors(&self) -> Vec<&str> {
        self.names(|argument| match argument {
            Argument::Rows(name) | Argument::Row(name, _) => Some(name),
            _ => None,
        })
    }

    pub(super) fn scalars(&self) -> Vec<(&str, &str, Option<&str>)> {
        let all = self.arguments.iter().filter_map(|argument| match argument {
            Argument::Scalar { name, ctype, default } => Some((name.as_str(), ctype.as_str(), default.as_deref())),
            _ => None,
        });
        all.collect()
    }
}

fn unfit(name: &str, why: &str) -> String {
    format!(
        "the torch side of {name} cannot be made from kernel.toml: {why}. It needs tensors of shape [rows, width] with a row \
         stride, or [width]; write torch-ext/{name}.cpp and the package's {name}.py by hand for others"
    )
}

fn arguments(operation: &Table) -> Result<Vec<Argument>> {
    let all = flattened(operation)?;
    let words = |table: &Table, key: &str| -> Vec<String> {
        let items = table.get(key).and_then(Value::as_array).into_iter().flatten();
        items.map(|item| item.as_str().map_or_else(|| item.to_string(), str::to_owned)).collect()
    };
    let shapes = all.iter().filter_map(|(_, value)| value.as_table()).map(|table| words(table, "shape"));
    let shape = shapes.into_iter().find(|shape| shape.len() == 2).context("no tensor has two dimensions")?;
    let (mut strides, mut arguments) = (BTreeMap::new(), Vec::new());
    for (name, value) in &all {
        let table = value.as_table().context("an argument is no table")?;
        if table.contains_key("tensor") {
            ensure!(!table.contains_key("dtype"), "`{name}` has a dtype of its own");
            let role = table.get("role").and_then(Value::as_str);
            let own = words(table, "shape");
            let stride = words(table, "strides");
            arguments.push(match role {
                Some("input") if own == shape[1..] && stride.is_empty() => {
                    Argument::Row(name.clone(), table.contains_key("present"))
                }
                Some(role @ ("input" | "output")) if own == shape && !table.contains_key("present") => {
                    ensure!(
                        stride.len() == 2 && stride[1] == "1",
                        "`{name}` has no row stride: strides = [\"{name}_stride\", \"1\"]"
                    );
                    strides.insert(stride[0].clone(), name.clone());
                    if role == "input" { Argument::Rows(name.clone()) } else { Argument::Output(name.clone()) }
                }
                _ => bail!("the shape, strides or role of `{name}` are others"),
            });
        } else if table.contains_key("scalar") {
            ensure!(!table.contains_key("value"), "`{name}` is computed");
            let ctype = table.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
            let of = |given: &Table| given.get("defaults").cloned();
            let default = of(operation).and_then(|value| match value {
                Value::Array(tables) => tables.iter().find_map(|table| table.get(name).cloned()),
                table => table.get(name).cloned(),
            });
            let default = default.filter(|value| value.is_integer() || value.is_float()).map(|value| value.to_string());
            arguments.push(Argument::Scalar { name: name.clone(), ctype, default });
        } else {
            let codes = table.get("dtype").and_then(Value::as_table);
            let code = |of: &Table, dtype: &str| of.get(dtype).and_then(Value::as_integer);
            let is_usual = |of: &Table| {
                [("f32", 0), ("f16", 1), ("bf16", 2)].iter().all(|(dtype, usual)| code(of, dtype) == Some(*usual))
            };
            ensure!(codes.is_none_or(is_usual), "the codes of dtypes are others than f32 = 0, f16 = 1, bf16 = 2");
            arguments.push(if name == "stream" { Argument::Stream } else { Argument::DType });
        }
    }
    sizes(&mut arguments, &shape, &strides)?;
    Ok(arguments)
}

/// Finds the numbers that are sizes and strides of tensors; the others are the operation's.
fn sizes(arguments: &mut [Argument], shape: &[String], strides: &BTreeMap<String, String>) -> Result<()> {
    for argument in arguments {
        let Argument::Scalar { name, ctype, .. } = &*argument else { continue };
        let size = match name {
            name if *name == shape[0] => Argument::Count,
            name if *name == shape[1] => Argument::Width,
            name => match strides.get(name) {
                Some(tensor) => Argument::Stride(tensor.clone()),
                None => continue,
            },
        };
        ensure!(ctype == "i64", "`{name}` is {ctype}, and sizes of torch are i64");
        *argument = size;
    }
    Ok(())
}

/// The comment before an operation, as one sentence or more.
fn summary(text: &str, wanted: &str) -> String {
    let named = format!("name = \"{wanted}\"");
    let before = text.split_once(&named).map_or("", |(before, _)| before);
    let before = before.trim_end().strip_suffix("[[operation]]").unwrap_or_default();
    let comment = before
        .trim_end()
        .lines()
        .rev()
        .map_while(|line| line.strip_prefix('#'))
        .filter(|line| !line.contains("------"));
    let mut lines: Vec<&str> = comment.map(str::trim).collect();
    lines.reverse();
    let text = lines.join(" ").replace('\\', "/").replace('"', "'");
    if text.is_empty() { format!("The operation {wanted} of kernel.toml.") } else { text }
}

/// Items with commas between them.
pub(super) fn list<T: AsRef<str>>(items: impl IntoIterator<Item = T>) -> String {
    items.into_iter().map(|item| item.as_ref().to_owned()).collect::<Vec<_>>().join(", ")
}
