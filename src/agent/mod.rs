//! Where agents look for skills: one data table, resolved against HOME, the environment and the
//! git root.

pub mod place;
pub mod presence;
pub mod project;
pub mod sight;
pub mod table;

pub use place::{Machine, Scope};
pub use table::Agent;
