//! Loads a project's files: those listed in build.toml, their includes, and the Python package.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::path::{Component, Path, PathBuf};

use walkdir::WalkDir;

use super::code::{Code, Include};
use super::findings::Findings;
use super::python::Python;
use super::text::Text;
use crate::project::manifest::{Kind, Manifest, Word, Words};
use crate::project::path::{ENDINGS, taken_for_an_option};

/// The texts of a project.
#[derive(Debug)]
pub(super) struct Sources {
    /// Its folder, links resolved.
    pub(super) root: PathBuf,
    /// build.toml.
    pub(super) build: Text,
    pub(super) manifest: Manifest,
    /// Whether build.toml is well-formed.
    pub(super) sound: bool,
    /// The C++ and CUDA files, by path.
    pub(super) units: Vec<Unit>,
    /// The package's parent folder, if present: `torch-ext`.
    pub(super) ext: Option<&'static str>,
    /// The Python files of the package, by path.
    pub(super) modules: Vec<Module>,
    /// Every file of the package's folder, by path.
    pub(super) package_files: BTreeSet<String>,
}

/// A C++ or CUDA file.
#[derive(Debug)]
pub(super) struct Unit {
    pub(super) code: Code,
    /// The backends for which it is compiled.
    pub(super) backends: BTreeSet<String>,
    /// Whether a `src` lists it.
    pub(super) listed: bool,
    /// Whether it is compiled, directly or through an include. Projects often list whole libraries.
    pub(super) compiled: bool,
    /// For a file not listed in a `src`: the file that first includes it, and the bytes of the include.
    pub(super) included: Option<(String, std::ops::Range<usize>)>,
    /// The source list through which it was found.
    pub(super) origin: Origin,
}

/// Which `src` leads to a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Origin {
    /// The binding's, of the framework table.
    Framework,
    /// That of a `[kernel.X]`, by index.
    Kernel(usize),
}

#[derive(Debug)]
pub(super) struct Module {
    pub(super) python: Python,
    /// Its package below the kernel's: empty for `__init__.py`, `["layers"]` for `layers/__init__.py`.
    pub(super) package: Vec<String>,
}

/// Extensions of the source text of other backends.
const OTHERS: [&str; 2] = ["hip", "mm"];

/// Extensions of compiled files.
pub(super) const COMPILED: [&str; 8] = ["cu", "c", "cc", "cpp", "cxx", "hip", "mm", "metal"];

/// The maximum number of files; further ones are ignored.
const MOST_FILES: usize = 5000;

impl Sources {
    /// The name of the Python package.
    pub(super) fn python_name(&self) -> Option<String> {
        let name = self.manifest.name.as_ref()?;
        Some(name.value.replace('-', "_"))
    }

    /// Whether there is a binding or a package; a new project may have only kernels.
    pub(super) fn is_bound(&self) -> bool {
        let framework = self.manifest.framework();
        self.ext.is_some()
            || framework.is_some_and(|framework| {
                framework.kind != Kind::Torch || framework.src.as_ref().is_some_and(|src| !src.items.is_empty())
            })
    }

    /// The compiled files and their includes.
    pub(super) fn compiled(&self) -> impl Iterator<Item = &Unit> {
        self.units.iter().filter(|unit| unit.compiled)
    }

    pub(super) fn unit(&self, path: &str) -> Option<&Unit> {
        self.units.binary_search_by(|unit| unit.code.text.path.as_str().cmp(path)).ok().map(|at| &self.units[at])
    }

    /// The files listed as sources, without invalid entries.
    pub(super) fn listed(&self) -> BTreeSet<String> {
        lists(&self.manifest)
            .into_iter()
            .flat_map(|(_, list)| &list.items)
            .filter_map(|word| inside(Path::new(""), &word.value))
            .collect()
    }
}

