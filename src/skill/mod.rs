//! A skill: its files, header, rules, archive, and the embedded one.

pub mod archive;
pub mod bundled;
pub mod digest;
pub mod frontmatter;
pub mod lineage;
pub(crate) mod links;
pub mod lint;
pub mod path;
pub mod source;
pub mod tokens;
pub mod tree;

pub use digest::Digest;
pub use path::RelPath;
pub use source::{Skill, Source};
pub use tree::Tree;
