//! Finds torch's headers and libraries in a Python environment without starting Python.

use std::env;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use super::candidate::site_packages;
use super::host::in_path;
use super::{ToolchainError, Version, cache};

/// The version that `kernels toolchain install --torch` downloads.
pub(crate) const PINNED: &str = "2.11.0";

/// An installed torch.
#[derive(Clone, Debug)]
pub(crate) struct Torch {
    /// The package's folder, with `include` and `lib`.
    pub(crate) folder: PathBuf,
    /// `2.11.0+cu130`
    pub(crate) version: String,
    /// Major and minor version.
    pub(crate) release: Version,
    /// The CUDA version of its build: `13.0`.
    pub(crate) cuda: String,
    /// Its origin, for messages.
    pub(crate) origin: String,
}

/// The libraries for linking a binding, in link order.
pub(crate) const LIBRARIES: [&str; 5] =
    ["libc10.so", "libtorch.so", "libtorch_cpu.so", "libc10_cuda.so", "libtorch_cuda.so"];

impl Torch {
    /// The first that is at least `oldest` of: the environment of `python` if given, else `VIRTUAL_ENV`, `CONDA_PREFIX`,
    /// the python3 in PATH, the cache.
    ///
    /// The error lists each location with the reason for its rejection.
    pub(crate) fn find(python: Option<&Path>, oldest: Version) -> Result<Self, ToolchainError> {
        let mut refused = Vec::new();
        for (origin, folder) in places(python)? {
            if !folder.is_dir() {
                continue;
            }
            match at(&folder, &origin) {
                Ok(torch) if torch.release >= oldest => return Ok(torch),
                Ok(torch) => refused.push(format!(
                    "{} has torch {}, older than the {oldest} of stable-abi",
                    folder.display(),
                    torch.version
                )),
                Err(why) => refused.push(why),
            }
        }
        let looked = match python {
            Some(python) => format!("the environment of {}", python.display()),
            None => "VIRTUAL_ENV, CONDA_PREFIX, the python3 in PATH, and the cache".to_owned(),
        };
        refused.insert(0, String::new());
        let refused = refused.join("\n  ");
        let next = format!(
            "`kernels toolchain install --torch` puts the headers of torch {PINNED} into the cache; or activate an \
             environment with a torch for CUDA of at least {oldest}, or name its Python with --python"
        );
        Err(ToolchainError(if refused.is_empty() {
            format!("no torch headers: there is no torch in {looked}; {next}")
        } else {
            format!("no torch headers that will do in {looked}:{refused}\n{next}")
        }))
    }

    /// Its version and that of its CUDA, if it has one, and the folder of the first torch of an environment, with or without
    /// headers.
    pub(crate) fn seen(python: Option<&Path>) -> Option<(Version, Option<Version>, PathBuf)> {
        let texts = places(python).ok()?.into_iter().filter(|(origin, _)| !origin.starts_with('`'));
        let mut texts =
            texts.filter_map(|(_, folder)| Some((fs::read_to_string(folder.join("version.py")).ok()?, folder)));
        texts.find_map(|(text, folder)| {
            let cuda = assigned(&text, "cuda").and_then(Version::parse);
            Some((Version::parse(assigned(&text, "__version__")?)?, cuda, folder))
        })
    }

    /// The include folders for `-isystem`.
    pub(crate) fn includes(&self) -> [PathBuf; 2] {
        let include = self.folder.join("include");
        let api = include.join("torch/csrc/api/include");
        [include, api]
    }

    /// The folder for `-L`.
    pub(crate) fn libraries(&self) -> PathBuf {
        self.folder.join("lib")
    }
}

/// The installation folder of the pinned headers in the cache.
pub(super) fn installed(cache: &Path) -> PathBuf {
    cache.join(format!("torch-{PINNED}"))
}

/// Every folder that may contain torch, with its origin.
fn places(python: Option<&Path>) -> Result<Vec<(String, PathBuf)>, ToolchainError> {
    let mut places = Vec::new();
    if let Some(python) = python {
        let found = if python.components().count() > 1 {
            Some(python.to_owned()).filter(|path| path.exists())
        } else {
            python.to_str().and_then(in_path)
        };
        let Some(found) = found else {
            return Err(ToolchainError(format!(
                "there is no Python at '{}'; name one that is there with --python",
                python.display()
            )));
        };
        let origin = format!("--python {}", python.display());
        for packages in packages_of(&found) {
            places.push((origin.clone(), packages.join("torch")));
        }
        return Ok(places);
    }
    for name in ["VIRTUAL_ENV", "CONDA_PREFIX"] {
        let set = env::var_os(name).filter(|value| !value.is_empty());
        for packages in set.iter().flat_map(|env| site_packages(Path::new(env))) {
            places.push((name.to_owned(), packages.join("torch")));
        }
    }
    if let Some(python) = in_path("python3") {
        for packages in packages_of(&python) {
            places.push(("python3 in PATH".to_owned(), packages.join("torch")));
        }
    }
    if let Ok(cache) = cache::folder() {
        places.push(("`kernels toolchain install --torch`".to_owned(), installed(&cache).join("torch")));
    }
    Ok(places)
}

