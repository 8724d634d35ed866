//! What `describe.py` says of a module, and the project's files that are written from it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A module as a task.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Described {
    /// In the order of the launcher's arguments, outputs first.
    pub(crate) tensors: Vec<Tensor>,
    pub(crate) flops: String,
    /// What stands behind the module's own text in reference.py.
    #[serde(skip_serializing)]
    pub(crate) function: String,
    pub(crate) tables: Vec<Table>,
    /// What makes it worthless: a name and a sentence.
    pub(crate) flags: Vec<(String, String)>,
    /// What differs from the module, likewise.
    pub(crate) notes: Vec<(String, String)>,
    pub(crate) torch: String,
}

#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Tensor {
    pub(crate) name: String,
    pub(crate) role: String,
    pub(crate) dtype: String,
    pub(crate) shape: Vec<String>,
    #[serde(default)]
    pub(crate) range: Option<[String; 2]>,
}

/// A table of cases.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Table {
    /// `verify` or `bench`.
    pub(crate) list: String,
    pub(crate) name: String,
    pub(crate) values: BTreeMap<String, Value>,
    #[serde(default)]
    pub(crate) inputs: Vec<String>,
    #[serde(default)]
    pub(crate) draw: Option<u32>,
}

impl Described {
    /// The names of sizes, which the launcher takes as `int64_t` behind its tensors.
    fn sizes(&self) -> Vec<&str> {
        self.tables.first().map(|table| table.values.keys().map(String::as_str).collect()).unwrap_or_default()
    }

    /// kernel.toml. `finite_only` says why there are no cases with NaN and infinity.
    pub(crate) fn kernel_toml(&self, operation: &str, title: &str, finite_only: Option<&str>) -> String {
        let mut text = format!(
            "format = 1\n\n# {title}\n[[operation]]\nname = \"{operation}\"\nlauncher = \"{}\"\n\
             oracle = {{ python = \"reference.py\", function = \"kernels_reference\" }}\ndtypes = [\"f32\"]\n\
             flops = {}\n",
            launcher(operation),
            quoted(&self.flops)
        );
        if let Some(why) = finite_only {
            let _ = writeln!(text, "finite_only = {}", quoted(why));
        }
        text.push_str("arguments = [\n");
        for tensor in &self.tensors {
            let Tensor { name, role, dtype, shape, range } = tensor;
            let _ = write!(text, "  {{ tensor = {}, role = {}, shape = {}", quoted(name), quoted(role), list(shape));
            if dtype != "T" {
                let _ = write!(text, ", dtype = {}", quoted(dtype));
            }
            // A mask's own values are both.
            if let Some(range) = range.as_ref().filter(|_| dtype != "bool") {
                let _ = write!(text, ", range = {}", list(range));
            }
            text.push_str(" },\n");
        }
        let sizes = self.sizes();
        if !sizes.is_empty() {
            let _ = writeln!(text, "  {{ scalars = {}, type = \"i64\" }},", list(&sizes));
        }
        text.push_str("  { stream = true },\n]\n");
        for table in &self.tables {
            let _ = write!(text, "\n[[operation.{}]]\nname = {}\n", table.list, quoted(&table.name));
            for (name, value) in &table.values {
                let _ = writeln!(text, "{} = {value}", key(name));
            }
            if let Some(count) = table.draw {
                let _ = writeln!(text, "draw = {count}");
            }
            if !table.inputs.is_empty() {
                let _ = writeln!(text, "inputs = {}", list(&table.inputs));
            }
        }
        text
    }

    /// The source to begin with: it compiles, and its launcher refuses every call.
    pub(crate) fn source(&self, operation: &str, title: &str) -> String {
        let mut arguments: Vec<String> = Vec::new();
        for tensor in &self.tensors {
            let kind = match tensor.dtype.as_str() {
                "i64" => "int64_t",
                "i32" => "int32_t",
                "i8" => "int8_t",
                "u8" => "uint8_t",
                "bool" => "bool",
                _ => "float",
            };
            let constant = if tensor.role == "input" { "const " } else { "" };
            arguments.push(format!("{constant}{kind}* {}", tensor.name));
        }
        arguments.extend(self.sizes().iter().map(|name| format!("int64_t {name}")));
        arguments.push("cudaStream_t stream".to_owned());
        let unused: Vec<&str> = arguments.iter().filter_map(|one| one.rsplit([' ', '*']).next()).collect();
        let unused: String = unused.iter().fold(String::new(), |mut text, name| {
            let _ = write!(text, "(void){name}; ");
            text
        });
        format!(
            "// {title}: reference.py says what is right, kernel.toml the arguments. Nothing is written yet: the launcher \
             refuses every call.\n#include <cstdint>\n#include <cuda_runtime.h>\n\nextern \"C\" int {}({}) {{\n    \
             {}\n    return cudaErrorNotSupported;\n}}\n",
            launcher(operation),
            arguments.join(", "),
            unused.trim_end()
        )
    }
}

pub(crate) fn launcher(operation: &str) -> String {
    format!("{operation}_launch")
}

/// build.toml of a project with one source.
pub(crate) fn build_toml(operation: &str, license: &str) -> String {
    let name = operation.replace('_', "-");
    format!(
        "[general]\nname = \"{name}\"\nversion = 1\nedition = 5\nlicense = \"{license}\"\nbackends = [\"cuda\"]\n\n[torch]\nsrc = []\n\n\
         [kernel.{operation}]\nbackend = \"cuda\"\ndepends = []\nsrc = [\"{operation}.cu\"]\n"
    )
}

fn list(items: &[impl AsRef<str>]) -> String {
    let quoted: Vec<String> = items.iter().map(|item| quoted(item.as_ref())).collect();
    format!("[{}]", quoted.join(", "))
}

/// A key of TOML.
fn key(name: &str) -> String {
    let bare = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if bare && !name.is_empty() { name.to_owned() } else { quoted(name) }
}

/// A string of TOML: what a stranger's module says stays one string.
fn quoted(text: &str) -> String {
    // JSON's escapes are among TOML's.
    serde_json::Value::from(text).to_string()
}
