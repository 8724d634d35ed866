//! A command of the shell's. It is confined as tests are, without a network.

use std::fs;
use std::time::Instant;

use anyhow::{Context, Result};

use super::{End, Errand, Outcome};

pub(super) fn run(command: &str, errand: &Errand) -> Result<Outcome> {
    let asked = errand.log.join("prompt");
    fs::write(&asked, errand.prompt).with_context(|| format!("cannot write {}", asked.display()))?;
    let prompt = ("PROMPT".to_owned(), asked.display().to_string());
    let begun = Instant::now();
    let ended = errand.shell(&format!("exec < \"$PROMPT\"\n{command}"), &[prompt], errand.timeout)?;
    let end = match &ended.stopped {
        Some(why) if why.starts_with("it ran past") => End::TimedOut,
        // What it did until then is judged: who ends itself is not left out.
        _ => End::Finished,
    };
    Ok(Outcome::unseen(end, begun.elapsed().as_secs_f64(), ended.output))
}
