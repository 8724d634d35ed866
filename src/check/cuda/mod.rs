//! Rules for CUDA code: launches and index widths.

mod dependent;
mod index;
mod launch;

use super::findings::Findings;
use super::load::Sources;

pub(super) fn check(project: &Sources, findings: &mut Findings) {
    launch::check(project, findings);
    dependent::check(project, findings);
    index::check(project, findings);
}

/// First words of 32-bit types.
const NARROW: [&str; 6] = ["int", "unsigned", "uint", "int32_t", "uint32_t", "signed"];

/// Words of 64-bit types.
const WIDE: [&str; 10] =
    ["int64_t", "uint64_t", "size_t", "ssize_t", "ptrdiff_t", "intptr_t", "uintptr_t", "long", "longlong", "ulonglong"];
