//! Confinement of programs that act for a project: the process that runs its launchers, and the compilers that read its
//! sources.
//!
//! Landlock limits the files ([`files`]), a seccomp allow-list the system calls ([`calls`]). Both hold for the thread that
//! sets them and for every process that it starts, and cannot be lifted.

#[cfg(target_os = "linux")]
mod calls;
pub(crate) mod cap;
pub(crate) mod compiler;
#[cfg(target_os = "linux")]
mod files;
pub(crate) mod launcher;
pub(crate) mod verifier;
