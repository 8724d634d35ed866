//! The floating-point types, seen from double precision.

use half::{bf16, f16};

use crate::project::DType;

/// Half a unit of fp32's last place, relative: what one fp32 operation may lose.
pub const FP32: f64 = 1.0 / 16_777_216.0;

/// The unit in the last place of `value` in a type: the gap between neighbours there. Integers: 1.
pub fn ulp(dtype: DType, value: f64) -> f64 {
    let (fraction_bits, least_exponent) = match dtype {
        DType::F32 => (23, -126),
        DType::F16 => (10, -14),
        DType::BF16 => (7, -126),
        DType::I32 | DType::I64 => return 1.0,
    };
    let exponent = exponent(value).max(least_exponent);
    2f64.powi(exponent - fraction_bits)
}

/// The smallest normal number of a type: nearer to zero, units are no smaller than there. Integers: 0.
pub fn smallest_normal(dtype: DType) -> f64 {
    match dtype {
        DType::F32 | DType::BF16 => f64::from(f32::MIN_POSITIVE),
        DType::F16 => f64::from(f16::MIN_POSITIVE),
        DType::I32 | DType::I64 => 0.0,
    }
}

/// The largest finite number of a type.
pub fn largest(dtype: DType) -> f64 {
    match dtype {
        DType::F32 => f64::from(f32::MAX),
        DType::F16 => f64::from(f16::MAX),
        DType::BF16 => f64::from(bf16::MAX),
        DType::I32 => f64::from(i32::MAX),
        #[allow(clippy::cast_precision_loss)]
        DType::I64 => i64::MAX as f64,
    }
}

/// The nearest number of a type, ties to even; infinity beyond the largest one by half a unit or more.
///
/// Exact: a unit is a power of two, so both steps are free of rounding. (Crate half's own conversions from f64 look at
/// the upper bits alone, and take what lies just beside a tie for one.)
#[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)]
pub fn round(dtype: DType, value: f64) -> f64 {
    match dtype {
        DType::F32 => f64::from(value as f32),
        DType::F16 | DType::BF16 => {
            if !value.is_finite() {
                return value;
            }
            let unit = ulp(dtype, value);
            let rounded = (value / unit).round_ties_even() * unit;
            if rounded.abs() > largest(dtype) {
                f64::INFINITY.copysign(value)
            } else {
                rounded
            }
        }
        DType::I32 => f64::from(value.round_ties_even() as i32),
        DType::I64 => value.round_ties_even() as i64 as f64,
    }
}

/// floor(log2 |value|), from the bits; of zero and subnormal doubles, something below any type's exponents.
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
            let (this, next) = (
                bf16::from_bits(bits).to_f64(),
                bf16::from_bits(bits + 1).to_f64(),
            );
            assert_eq!(ulp(DType::BF16, this), next - this, "{bits:#x}");
        }
        for bits in [0x3c00u16, 0x0001, 0x0400, 0x7bfe] {
            let (this, next) = (
                f16::from_bits(bits).to_f64(),
                f16::from_bits(bits + 1).to_f64(),
            );
            assert_eq!(ulp(DType::F16, this), next - this, "{bits:#x}");
        }
        for value in [1.0f32, f32::MIN_POSITIVE, 1e-40, 3.0e38] {
            let next = f32::from_bits(value.to_bits() + 1);
            assert_eq!(
                ulp(DType::F32, f64::from(value)),
                f64::from(next) - f64::from(value)
            );
        }
    }

    #[test]
    fn rounding_is_to_nearest_and_ties_to_even() {
        assert_eq!(round(DType::BF16, 1.0 + 1.0 / 256.0), 1.0);
        assert_eq!(round(DType::BF16, 1.0 + 3.0 / 256.0), 1.0 + 4.0 / 256.0);
        // Rounding through f32 first would give 1.0.
        assert_eq!(
            round(DType::BF16, 1.0 + 1.0 / 256.0 + 1e-12),
            1.0 + 2.0 / 256.0
        );
        assert_eq!(round(DType::F16, 65519.0), 65504.0);
        assert!(round(DType::F16, 65520.0).is_infinite());
        assert_eq!(round(DType::F16, -3e-8), -5.960_464_477_539_063e-8);
        assert_eq!(round(DType::BF16, 0.0), 0.0);
        assert!(round(DType::BF16, f64::NAN).is_nan());
    }

    #[test]
    fn every_number_of_a_type_rounds_to_itself_and_every_midpoint_to_even() {
        for bits in 0..0x7f7f_u16 {
            let (this, next) = (
                bf16::from_bits(bits).to_f64(),
                bf16::from_bits(bits + 1).to_f64(),
            );
            assert_eq!(round(DType::BF16, this), this);
            let even = if bits % 2 == 0 { this } else { next };
            let middle = f64::midpoint(this, next);
            assert_eq!(round(DType::BF16, middle), even, "{bits:#x}");
            assert_eq!(
                round(DType::BF16, middle * (1.0 + 1e-15)),
                next,
                "{bits:#x}"
            );
            assert_eq!(
                round(DType::BF16, -middle * (1.0 - 1e-15)),
                -this,
                "{bits:#x}"
            );
        }
    }
}
