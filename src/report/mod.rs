//! Output for people and programs.

pub mod beside;
pub mod check;
pub mod end_to_end;
pub mod export;
pub(crate) mod figure;
pub(crate) mod file;
pub(crate) mod html;
pub mod junit;
pub(crate) mod markdown;
pub(crate) mod output;
mod progress;
pub(crate) mod prompt;
pub(crate) mod sarif;
pub(crate) mod statistics;
pub(crate) mod style;
pub mod summary;
pub(crate) mod svg;
pub mod table;
pub mod timing;
pub(crate) mod unified;
pub(crate) mod xml;

pub(crate) use output::Output;
pub(crate) use progress::Progress;
