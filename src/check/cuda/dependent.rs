//! Programmatic dependent launch: a kernel that is launched so may begin before the one before it has ended.

use super::super::findings::Findings;
use super::super::load::{Sources, Unit};

/// The value that switches it on or off.
const SWITCH: &str = "programmaticStreamSerializationAllowed";

/// What lets a launch begin early with this value.
const SWITCHED: [&str; 2] =
    ["cudaLaunchAttributeProgrammaticStreamSerialization", "CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION"];

/// What lets it begin early with an event.
const EVENT: &str = "cudaLaunchAttributeProgrammaticEvent";

/// What waits in a kernel: a function of CUDA's, one of CUTLASS's, or the instruction.
const WAITS: [&str; 3] = ["cudaGridDependencySynchronize", "wait_on_dependent_grids", "griddepcontrol.wait"];

/// A project that allows it and waits nowhere reads what the kernel before it has still to write. Which kernel waits cannot be
/// told from the text where it does.
pub(super) fn check(project: &Sources, findings: &mut Findings) {
    let words = || project.compiled().flat_map(|unit| (0..unit.code.len()).map(move |at| (unit, at)));
    let waits = |text: &str| WAITS.iter().any(|wait| text.contains(wait));
    // A macro may wait for those that use it.
    let mut macros = project.compiled().flat_map(|unit| {
        let defined = unit.code.lexed.directives.iter().filter(|directive| directive.name == "define");
        defined.map(|directive| &unit.code.text.content[directive.rest.clone()])
    });
    if words().any(|(unit, at)| waits(unit.code.word(at))) || macros.any(waits) {
        return;
    }
    let is_switch = |(unit, at): &(&Unit, usize)| unit.code.word(*at) == SWITCH;
    let is_off = |(unit, at): (&Unit, usize)| {
        let word = |behind| unit.code.word(at + behind);
        word(1) == "=" && matches!(word(2), "0" | "false") && matches!(word(3), ";" | "," | "}" | ")")
    };
    let all_off = words().any(|one| is_switch(&one)) && words().filter(is_switch).all(is_off);
    let allows = |one: &(&Unit, usize)| {
        let word = one.0.code.word(one.1);
        word == EVENT || !all_off && (SWITCHED.contains(&word) || is_switch(one) && !is_off(*one))
    };
    if let Some((unit, at)) = words().find(allows) {
        let bytes = unit.code.token_bytes(at);
        let message = "the kernel may begin before the one before it has ended, and no kernel here waits for that; write \
                       cudaGridDependencySynchronize(), or asm volatile(\"griddepcontrol.wait;\" ::: \"memory\"), before its \
                       first access to memory";
        findings.add("cuda/dependent-wait", &unit.code.text, &bytes, message);
    }
}
