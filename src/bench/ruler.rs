//! Times graphs that another library captured, with a benchmark's clock, copy roof and statistics.

use anyhow::{Result, bail};

use super::clock::Clock;
use super::health::Health;
use super::result::{Residency, Spread};
use super::roof::Roof;
use super::rotation::Rotation;
use super::run::too_fast;
use super::spread::per_launch;
use crate::gpu::copy::Copier;
use crate::gpu::{Card, Device, Graph};
use crate::verify::random::Random;

/// Warm-up rounds that are not counted, in which clocks rise and code is loaded.
const WARM: u32 = 2;
/// How many times a round is tried if the host queues the timed work too late.
const MOST_LATE: u32 = 20;

/// A card, a clock and the copies.
#[derive(Debug)]
pub struct Ruler {
    /// The card in use.
    pub device: Device,
    copier: Copier,
    clock: Clock,
    ordinal: usize,
}

/// The times of one graph.
#[derive(Clone, Debug)]
pub struct Timed {
    /// Microseconds per launch.
    pub launch: Spread,
    /// A copy of as many bytes, timed after it in each round.
    pub copy: Spread,
    /// Remarks.
    pub remarks: Vec<String>,
    /// Why the time cannot be right: it exceeds the peak bandwidth.
    pub impossible: Option<String>,
}

/// The times of several graphs.
#[derive(Clone, Debug)]
pub struct Measured {
    /// For each graph, in the order given.
    pub timed: Vec<Timed>,
    /// How the copy was made: the fastest of those tried.
    pub copy_by: &'static str,
    /// Remarks on the card: busy, shared, reduced clocks.
    pub remarks: Vec<String>,
}

impl Ruler {
    /// Opens a card, in its primary context, which torch uses as well: memory and graphs are shared.
    pub fn open(ordinal: usize) -> Result<Self> {
        let device = Device::open(ordinal)?;
        Ok(Self { copier: Copier::new(&device)?, clock: Clock::new()?, device, ordinal })
    }

    /// The card.
    pub fn card(&self) -> &Card {
        &self.device.card
    }

    /// How many sets of buffers a case of `bytes` needs, and how many launches a graph should have.
    pub fn rotation(&self, bytes: u64, wanted: Residency, once: bool) -> Rotation {
        Rotation::of(bytes, self.card().l2_bytes, wanted, once)
    }

    /// Times graphs of `rotation.launches` launches each, in a random order every round, each between two copies of `bytes`
    /// (half read, half written). An error of `each_round` ends the measurement.
    pub fn measure(
        &self,
        graphs: &[(String, Graph)],
        bytes: u64,
        rotation: Rotation,
        rounds: u32,
        each_round: &mut dyn FnMut() -> Result<()>,
    ) -> Result<Measured> {
        self.device.make_current()?;
        let mut remarks = Health::ask(self.ordinal).remarks("before");
        let roof = self.roof(bytes, rotation)?;
        let mut samples = vec![(Vec::new(), Vec::new()); graphs.len()];
        let mut random = Random::new(1, 0x0c10c);
        let mut order: Vec<usize> = (0..graphs.len()).collect();
        for round in 0..rounds.max(5) + WARM {
            each_round()?;
            random.shuffle(&mut order);
            for index in order.iter().copied() {
                let (name, graph) = &graphs[index];
                let (launch, copy) = self.time(graph, &roof, &format!("timing {name}"))?;
                if round >= WARM {
                    samples[index].0.push(launch);
                    samples[index].1.push(copy);
                }
            }
        }
        remarks.extend(Health::ask(self.ordinal).remarks("after"));
        let mut timed = Vec::with_capacity(graphs.len());
        for (launch, copy) in &samples {
            let launch = Spread::of(&per_launch(launch, rotation.launches));
            let copy = Spread::of(&per_launch(copy, roof.copies));
            let mut remarks = Vec::new();
            remarks.extend(launch.unsteady("it"));
            remarks.extend(copy.unsteady("the copy"));
            timed.push(Timed {
                launch,
                copy,
                remarks,
                impossible: too_fast(launch, bytes, rotation.residency, self.card()),
            });
        }
        Ok(Measured { timed, copy_by: roof.manner.name(), remarks })
    }

    /// Times a copy of `bytes` alone (half read, half written), over rotating buffers.
    pub fn copy(&self, bytes: u64, wanted: Residency, rounds: u32) -> Result<(Spread, &'static str, Rotation)> {
        self.device.make_current()?;
        let rotation = self.rotation(bytes, wanted, false);
        let roof = self.roof(bytes, rotation)?;
        let mut times = Vec::new();
        for round in 0..rounds.max(5) + WARM {
            let (one, _) = self.time(&roof.graph, &roof, "timing the copy")?;
            if round >= WARM {
                times.push(one);
            }
        }
        Ok((Spread::of(&per_launch(&times, roof.copies)), roof.manner.name(), rotation))
    }

    /// Microseconds of a graph and of the copies, in a round for which the host was not too late.
    fn time(&self, graph: &Graph, roof: &Roof, doing: &str) -> Result<(f64, f64)> {
        for _ in 0..MOST_LATE {
            let before = || roof.graph.launch(&self.device);
            if let Some(timed) = self.clock.time(&self.device, before, graph, (&roof.graph, false), doing)? {
                return Ok(timed);
            }
        }
        bail!("{doing}: the host was too late {MOST_LATE} times: its cores are busy with other work")
    }

    fn roof(&self, bytes: u64, rotation: Rotation) -> Result<Roof> {
        if bytes == 0 {
            bail!("a copy of 0 bytes cannot be timed: give the number of bytes");
        }
        Roof::measure(&self.device, &self.copier, bytes, rotation.sets, rotation.launches)
    }
}
