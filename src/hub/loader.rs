//! The checks of the Hub's library on the variant that it has chosen by name: its metadata.json must fit the library's version
//! and the card's architecture. If a check fails, the library tries no other variant. As in version 0.17.2 of the library.

use std::fs;

use super::digest::Metadata;
use super::name::System;
use crate::gpu;

/// The library that is installed beside torch, and the card that torch would use.
#[derive(Clone, Debug, Default)]
pub(crate) struct Loader {
    pub(crate) library: Option<String>,
    /// The card's compute capability without the point: 90.
    pub(crate) card: Option<u32>,
}

impl Loader {
    /// Those of this machine. A torch without CUDA uses no card.
    pub(crate) fn of(system: &System) -> Self {
        let entries = system.packages.iter().flat_map(fs::read_dir).flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut versions = names.filter_map(|name| {
            let version = name.strip_prefix("kernels-")?.strip_suffix(".dist-info")?;
            Some(version.to_owned())
        });
        let card = || gpu::probe().ok()?.first().map(|card| card.arch);
        Self { library: versions.next(), card: system.has_cuda().then(card).flatten() }
    }

    /// Why the library would not load the variant with this metadata.
    pub(crate) fn refuses(&self, metadata: &Metadata) -> Option<String> {
        if let (Some(least), Some(library)) = (&metadata.kernels_minver, &self.library)
            && let (Some(wanted), Some(here)) = (release(least), release(library))
            && here < wanted
        {
            return Some(format!(
                "it needs version {least} of the library `kernels`, here is {library}: pip install --upgrade kernels"
            ));
        }
        let archs = metadata.backend.archs.as_deref().filter(|archs| !archs.is_empty())?;
        let card = self.card.filter(|_| metadata.backend.r#type == "cuda")?;
        let known: Vec<bool> = archs.iter().filter_map(|arch| supports(arch, card)).collect();
        // If none can be read, a later builder wrote them, and nothing is known.
        let refused = !known.is_empty() && !known.contains(&true);
        refused
            .then(|| format!("it is built for {}, and the card here is {}.{}", archs.join(", "), card / 10, card % 10))
    }
}

/// The numbers of a version, without a suffix such as `rc1`.
fn release(version: &str) -> Option<[u64; 3]> {
    let mut numbers = [0; 3];
    for (number, part) in numbers.iter_mut().zip(version.split('.')) {
        let end = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        if end == 0 {
            break;
        }
        *number = part[..end].parse().ok()?;
    }
    version.starts_with(|c: char| c.is_ascii_digit()).then_some(numbers)
}

/// Whether code for an architecture runs on a card: `9.0` on later cards of the same generation, `9.0+PTX` on all later cards,
/// `9.0a` only on 9.0, `10.0f` like `10.0`. `None` if the architecture is written in another way.
fn supports(arch: &str, card: u32) -> Option<bool> {
    let (arch, ptx) = arch.strip_suffix("+PTX").map_or((arch, false), |arch| (arch, true));
    let (number, exact) = arch.strip_suffix('a').map_or((arch, false), |number| (number, true));
    let (number, family) = number.strip_suffix('f').map_or((number, false), |number| (number, true));
    let (major, minor) = number.split_once('.')?;
    let built: (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
    let here = (card / 10, card % 10);
    Some(match (exact, ptx && !family) {
        (true, _) => here == built,
        (false, true) => here >= built,
        (false, false) => here.0 == built.0 && here.1 >= built.1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same answers as `kernels.archs` of the library. tests/cuda/loaded.rs compares versions with the library itself.
    #[test]
    fn cards_are_refused_as_the_library_does() {
        for (arch, card, wanted) in [
            ("9.0", 90, Some(true)),
            ("8.0", 89, Some(true)),
            ("8.6", 80, Some(false)),
            ("9.0", 100, Some(false)),
            ("9.0+PTX", 120, Some(true)),
            ("9.0+PTX", 89, Some(false)),
            ("9.0a", 90, Some(true)),
            ("9.0a+PTX", 100, Some(false)),
            ("10.0f", 103, Some(true)),
            ("10.0f", 120, Some(false)),
            ("10.0f+PTX", 120, Some(false)),
            ("sm_90", 90, None),
            ("9", 90, None),
        ] {
            assert_eq!(supports(arch, card), wanted, "{arch} on {card}");
        }
        let json = serde_json::json!({"name": "a", "id": "a", "version": 1, "backend": {"type": "cuda", "archs": ["8.0", "9.0+PTX"]}});
        let loader = Loader { library: None, card: Some(75) };
        let said = loader.refuses(&Metadata::parse(json.to_string().as_bytes()).unwrap());
        assert_eq!(said.unwrap(), "it is built for 8.0, 9.0+PTX, and the card here is 7.5");
    }
}
