//! Element types.

use serde::{Deserialize, Serialize};

/// The type of a tensor's elements.
#[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DType {
    /// IEEE binary32.
    F32,
    /// IEEE binary16.
    F16,
    /// bfloat16: the upper half of a binary32.
    BF16,
    /// Signed 32-bit integer.
    I32,
    /// Signed 64-bit integer.
    I64,
}

impl DType {
    /// As `kernel.toml` and the command line name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::BF16 => "bf16",
            Self::I32 => "i32",
            Self::I64 => "i64",
        }
    }

    /// From its name; also the names that torch uses.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "f32" | "float32" | "fp32" | "float" => Self::F32,
            "f16" | "float16" | "fp16" | "half" => Self::F16,
            "bf16" | "bfloat16" => Self::BF16,
            "i32" | "int32" => Self::I32,
            "i64" | "int64" => Self::I64,
            _ => return None,
        })
    }

    /// Bytes an element.
    pub fn size(self) -> usize {
        match self {
            Self::F16 | Self::BF16 => 2,
            Self::F32 | Self::I32 => 4,
            Self::I64 => 8,
        }
    }

    /// Whether it is a floating-point type.
    pub fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F16 | Self::BF16)
    }
}
