//! What a skill is worth: agents work on tasks with and without it, and tests that are executed say what came of it.
//!
//! A [`task`] is a folder in Harbor's layout, or a prompt of a `evals.json`. A [`desk`] is a fresh home and workspace for each
//! run; [`verifier`] judges a copy of what was left, and [`harm`] what should not have been touched. [`check`] holds the tasks
//! themselves to account: their solutions pass, their mutants fail.

pub(crate) mod benchmark;
pub(crate) mod cases;
pub(crate) mod chart;
pub(crate) mod check;
pub(crate) mod desk;
pub(crate) mod files;
pub(crate) mod harm;
pub(crate) mod lab;
pub(crate) mod page;
pub(crate) mod plan;
pub(crate) mod prepared;
pub(crate) mod report;
pub(crate) mod row;
pub(crate) mod run;
pub(crate) mod summary;
pub(crate) mod tables;
pub(crate) mod task;
pub(crate) mod tasks;
pub(crate) mod verdict;
pub(crate) mod verifier;

pub(crate) use check::check;
pub(crate) use run::run;
