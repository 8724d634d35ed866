//! The functions of a published variant, called in a confined Python process on slots that are drawn here.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;
use serde_json::json;
use tempfile::TempDir;

use super::Interpreter;
use super::cases;
use super::program::Driver;
use crate::project::Project;
use crate::verify::function::{Given, Unanswered};

/// The file through which a slot goes, both ways.
const SLOT: &str = "slot";
const WRITE: &str = "cannot write a temporary file";

/// How long it may take to import torch and the variant.
const LOADING: Duration = Duration::from_secs(600);
/// How long a call may take, in which the function may compile something; `KERNELS_PATIENCE` sets it.
const CALLING: Duration = Duration::from_secs(300);

/// The process, with the variant loaded.
#[derive(Debug)]
pub(crate) struct Functions {
    driver: Driver,
    scratch: TempDir,
    /// Held open: what the process puts in its place is neither read nor written.
    slot: File,
    pub(crate) ready: Ready,
}

/// What it runs with.
#[derive(Debug, Deserialize)]
pub(crate) struct Ready {
    /// A card's name, or the CPU.
    pub(crate) device: String,
    pub(crate) torch: String,
    /// The Hub's library.
    pub(crate) library: String,
    /// How its files are restricted.
    pub(crate) held: String,
}

/// A line of the process.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Ready(Ready),
    Cannot(String),
    Done,
    Refused(String),
    Absent(String),
    Lost(String),
}

impl Functions {
    /// Loads the variant at `variant`, below the folder `place`, for a card or the CPU.
    pub(crate) fn load(python: &Interpreter, place: &Path, variant: &Path, card: Option<usize>) -> Result<Self> {
        let scratch = TempDir::with_prefix("kernels-functions-").context("cannot make a folder for temporary files")?;
        let slot =
            File::options().read(true).write(true).create_new(true).open(scratch.path().join(SLOT)).context(WRITE)?;
        let request = json!({"where": place, "variant": variant, "device": card});
        let mut driver = Driver::confined(python, "published.py", scratch.path())?;
        driver.ask(&request);
        match answer(&mut driver, LOADING)? {
            Answer::Ready(ready) => Ok(Self { driver, scratch, slot, ready }),
            Answer::Cannot(why) => bail!("{} was not loaded: {why}", variant.file_name().unwrap_or_default().display()),
            _ => bail!("the process of --kernel-toml answers what it was not asked"),
        }
    }

    /// Calls the function of an operation once.
    pub(crate) fn call(&mut self, project: &Project, given: &Given) -> Result<Result<Vec<u8>, Unanswered>> {
        let mut slot = given.slot.to_vec();
        self.slot.set_len(slot.len() as u64).and_then(|()| self.slot.write_all_at(&slot, 0)).context(WRITE)?;
        self.driver.ask(&json!({
            "case": cases::case(project, given.operation, given.case, given.bound),
            "file": self.scratch.path().join(SLOT),
            "bytes": given.slot.len(),
            "starts": given.layout.starts,
        }));
        let patience = std::env::var("KERNELS_PATIENCE").ok().and_then(|text| text.parse().ok());
        Ok(match answer(&mut self.driver, patience.map_or(CALLING, Duration::from_secs)) {
            Ok(Answer::Done) => match self.slot.read_exact_at(&mut slot, 0) {
                Ok(()) => Ok(slot),
                Err(error) => Err(Unanswered::Lost(format!("its slot cannot be read: {error}"))),
            },
            Ok(Answer::Refused(why)) => Err(Unanswered::Refused(why)),
            Ok(Answer::Absent(why)) => Err(Unanswered::Absent(why)),
            Ok(Answer::Lost(why) | Answer::Cannot(why)) => Err(Unanswered::Lost(why)),
            Ok(Answer::Ready(_)) => Err(Unanswered::Lost("its process began anew".to_owned())),
            // What a stranger's code does to its process says nothing of this program.
            Err(error) => Err(Unanswered::Lost(format!("{error:#}"))),
        })
    }
}

fn answer(driver: &mut Driver, limit: Duration) -> Result<Answer> {
    let line = driver.line(Some(limit))?;
    serde_json::from_str(&line).with_context(|| format!("reading a line of the process of --kernel-toml: {line}"))
}