/// The folders from which a Python imports packages, derived from its path.
///
/// If the Python is a script (a pyenv shim), it is run to ask; it imports nothing.
fn packages_of(python: &Path) -> Vec<PathBuf> {
    let prefix_of = |path: &Path| path.parent().and_then(Path::parent).map(Path::to_owned);
    if is_script(python) {
        return asked(python);
    }
    // An environment's Python links to a base Python, whose packages it does not see.
    let environment = prefix_of(python).filter(|prefix| prefix.join("pyvenv.cfg").is_file());
    if let Some(environment) = environment {
        return site_packages(&environment);
    }
    let Some(prefix) = python.canonicalize().ok().as_deref().and_then(prefix_of) else {
        return Vec::new();
    };
    let mut all = Vec::new();
    // The user's packages precede the system's.
    if let Some(home) = dirs::home_dir() {
        all.extend(site_packages(&home.join(".local")));
    }
    all.extend(site_packages(&prefix));
    if prefix == Path::new("/usr") {
        // Debian's.
        all.extend(site_packages(Path::new("/usr/local")).into_iter().map(|path| path.with_file_name("dist-packages")));
        all.push("/usr/lib/python3/dist-packages".into());
    }
    all
}

fn is_script(program: &Path) -> bool {
    let mut start = [0; 2];
    let read = fs::File::open(program).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && start == *b"#!"
}

/// The folder of torch according to a Python.
fn asked(python: &Path) -> Vec<PathBuf> {
    const QUESTION: &str = "import importlib.util as u; s = u.find_spec('torch'); print(s.origin if s else '')";
    let output = super::python(python).args(["-c", QUESTION]).stdin(Stdio::null()).output();
    let Ok(output) = output else {
        return Vec::new();
    };
    let said = String::from_utf8_lossy(&output.stdout);
    let packages = Path::new(said.trim()).parent().and_then(Path::parent);
    packages.filter(|path| !path.as_os_str().is_empty()).map(Path::to_owned).into_iter().collect()
}

/// The torch in a package folder, or why it is unusable.
pub(super) fn at(folder: &Path, origin: &str) -> Result<Torch, String> {
    let shown = folder.display();
    let path = folder.join("version.py");
    let text = fs::read_to_string(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let (Some(version), cuda) = (assigned(&text, "__version__"), assigned(&text, "cuda")) else {
        return Err(format!("{} names no version", path.display()));
    };
    let Some(release) = Version::parse(version) else {
        return Err(format!("{}: `{version}` is not a version", path.display()));
    };
    let header = folder.join("include/torch/csrc/stable/library.h");
    if !header.is_file() {
        return Err(format!(
            "{shown} (torch {version}) lacks the headers of the stable ABI: there is no {}",
            header.display()
        ));
    }
    let missing = LIBRARIES.iter().find(|name| !folder.join("lib").join(name).is_file());
    match (cuda, missing) {
        (Some(cuda), None) => Ok(Torch {
            folder: folder.to_owned(),
            version: version.to_owned(),
            release,
            cuda: cuda.to_owned(),
            origin: origin.to_owned(),
        }),
        (_, missing) => Err(format!(
            "{shown} (torch {version}) is built without CUDA{}",
            missing.map_or(String::new(), |name| format!(": there is no lib/{name}"))
        )),
    }
}

/// The string assigned to a name in Python source: `cuda: Optional[str] = '13.0'`.
fn assigned<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.lines().find_map(|line| {
        let rest = line.strip_prefix(name)?;
        if !rest.starts_with([' ', ':', '=']) {
            return None;
        }
        let (_, value) = rest.split_once('=')?;
        let value = value.trim();
        value.strip_prefix(['\'', '"'])?.strip_suffix(['\'', '"'])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_py_is_read_without_python() {
        let text = "from typing import Optional\n\n__all__ = ['__version__', 'cuda']\n__version__ = '2.11.0+cu130'\n\
                    debug = False\ncuda: Optional[str] = '13.0'\nhip: Optional[str] = None\n";
        assert_eq!(assigned(text, "__version__"), Some("2.11.0+cu130"));
        assert_eq!(assigned(text, "cuda"), Some("13.0"));
        assert_eq!(assigned(text, "hip"), None);
        assert_eq!(assigned(text, "debug"), None);
    }
}
