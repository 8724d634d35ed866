//! Where agents look for skills: one data table, resolved against HOME, the environment and the
//! git root.

pub mod machine;
pub mod presence;
pub mod project;
pub mod sight;
pub mod table;
pub mod template;

pub use machine::{Machine, Scope};
pub use table::Agent;
