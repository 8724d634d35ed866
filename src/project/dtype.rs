//! Element types.

use serde::{Deserialize, Serialize};

/// The largest integer below which doubles have all.
pub(crate) const EXACT: i64 = 1 << 53;

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

// A case has a type's place in this list as the value of a type parameter, and digests of recorded cases have it: new ones
// come last.
dtypes! {
    F32 "f32" ["float32", "fp32", "float"] 4 true "IEEE binary32.";
    F16 "f16" ["float16", "fp16", "half"] 2 true "IEEE binary16.";
    BF16 "bf16" ["bfloat16"] 2 true "bfloat16: the upper half of a binary32.";
    I32 "i32" ["int32"] 4 false "Signed 32-bit integer.";
    I64 "i64" ["int64"] 8 false "Signed 64-bit integer.";
    E4M3 "e4m3" ["float8_e4m3fn", "fp8"] 1 true "8-bit float with 4 bits of exponent, without infinity; at most 448.";
    E5M2 "e5m2" ["float8_e5m2"] 1 true "8-bit float with 5 bits of exponent: the upper half of a binary16.";
    I8 "i8" ["int8"] 1 false "Signed 8-bit integer.";
    U8 "u8" ["uint8"] 1 false "Unsigned 8-bit integer.";
    Bool "bool" [] 1 false "A byte that is 0 or 1.";
}

impl DType {
    /// The smallest and the largest integer of an integer type; of i64 those that doubles count to.
    pub(crate) fn integers(self) -> Option<(i64, i64)> {
        match self {
            Self::F32 | Self::F16 | Self::BF16 | Self::E4M3 | Self::E5M2 => None,
            Self::I32 => Some((i32::MIN.into(), i32::MAX.into())),
            Self::I64 => Some((-EXACT, EXACT)),
            Self::I8 => Some((i8::MIN.into(), i8::MAX.into())),
            Self::U8 => Some((0, u8::MAX.into())),
            Self::Bool => Some((0, 1)),
        }
    }

    /// Whether only what an exact value rounds to is right: integers, and types of 8 bits, whose neighbours lie far apart.
    pub(crate) fn is_stepped(self) -> bool {
        !self.is_float() || self.size() == 1
    }

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