/// The source lists.
fn lists(manifest: &Manifest) -> Vec<(Origin, &Words)> {
    let framework = manifest.framework().and_then(|one| one.src.as_ref());
    let kernels = manifest.kernels.iter().enumerate();
    framework
        .map(|list| (Origin::Framework, list))
        .into_iter()
        .chain(kernels.filter_map(|(at, kernel)| Some((Origin::Kernel(at), kernel.src.as_ref()?))))
        .collect()
}

/// Reads the project's files; reports unreadable ones.
pub(super) fn load(root: &Path, build: Text, (manifest, sound): (Manifest, bool), findings: &mut Findings) -> Sources {
    let loader = Loader { root, build: &build, findings, units: BTreeMap::new() };
    let units = loader.follow(&manifest);
    let mut project = Sources {
        root: root.to_owned(),
        build,
        manifest,
        sound,
        units,
        ext: None,
        modules: Vec::new(),
        package_files: BTreeSet::new(),
    };
    let kind = project.manifest.framework().map(|one| one.kind);
    let ext = match kind {
        Some(Kind::TvmFfi) => "tvm-ffi-ext",
        _ => "torch-ext",
    };
    if root.join(ext).is_dir() {
        project.ext = Some(ext);
        if let Some(name) = project.python_name() {
            package(&mut project, &format!("{ext}/{name}"), findings);
        }
    }
    project
}

/// Normalises a project path; `None` if it is empty or leaves the project.
pub(super) fn inside(folder: &Path, path: &str) -> Option<String> {
    let mut parts: Vec<String> = Vec::new();
    for component in folder.components().chain(Path::new(path).components()) {
        match component {
            Component::Normal(part) => parts.push(part.to_string_lossy().into_owned()),
            Component::CurDir => {}
            Component::ParentDir => {
                parts.pop()?;
            }
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    (!parts.is_empty()).then(|| parts.join("/"))
}

/// The extension in lower case.
pub(super) fn ending(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or_default();
    name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase()).unwrap_or_default()
}

/// The real path of a project file. The flag of an error is true if the file is outside the project.
fn real(root: &Path, path: &str) -> Result<PathBuf, (bool, String)> {
    let full = root.join(path);
    let real = fs::canonicalize(&full).map_err(|error| {
        let hint = other_case(root, path)
            .map(|there| format!("; there is a {there}, and file systems of builders tell case apart"))
            .unwrap_or_default();
        (false, format!("cannot be found ({error}){hint}"))
    })?;
    if !real.starts_with(root) {
        return Err((true, format!("is a link out of the project, to {}", real.display())));
    }
    Ok(real)
}

/// A sibling with the same name in different case.
fn other_case(root: &Path, path: &str) -> Option<String> {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let entries = fs::read_dir(root.join(folder)).ok()?;
    entries
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .find(|there| there.eq_ignore_ascii_case(name) && there != name)
}

/// Reads the files reachable from the source lists.
struct Loader<'a> {
    root: &'a Path,
    build: &'a Text,
    findings: &'a mut Findings,
    units: BTreeMap<String, Unit>,
}

