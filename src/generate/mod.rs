//! Writing a skill from traces: a writer drafts, rules judge, and agents at work on tasks say what a draft is worth.
//!
//! The writer's answer is a stranger's text: [`draft`] holds it to the rules of archives, [`leak`] looks for the tasks' answers
//! in it. Answers are kept in the run's folder, and the rest follows from them, so that a run which was ended goes on by being
//! started again.

mod brief;
mod draft;
mod job;
mod leak;
mod rounds;
mod students;
mod writer;

pub(crate) use job::Job;
pub(crate) use rounds::generate;
pub(crate) use students::Students;
pub(crate) use writer::Writer;
