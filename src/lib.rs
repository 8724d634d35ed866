//! `kernels`: packages the `cuda-kernels` agent skill and installs it into coding agents.
//!
//! The rooms stand in one direction: [`command`] may use everything, [`install`] uses [`skill`] and
//! [`agent`], and those two use nothing of the others.

#![forbid(unsafe_code)]

pub mod agent;
pub mod cli;
pub mod command;
pub mod install;
pub mod report;
pub mod skill;
