//! What `kernels init` writes: a kernel-builder project put together of the bundled kernels' families.
//!
//! `kernels/` has the kernels, `scaffold/` what torch and the Hub need around them; [`catalog`] says which belong
//! together. [`compose`] makes a project's files of some families, in memory and the same bytes each time; [`place`] puts
//! them where a user asked for them.

pub mod catalog;
pub mod compose;
mod embedded;
pub mod git;
mod kernel_toml;
mod manifest;
pub mod name;
mod package;
pub mod place;
mod sources;

pub use catalog::{Catalog, Family, Set};
pub use compose::compose;
pub use name::Name;
