//! What people and programs get to read.

pub mod output;
pub mod style;

pub use output::Output;
