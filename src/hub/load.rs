//! Loads what is to be published through `get_kernel` of the Hub's library before users can: in a confined Python without
//! network or token, from a cache that holds only what was read back.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use super::loader::Loader;
use super::local::Local;
use super::name::{Name, System};
use crate::against::Interpreter;
use crate::base::text;
use crate::subject::supervise::{self, Job};

/// Prints what was loaded, after a word that nothing else prints.
const SCRIPT: &str = r#"
import json, os, pathlib, sys
import kernels, torch
repo, commit, word = sys.argv[1:]
module = kernels.get_kernel(repo, revision=commit, trust_remote_code=True)
names = list(getattr(module, "__all__", []))
missing = [name for name in names if not hasattr(module, name)]
print(word + json.dumps({"variant": pathlib.Path(module.__file__).parent.name, "names": names, "missing": missing,
                         "library": kernels.__version__, "torch": torch.__version__}), flush=True)
os._exit(0)  # what torch does at its end is not judged here
"#;
/// Time limit for importing torch and the kernel.
const LIMIT: Duration = Duration::from_secs(600);
/// Variables that are removed: those that would lead the library elsewhere, and secrets that the kernel's code must not see.
const LEFT_OUT: &str = "KERNELS_CACHE LOCAL_KERNELS HF_TOKEN HUGGING_FACE_HUB_TOKEN HF_TOKEN_PATH HF_OIDC_ID_TOKEN \
                        ACTIONS_ID_TOKEN_REQUEST_TOKEN";
/// Variables that name folders of the library and of torch; all are set to the scratch folder.
const FOLDERS: &str = "HF_HOME TMPDIR XDG_CACHE_HOME TRITON_CACHE_DIR CUDA_CACHE_PATH";

/// The Python to load it with, and the variant that its library would choose.
#[derive(Clone, Debug)]
pub(crate) struct Trial {
    python: PathBuf,
    pub(crate) variant: String,
}

/// What the library loaded.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Loaded {
    pub(crate) variant: String,
    /// The names in `__all__` of the module.
    pub(crate) names: Vec<String>,
    #[serde(skip_serializing)]
    missing: Vec<String>,
    /// The version of the library.
    pub(crate) library: String,
    pub(crate) torch: String,
}

impl Trial {
    /// Looks for a Python with torch and the library, and for a variant that they would load here. If there is none, the reason
    /// is an error only if the Python was named.
    pub(crate) fn prepare(local: &Local, named: Option<&PathBuf>) -> Result<Result<Self, String>> {
        match Self::find(local, named) {
            Ok(trial) => Ok(Ok(trial)),
            Err(error) if named.is_some() => Err(error),
            Err(error) => Ok(Err(format!("{error:#}"))),
        }
    }

    fn find(local: &Local, named: Option<&PathBuf>) -> Result<Self> {
        let python = Interpreter::find(named, "--python")?.path;
        let system = System::here(Some(&python));
        let loader = Loader::of(&system);
        ensure!(
            loader.library.is_some(),
            "no library `kernels` lies beside the torch of {}: pip install kernels there, or name another with --python",
            python.display()
        );
        let named: Vec<(&str, Name)> =
            local.variants.iter().filter_map(|one| Some((&*one.name, Name::parse(&one.name)?))).collect();
        let why = |(variant, name): &(&str, Name)| Some(format!("{variant}: {}", name.unsuitable(&system)?));
        let Some((chosen, _)) = named.iter().filter(|one| why(one).is_none()).max_by_key(|(_, name)| name.preference())
        else {
            bail!(
                "none of the variants is for {}: {}",
                python.display(),
                text::and(&named.iter().filter_map(why).collect::<Vec<_>>())
            );
        };
        let metadata = local.variants.iter().find(|one| one.name == *chosen).map(|one| &one.metadata);
        if let Some(why) = metadata.and_then(|metadata| loader.refuses(metadata)) {
            bail!("{chosen}: {why}");
        }
        Ok(Self { python, variant: (*chosen).to_owned() })
    }

    /// Loads a commit from the cache in `scratch`, the one folder that the process may write to.
    pub(super) fn load(&self, local: &Local, commit: &str, scratch: &Path) -> Result<Loaded> {
        // Not in the cache, because Python looks for modules beside its script.
        let script = scratch.join("script").join("load.py");
        std::fs::create_dir_all(scratch.join("script")).and_then(|()| std::fs::write(&script, SCRIPT))?;
        let word = format!("loaded-{}:", crate::base::disk::unique());
        let mut env = environment(scratch)?;
        env.push(("HF_HUB_CACHE".to_owned(), scratch.join(CACHE).to_string_lossy().into_owned()));
        env.push(("HF_HUB_OFFLINE".to_owned(), "1".to_owned()));
        let ended = supervise::run(&Job {
            program: &self.python,
            arguments: &[script, local.repo.to_string().into(), commit.into(), (&word).into()],
            folder: scratch,
            env: &env,
            writes: &[scratch.to_owned()],
            card: true,
            limit: LIMIT,
            bounds: None,
        })?;
        let line = ended.output.lines().rev().find_map(|line| line.strip_prefix(&word));
        let Some(loaded) = line.and_then(|line| serde_json::from_str::<Loaded>(line).ok()) else {
            let how = ended.stopped.or_else(|| ended.code.map(|code| format!("Python ended with {code}")));
            bail!("{}:\n{}", how.unwrap_or_else(|| "Python died".to_owned()), ended.output.trim_end());
        };
        ensure!(loaded.variant == self.variant, "the library loads {} instead of {}", loaded.variant, self.variant);
        ensure!(loaded.missing.is_empty(), "its `__all__` names what it does not have: {}", loaded.missing.join(", "));
        Ok(loaded)
    }
}

/// The environment for a library of the Hub: this process's, without the token and with the scratch folder for its files.
pub(super) fn environment(scratch: &Path) -> Result<Vec<(String, String)>> {
    let text = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
    let mut env: Vec<(String, String)> = std::env::vars_os().filter_map(text).collect();
    env.retain(|(name, _)| LEFT_OUT.split(' ').all(|other| other != name));
    let folder = scratch.to_str().context("the folder for temporary files is not UTF-8")?;
    env.extend(FOLDERS.split(' ').map(|name| (name.to_owned(), folder.to_owned())));
    env.push(("PYTHONDONTWRITEBYTECODE".to_owned(), "1".to_owned()));
    Ok(env)
}

/// The cache's folder in the scratch folder.
pub(super) const CACHE: &str = "hub";
