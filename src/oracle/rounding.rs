//! Rounding of doubles to the element types.

use crate::project::DType;

/// 2^-24, half a unit in the last place of fp32: the bound of the relative error of one fp32 operation.
pub(crate) const FP32: f64 = 1.0 / 16_777_216.0;

/// The unit in the last place (ulp) of `value` in a type: the distance between adjacent numbers. 1 for integers.
pub(crate) fn ulp(dtype: DType, value: f64) -> f64 {
    let (fraction_bits, least_exponent) = match dtype {
        DType::F32 => (23, -126),
        DType::F16 => (10, -14),
        DType::BF16 => (7, -126),
        DType::E4M3 => (3, -6),
        DType::E5M2 => (2, -14),
        DType::I32 | DType::I64 | DType::I8 | DType::U8 | DType::Bool => return 1.0,
    };
    power_of_two(exponent(value).max(least_exponent) - fraction_bits)
}

/// 2 to the power of `exponent`, in the range of normal doubles. Composed from bits: it is called for every element,
/// and `powi` is a loop.
fn power_of_two(exponent: i32) -> f64 {
    f64::from_bits(u64::from((exponent + 1023).cast_unsigned()) << 52)
}

/// The smallest normal number of a type, below which the ulp is constant. 0 for integers.
pub(crate) fn smallest_normal(dtype: DType) -> f64 {
    match dtype {
        DType::F32 | DType::BF16 => f64::from(f32::MIN_POSITIVE),
        DType::F16 | DType::E5M2 => power_of_two(-14),
        DType::E4M3 => power_of_two(-6),
        DType::I32 | DType::I64 | DType::I8 | DType::U8 | DType::Bool => 0.0,
    }
}

/// The largest finite number of a type.
pub(crate) fn largest(dtype: DType) -> f64 {
    match dtype {
        DType::F32 => f64::from(f32::MAX),
        DType::F16 => 65504.0,
        DType::BF16 => bf16_to_f64(0x7f7f),
        DType::I32 => f64::from(i32::MAX),
        #[allow(clippy::cast_precision_loss)]
        DType::I64 => i64::MAX as f64,
        DType::E4M3 => 448.0,
        DType::E5M2 => 57344.0,
        DType::I8 => f64::from(i8::MAX),
        DType::U8 => f64::from(u8::MAX),
        DType::Bool => 1.0,
    }
}

/// The numbers of a floating-point type. Its functions have no branches, so that loops over them use wide registers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grid {
    /// The smallest normal number.
    pub(crate) normal: f64,
    /// The largest finite number.
    pub(crate) largest: f64,
    /// The ulp of 1.
    epsilon: f64,
    /// The magnitude of what is too large.
    beyond: f64,
}

impl Grid {
    /// That of a floating-point type.
    pub(crate) fn of(dtype: DType) -> Self {
        let beyond = if dtype == DType::E4M3 { f64::NAN } else { f64::INFINITY };
        Self { normal: smallest_normal(dtype), largest: largest(dtype), epsilon: ulp(dtype, 1.0), beyond }
    }

    /// The ulp of a finite value.
    #[inline(always)]
    pub(crate) fn ulp(self, value: f64) -> f64 {
        const EXPONENT: u64 = 0x7ff0_0000_0000_0000;
        f64::from_bits(value.to_bits() & EXPONENT).max(self.normal) * self.epsilon
    }

    /// As [`round`]. There is no double rounding: the ulp is a power of two, so that only the addition of `shift` rounds.
    #[inline(always)]
    pub(crate) fn round(self, value: f64) -> f64 {
        // The ulp of a double near 1.5 * 2^52 units is one unit, so that the addition rounds to a multiple of the unit.
        let shift = 6_755_399_441_055_744.0 * self.ulp(value);
        let rounded = ((value + shift) - shift).abs();
        // Infinity gives NaN there.
        let is_beyond = rounded > self.largest || value.abs() >= 2.0 * self.largest;
        (if is_beyond { self.beyond } else { rounded }).copysign(value)
    }