impl Loader<'_> {
    fn follow(mut self, manifest: &Manifest) -> Vec<Unit> {
        let shared = manifest.framework().and_then(|one| one.include.as_ref());
        self.include_folders(shared);
        for (origin, list) in lists(manifest) {
            let (backends, own) = match origin {
                Origin::Framework => (Words::texts(manifest.backends.as_ref()), None),
                Origin::Kernel(at) => {
                    let kernel = &manifest.kernels[at];
                    self.include_folders(kernel.include.as_ref());
                    let backend = kernel.backend.iter().map(|word| word.value.clone());
                    (backend.collect(), kernel.include.as_ref())
                }
            };
            let folders: Vec<String> = [own, shared]
                .into_iter()
                .flatten()
                .flat_map(|list| &list.items)
                .map(|word| inside(Path::new(""), &word.value).unwrap_or_default())
                .collect();
            let mut listed: Vec<String> = Vec::new();
            for word in &list.items {
                if let Some(path) = self.source(word)
                    && let Some(unit) = self.visit(&path, origin, Some(word))
                {
                    unit.listed = true;
                    unit.backends.extend(backends.iter().cloned());
                    listed.push(path);
                }
            }
            self.follow_includes(listed, origin, &backends, &folders);
        }
        self.units.into_values().collect()
    }

    fn follow_includes(&mut self, listed: Vec<String>, origin: Origin, backends: &[String], folders: &[String]) {
        // Includes of compiled files first, to know which files are compiled.
        let is_compiled = |path: &String| COMPILED.contains(&ending(path).as_str());
        let (sources, headers): (Vec<_>, Vec<_>) = listed.into_iter().partition(is_compiled);
        let mut seen: BTreeSet<String> = sources.iter().cloned().collect();
        for (compiled, start) in [(true, sources), (false, headers)] {
            let fresh = start.into_iter().filter(|path| compiled || seen.insert(path.clone()));
            let mut queue: VecDeque<String> = fresh.collect();
            while let Some(path) = queue.pop_front() {
                if let Some(unit) = self.units.get_mut(&path) {
                    unit.compiled |= compiled;
                }
                for (target, at) in targets(self.root, &self.units[&path].code, folders, self.findings) {
                    if !seen.insert(target.clone()) {
                        continue;
                    }
                    if let Some(unit) = self.visit(&target, origin, None) {
                        unit.backends.extend(backends.iter().cloned());
                        unit.included.get_or_insert((path.clone(), at));
                        queue.push_back(target);
                    }
                }
            }
        }
    }

    fn include_folders(&mut self, list: Option<&Words>) {
        for word in list.into_iter().flat_map(|list| &list.items) {
            let path = match inside(Path::new(""), &word.value) {
                Some(path) => path,
                None if matches!(word.value.as_str(), "." | "./") => continue,
                None => {
                    self.outside(word, "leaves the project");
                    continue;
                }
            };
            if !self.root.join(&path).is_dir() {
                let problem = "is not a folder; correct the path or remove it";
                self.missing(word, &format!("the include folder `{}` {problem}", word.value));
            }
        }
    }

    fn missing(&mut self, word: &Word, message: &str) {
        self.findings.add("sources/missing", self.build, &word.at, message);
    }

    fn outside(&mut self, word: &Word, why: &str) {
        let message =
            format!("`{}` {why}; the builder copies only the project's folder, so move the file into it", word.value);
        self.findings.add("sources/outside", self.build, &word.at, message);
    }

    /// The path of a listed source; reports an unreadable one.
    fn source(&mut self, word: &Word) -> Option<String> {
        let Some(path) = inside(Path::new(""), &word.value) else {
            self.outside(word, "leaves the project");
            return None;
        };
        if let Some(why) = taken_for_an_option(&word.value) {
            self.findings.add("build-toml/flag", self.build, &word.at, why);
            return None;
        }
        let problem = match real(self.root, &path) {
            Err((true, problem)) => {
                self.outside(word, &problem);
                return None;
            }
            Err((false, problem)) => problem,
            Ok(real) if real.is_dir() => "is a folder".to_owned(),
            Ok(_) => return Some(path),
        };
        let next = "write the file or take it out of `src`";
        self.missing(word, &format!("`{}` {problem}; {next}", word.value));
        None
    }

    /// Reads a unit once; `None` if it is not C++. A file listed in a `src`, at `word`, must be
    /// readable.
    fn visit(&mut self, path: &str, origin: Origin, word: Option<&Word>) -> Option<&mut Unit> {
        let ending = ending(path);
        if !ENDINGS.iter().chain(&OTHERS).any(|known| ending == *known) {
            return None;
        }
        if !self.units.contains_key(path) {
            let real = real(self.root, path).ok()?;
            let problem = match Text::read(&real, path.to_owned()) {
                Ok(text) if !text.content.contains('\0') => {
                    self.units.insert(path.to_owned(), Unit::new(text, origin));
                    return self.units.get_mut(path);
                }
                Ok(_) => "is a binary file; list the source it was made of".to_owned(),
                Err(error) => {
                    format!("cannot be read ({error}); correct that or take it out of `src`")
                }
            };
            if let Some(word) = word {
                self.missing(word, &format!("`{path}` {problem}"));
            }
            return None;
        }
        self.units.get_mut(path)
    }
}

