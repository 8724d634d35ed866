//! Output for people and programs.

pub mod beside;
pub mod check;
pub mod end_to_end;
pub mod export;
pub mod figure;
pub mod file;
pub mod junit;
pub mod markdown;
pub mod output;
mod progress;
pub mod prompt;
pub mod sarif;
pub mod style;
pub mod summary;
pub mod table;
pub mod timing;
pub mod xml;

pub use check::{Check, Status, Suite};
pub use output::Output;
pub use progress::Progress;
pub use table::{Cell, Column, Table};
