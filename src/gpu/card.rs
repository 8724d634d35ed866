//! The cards of this machine.

use cudarc::driver::result;
use cudarc::driver::sys::CUdevice_attribute as A;
use serde::{Deserialize, Serialize};

use super::driver::{self, GpuError, Said};

/// A card, as the driver describes it.
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
    /// The driver's version, `580.159.04`; none where it cannot be read.
    pub driver: Option<String>,
    /// The CUDA version that the driver supports, `13.0`.
    pub cuda: String,
    /// Peak memory bandwidth in GB/s, from memory clock and bus width.
    pub peak_gbs: Option<f64>,
    /// Peak L2 bandwidth in GB/s: 64 bytes per clock and multiprocessor, at the highest clock.
    #[serde(default)]
    pub peak_l2_gbs: Option<f64>,
}

/// Bytes of L2 that a multiprocessor moves a clock, at most.
const L2_BYTES: f64 = 64.0;

impl Card {
    /// A short name for files: `h100`, `a100`, `t4`, otherwise the name in lower case with hyphens.
    pub(crate) fn slug(&self) -> String {
        slug(&self.name)
    }

    /// The most operations a second, in 10^9: of the narrowest type that the tensor cores multiply, without sparsity, at the
    /// highest clock.
    pub(crate) fn peak_gflops(&self) -> Option<f64> {
        // A clock and multiprocessor, by NVIDIA's figures: int4 of a T4 and an A100, fp8 of an H100, fp4 of a B200.
        let most = match self.arch {
            ..80 => 4096.0,
            80..100 => 8192.0,
            _ => 32_768.0,
        };
        Some(self.peak_l2_gbs? / L2_BYTES * most)
    }
}

/// [`Card::slug`] of a card's name.
pub(crate) fn slug(name: &str) -> String {
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

/// The cards of this machine.
///
/// # Errors
/// A message for the user: no driver, a driver that is too old, or no card.
pub fn probe() -> Result<Vec<Card>, String> {
    let version = driver::load().map_err(|error| error.said)?;
    let count = result::device::get_count().map_err(|error| error.to_string())?;
    if count == 0 {
        return Err("the driver finds no card".to_owned());
    }
    (0..count).map(|ordinal| describe(ordinal, version).map_err(|error| error.to_string())).collect()
}

/// A card's properties; `cuda` is the version that the driver supports.
pub(super) fn describe(ordinal: i32, cuda: i32) -> Result<Card, GpuError> {
    let doing = format!("asking about card {ordinal}");
    let device = result::device::get(ordinal).said(&doing)?;
    // SAFETY: the driver returned `device`.
    let ask = |attribute| unsafe { result::device::get_attribute(device, attribute) }.said(&doing);
    let name = result::device::get_name(device).said(&doing)?;
    // SAFETY: as above.
    let memory = unsafe { result::device::total_mem(device) }.said(&doing)?;
    let number = |value: i32| u32::try_from(value).unwrap_or(0);
    // In kHz and bits; two transfers per clock.
    let (clock, width) =
        (ask(A::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)?, ask(A::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)?);
    let peak = f64::from(clock) * 1e3 * f64::from(width) / 8.0 * 2.0 / 1e9;
    let sms = ask(A::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
    let l2 = f64::from(ask(A::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)?) * 1e3 * 64.0 * f64::from(sms) / 1e9;
    Ok(Card {
        name,
        arch: number(
            ask(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)? * 10
                + ask(A::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        ),
        sms: number(sms),
        l2_bytes: u64::from(number(ask(A::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?)),
        memory_bytes: memory as u64,
        driver: driver_version(),
        cuda: format!("{}.{}", cuda / 1000, cuda % 1000 / 10),
        peak_gbs: (peak > 0.0).then_some(peak),
        peak_l2_gbs: (l2 > 0.0).then_some(l2),
    })
}

/// Where a card lies on the PCI bus, `00000000:0F:00.0`, by which nvidia-smi finds it: its own numbers are not those of
/// `CUDA_VISIBLE_DEVICES`.
pub(crate) fn bus(ordinal: usize) -> Option<String> {
    let device = result::device::get(i32::try_from(ordinal).ok()?).ok()?;
    // SAFETY: the driver returned `device`.
    let ask = |attribute| unsafe { result::device::get_attribute(device, attribute) }.ok();
    let (domain, bus) = (ask(A::CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID)?, ask(A::CU_DEVICE_ATTRIBUTE_PCI_BUS_ID)?);
    Some(format!("{domain:08X}:{bus:02X}:{:02X}.0", ask(A::CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID)?))
}

/// `580.159.04`, as the kernel module reports it.
fn driver_version() -> Option<String> {
    let text = std::fs::read_to_string("/proc/driver/nvidia/version").ok()?;
    text.lines()
        .next()?
        .split_whitespace()
        .find(|word| word.contains('.') && word.chars().all(|c| c.is_ascii_digit() || c == '.'))
        .map(str::to_owned)
}
