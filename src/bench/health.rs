//! The card's state before and after timing, as nvidia-smi reports it.

use std::process::{Command, Stdio};

use crate::gpu::bus;

/// The state of a card; empty if there is no nvidia-smi.
#[derive(Clone, Debug, Default)]
pub(super) struct Health {
    /// Reasons why the clocks are reduced.
    pub(crate) throttled: Vec<&'static str>,
    /// The card's utilization in percent.
    pub(crate) busy_percent: Option<u32>,
    /// Processes on the card besides this one.
    pub(crate) others: Vec<String>,
}

/// The bits of `clocks_event_reasons.active` that slow a kernel down (NVML: nvmlClocksEventReasons).
const REASONS: [(u64, &str); 6] = [
    (0x4, "software power cap"),
    (0x8, "hardware slowdown"),
    (0x20, "software thermal slowdown"),
    (0x40, "hardware thermal slowdown"),
    (0x80, "hardware power brake"),
    (0x2, "application clocks setting"),
];

impl Health {
    /// Asks nvidia-smi about one card.
    pub(super) fn ask(ordinal: usize) -> Self {
        let mut health = Self::default();
        let card = bus(ordinal).unwrap_or_else(|| ordinal.to_string());
        let Some(line) = smi(&["-i", &card, "--query-gpu=clocks_event_reasons.active,utilization.gpu"]) else {
            return health;
        };
        let mut fields = line.trim().split(',').map(str::trim);
        if let Some(bits) = fields.next().and_then(|field| u64::from_str_radix(field.trim_start_matches("0x"), 16).ok())
        {
            health.throttled = REASONS.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, name)| *name).collect();
        }
        health.busy_percent = fields.next().and_then(|field| field.parse().ok());
        let own = std::process::id().to_string();
        if let Some(lines) = smi(&["-i", &card, "--query-compute-apps=pid,process_name"]) {
            health.others = lines
                .lines()
                .filter(|line| line.split(',').next().map(str::trim) != Some(own.as_str()))
                .filter(|line| !line.trim().is_empty())
                .map(|line| line.trim().to_owned())
                .collect();
        }
        health
    }

    /// Remarks on figures that were measured in this state.
    pub(super) fn remarks(&self, when: &str) -> Vec<String> {
        let mut remarks = Vec::new();
        if !self.throttled.is_empty() {
            remarks.push(format!("{when}: the card's clocks are reduced ({})", self.throttled.join(", ")));
        }
        if !self.others.is_empty() {
            remarks.push(format!("{when}: the card is shared with {}", self.others.join("; ")));
        }
        if when == "before" && self.busy_percent.is_some_and(|percent| percent > 5) {
            remarks.push(format!("{when}: the card was busy ({} %)", self.busy_percent.unwrap_or(0)));
        }
        remarks
    }
}

fn smi(arguments: &[&str]) -> Option<String> {
    let output = Command::new("nvidia-smi")
        .args(arguments)
        .arg("--format=csv,noheader,nounits")
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}
