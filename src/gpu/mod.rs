//! The card: driver, buffers, modules, recordings of launches and their replay.

pub mod card;

pub use card::Card;
