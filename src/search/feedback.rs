//! What a proposer is told of a parent: at most five sentences, each with its evidence. They are computed from compiled
//! facts and times, and from the kinds of findings: no expected value, no drawn case, no seed, and nothing that the
//! candidate itself printed.

use super::event::{Outcome, Stage};
use super::facts::Facts;
use super::profile;
use super::state::Candidate;
use crate::base::plural;

/// The most sentences.
const MOST: usize = 5;

/// The sentences about a candidate, the most important first.
pub(crate) fn of(candidate: &Candidate, facts: Option<&Facts>) -> Vec<String> {
    let mut all = caught(candidate);
    all.extend(times(candidate));
    all.extend(facts.map(compiled).unwrap_or_default());
    all.truncate(MOST);
    all
}

/// What failed, or what nobody judged.
fn caught(candidate: &Candidate) -> Vec<String> {
    let mut all = Vec::new();
    for attempt in candidate.attempts().filter(|attempt| attempt.outcome != Outcome::Passed) {
        let stage = attempt.stage.name();
        if attempt.outcome == Outcome::NotJudged {
            if all.is_empty() {
                all.push(format!(
                    "The stage {stage} and those after it were not judged, for want of a card or a compiler."
                ));
            }
            continue;
        }
        let mut kinds: Vec<(&str, usize)> = Vec::new();
        for caught in &attempt.findings {
            if caught.public {
                all.push(format!("The stage {stage} found {}: {}", caught.kind, shortened(&caught.text)));
                continue;
            }
            match kinds.iter_mut().find(|(kind, _)| *kind == caught.kind) {
                Some((_, count)) => *count += 1,
                None => kinds.push((&caught.kind, 1)),
            }
        }
        for (kind, count) in kinds {
            let meaning = meaning(kind);
            all.push(format!("The stage {stage} found {kind} in {}: {meaning}.", plural(count, "case")));
        }
    }
    all
}

fn shortened(text: &str) -> String {
    let mut short: String = text.trim().chars().take(1500).collect();
    if short.len() < text.trim().len() {
        short.push_str(" …");
    }
    short
}

/// What a kind of `kernels verify` and `kernels bench` means, without the case.
fn meaning(kind: &str) -> &'static str {
    match kind {
        "unwritten" => "an output element was never written",
        "wrong-value" => "an element differs from the reference by more than its error budget",
        "not-finite" => "NaN or infinity stands where the reference has a finite number",
        "relative-norm" => "the outputs as a whole are less precise than their type allows",
        "input-modified" => "an input was changed",
        "red-zone" => "memory outside of a tensor was written",
        "not-deterministic" => "the same launch on the same inputs gave other bytes, as a race or atomics on floats do",
        "no-launch" => "the launcher launched nothing",
        "launcher-failed" => "the launcher returned an error for arguments that it must take",
        "not-refused" => "the launcher took arguments that it must refuse",
        "not-a-kernel" => "the launcher enqueued something else than kernels",
        "foreign-kernel" => "the launcher launched a kernel that is not in its own machine code",
        "escaped-stream" => "work left the given stream, or the launcher synchronised or allocated",
        "outside-capture" => "a plain call leaves other bytes than the recorded launches",
        "child-stopped" => "the launcher's process died, took too long, or made a forbidden system call",
        "launch-failed" => "a launch failed on the card, as by an illegal address or too many resources",
        "timed-output" => "an output of a timed launch is wrong, though the untimed ones were right",
        "too-fast" => "the time is shorter than the memory needs to move the bytes",
        "timed-out" | "crashed" => "the evaluation did not end by itself",
        _ => "see the harness's documentation of this finding",
    }
}

/// The share of the roof, and what became of the time.
fn times(candidate: &Candidate) -> Vec<String> {
    let Some(summary) = candidate.summary() else { return Vec::new() };
    let stage = if candidate.confirmed.is_some() { Stage::Confirm } else { Stage::Bench };
    let mut all = vec![format!(
        "The kernel moves its bytes at {:.0} % of the speed of a copy (geometric mean of {}, worst {:.0} %), {:.3} us a \
         call in {}.",
        summary.roof * 100.0,
        plural(summary.cases, "case"),
        summary.worst * 100.0,
        summary.us,
        stage.name(),
    )];
    if let Some(Ok(metrics)) = candidate.confirmed.as_ref().and_then(|confirmed| confirmed.profile.as_ref()) {
        all.push(profile::sentence(metrics));
    }
    if summary.launches > 1 {
        all.push(format!("One call makes up to {}, with memory between them.", plural(summary.launches, "launch")));
    }
    all
}

/// What the machine code shows, the worst kernel of each kind.
fn compiled(facts: &Facts) -> Vec<String> {
    let mut all = Vec::new();
    let spills = |one: &&super::facts::KernelFacts| one.kernel.spill_stores + one.kernel.spill_loads;
    if let Some(worst) = facts.kernels.iter().max_by_key(spills).filter(|one| spills(one) > 0) {
        all.push(format!(
            "Registers spill: {} stores {} and loads {} bytes of local memory a thread, with {} registers.",
            worst.kernel.name, worst.kernel.spill_stores, worst.kernel.spill_loads, worst.kernel.registers
        ));
    } else if let Some(worst) =
        facts.kernels.iter().max_by_key(|one| one.opcodes.local).filter(|one| one.opcodes.local > 0)
    {
        let (stack, name, count) = (worst.kernel.stack, &worst.kernel.name, worst.opcodes.local);
        all.push(format!(
            "An array lives in local memory: {name} has a stack of {stack} bytes and {} of it (LDL, STL); an index that \
             is known when it is compiled keeps it in registers.",
            plural(count, "instruction")
        ));
    }
    let accesses = facts.accesses();
    if accesses.all > 0 && accesses.wide * 2 < accesses.all {
        all.push(format!(
            "Of {} global accesses in the machine code {} have 16 bytes; narrower ones need more instructions for the \
             same bytes.",
            accesses.all, accesses.wide
        ));
    }
    if let Some(low) = facts.kernels.iter().min_by(|a, b| a.kernel.occupancy.total_cmp(&b.kernel.occupancy))
        && low.kernel.occupancy < 0.5
    {
        let kernel = &low.kernel;
        all.push(format!(
            "Occupancy is {:.0} % in {}: {} registers a thread, {} bytes of shared memory and up to {} threads a block.",
            kernel.occupancy * 100.0,
            kernel.name,
            kernel.registers,
            kernel.shared,
            kernel.max_threads
        ));
    }
    let sum = |of: fn(&super::facts::KernelFacts) -> u32| facts.kernels.iter().map(of).sum::<u32>();
    let atomics = sum(|one| one.opcodes.atomics);
    if atomics > 0 {
        all.push(format!("The machine code has {} on global memory (RED, ATOM).", plural(atomics, "atomic operation")));
    }
    let (tensor, copies) = (sum(|one| one.opcodes.tensor), sum(|one| one.opcodes.copies + one.opcodes.bulk));
    all.push(format!(
        "The machine code for sm_{} has {tensor} tensor-core instructions and {copies} asynchronous copies (LDGSTS, \
         UBLKCP, UTMALDG).",
        facts.arch
    ));
    all
}
