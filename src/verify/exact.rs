//! One case under compute-sanitizer: each tensor in an allocation of exactly its size, without poison, which would hide
//! uninitialised reads.

use anyhow::Result;

use super::case::CaseOutcome;
use super::finding::Kind;
use super::inputs::draw;
use super::layout::{Layout, runs, span_bytes};
use super::path::CodePath;
use crate::gpu::Device;
use crate::project::{Case, Operation};

/// Runs a case once. Outputs and scratch stay uninitialised, so that reads of them are reported; results are not compared,
/// which a verification without the tool does.
pub(super) fn run(
    device: &Device,
    path: &mut CodePath,
    operation: &Operation,
    case: &Case,
    seed: u64,
) -> Result<CaseOutcome> {
    let bound = operation.bind(case)?;
    let mut buffers = Vec::new();
    let mut starts = Vec::new();
    for (index, tensor) in bound.tensors.iter().enumerate() {
        let before = tensor.offset * tensor.dtype.size() as u64;
        let buffer = device.allocate(before + span_bytes(tensor))?;
        if tensor.role.is_given() {
            let mut elements = vec![0; usize::try_from(tensor.elements())? * tensor.dtype.size()];
            draw(tensor, case.inputs, (seed, index as u64), &mut elements);
            let mut from = 0;
            let mut uploads = Vec::new();
            runs(tensor, |run| {
                uploads.push((run.start as u64, from..from + run.len()));
                from += run.len();
            });
            for (at, piece) in uploads {
                device.upload(&buffer, before + at, &elements[piece])?;
            }
        }
        starts.push(buffer.address() + before);
        buffers.push(buffer);
    }
    // The starts are absolute addresses: the base of the slot is 0.
    let layout = Layout { starts, bytes: 0 };
    let recordings = match path.record(device, &operation.launcher, (&bound, &layout), &[0])? {
        Ok(recordings) => recordings,
        Err(fault) => return Ok(fault.into()),
    };
    let modules = path.modules(device)?;
    let launched = recordings
        .iter()
        .flat_map(|recording| &recording.launches)
        .try_for_each(|launch| modules.launch(device, launch))
        .and_then(|()| device.finish(&format!("running {}", case.label)));
    let mut outcome = CaseOutcome { launches: 1, ..CaseOutcome::default() };
    if let Err(error) = launched {
        outcome.lost = error.sticky;
        outcome.faults.push((Kind::LaunchFailed, error.to_string()));
    }
    Ok(outcome)
}
