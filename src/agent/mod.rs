//! Where agents look for skills: one data table, resolved against HOME, the environment and the
//! git root.

pub(crate) mod machine;
pub(crate) mod presence;
pub mod project;
pub(crate) mod sight;
pub mod table;
pub(crate) mod template;

pub(crate) use machine::{Machine, Scope};
pub(crate) use table::Agent;
