//! The rounds of a case. Each round starts with new contents in all slots. After the timed launches, the same launches
//! are repeated in another order, each on the inputs of the next slot, and every byte that they leave is compared with
//! the timed results. In some rounds, a slot that is drawn afterwards is kept for the oracle. Before some rounds,
//! launches are made on half of the slots only, and the other half must not change.

use anyhow::{Result, bail};

use super::check::Kept;
use super::clock::Clock;
use super::device_slots::DeviceSlots;
use super::result::Residency;
use super::roof::Roof;
use super::slots::{Round, Slots};
use crate::gpu::{Device, GpuError, Graph, State};
use crate::verify::finding::Kind;
use crate::verify::judge::{damaged, differing};
use crate::verify::path::Fault;
use crate::verify::random::Random;

/// Warm-up rounds that are not counted, in which clocks rise and code is loaded.
const WARM: u32 = 2;
/// Bytes of slots that are compared with the oracle; at least two slots, at most one per round. Where the oracle takes long, it is
/// one slot: the others are compared bit for bit with repeated launches, and verification compares the shape as a whole.
const CHECKED_BYTES: u64 = 1 << 26;

/// A case to be timed.
pub(super) struct Case<'a> {
    pub(super) device: &'a Device,
    pub(super) doing: String,
    pub(super) residency: Residency,
    pub(super) images: DeviceSlots<'a>,
    pub(super) state: &'a State,
    /// All launches, and the same in another order.
    pub(super) graphs: [Graph; 2],
    pub(super) roof: Roof,
    pub(super) slots: u32,
    /// Launches on parts of the slots. For every two slots there is a part with the first and without the second.
    pub(super) parts: Vec<Part>,
    /// Whether the oracle takes the host much longer than a launch takes the card.
    pub(super) large: bool,
}

/// Launches on some of the slots.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) graph: Graph,
    pub(super) slots: Vec<usize>,
}

/// Divides the slots into halves by each binary digit of their places in `order`, so that every two slots are in
/// different halves at least once.
pub(super) fn halves(order: &[usize]) -> Vec<Vec<usize>> {
    let digits = order.len().next_power_of_two().trailing_zeros();
    let half = |digit: u32, side: usize| {
        let places = (0..order.len()).filter(|place| place >> digit & 1 == side);
        places.map(|place| order[place]).collect()
    };
    (0..digits).flat_map(|digit| [0, 1].map(|side| half(digit, side))).collect()
}

/// Microseconds of the graph and of the copies after it, and the results of the comparisons.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    pub(super) kernel: Vec<f64>,
    pub(super) copy: Vec<f64>,
    /// Rounds that are left out because the host queued the timed work too late.
    pub(super) dropped: u32,
    /// Timed launches whose outputs were compared with those of an untimed one.
    pub(super) compared: u64,
    /// Slots to compare with the oracle.
    pub(super) kept: Vec<Kept>,
    pub(super) faults: Vec<Fault>,
}

