//! `kernels` as people type it, and what it reads and writes. Needs neither nvcc, torch nor a card. A module is a command
//! or a file of the user's; `cargo test --test cli add::` runs one.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::float_cmp,
    clippy::format_push_string,
    clippy::format_collect,
    clippy::cast_possible_truncation,
    clippy::similar_names,
    clippy::print_stdout,
    unreachable_pub,
    missing_docs,
    reason = "a test"
)]

#[path = "../support/mod.rs"]
mod support;

mod add;
mod add_operation;
mod against;
mod agents;
mod architecture;
mod card;
mod check;
mod ci;
mod e2e;
mod edits;
mod eval;
mod evidence;
mod export;
mod find;
mod generate;
mod generated;
mod getting;
#[cfg(unix)]
mod hostile;
mod hostile_hub;
mod hostile_sources;
mod hub;
mod in_place;
mod init;
mod inspect;
#[cfg(all(target_os = "linux", target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod interrupt;
mod interrupted_publish;
mod manage;
mod measured;
mod new_skill;
mod oracles;
mod peers;
mod plugin;
mod project;
mod prompt;
mod publish;
mod search;
mod search_agent;
mod search_machine;
mod search_model;
mod search_pages;
mod searched;
mod signatures;
mod sources;
#[cfg(target_os = "linux")]
mod subjects;
mod team;
mod toolchain;
mod traces;
mod tune;
mod types;
mod typing;
mod versions;
