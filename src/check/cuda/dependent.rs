//! Programmatic dependent launch: a kernel that is launched so may begin before the one before it has ended.

use super::super::findings::Findings;
use super::super::load::Sources;

/// What lets a launch begin early.
const ALLOWS: [&str; 4] = [
    "programmaticStreamSerializationAllowed",
    "cudaLaunchAttributeProgrammaticStreamSerialization",
    "CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION",
    "cudaLaunchAttributeProgrammaticEvent",
];

/// What waits in a kernel: a function of CUDA's, or the instruction.
const WAITS: [&str; 2] = ["cudaGridDependencySynchronize", "griddepcontrol.wait"];

/// A project that allows it and waits nowhere reads what the kernel before it has still to write. Which kernel waits cannot be
/// told from the text where it does.
pub(super) fn check(project: &Sources, findings: &mut Findings) {
    let words = || project.compiled().flat_map(|unit| (0..unit.code.len()).map(move |at| (unit, at)));
    if words().any(|(unit, at)| WAITS.iter().any(|wait| unit.code.word(at).contains(wait))) {
        return;
    }
    if let Some((unit, at)) = words().find(|(unit, at)| ALLOWS.contains(&unit.code.word(*at))) {
        let bytes = unit.code.bytes(&(at..at + 1));
        let message = "the kernel may begin before the one before it has ended, and no kernel here waits for that; write \
                       cudaGridDependencySynchronize(), or asm volatile(\"griddepcontrol.wait;\" ::: \"memory\"), before its \
                       first access to memory";
        findings.add("cuda/dependent-wait", &unit.code.text, &bytes, message);
    }
}