    /// Rounds a value that is known within `slack`, and returns the new slack. Near a tie the value may round to either
    /// side: the new slack then includes the other neighbour.
    #[inline(always)]
    pub(crate) fn round_within(self, value: f64, slack: f64) -> (f64, f64) {
        let (low, high) = (self.round(value - slack), self.round(value + slack));
        let rounded = self.round(value);
        (rounded, (high - rounded).max(rounded - low))
    }
}

/// Rounds to the nearest number of a type, ties to even. What rounds to more than the largest finite number becomes
/// infinity, or NaN in e4m3, which has no infinity. Integer types saturate.
#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, clippy::cast_sign_loss)]
pub(crate) fn round(dtype: DType, value: f64) -> f64 {
    match dtype {
        DType::F32 => f64::from(value as f32),
        DType::F16 | DType::BF16 | DType::E4M3 | DType::E5M2 => Grid::of(dtype).round(value),
        DType::I8 => f64::from(value.round_ties_even() as i8),
        DType::U8 => f64::from(value.round_ties_even() as u8),
        DType::Bool => value.round_ties_even().clamp(0.0, 1.0),
        DType::I32 => f64::from(value.round_ties_even() as i32),
        DType::I64 => value.round_ties_even() as i64 as f64,
    }
}

/// 2 to the power of the difference between the exponent biases of f64 and fp16.
const F16_BIAS: f64 = f64::from_bits((1023 + 1008) << 52);

/// The value of an fp16 number's bits.
#[inline(always)]
pub(crate) fn f16_to_f64(bits: u16) -> f64 {
    let finite = f64::from_bits(u64::from(bits & 0x7fff) << 42) * F16_BIAS;
    // Infinity, or NaN where the fraction is not 0.
    let other = f64::from_bits(0x7ff0_0000_0000_0000 | u64::from(bits & 0x3ff) << 42);
    let magnitude = if bits & 0x7c00 == 0x7c00 { other } else { finite };
    f64::from_bits(magnitude.to_bits() | u64::from(bits >> 15) << 63)
}

/// The bits of a number that fp16 represents exactly, or of infinity or NaN.
#[inline(always)]
#[allow(clippy::cast_possible_truncation)]
pub(crate) fn f16_bits(value: f64) -> u16 {
    let finite = ((value.abs() * (1.0 / F16_BIAS)).to_bits() >> 42) as u16;
    let other = if value.is_nan() { 0x7e00 } else { 0x7c00 };
    let magnitude = if value.abs() < f64::INFINITY { finite } else { other };
    magnitude | (value.to_bits() >> 63 << 15) as u16
}

/// 2 to the power of the difference between the exponent biases of f64 and e4m3.
const E4M3_BIAS: f64 = f64::from_bits((1023 + 1016) << 52);

/// The value of an e4m3 number's bits.
pub(crate) fn e4m3_to_f64(bits: u8) -> f64 {
    let magnitude = match bits & 0x7f {
        0x7f => f64::NAN,
        finite => f64::from_bits(u64::from(finite) << 49) * E4M3_BIAS,
    };
    if bits >> 7 == 0 { magnitude } else { -magnitude }
}

/// The bits of a number that e4m3 represents exactly; of NaN for NaN, infinity and numbers beyond its range.
#[allow(clippy::cast_possible_truncation)]
pub(crate) fn e4m3_bits(value: f64) -> u8 {
    let finite = value.abs() <= largest(DType::E4M3);
    let magnitude = if finite { ((value.abs() / E4M3_BIAS).to_bits() >> 49) as u8 } else { 0x7f };
    magnitude | (u8::from(value.is_sign_negative()) << 7)
}

/// The value of an e5m2 number, whose bits are the upper half of an fp16 number.
pub(crate) fn e5m2_to_f64(bits: u8) -> f64 {
    f16_to_f64(u16::from(bits) << 8)
}

