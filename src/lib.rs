//! `kernels`: proves CUDA kernels, and installs the `cuda-kernels` agent skill into coding agents.
//!
//! A room imports only rooms below it in the table of `docs/architecture.md`: [`command`] is at the top and may use all
//! others, [`base`] is at the bottom.

#![deny(unsafe_code)]

mod against;
pub mod agent;
pub mod base;
pub mod bench;
pub mod check;
pub mod cli;
pub mod command;
pub mod compile;
mod confine;
mod deep;
mod end_to_end;
mod eval;
pub mod evidence;
mod generate;
pub mod gpu;
pub(crate) mod hub;
mod install;
mod journal;
mod model;
pub mod oracle;
pub mod project;
mod remote;
pub mod report;
pub(crate) mod scaffold;
mod search;
pub mod session;
pub mod skill;
mod subject;
pub mod toolchain;
pub(crate) mod trace;
mod tune;
mod variant;
pub mod verify;
mod worker;
