//! Rules of CUDA code: how kernels are launched, and how wide their indices are.

mod index;
mod launch;

use super::findings::Findings;
use super::load::Project;

pub(super) fn check(project: &Project, findings: &mut Findings) {
    launch::check(project, findings);
    index::check(project, findings);
}

/// Types of 32 bits, as their first words.
const NARROW: [&str; 6] = ["int", "unsigned", "uint", "int32_t", "uint32_t", "signed"];

/// Words that make a type one of 64 bits.
const WIDE: [&str; 10] = [
    "int64_t",
    "uint64_t",
    "size_t",
    "ssize_t",
    "ptrdiff_t",
    "intptr_t",
    "uintptr_t",
    "long",
    "longlong",
    "ulonglong",
];