/// The bits of a number that e5m2 represents exactly, or of infinity or NaN.
pub(crate) fn e5m2_bits(value: f64) -> u8 {
    f16_bits(value).to_be_bytes()[0]
}

/// The value of a bf16 number, whose bits are the upper half of an fp32 number.
#[inline(always)]
pub(crate) fn bf16_to_f64(bits: u16) -> f64 {
    f64::from(f32::from_bits(u32::from(bits) << 16))
}

/// The bits of a number that bf16 represents exactly, or of infinity or NaN.
#[inline(always)]
#[allow(clippy::cast_possible_truncation)]
pub(crate) fn bf16_bits(value: f64) -> u16 {
    ((value as f32).to_bits() >> 16) as u16
}

/// The smallest and the largest number of a type to which a value that is known within `slack` may round. They are
/// equal unless a rounding boundary lies within the slack. In an integer type a whole number has no slack, and a
/// fraction rounds to one of its two neighbours whatever the slack is. Beyond the range of a floating-point type the
/// result is infinity, even in e4m3. For NaN both are NaN.
pub(crate) fn bracket(dtype: DType, value: f64, slack: f64) -> (f64, f64) {
    let slack = match slack {
        _ if value.is_nan() => return (value, value),
        slack if dtype.is_float() => slack,
        _ if value.fract() == 0.0 => 0.0,
        slack => slack.min(0.499),
    };
    // A value on a tie may round to either side, even if the slack is too small to change the double.
    let slack = if slack > 0.0 { slack.max(value.abs() * f64::EPSILON) } else { 0.0 };
    let rounded = |end: f64| match round(dtype, end) {
        beyond if beyond.is_nan() => f64::INFINITY.copysign(end),
        rounded => rounded,
    };
    (rounded(value - slack), rounded(value + slack))
}

/// floor(log2 |value|), from the bits; -1023, below the exponents of all types, for zero and subnormal doubles.
fn exponent(value: f64) -> i32 {
    let bits = (value.to_bits() >> 52) & 0x7ff;
    i32::try_from(bits).unwrap_or(0) - 1023
}

#[cfg(test)]
#[allow(clippy::float_cmp)]
mod tests {
    use super::*;

    #[test]
    fn the_gap_to_the_next_number_is_one_ulp() {
        for bits in [0x3f80u16, 0x0001, 0x0080, 0x7f00, 0x4049] {
            let (this, next) = (bf16_to_f64(bits), bf16_to_f64(bits + 1));
            assert_eq!(ulp(DType::BF16, this), next - this, "{bits:#x}");
        }
        for bits in [0x3c00u16, 0x0001, 0x0400, 0x7bfe] {
            let (this, next) = (f16_to_f64(bits), f16_to_f64(bits + 1));
            assert_eq!(ulp(DType::F16, this), next - this, "{bits:#x}");
        }
        for value in [1.0f32, f32::MIN_POSITIVE, 1e-40, 3.0e38] {
            let next = f32::from_bits(value.to_bits() + 1);
            assert_eq!(ulp(DType::F32, f64::from(value)), f64::from(next) - f64::from(value));
        }
    }

