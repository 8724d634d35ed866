//! What `kernels init` writes: a kernel-builder project composed of families of bundled kernels.
//!
//! `kernels/` has the kernels, `scaffold/` what torch and the Hub need around them; [`catalog`] says which belong
//! together. [`compose`] makes a project's files from some families, in memory and the same bytes each time; [`place`] writes
//! them where the user asked. [`part`] leaves out the operations of a family that nobody asked for.
//!
//! `kernels add` composes a project without and with the new operations, and [`add`] applies the difference to the project's
//! files. The torch side of a user's own operation is made from kernel.toml ([`torch_side`]).

pub(crate) mod add;
mod binding;
pub(crate) mod catalog;
pub(crate) mod compose;
mod describe;
mod embedded;
pub(crate) mod git;
mod kernel_toml;
mod manifest;
mod merge;
pub(crate) mod name;
mod package;
mod part;
pub(crate) mod place;
mod scan;
mod shake;
mod slice;
mod sources;
mod torch_side;
mod tree;

pub(crate) use catalog::{Catalog, Family};
pub(crate) use compose::compose;
pub(crate) use name::Name;
