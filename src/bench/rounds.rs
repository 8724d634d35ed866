//! The rounds of a case. Before each, all contents are new. Behind it, the same launches run again in another order, each on
//! the inputs of the next slot, and are compared with the timed ones, every byte; of these, slots drawn afterwards are kept for
//! the oracle. Before some rounds, launches are made on half of the slots: the others must stay as they are.

use anyhow::{Result, bail};

use super::check::Kept;
use super::clock::Clock;
use super::result::Residency;
use super::ring::Ring;
use super::roof::Roof;
use super::slots::{Round, Slots};
use crate::gpu::{Device, GpuError, Graph, State};
use crate::verify::finding::Kind;
use crate::verify::judge::{damaged, differing};
use crate::verify::path::Fault;
use crate::verify::random::Random;

/// Rounds that are not counted, in which clocks rise and code is loaded.
const WARM: u32 = 2;
/// Bytes of slots that are compared with the oracle; at least two slots, at most one a round.
const CHECKED_BYTES: u64 = 1 << 26;

/// A case to be timed.
pub(super) struct Case<'a> {
    pub(super) device: &'a Device,
    pub(super) doing: String,
    pub(super) residency: Residency,
    pub(super) ring: Ring<'a>,
    pub(super) state: &'a State,
    /// All launches, and the same in another order.
    pub(super) graphs: [Graph; 2],
    pub(super) roof: Roof,
    pub(super) slots: u32,
    /// Launches on some slots each, such that every two slots are apart in one of them.
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

/// Slots in halves, so often that every two of them are apart once: by each digit of their places, in a drawn order.
pub(super) fn halves(order: &[usize]) -> Vec<Vec<usize>> {
    let digits = order.len().next_power_of_two().trailing_zeros();
    let half = |digit: u32, side: usize| {
        let places = (0..order.len()).filter(|place| place >> digit & 1 == side);
        places.map(|place| order[place]).collect()
    };
    (0..digits).flat_map(|digit| [0, 1].map(|side| half(digit, side))).collect()
}

/// Microseconds of the graph and of the copies behind it, and what was compared.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    pub(super) kernel: Vec<f64>,
    pub(super) copy: Vec<f64>,
    /// Rounds that the host was too late for.
    pub(super) dropped: u32,
    /// Timed launches whose outputs were compared with those of an untimed one.
    pub(super) compared: u64,
    /// Slots for the oracle.
    pub(super) kept: Vec<Kept>,
    pub(super) faults: Vec<Fault>,
}

impl Case<'_> {
    /// Times `wanted` rounds.
    pub(super) fn rounds(&self, wanted: u32, random: &mut Random) -> Result<Result<Rounds, GpuError>> {
        let clock = Clock::new()?;
        let mut all = Rounds::default();
        let keeping = self.keeping(wanted, random);
        let behind: Vec<u64> = self.parts.iter().map(|_| random.below(wanted.into())).collect();
        let mut number = 0;
        while all.kernel.len() < wanted as usize && all.faults.is_empty() {
            for (part, _) in self.parts.iter().zip(&behind).filter(|(_, round)| **round == u64::from(number)) {
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
            // A round that is left out is in place of the one that follows.
            if keeping.get(all.kernel.len().saturating_sub(1)) == Some(&true) && timed.is_some() {
                let slot = u32::try_from(random.below(self.slots.into()))?;
                let after = self.ring.kept(slot)?;
                all.kept.push(Kept { round, number, slot, after });
            }
        }
        Ok(Ok(all))
    }

    /// Of which rounds a slot is kept for the oracle: drawn before the first, where a candidate cannot see it.
    fn keeping(&self, wanted: u32, random: &mut Random) -> Vec<bool> {
        let checks = if self.large { 2 } else { (CHECKED_BYTES / self.ring.slot.layout.bytes).max(2) };
        let mut keeping: Vec<bool> = (0..u64::from(wanted)).map(|round| round < checks).collect();
        random.shuffle(&mut keeping);
        keeping
    }

    /// One round, with all contents new.
    fn timed(&self, clock: &Clock, round: &Round) -> Result<Option<(f64, f64)>, GpuError> {
        self.ring.prepare(round)?;
        self.state.reset(self.device)?;
        self.device.finish(&self.doing)?;
        let hot = self.residency == Residency::Hot;
        let before = || if hot { self.ring.warm() } else { self.roof.graph.launch(self.device) };
        clock.time(self.device, before, &self.graphs[0], (&self.roof.graph, hot), &self.doing)
    }

    /// Launches on some slots: a launch that does the work of several writes to slots that are not its own.
    fn apart(&self, part: &Part) -> Result<Option<Fault>> {
        self.ring.prepare(&Round::draw())?;
        self.ring.keep_all()?;
        self.state.reset(self.device)?;
        part.graph.launch(self.device)?;
        self.device.finish(&self.doing)?;
        let slot = self.ring.changed_besides(&part.slots)?;
        let what = |slot| format!("slot {slot} was written by launches on other slots, when none was made on it");
        Ok(slot.map(|slot| (Kind::RedZone, what(slot))))
    }

    /// Compares what the timed launches left with what the same launches leave now.
    fn compared(&self, round: &Round, number: u32) -> Result<Option<Fault>> {
        let Slots { bound, layout, .. } = self.ring.slot;
        if let Some(slot) = self.ring.keep()? {
            let after = self.ring.left(slot)?;
            let fault = damaged(&self.ring.slot.expected(round, slot), bound, layout, &after);
            let (kind, message) = fault.unwrap_or((Kind::RedZone, "memory between the slots was written".to_owned()));
            return Ok(Some((kind, format!("round {number}, slot {slot}: {message}"))));
        }
        self.ring.again(round)?;
        self.ring.mask(round)?;
        self.state.reset(self.device)?;
        self.graphs[1].launch(self.device)?;
        self.device.finish(&self.doing)?;
        self.ring.mask(round)?;
        let Some(slot) = self.ring.repeated()? else { return Ok(None) };
        let source = self.ring.source(slot);
        let (again, timed) = (self.ring.left(slot)?, self.ring.kept(source)?);
        let fault = damaged(&self.ring.slot.expected(round, source), bound, layout, &again).or_else(|| {
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
