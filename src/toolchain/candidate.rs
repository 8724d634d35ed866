//! Finds CUDA compilers, in order of precedence.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use super::host::{in_path, is_program};
use super::known::Known;
use super::{Toolchain, cache, release};

/// A searched location.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The variable or rule that gave this location, for messages.
    pub(crate) origin: String,
    /// The toolkit's root, the parent of `bin`.
    pub(crate) folder: PathBuf,
    /// Whether an environment variable names this location.
    pub(crate) explicit: bool,
    /// The toolchain, or why it is unusable.
    pub found: Result<Toolchain, String>,
}

pub(super) struct Location {
    origin: String,
    folder: PathBuf,
    explicit: bool,
    /// The site-packages folder of a Python environment, from which the versions of the wheels are read.
    wheels: Option<PathBuf>,
}

/// Every location that has an nvcc or is named by a variable, in order of precedence. The first usable one is chosen,
/// but an unusable one that a variable names is an error if it comes first.
pub fn candidates() -> Vec<Candidate> {
    let mut seen: Vec<PathBuf> = Vec::new();
    let mut all = Vec::new();
    for place in places() {
        let nvcc = place.folder.join("bin/nvcc");
        if !place.explicit && !nvcc.exists() {
            continue;
        }
        // /usr/local/cuda is a link to /usr/local/cuda-*, and PATH usually repeats it.
        let real = nvcc.canonicalize().unwrap_or(nvcc);
        if seen.contains(&real) {
            continue;
        }
        seen.push(real);
        all.push(place.look(&Known::nothing()));
    }
    all
}

/// All locations in order of precedence.
pub(super) fn places() -> Vec<Location> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let location =
        |origin: &str, folder: PathBuf| Location { origin: origin.to_owned(), folder, explicit: false, wheels: None };
    let mut places = Vec::new();
    for name in ["CUDA_HOME", "CUDA_PATH"] {
        if let Some(folder) = set(name) {
            places.push(Location { explicit: true, ..location(name, std::path::absolute(&folder).unwrap_or(folder)) });
            break;
        }
    }
    if let Some(nvcc) = in_path("nvcc") {
        // A link, such as in /usr/bin, points into the toolkit. Wrappers with another name are not followed.
        let real =
            nvcc.canonicalize().ok().filter(|real| real.file_name().is_some_and(|name| name == "nvcc")).unwrap_or(nvcc);
        if let Some(folder) = real.parent().and_then(Path::parent) {
            places.push(location("PATH", folder.to_owned()));
        }
    }
    places.push(location("usual place", "/usr/local/cuda".into()));
    for folder in versioned(Path::new("/usr/local")) {
        places.push(location("usual place", folder));
    }
    places.push(location("usual place", "/opt/cuda".into()));
    for name in ["VIRTUAL_ENV", "CONDA_PREFIX"] {
        for packages in set(name).iter().flat_map(|env| site_packages(env)) {
            places.push(Location {
                wheels: Some(packages.clone()),
                ..location(&format!("wheels in {name}"), packages.join("nvidia/cu13"))
            });
        }
    }
    if let Ok(cache) = cache::folder() {
        let packages = installed(&cache);
        places.push(location("`kernels toolchain install`", packages.join("nvidia/cu13")));
    }
    places
}

/// The installation folder of the pinned toolchain in the cache.
pub(super) fn installed(cache: &Path) -> PathBuf {
    cache.join(format!("toolchain-{}", Toolchain::PINNED))
}

impl Location {
    /// Checks that nvcc exists and runs.
    pub(super) fn look(self, known: &Known) -> Candidate {
        let found = match self.wheels.as_deref().map(mixed_wheels) {
            Some(Err(why)) => Err(why),
            _ => at(&self.folder, &self.origin, known),
        };
        Candidate { found, origin: self.origin, folder: self.folder, explicit: self.explicit }
    }
}

