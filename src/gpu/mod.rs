//! The card: driver, buffers, modules, recordings of launches and their replay.
//!
//! This module has nearly all `unsafe` code of the library: it calls the driver and, in a confined child process, a
//! candidate's launcher. Its interface is safe to use from one thread.

#![allow(unsafe_code)]

mod batch;
mod buffer;
mod capture;
mod card;
pub(crate) mod child;
#[cfg(all(test, target_os = "linux"))]
mod confined;
pub(crate) mod contents;
pub(crate) mod copy;
pub mod device;
pub(crate) mod direct;
mod driver;
pub(crate) mod graph;
pub mod launcher;
pub(crate) mod memory;
mod module;
pub(crate) mod muffle;
mod recorder;
pub mod recording;
mod staging;
mod state;

pub(crate) use batch::Batch;
pub(crate) use buffer::Buffer;
pub use card::{Card, probe};
pub(crate) use card::{bus, slug};
pub(crate) use device::Device;
pub use driver::GpuError;
pub use graph::Graph;
pub(crate) use module::Modules;
pub(crate) use recorder::{RecordError, Recorder};
pub(crate) use recording::{Launch, Recording};
pub(crate) use state::State;
