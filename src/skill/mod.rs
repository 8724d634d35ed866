//! A skill: its files, header, rules, archive, and the embedded one.

pub(crate) mod address;
pub(crate) mod archive;
pub mod bundled;
pub(crate) mod digest;
pub(crate) mod frontmatter;
pub mod lineage;
pub(crate) mod links;
pub(crate) mod lint;
pub mod path;
pub(crate) mod plugin;
pub mod source;
pub mod tokens;
pub(crate) mod tree;

pub use digest::Digest;
pub(crate) use path::RelPath;
pub(crate) use tree::Tree;
