//! Element types.

use serde::{Deserialize, Serialize};

/// Each type once: variant, what it is, name, other names that torch uses, bytes, whether it is a floating-point type.
macro_rules! dtypes {
    ($($variant:ident $name:literal [$($other:literal),*] $size:literal $float:literal $about:literal;)+) => {
        /// The type of a tensor's elements.
        #[derive(Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize)]
        #[serde(rename_all = "lowercase")]
        pub enum DType {
            $(#[doc = $about] $variant,)+
        }

        impl DType {
            /// All types.
            pub(crate) const ALL: &[Self] = &[$(Self::$variant),+];

            /// The names of all types.
            pub(crate) const NAMES: &[&'static str] = &[$($name),+];

            /// As `kernel.toml` and the command line name it.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// From its name; also the names that torch uses.
            pub fn from_name(name: &str) -> Option<Self> {
                match name {
                    $($name $(| $other)* => Some(Self::$variant),)+
                    _ => None,
                }
            }

            /// Bytes an element.
            pub fn size(self) -> usize {
                match self {
                    $(Self::$variant => $size,)+
                }
            }

            /// Whether it is a floating-point type.
            pub(crate) fn is_float(self) -> bool {
                match self {
                    $(Self::$variant => $float,)+
                }
            }
        }
    };
}

dtypes! {
    F32 "f32" ["float32", "fp32", "float"] 4 true "IEEE binary32.";
    F16 "f16" ["float16", "fp16", "half"] 2 true "IEEE binary16.";
    BF16 "bf16" ["bfloat16"] 2 true "bfloat16: the upper half of a binary32.";
    I32 "i32" ["int32"] 4 false "Signed 32-bit integer.";
    I64 "i64" ["int64"] 8 false "Signed 64-bit integer.";
}

impl DType {
    /// The value of a type parameter that stands for a type of its own, or for the case's `T` where it is none: the names
    /// of a case have numbers as values, and types are among them.
    pub(crate) fn code(this: Option<Self>) -> f64 {
        let place = this.and_then(|this| Self::ALL.iter().position(|other| *other == this));
        place.map_or(-1.0, |place| f64::from(u8::try_from(place).unwrap_or(u8::MAX)))
    }

    /// The type that a value of [`DType::code`] stands for; none for `T`.
    pub(crate) fn from_code(code: f64) -> Option<Self> {
        Self::ALL.iter().copied().find(|dtype| Self::code(Some(*dtype)).to_bits() == code.to_bits())
    }

    /// `f32`, or `T`.
    pub(crate) fn code_name(code: f64) -> &'static str {
        Self::from_code(code).map_or("T", Self::name)
    }
}

/// What a tensor's elements are, as kernel.toml says it.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Element {
    /// The case's `T`.
    T,
    /// The same type in every case.
    Fixed(DType),
    /// What the case says of a type parameter.
    Parameter(String),
}

/// Whether a type parameter may have this name: capital letters and digits, a letter first, and not `T`.
pub(crate) fn is_type_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_uppercase())
        && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
        && name != "T"
}
