//! Helpers that several modules share.

pub mod arch;
pub mod bundle;
pub(crate) mod dir;
pub(crate) mod disk;
pub(crate) mod git;
pub(crate) mod http;
pub(crate) mod lease;
pub(crate) mod repo;
pub(crate) mod scratch;
pub(crate) mod signals;
pub(crate) mod text;

use std::fmt::Write as _;
use std::num::NonZero;

/// How many threads this machine runs at once.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, NonZero::get)
}

/// Bytes of this machine's memory; none where the system does not say.
#[allow(clippy::unnecessary_wraps, reason = "on other systems")]
pub(crate) fn memory() -> Option<u64> {
    #[cfg(target_os = "linux")]
    {
        let all = rustix::system::sysinfo();
        Some(all.totalram * u64::from(all.mem_unit))
    }
    #[cfg(not(target_os = "linux"))]
    None
}

/// Lets other threads run first, before this one and those that it starts: on Linux a niceness is a thread's.
pub(crate) fn nice() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::nice(10);
}

/// Bytes as lowercase hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Base64 with padding (RFC 4648).
pub(crate) fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let mut group = [0; 4];
        group[1..=chunk.len()].copy_from_slice(chunk);
        let bits = u32::from_be_bytes(group);
        for at in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * at) & 63) as usize];
            text.push(if at <= chunk.len() { digit.into() } else { '=' });
        }
    }
    text
}

/// `1 case`, `2 cases`, `3 launches`.
pub(crate) fn plural(count: impl TryInto<u64>, noun: &str) -> String {
    match count.try_into().unwrap_or(u64::MAX) {
        1 => format!("1 {noun}"),
        count if noun.ends_with("ch") => format!("{count} {noun}es"),
        count => format!("{count} {noun}s"),
    }
}

/// Pseudo-random 64-bit numbers, the same on every machine for the same state (Steele, Lea and Flood, "Fast splittable
/// pseudorandom number generators", 2014).
#[derive(Clone, Debug)]
pub(crate) struct SplitMix64(pub(crate) u64);

impl SplitMix64 {
    /// The next 64 bits.
    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        Self::mix(self.0)
    }

    /// The generator's output function: a bijection in which every input bit affects every output bit.
    #[inline(always)]
    pub(crate) fn mix(value: u64) -> u64 {
        let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }
}
