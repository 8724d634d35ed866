//! How many sets of buffers rotate, and how many launches a graph has.

use super::result::Residency;

/// The sets together have at least this many times the size of the L2, so that it holds nothing of a set when the set
/// is used again.
const L2_TIMES: u64 = 4;
/// The maximum number of sets. A case that needs more is reported as hot.
const MOST_SETS: u64 = 512;
/// The minimum number of launches in a graph, over which its start-up time is spread.
const LEAST_LAUNCHES: u32 = 8;
/// Launches of a graph on a single set, and the most sets of a hot case in which each launch has one of its own.
const HOT_LAUNCHES: u32 = 50;

/// The sets and launches of a case.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Rotation {
    /// How many sets of buffers.
    pub sets: u32,
    /// How many launches a graph has, a multiple of the sets.
    pub launches: u32,
    /// Hot where one set was requested, or where the case is too small.
    pub residency: Residency,
}

impl Rotation {
    /// For a case that moves `bytes`, on a card with `l2` bytes of L2. With `once`, a graph launches once on each set,
    /// because a launch changes its inputs.
    pub fn of(bytes: u64, l2: u64, wanted: Residency, once: bool) -> Self {
        let needed = (L2_TIMES * l2).div_ceil(bytes.max(1)).max(2);
        let (sets, residency) = match wanted {
            Residency::Hot => (1, Residency::Hot),
            Residency::Cold if needed > MOST_SETS => (MOST_SETS, Residency::Hot),
            Residency::Cold => (needed, Residency::Cold),
        };
        let sets = u32::try_from(sets).unwrap_or(u32::MAX);
        let turns = match sets {
            _ if once => 1,
            1 => HOT_LAUNCHES,
            sets => LEAST_LAUNCHES.div_ceil(sets),
        };
        Self { sets, launches: sets * turns, residency }
    }

    /// A set for each launch of a graph, at most `most` sets. A cold case has at least [`LEAST_LAUNCHES`] sets, if
    /// `most` allows. None: fewer launches than that of a hot case fit in the L2 together.
    pub(super) fn distinct(bytes: u64, l2: u64, wanted: Residency, most: u64) -> Option<Self> {
        let least = u64::from(LEAST_LAUNCHES);
        let (sets, residency) = match wanted {
            Residency::Hot => {
                let sets = (l2 * 3 / 4 / bytes.max(1)).min(u64::from(HOT_LAUNCHES));
                return (least..=most).contains(&sets).then(|| Self::once(sets, Residency::Hot));
            }
            Residency::Cold => ((L2_TIMES * l2).div_ceil(bytes.max(1)).max(least), Residency::Cold),
        };
        Some(if sets > MOST_SETS {
            Self::once(MOST_SETS, Residency::Hot)
        } else {
            Self::once(sets.min(most), residency)
        })
    }

    fn once(sets: u64, residency: Residency) -> Self {
        let sets = u32::try_from(sets).unwrap_or(u32::MAX);
        Self { sets, launches: sets, residency }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_launch_of_a_benchmark_has_a_set_of_its_own() {
        let of = |bytes, wanted, most| Rotation::distinct(bytes, 50 << 20, wanted, most);
        let sets = |bytes, wanted, most| of(bytes, wanted, most).map(|rotation| (rotation.sets, rotation.residency));
        assert_eq!(sets(1 << 30, Residency::Cold, 512), Some((8, Residency::Cold)));
        assert_eq!(sets(1 << 30, Residency::Cold, 3), Some((3, Residency::Cold)), "as many as memory has room for");
        assert_eq!(sets(2 << 20, Residency::Cold, 512), Some((100, Residency::Cold)));
        // Just as many as there may be, and one more.
        assert_eq!(sets(409_600, Residency::Cold, 512), Some((512, Residency::Cold)));
        assert_eq!(sets(409_599, Residency::Cold, 512), Some((512, Residency::Hot)));
        assert_eq!(sets(1024, Residency::Cold, 512), Some((512, Residency::Hot)));
        assert_eq!(sets(1 << 20, Residency::Hot, 512), Some((37, Residency::Hot)));
        assert_eq!(sets(8 << 20, Residency::Hot, 512), None, "too few fit in the L2");
    }

    #[test]
    fn sets_are_together_four_times_the_l2() {
        let l2 = 50 << 20;
        let of = |bytes| Rotation::of(bytes, l2, Residency::Cold, false);
        let large = of(1 << 30);
        assert_eq!((large.sets, large.launches), (2, 8));
        let middle = of(2 << 20);
        assert_eq!((middle.sets, middle.launches), (100, 100));
        assert_eq!(middle.residency, Residency::Cold);
        assert_eq!((of(409_600).sets, of(409_600).residency), (512, Residency::Cold));
        // 512 sets of 1 KB stay in the L2.
        assert_eq!((of(1024).sets, of(1024).residency), (512, Residency::Hot));
    }

    #[test]
    fn what_changes_its_inputs_is_launched_once_a_set() {
        let of = |wanted, once| Rotation::of(1 << 30, 50 << 20, wanted, once);
        assert_eq!(of(Residency::Cold, true).launches, 2);
        assert_eq!(of(Residency::Hot, true).launches, 1);
        assert_eq!(of(Residency::Hot, false).launches, 50);
    }
}
