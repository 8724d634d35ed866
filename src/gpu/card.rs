//! What a card is.

use serde::{Deserialize, Serialize};

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
        let words: Vec<String> = self
            .name
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
}
