//! The rounds of a case. Each round starts with new contents in all slots. After the timed launches, the same launches
//! are repeated in another order, each on the inputs of the next slot, and what they leave must have the digest of the timed
//! results. In some rounds, a slot that is drawn afterwards is kept for the oracle. Before some rounds,
//! launches are made on half of the slots only, and the other half must not change.

use anyhow::{Result, bail};

use super::check::Kept;
use super::clock::Clock;
use super::device_slots::{DeviceSlots, Digests};
use super::result::Residency;
use super::roof::Roof;
use super::slots::{Round, Slots};
use crate::gpu::{Device, GpuError, Graph, State};
use crate::verify::finding::Kind;
use crate::verify::judge::damaged;
use crate::verify::path::Fault;
use crate::verify::random::Random;

/// Warm-up rounds that are not counted, in which clocks rise and code is loaded.
const WARM: u32 = 2;
/// Bytes of slots that are compared with the oracle; at least two slots, at most one per round. Where the oracle takes long, it is
/// one slot: the digests of the others are compared with those of repeated launches, and verification compares the shape.
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
    pub(super) fn rounds(&self, wanted: u32) -> Result<Result<Rounds, GpuError>> {
        let clock = Clock::new()?;
        let mut all = Rounds::default();
        let keeping = self.keeping(wanted);
        // What is drawn here no launch must know: a slot that is never looked at needs no work.
        let mut random = Random::unforeseen();
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
            let (timed, rest) = match self.timed(&clock, &round) {
                Ok(timed) => timed,
                Err(error) => return Ok(Err(error)),
            };
            // A round that is left out is not counted: the next one takes its place in `keeping`.
            let is_kept = number >= WARM && timed.is_some() && keeping.get(all.kernel.len()) == Some(&true);
            match self.compared((round, &rest), number, is_kept)? {
                Ok(kept) => all.kept.extend(kept),
                Err(fault) => all.faults.push(fault),
            }
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
        }
        Ok(Ok(all))
    }

    /// For each counted round, whether a slot is kept for the oracle. It is drawn before the first round, on the host,
    /// where a candidate cannot see it.
    fn keeping(&self, wanted: u32) -> Vec<bool> {
        let checks = if self.large { 1 } else { (CHECKED_BYTES / self.images.slot.layout.bytes).max(2) };
        let mut keeping: Vec<bool> = (0..u64::from(wanted)).map(|round| round < checks).collect();
        Random::unforeseen().shuffle(&mut keeping);
        keeping
    }

    /// One round, with all contents new: microseconds, and digests of what the launches must not write.
    fn timed(&self, clock: &Clock, round: &Round) -> Result<(Option<(f64, f64)>, Digests), GpuError> {
        let rest = self.images.prepare(round)?;
        self.state.reset(self.device)?;
        self.device.finish(&self.doing)?;
        let hot = self.residency == Residency::Hot;
        let before = || if hot { self.images.warm() } else { self.roof.graph.launch(self.device) };
        let times = clock.time(self.device, before, &self.graphs[0], (&self.roof.graph, hot), &self.doing)?;
        Ok((times, rest))
    }

    /// Launches on a part of the slots, and checks that the others do not change: a launch that does the work of
    /// several launches writes to slots that are not its own.
    fn apart(&self, part: &Part) -> Result<Option<Fault>> {
        self.images.prepare(&Round::draw())?;
        let before = self.images.all()?;
        self.state.reset(self.device)?;
        part.graph.launch(self.device)?;
        self.device.finish(&self.doing)?;
        let slot = self.images.changed_besides(&before, &part.slots)?;
        let what = |slot| format!("slot {slot} was written by launches on other slots, when none was made on it");
        Ok(slot.map(|slot| (Kind::RedZone, what(slot))))
    }

    /// Repeats the launches without timing them, and compares what they leave with what the timed launches left. Keeps a slot
    /// for the oracle: the repeated launch left there what the timed one did.
    fn compared(
        &self,
        (round, rest): (Round, &Digests),
        number: u32,
        keep: bool,
    ) -> Result<Result<Option<Kept>, Fault>> {
        let Slots { bound, layout, .. } = self.images.slot;
        let place = |slot, (kind, message): Fault| (kind, format!("round {number}, slot {slot}: {message}"));
        let outputs = self.images.outputs()?;
        let damage = |slot: u32, source: u32| -> Result<Fault> {
            let fault = damaged(&self.images.slot.expected(&round, source), bound, layout, &self.images.left(slot)?);
            let between = || (Kind::RedZone, "memory between the slots was written".to_owned());
            Ok(place(source, fault.unwrap_or_else(between)))
        };
        if let Some(slot) = self.images.damaged(&round, rest, |slot| slot)? {
            return Ok(Err(damage(slot, slot)?));
        }
        self.images.again(&round)?;
        self.state.reset(self.device)?;
        self.graphs[1].launch(self.device)?;
        self.device.finish(&self.doing)?;
        let other = self.images.repeated(&outputs)?;
        let kept = if keep {
            let slot = u32::try_from(Random::unforeseen().below(self.slots.into()))?;
            Some(Kept { round, number, slot, after: self.images.left(self.images.repeat_of(slot))? })
        } else {
            None
        };
        if let Some(slot) = self.images.damaged(&round, rest, |slot| self.images.source(slot))? {
            return Ok(Err(damage(slot, self.images.source(slot))?));
        }
        Ok(match other {
            Some((slot, name)) => {
                let what = format!(
                    "{name}: not what the same launch left when it was not timed, on the same inputs in slot {slot}"
                );
                Err(place(self.images.source(slot), (Kind::TimedOutput, what)))
            }
            None => Ok(kept),
        })
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
