//! The files that this binary carries for `kernels init`: `kernels/`, `scaffold/` and the licence, as build.rs packs them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use crate::skill::packed::unpack;

static PACKED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/scaffold.deflate"));

/// The files by their path in the repository.
static FILES: LazyLock<BTreeMap<String, Vec<u8>>> =
    LazyLock::new(|| unpack(PACKED).unwrap_or_default());

/// The bytes of a file.
pub(super) fn file(path: &str) -> Option<&'static [u8]> {
    FILES.get(path).map(Vec::as_slice)
}

/// The files below a folder, by their path in it.
pub(super) fn below(folder: &str) -> impl Iterator<Item = (&'static str, &'static [u8])> {
    let folder = format!("{folder}/");
    FILES
        .range(folder.clone()..)
        .map_while(move |(path, bytes)| Some((path.strip_prefix(&folder)?, bytes.as_slice())))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::scaffold::catalog::Catalog;

    #[test]
    fn what_is_embedded_is_what_lies_in_the_repository() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert!(FILES.contains_key("LICENSE"));
        assert!(file("kernels/rmsnorm/kernel.toml").is_some());
        assert!(file("scaffold/scaffold.toml").is_some());
        for (path, bytes) in FILES.iter() {
            // But for the marks of what the skill quotes.
            let there = fs::read_to_string(root.join(path)).unwrap();
            let is_mark = |line: &&str| {
                let text = line.trim();
                text.starts_with("// [quote ") || text == "// [end quote]"
            };
            let lines = there.split_inclusive('\n');
            let there: String = lines.filter(|line| !is_mark(line)).collect();
            assert_eq!(there.as_bytes(), bytes, "{path}");
        }
        // What no family offers would only make the program larger.
        let catalog = Catalog::embedded().unwrap();
        let offered: BTreeSet<&String> = catalog
            .families
            .iter()
            .flat_map(|one| &one.projects)
            .collect();
        for project in fs::read_dir(root.join("kernels")).unwrap() {
            let project = project.unwrap();
            let name = project.file_name().into_string().unwrap();
            if !offered.contains(&name) {
                assert_eq!(below(&format!("kernels/{name}")).count(), 0, "{name}");
                continue;
            }
            let sources = project.path().join("kernel_src");
            for source in fs::read_dir(sources).unwrap() {
                let path = source.unwrap().path();
                let path = path.strip_prefix(root).unwrap().to_str().unwrap();
                assert!(file(path).is_some(), "{path}");
            }
        }
    }

    #[test]
    fn a_folder_is_not_taken_for_another_that_begins_alike() {
        assert!(below("kernels/rmsnorm").all(|(path, _)| !path.starts_with("_backward")));
        assert!(below("kernels/rmsnorm").any(|(path, _)| path == "kernel.toml"));
        assert_eq!(below("kernels/nothing").count(), 0);
    }
}
