//! What this machine has that tests need: a card, nvcc, a Python with torch. Found once, before anything is paid for.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use super::task::{About, Need};
use crate::against::Interpreter;
use crate::gpu;
use crate::toolchain::Toolchain;

pub(crate) struct Lab {
    /// This program.
    pub(crate) kernels: PathBuf,
    /// The card's name, or why there is none.
    pub(crate) card: Result<String, String>,
    nvcc: Result<Toolchain, String>,
    torch: Result<PathBuf, String>,
    /// Modules of that Python.
    modules: BTreeMap<String, Result<(), String>>,
}

impl Lab {
    /// Looks for what these tasks need, and for nothing else.
    pub(crate) fn find<'a>(tasks: impl IntoIterator<Item = &'a About>) -> Result<Self> {
        let needs: Vec<Need> = tasks.into_iter().flat_map(|about| about.needs.iter().cloned()).collect();
        let card = || gpu::probe().map(|cards| cards.first().map_or_else(String::new, |card| card.name.clone()));
        let nvcc = || Toolchain::find().map_err(|error| error.to_string());
        let torch = || {
            let found = Interpreter::find(None, "a task that needs torch");
            found.map(|python| python.path).map_err(|error| format!("{error:#}"))
        };
        let torch = wanted(needs.iter().any(|need| matches!(need, Need::Torch | Need::Python(_))), torch);
        let module = |need: &Need| match need {
            Need::Python(name) => Some((name.clone(), torch.clone().and_then(|python| has_module(&python, name)))),
            _ => None,
        };
        Ok(Self {
            modules: needs.iter().filter_map(module).collect(),
            kernels: std::env::current_exe().context("the path of this program is not known")?,
            card: wanted(needs.contains(&Need::Card), card),
            nvcc: wanted(needs.contains(&Need::Nvcc) || needs.contains(&Need::Card), nvcc),
            torch,
        })
    }

    /// What a task needs and this machine has not.
    pub(crate) fn lacks(&self, about: &About) -> Option<String> {
        about.needs.iter().find_map(|need| {
            let (name, missing) = match need {
                Need::Card => ("a card", self.card.as_ref().err()),
                Need::Nvcc => ("nvcc", self.nvcc.as_ref().err()),
                Need::Torch => ("torch", self.torch.as_ref().err()),
                Need::Python(name) => (name.as_str(), self.modules.get(name).and_then(|found| found.as_ref().err())),
            };
            missing.map(|why| format!("needs {name}: {why}"))
        })
    }

    /// The environment in which tests run. The user's is not handed on: it has secrets, and is another one elsewhere.
    pub(crate) fn env(&self, home: &Path, temporary: &Path) -> Vec<(String, String)> {
        let mut env = vec![
            ("KERNELS".to_owned(), self.kernels.display().to_string()),
            ("HOME".to_owned(), home.display().to_string()),
            ("TMPDIR".to_owned(), temporary.display().to_string()),
            ("LANG".to_owned(), "C.UTF-8".to_owned()),
        ];
        let same = ["PATH", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "KERNELS_PYTHON", "PYTHONPATH", "VIRTUAL_ENV"];
        env.extend(same.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?))));
        // The home is another one, and so are its caches.
        if let Ok(nvcc) = &self.nvcc {
            env.push(("CUDA_HOME".to_owned(), nvcc.root().display().to_string()));
        }
        if let Ok(python) = &self.torch {
            env.retain(|(name, _)| name != "KERNELS_PYTHON");
            env.push(("KERNELS_PYTHON".to_owned(), python.display().to_string()));
        }
        env
    }
}

/// Whether a Python finds a module; it is not imported.
fn has_module(python: &Path, name: &str) -> Result<(), String> {
    let ask = format!("import importlib.util as u, sys; sys.exit(u.find_spec('{name}') is None)");
    let asked = Command::new(python).args(["-c", &ask]).stdin(Stdio::null()).stderr(Stdio::null()).status();
    match asked {
        Ok(status) if status.success() => Ok(()),
        _ => Err(format!("{} has no module {name} (PYTHONPATH is passed on)", python.display())),
    }
}

fn wanted<T>(is: bool, find: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    if is { find() } else { Err("nothing needs it".to_owned()) }
}
