//! A variant as `kernels build --torch` wrote it, complete according to its own digests.

use std::path::Path;

use anyhow::{Result, bail, ensure};

use super::digest::{self, METADATA, Metadata};
use super::file::File;
use super::name::Name;
use super::public;
use crate::base::text;
use crate::project::TorchProject;
use crate::variant::{library, portability};

/// A variant in the project's `build/`.
#[derive(Debug)]
pub(crate) struct Variant {
    pub(crate) name: String,
    pub(crate) metadata: Metadata,
    pub(crate) files: Vec<File>,
}

impl Variant {
    /// Its folder in the repository.
    pub(crate) fn folder(&self) -> String {
        format!("build/{}", self.name)
    }

    /// The names in the `__all__` of a module of its package, such as `layers`, or of the package itself.
    pub(super) fn names(&self, module: &str) -> Option<Vec<String>> {
        let [file, package] = [".py", "/__init__.py"].map(|end| format!("{}/{module}{end}", self.folder()));
        let file = self.files.iter().find(|one| one.path == file || one.path == package)?;
        public::names(&String::from_utf8(file.bytes().ok()?).ok()?)
    }

    /// The digest that covers the digests of all its files.
    pub(crate) fn metadata_digest(&self) -> &str {
        let path = format!("{}/{METADATA}", self.folder());
        self.files.iter().find(|file| file.path == path).map_or("", |file| &file.sha256)
    }

    /// Reads one, and refuses it unless its files match its own digests and it has the project's name and version.
    pub(super) fn read(project: &TorchProject, folder: &Path, name: String) -> Result<Self> {
        let metadata = Metadata::read(folder)?;
        let shown = folder.display();
        let again = "`kernels build --torch` builds it anew";
        let build = &project.build;
        ensure!(
            metadata.name == build.name && metadata.version == project.version,
            "{shown} is {} version {}, and build.toml says {} version {}: {again}",
            metadata.name,
            metadata.version,
            build.name,
            project.version
        );
        let Some(digest) = &metadata.digest else {
            bail!("{shown}/{METADATA} has no digests, so another program wrote it: {again}");
        };
        let differences = digest.differences(folder)?;
        ensure!(
            differences.is_empty(),
            "{shown} is not as it was built: {}; {again}, or move what you wrote elsewhere",
            text::and(&differences)
        );
        if let Some(library) = library(folder, &metadata.id) {
            let cuda = Name::parse(&name).and_then(|name| name.cuda());
            let faults = portability(&library, &metadata.id, cuda)?;
            ensure!(faults.is_empty(), "{} would not load everywhere: {}", library.display(), faults.join("; "));
        }
        let files = digest::files(folder)?
            .into_iter()
            .filter(|path| path != digest::SIGNATURE)
            .map(|path| File::of_disk(format!("build/{name}/{path}"), &folder.join(&path)))
            .collect::<Result<_>>()?;
        Ok(Self { name, metadata, files })
    }
}