/// The toolchain with this root.
pub(super) fn at(folder: &Path, origin: &str, known: &Known) -> Result<Toolchain, String> {
    let nvcc = folder.join("bin/nvcc");
    if !nvcc.exists() {
        return Err(format!("there is no {}", nvcc.display()));
    }
    if !is_program(&nvcc) {
        return Err(format!("{} is not executable", nvcc.display()));
    }
    let said = known.version(&nvcc)?;
    let version = version_of(&said).ok_or_else(|| format!("`{} --version` names no version", nvcc.display()))?;
    let targets = format!("targets/{}-linux/lib", env::consts::ARCH);
    let sbsa = "targets/sbsa-linux/lib";
    let library_dirs = ["lib64", "lib", &targets, sbsa]
        .iter()
        .map(|name| folder.join(name))
        .filter(|dir| dir.join("libcudart_static.a").is_file())
        .collect();
    Ok(Toolchain { nvcc, version, origin: origin.to_owned(), library_dirs })
}

/// Parses `Cuda compilation tools, release 13.0, V13.0.88` to `13.0.88`.
fn version_of(said: &str) -> Option<String> {
    said.split(|c: char| c.is_whitespace() || c == ',')
        .filter_map(|word| word.strip_prefix('V'))
        .find(|rest| release(rest).is_some())
        .map(str::to_owned)
}

/// Folders `cuda-13.1`, `cuda-12.8`, …, newest first.
fn versioned(below: &Path) -> Vec<PathBuf> {
    let mut found: Vec<((u32, u32), PathBuf)> = fs::read_dir(below)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name();
            let version = name.to_str()?.strip_prefix("cuda-")?;
            let release = release(version).or_else(|| Some((version.parse().ok()?, 0)))?;
            Some((release, entry.path()))
        })
        .collect();
    found.sort_by(|a, b| b.cmp(a));
    found.into_iter().map(|(_, path)| path).collect()
}

/// Folders such as `lib/python3.12/site-packages` of an environment.
pub(super) fn site_packages(environment: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(environment.join("lib"))
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("python"))
        .map(|entry| entry.path().join("site-packages"))
        .collect();
    found.sort();
    found
}

/// Unpinned wheels may be of different releases; ptxas then rejects the output of cicc.
fn mixed_wheels(packages: &Path) -> Result<(), String> {
    let mut releases: Vec<(String, (u32, u32))> = Vec::new();
    for entry in fs::read_dir(packages).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some((package, version)) = name.strip_suffix(".dist-info").and_then(|name| name.split_once('-')) else {
            continue;
        };
        if ["nvidia_cuda_nvcc", "nvidia_cuda_crt", "nvidia_nvvm"].contains(&package)
            && let Some(release) = release(version)
        {
            releases.push((format!("{} {version}", package.replace('_', "-")), release));
        }
    }
    releases.sort();
    if releases.windows(2).any(|pair| pair[0].1 != pair[1].1) {
        let names: Vec<_> = releases.into_iter().map(|(name, _)| name).collect();
        return Err(format!(
            "its wheels are of different releases ({}); install them with one version",
            names.join(", ")
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_read_from_what_nvcc_says() {
        let said = "nvcc: NVIDIA (R) Cuda compiler driver\nCopyright (c) 2005-2025 NVIDIA Corporation\n\
                    Cuda compilation tools, release 13.0, V13.0.88\nBuild cuda_13.0.r13.0/compiler.36424714_0\n";
        assert_eq!(version_of(said).as_deref(), Some("13.0.88"));
        assert_eq!(version_of("Very new, V"), None);
    }

    #[test]
    fn the_newest_of_the_versioned_folders_comes_first() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["cuda-9.2", "cuda-13.1", "cuda-12.8", "cuda-13.10", "cuda-13", "cuda-samples"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        let names: Vec<_> = versioned(folder.path())
            .iter()
            .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
            .collect();
        assert_eq!(names, ["cuda-13.10", "cuda-13.1", "cuda-13", "cuda-12.8", "cuda-9.2"]);
    }

    #[test]
    fn wheels_of_different_releases_are_refused_by_name() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("nvidia_cuda_nvcc-13.0.88.dist-info")).unwrap();
        fs::create_dir(folder.path().join("nvidia_nvvm-13.0.88.dist-info")).unwrap();
        assert_eq!(mixed_wheels(folder.path()), Ok(()));
        fs::create_dir(folder.path().join("nvidia_cuda_crt-13.5.1.dist-info")).unwrap();
        let why = mixed_wheels(folder.path()).unwrap_err();
        assert!(why.contains("nvidia-cuda-crt 13.5.1"), "{why}");
    }
}