impl Unit {
    fn new(text: Text, origin: Origin) -> Self {
        Self {
            code: Code::new(text),
            backends: BTreeSet::new(),
            listed: false,
            compiled: false,
            included: None,
            origin,
        }
    }
}

/// The project files that a file includes, with the bytes of each include.
fn targets(
    root: &Path,
    code: &Code,
    folders: &[String],
    findings: &mut Findings,
) -> Vec<(String, std::ops::Range<usize>)> {
    let own = Path::new(&code.text.path).parent().unwrap_or(Path::new(""));
    let mut found = Vec::new();
    for include in code.includes() {
        let Include { name, quoted, at, conditional, .. } = include;
        let here = quoted.then_some(own).into_iter();
        let places = here.chain(folders.iter().map(Path::new));
        let target = places.filter_map(|folder| inside(folder, &name)).find(|path| root.join(path).is_file());
        match target {
            Some(target) => found.push((target, at)),
            // Other missing names may belong to a library; this one must be the project's.
            // The builder generates registration.h.
            None if quoted
                && (name.starts_with("./") || name.starts_with("../"))
                && !name.ends_with("/registration.h") =>
            {
                let message = format!("`{name}` is included but does not exist; write the file or correct the path");
                findings.add("sources/missing", &code.text, &at, message);
                if conditional {
                    findings.unsure();
                }
            }
            None => {}
        }
    }
    found
}

fn package(project: &mut Sources, folder: &str, findings: &mut Findings) {
    let root = project.root.clone();
    let walk =
        WalkDir::new(root.join(folder)).follow_links(false).max_depth(24).sort_by_file_name().into_iter().filter_entry(
            |entry| {
                let name = entry.file_name().to_string_lossy();
                entry.depth() == 0 || !(name.starts_with('.') || name == "__pycache__")
            },
        );
    for entry in walk.flatten().take(MOST_FILES) {
        let Ok(relative) = entry.path().strip_prefix(&root) else {
            continue;
        };
        let path = relative.to_string_lossy().into_owned();
        if entry.file_type().is_dir() {
            continue;
        }
        if entry.file_type().is_symlink() {
            // A link to a project file is accepted.
            if !real(&root, &path).is_ok_and(|real| real.is_file()) {
                continue;
            }
        }
        project.package_files.insert(path.clone());
        if ending(&path) != "py" {
            continue;
        }
        let text = real(&root, &path)
            .map_err(|(_, problem)| problem)
            .and_then(|real| Text::read(&real, path.clone()).map_err(|error| error.to_string()));
        let problem = match text {
            Ok(text) if text.exact && !text.content.contains('\0') => {
                let below = path.strip_prefix(folder).unwrap_or(&path);
                let mut package: Vec<String> = below.split('/').skip(1).map(str::to_owned).collect();
                package.pop();
                project.modules.push(Module { python: Python::new(text), package });
                continue;
            }
            Ok(_) => "is not UTF-8, and Python does not read it".to_owned(),
            Err(problem) => format!("cannot be read: {problem}"),
        };
        let text = Text::new(path.clone(), String::new(), true);
        findings.add("sources/missing", &text, &(0..0), format!("`{path}` {problem}; correct or remove it"));
    }
    project.modules.sort_by(|a, b| a.python.text.path.cmp(&b.python.text.path));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_inside() {
        let of = |folder: &str, path: &str| inside(Path::new(folder), path);
        assert_eq!(of("a/b", "../c.h").as_deref(), Some("a/c.h"));
        assert_eq!(of("", "./a/./b").as_deref(), Some("a/b"));
        for path in ["../a", "/a", ".", "", "a/.."] {
            assert_eq!(of("", path), None, "{path}");
        }
        assert_eq!(ending("a.b/C.CU"), "cu");
        assert_eq!(ending("a.b/c"), "");
    }
}
