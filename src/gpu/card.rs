//! What a card is.

use cudarc::driver::result;
use cudarc::driver::sys::CUdevice_attribute as A;
use serde::{Deserialize, Serialize};

use super::driver::{GpuError, Said};

/// A card, as its driver describes it.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Card {
    /// `NVIDIA H100 80GB HBM3`
    pub name: String,
    /// Compute capability without the point: 90.
    pub arch: u32,
    /// Streaming multiprocessors.
    pub sms: u32,
    /// Bytes of L2.
    pub l2_bytes: u64,
    /// Bytes of device memory.
    pub memory_bytes: u64,
    /// The driver's version where it can be read, `580.159.04`.
    pub driver: Option<String>,
    /// The CUDA version that the driver speaks, `13.0`.
    pub cuda: String,
    /// Peak memory bandwidth by memory clock and bus width, GB/s.
    pub peak_gbs: Option<f64>,
}

impl Card {
    /// A short name for files: `h100`, `a100`, `t4`, else the driver's name in small letters with hyphens.
    pub fn slug(&self) -> String {
        slug(&self.name)
    }
}

/// [`Card::slug`] of a card's name.
pub fn slug(name: &str) -> String {
    let words: Vec<String> = name
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_ascii_lowercase)
        .collect();
    for known in ["h100", "h200", "a100", "t4", "l4", "l40s", "b200"] {
        if words.iter().any(|word| word == known) {
            return known.to_owned();
        }
    }
    words.join("-")
}

/// Asks the driver about a card.
pub(super) fn describe(ordinal: i32, cuda: i32) -> Result<Card, GpuError> {
    let doing = format!("asking about card {ordinal}");
    let device = result::device::get(ordinal).said(&doing)?;
    // SAFETY: `device` is one that the driver gave.
    let ask = |attribute| unsafe { result::device::get_attribute(device, attribute) }.said(&doing);
    let name = result::device::get_name(device).said(&doing)?;
    // SAFETY: as above.
    let memory = unsafe { result::device::total_mem(device) }.said(&doing)?;
    let number = |value: i32| u32::try_from(value).unwrap_or(0);
    // Both in the driver's units: kHz and bits. Two transfers a clock.
    let (clock, width) = (
        ask(A::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)?,
        ask(A::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)?,
    );
    let peak = f64::from(clock) * 1e3 * f64::from(width) / 8.0 * 2.0 / 1e9;
    Ok(Card {
        name,
        arch: number(
            ask(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)? * 10
                + ask(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ),
        sms: number(ask(A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?),
        l2_bytes: u64::from(number(ask(A::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?)),
        memory_bytes: memory as u64,
        driver: driver_version(),
        cuda: format!("{}.{}", cuda / 1000, cuda % 1000 / 10),
        peak_gbs: (peak > 0.0).then_some(peak),
    })
}

/// `580.159.04`, from the kernel module's own words.
fn driver_version() -> Option<String> {
    let text = std::fs::read_to_string("/proc/driver/nvidia/version").ok()?;
    text.lines()
        .next()?
        .split_whitespace()
        .find(|word| word.contains('.') && word.chars().all(|c| c.is_ascii_digit() || c == '.'))
        .map(str::to_owned)
}
