//! Answers kept in a folder, each under the SHA-256 of the model's name and the question: none is asked for twice, and a run that
//! is continued goes on without the network until its first new question. A key is in neither.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::Model;
use super::question::{Answer, Question};
use crate::base::{disk, hex};

/// More than the longest conversation has.
const LARGEST: u64 = 256 << 20;

pub(crate) struct Kept<M> {
    model: M,
    folder: PathBuf,
    /// Those that are being asked.
    asked: Mutex<BTreeMap<String, Arc<Mutex<()>>>>,
}

#[derive(Deserialize, Serialize)]
struct Entry {
    model: String,
    question: Question,
    answer: Answer,
}

impl<M: Model> Kept<M> {
    pub(crate) fn new(model: M, folder: &Path) -> Self {
        Self { model, folder: folder.to_owned(), asked: Mutex::default() }
    }

    fn find(&self, path: &Path, question: &Question) -> Result<Option<Answer>> {
        let bytes = match disk::read_plain(path, LARGEST) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            read => read.with_context(|| format!("cannot read {}", path.display()))?,
        };
        match serde_json::from_slice::<Entry>(&bytes) {
            Ok(entry) if entry.model == self.name() && entry.question == *question => Ok(Some(entry.answer)),
            _ => bail!("{} is not the answer that was kept; remove it to ask again", path.display()),
        }
    }
}

impl<M: Model> Model for Kept<M> {
    fn ask(&self, question: &Question) -> Result<Answer> {
        let asked = serde_json::to_vec(&(self.name(), question))?;
        let digest = hex(&Sha256::digest(asked));
        let folder = self.folder.join(&digest[..2]);
        let path = folder.join(format!("{}.json", &digest[2..]));
        // Whoever asks the same waits for the answer.
        let turn = Arc::clone(self.asked.lock().unwrap_or_else(PoisonError::into_inner).entry(digest).or_default());
        let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(answer) = self.find(&path, question)? {
            return Ok(answer);
        }
        let answer = self.model.ask(question)?;
        let entry = Entry { model: self.name(), question: question.clone(), answer };
        let text = serde_json::to_vec_pretty(&entry)?;
        fs::create_dir_all(&folder)
            .and_then(|()| disk::write_atomic(&path, &text, 0o666))
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(entry.answer)
    }

    fn name(&self) -> String {
        self.model.name()
    }
}
