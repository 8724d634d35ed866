//! What `kernels init` writes: a kernel-builder project put together of the bundled kernels' families.
//!
//! `kernels/` has the kernels, `scaffold/` what torch and the Hub need around them; [`catalog`] says which belong
//! together. [`compose`] makes a project's files of some families, in memory and the same bytes each time; [`place`] puts
//! them where a user asked for them. [`part`] leaves out the operations of a family that nobody asked for.
//!
//! `kernels add` composes a project as it is and as it is to be, and [`add`] carries the difference into the files that
//! are there. An operation of a user's own has its torch side from kernel.toml ([`torch_side`]).

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