impl Case<'_> {
    /// Times `wanted` rounds.
    pub(super) fn rounds(&self, wanted: u32, random: &mut Random) -> Result<Result<Rounds, GpuError>> {
        let clock = Clock::new()?;
        let mut all = Rounds::default();
        let keeping = self.keeping(wanted, random);
        let round_of_part: Vec<u64> = self.parts.iter().map(|_| random.below(wanted.into())).collect();
        let mut number = 0;
        while all.kernel.len() < wanted as usize && all.faults.is_empty() {
            for (part, _) in self.parts.iter().zip(&round_of_part).filter(|(_, round)| **round == u64::from(number)) {
                all.faults.extend(self.apart(part)?);
            }
            if !all.faults.is_empty() {
                break;
            }
            let round = Round::draw();
            let timed = match self.timed(&clock, &round) {
                Ok(timed) => timed,
                Err(error) => return Ok(Err(error)),
            };
            all.faults.extend(self.compared(&round, number)?);
            all.compared += u64::from(self.slots);
            number += 1;
            match timed {
                Some((kernel, copy)) if number > WARM => {
                    all.kernel.push(kernel);
                    all.copy.push(copy);
                }
                None if number > WARM => all.dropped += 1,
                _ => continue,
            }
            if all.dropped > 2 * wanted {
                bail!(
                    "{}: the host was too late in {} rounds: its cores are busy with other work",
                    self.doing,
                    all.dropped
                );
            }
            // A round that is left out is not counted: the next one takes its place in `keeping`.
            if keeping.get(all.kernel.len().saturating_sub(1)) == Some(&true) && timed.is_some() {
                let slot = u32::try_from(random.below(self.slots.into()))?;
                let after = self.images.kept(slot)?;
                all.kept.push(Kept { round, number, slot, after });
            }
        }
        Ok(Ok(all))
    }

    /// For each counted round, whether a slot is kept for the oracle. It is drawn before the first round, on the host,
    /// where a candidate cannot see it.
    fn keeping(&self, wanted: u32, random: &mut Random) -> Vec<bool> {
        let checks = if self.large { 1 } else { (CHECKED_BYTES / self.images.slot.layout.bytes).max(2) };
        let mut keeping: Vec<bool> = (0..u64::from(wanted)).map(|round| round < checks).collect();
        random.shuffle(&mut keeping);
        keeping
    }

    /// One round, with all contents new.
    fn timed(&self, clock: &Clock, round: &Round) -> Result<Option<(f64, f64)>, GpuError> {
        self.images.prepare(round)?;
        self.state.reset(self.device)?;
        self.device.finish(&self.doing)?;
        let hot = self.residency == Residency::Hot;
        let before = || if hot { self.images.warm() } else { self.roof.graph.launch(self.device) };
        clock.time(self.device, before, &self.graphs[0], (&self.roof.graph, hot), &self.doing)
    }

    /// Launches on a part of the slots, and checks that the others do not change: a launch that does the work of
    /// several launches writes to slots that are not its own.
    fn apart(&self, part: &Part) -> Result<Option<Fault>> {
        self.images.prepare(&Round::draw())?;
        self.images.keep_all()?;
        self.state.reset(self.device)?;
        part.graph.launch(self.device)?;
        self.device.finish(&self.doing)?;
        let slot = self.images.changed_besides(&part.slots)?;
        let what = |slot| format!("slot {slot} was written by launches on other slots, when none was made on it");
        Ok(slot.map(|slot| (Kind::RedZone, what(slot))))
    }

    /// Repeats the launches without timing them, and compares what they leave with what the timed launches left.
    fn compared(&self, round: &Round, number: u32) -> Result<Option<Fault>> {
        let Slots { bound, layout, .. } = self.images.slot;
        if let Some(slot) = self.images.keep()? {
            let after = self.images.left(slot)?;
            let fault = damaged(&self.images.slot.expected(round, slot), bound, layout, &after);
            let (kind, message) = fault.unwrap_or((Kind::RedZone, "memory between the slots was written".to_owned()));
            return Ok(Some((kind, format!("round {number}, slot {slot}: {message}"))));
        }
        self.images.again(round)?;
        self.images.mask(round)?;
        self.state.reset(self.device)?;
        self.graphs[1].launch(self.device)?;
        self.device.finish(&self.doing)?;
        self.images.mask(round)?;
        let Some(slot) = self.images.repeated()? else { return Ok(None) };
        let source = self.images.source(slot);
        let (again, timed) = (self.images.left(slot)?, self.images.kept(source)?);
        let fault = damaged(&self.images.slot.expected(round, source), bound, layout, &again).or_else(|| {
            let what = differing(bound, layout, &timed, &again)?;
            Some((Kind::TimedOutput, format!("{what} when it was not timed, on the same inputs in slot {slot}")))
        });
        let (kind, message) = fault.unwrap_or((Kind::RedZone, "memory between the slots was written".to_owned()));
        Ok(Some((kind, format!("round {number}, slot {source}: {message}"))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_two_slots_are_apart_in_a_half() {
        for count in 1..70 {
            let order: Vec<usize> = (0..count).rev().collect();
            let all = halves(&order);
            for one in 0..count {
                for other in (0..count).filter(|other| *other != one) {
                    let apart = |half: &&Vec<usize>| half.contains(&one) && !half.contains(&other);
                    assert!(all.iter().any(|half| apart(&half)), "{one} without {other} of {count}");
                }
            }
        }
        assert!(halves(&[0]).is_empty());
    }
}