    #[test]
    fn every_number_keeps_its_bits() {
        for bits in 0..=u16::MAX {
            let (f16, bf16) = (f16_to_f64(bits), bf16_to_f64(bits));
            assert_eq!(f16.is_nan(), bits & 0x7fff > 0x7c00, "{bits:#x}");
            assert!(f16.is_nan() || f16_bits(f16) == bits, "{bits:#x}");
            assert!(bf16.is_nan() || bf16_bits(bf16) == bits, "{bits:#x}");
        }
        for (bits, value) in [
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x3555, 0.333_251_953_125),
            (0x7bff, 65504.0),
            (0x0400, 2f64.powi(-14)),
            (0x0001, 2f64.powi(-24)),
        ] {
            assert_eq!(f16_to_f64(bits), value, "{bits:#x}");
        }
        assert!(f16_to_f64(f16_bits(f64::NAN)).is_nan());
        assert!(bf16_to_f64(bf16_bits(f64::NAN)).is_nan());
    }

    #[test]
    fn every_8_bit_float_keeps_its_bits_and_every_midpoint_rounds_to_even() {
        type Eight = (DType, fn(u8) -> f64, fn(f64) -> u8, u8);
        let types: [Eight; 2] =
            [(DType::E4M3, e4m3_to_f64, e4m3_bits, 0x7e), (DType::E5M2, e5m2_to_f64, e5m2_bits, 0x7b)];
        for (dtype, value, bits_of, last) in types {
            assert_eq!(value(last), largest(dtype));
            for bits in 0..=u8::MAX {
                let one = value(bits);
                assert!(one.is_nan() || bits_of(one) == bits, "{dtype:?} {bits:#x}");
                assert!(one.is_nan() || bits & 0x7f > last || round(dtype, one) == one, "{dtype:?} {bits:#x}");
            }
            assert!(value(bits_of(f64::NAN)).is_nan());
            for bits in 0..last {
                let (this, next) = (value(bits), value(bits + 1));
                assert_eq!(ulp(dtype, this), next - this, "{dtype:?} {bits:#x}");
                let even = if bits % 2 == 0 { this } else { next };
                let middle = f64::midpoint(this, next);
                assert_eq!(round(dtype, middle), even, "{dtype:?} {bits:#x}");
                assert_eq!(round(dtype, -middle * (1.0 - 1e-15)), -this, "{dtype:?} {bits:#x}");
                assert_eq!(bracket(dtype, middle, 1e-9), (this, next), "{dtype:?} {bits:#x}");
                assert_eq!(bracket(dtype, next, 1e-9), (next, next), "{dtype:?} {bits:#x}");
            }
        }
        assert_eq!((e4m3_to_f64(0x38), e4m3_to_f64(0x01), e4m3_to_f64(0xc0)), (1.0, 2f64.powi(-9), -2.0));
        assert_eq!((e5m2_to_f64(0x3c), e5m2_to_f64(0x01)), (1.0, 2f64.powi(-16)));
        // Without infinity, e4m3 has NaN beyond its range; 464 is a tie, and 448 even.
        assert_eq!((round(DType::E4M3, 464.0), round(DType::E5M2, 61_439.0)), (448.0, 57344.0));
        assert!(round(DType::E4M3, 464.1).is_nan() && round(DType::E5M2, 61_440.0).is_infinite());
    }

    #[test]
    fn rounding_is_to_nearest_and_ties_to_even() {
        assert_eq!(round(DType::BF16, 1.0 + 1.0 / 256.0), 1.0);
        assert_eq!(round(DType::BF16, 1.0 + 3.0 / 256.0), 1.0 + 4.0 / 256.0);
        // Rounding through f32 first would give 1.0.
        assert_eq!(round(DType::BF16, 1.0 + 1.0 / 256.0 + 1e-12), 1.0 + 2.0 / 256.0);
        assert_eq!(round(DType::F16, 65519.0), 65504.0);
        assert!(round(DType::F16, 65520.0).is_infinite());
        assert_eq!(round(DType::F16, -3e-8), -5.960_464_477_539_063e-8);
        assert_eq!(round(DType::BF16, 0.0), 0.0);
        assert!(round(DType::BF16, f64::NAN).is_nan());
    }

    #[test]
    fn every_number_of_a_type_rounds_to_itself_and_every_midpoint_to_even() {
        for bits in 0..0x7f7f_u16 {
            let (this, next) = (bf16_to_f64(bits), bf16_to_f64(bits + 1));
            assert_eq!(round(DType::BF16, this), this);
            let even = if bits % 2 == 0 { this } else { next };
            let middle = f64::midpoint(this, next);
            assert_eq!(round(DType::BF16, middle), even, "{bits:#x}");
            assert_eq!(round(DType::BF16, middle * (1.0 + 1e-15)), next, "{bits:#x}");
            assert_eq!(round(DType::BF16, -middle * (1.0 - 1e-15)), -this, "{bits:#x}");
        }
    }
}
