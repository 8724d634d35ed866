//! Every released version of every embedded skill, by digest, so that an older unmodified version can be
//! distinguished from an edited one even without a receipt.

use std::sync::LazyLock;

use serde::Deserialize;

use super::digest::Digest;

/// The record, in the repository: one entry per released version, oldest first, never removed.
pub(crate) const TOML: &str = include_str!("lineage.toml");

/// One shipped version of a skill.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Shipped {
    /// The skill's name.
    pub(crate) skill: String,
    /// Its `metadata.version`.
    pub version: String,
    /// The digest of its tree.
    pub tree: Digest,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    shipped: Vec<Shipped>,
}

static SHIPPED: LazyLock<Vec<Shipped>> = LazyLock::new(|| {
    // A constant of this crate, read by a test: an error in it is ours.
    #[expect(clippy::expect_used, reason = "embedded data, covered by a test")]
    let file: File = toml::from_str(TOML).expect("lineage.toml is valid");
    file.shipped
});

/// All versions of a skill, oldest first.
pub fn of(skill: &str) -> impl Iterator<Item = &'static Shipped> {
    SHIPPED.iter().filter(move |shipped| shipped.skill == skill)
}

/// The released version of `skill` with exactly these files.
pub fn find(skill: &str, tree: Digest) -> Option<&'static Shipped> {
    of(skill).find(|shipped| shipped.tree == tree)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::skill::source::Skill;
    use crate::skill::{bundled, source::is_newer};

    /// When this fails, the skill was changed: give it a new `metadata.version` if the last one was
    /// released, and write the printed lines at the end of lineage.toml.
    #[test]
    fn the_embedded_version_is_the_last_one_recorded() {
        for name in bundled::names() {
            let skill = Skill::bundled(name).unwrap();
            let last = of(name).last();
            let entry = format!(
                "[[shipped]]\nskill = \"{name}\"\nversion = \"{}\"\ntree = \"{}\"\n",
                skill.version.as_deref().unwrap(),
                skill.digest
            );
            let matches =
                last.is_some_and(|last| Some(&last.version) == skill.version.as_ref() && last.tree == skill.digest);
            assert!(matches, "lineage.toml must end with\n\n{entry}");
        }
    }

    #[test]
    fn versions_only_grow_and_no_tree_is_recorded_twice() {
        for name in bundled::names() {
            let all: Vec<_> = of(name).collect();
            for pair in all.windows(2) {
                assert!(is_newer(&pair[1].version, &pair[0].version), "{pair:?}");
            }
            for (at, one) in all.iter().enumerate() {
                assert!(all[at + 1..].iter().all(|other| other.tree != one.tree), "{one:?}");
            }
        }
    }
}
