//! For which architectures a project is, and with which features its sources are compiled, by `cuda-capabilities`.

use std::path::{Path, PathBuf};

use super::build_toml::KernelTable;
use crate::base::arch::Capability;

/// The `cuda-capabilities` of each `[kernel.X]`, with its sources. A list that is empty is for every architecture.
#[derive(Clone, Debug, Default)]
pub struct Capabilities(Vec<(Vec<PathBuf>, Vec<Capability>)>);

impl Capabilities {
    pub(super) fn of(kernels: &[KernelTable]) -> Self {
        Self(kernels.iter().map(|kernel| (kernel.sources.clone(), kernel.capabilities.clone())).collect())
    }

    /// Whether every kernel runs on cards of this architecture.
    pub(super) fn cover(&self, arch: u32) -> bool {
        self.0.iter().all(|(_, list)| list.is_empty() || list.iter().any(|one| one.covers(arch)))
    }

    /// What a source is compiled for where `arch` is asked for: `9.0a` where its list has that, also beside `9.0`, since a card
    /// prefers the code with the suffix.
    pub(crate) fn target(&self, source: &Path, arch: u32) -> Capability {
        let lists = self.0.iter().filter(|(sources, _)| sources.iter().any(|known| known == source));
        let suffixes = lists.flat_map(|(_, list)| list).filter(|one| one.number == arch).filter_map(|one| one.suffix);
        Capability { suffix: suffixes.min(), ..Capability::new(arch) }
    }

    /// The sources with capabilities that have a suffix.
    pub(super) fn with_suffix(&self) -> impl Iterator<Item = (&PathBuf, &Capability)> {
        let pairs = self.0.iter().flat_map(|(sources, list)| {
            sources.iter().flat_map(move |source| list.iter().map(move |one| (source, one)))
        });
        pairs.filter(|(_, one)| one.suffix.is_some())
    }

    /// All of them in rising order, each once: `8.0, 9.0a`.
    pub(super) fn shown(&self) -> String {
        let mut all: Vec<Capability> = self.0.iter().flat_map(|(_, list)| list.iter().copied()).collect();
        all.sort_unstable();
        all.dedup();
        all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    fn capabilities(lists: &[&[&str]]) -> Capabilities {
        let list = |texts: &[&str]| texts.iter().map(|text| Capability::parse(text).unwrap()).collect();
        let kernels = lists.iter().enumerate();
        Capabilities(kernels.map(|(at, texts)| (vec![format!("{at}.cu").into()], list(texts))).collect())
    }

    #[test]
    fn a_list_covers_later_architectures_and_a_suffix_its_own_alone() {
        let covered = |lists: &[&[&str]]| -> Vec<u32> {
            let of = capabilities(lists);
            [75, 80, 90, 100, 103, 120].into_iter().filter(|arch| of.cover(*arch)).collect()
        };
        assert_eq!(covered(&[&[], &["8.0", "9.0"]]), [80, 90, 100, 103, 120]);
        assert_eq!(covered(&[&["9.0a"]]), [90]);
        assert_eq!(covered(&[&["8.0", "9.0a"]]), [80, 90, 100, 103, 120]);
        assert_eq!(covered(&[&["10.0f"]]), [100, 103]);
        assert_eq!(covered(&[&["7.5"], &["9.0a", "10.0a"]]), [90, 100]);
    }

    #[test]
    fn a_source_is_compiled_with_the_suffix_of_its_own_list() {
        let of = capabilities(&[&["8.0", "9.0"], &["8.0", "9.0", "9.0a+PTX"]]);
        let target = |source: &str, arch| of.target(Path::new(source), arch).to_string();
        assert_eq!([target("0.cu", 90), target("1.cu", 80), target("1.cu", 90)], ["9.0", "8.0", "9.0a"]);
        assert_eq!(of.shown(), "8.0, 9.0, 9.0a+PTX");
    }
}
