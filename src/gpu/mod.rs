//! The card: driver, buffers, modules, recordings of launches and their replay.
//!
//! The one room with `unsafe`: it calls the driver, and in a locked-down child a candidate's launcher. Everything
//! it gives out is safe to use from one thread.

#![allow(unsafe_code)]

pub mod buffer;
pub mod capture;
pub mod card;
pub mod child;
pub mod confine;
pub mod copy;
pub mod device;
pub mod driver;
pub mod graph;
pub mod launcher;
pub mod module;
pub mod muffle;
pub mod recorder;
pub mod recording;

pub use buffer::Buffer;
pub use card::{Card, slug};
pub use device::Device;
pub use driver::{GpuError, probe};
pub use graph::Graph;
pub use module::Modules;
pub use recorder::{Answer, Recorder};
pub use recording::{Launch, Recording};
