//! nvcc's command line: default flags, permitted paths; dependency files.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};

use crate::toolchain::HostCompiler;

/// System headers; the host compiler's version represents them in cache keys.
pub(crate) const SYSTEM: [&str; 2] = ["/usr/include", "/usr/lib"];

/// What `build --torch` compiles device code with, and so what is verified.
pub(crate) const SHIPPED: [&str; 5] =
    ["-DNDEBUG", "--expt-relaxed-constexpr", "-DENABLE_FP8", "-DCUDA_KERNEL", "-DUSE_CUDA=1"];

/// Optimisation and language standard, unless the project's flags set them.
pub(crate) fn defaults(own: &[String]) -> Vec<String> {
    let chosen = |names: [&str; 2]| {
        let mut own = own.iter();
        own.any(|flag| names.iter().any(|name| flag.starts_with(name)))
    };
    let mut flags = Vec::new();
    if !chosen(["-O", "--optimize"]) {
        flags.push("-O3".to_owned());
    }
    if !chosen(["-std", "--std"]) {
        flags.push("-std=c++17".to_owned());
    }
    flags
}

/// Rejects a path with shell metacharacters: nvcc passes paths to a shell in double quotes.
pub(crate) fn check_path(path: &Path) -> Result<()> {
    let shown = path.display();
    let Some(text) = path.to_str() else {
        bail!("{shown}: nvcc needs paths in UTF-8; rename it");
    };
    let active = ['"', '$', '`', '\\', '\n'];
    ensure!(
        !text.contains(active),
        "{shown}: nvcc cannot be given a path with \" $ ` \\ or a line end, since it passes paths through a shell; rename it"
    );
    Ok(())
}

/// How a file that the digest does not cover is refused.
pub(crate) const UNREADABLE: &str = ": compilers read, of a project, the source files (.cu, .cuh, .h, .inc, …) in the folders \
     of the sources and in `include` of build.toml, which the project's digest covers; give the file such an ending, or list \
     its folder";

/// A hint if a compiler was kept from reading a file, or from starting its assembler: a cross compiler's lies elsewhere.
pub(crate) fn unreadable(said: &str) -> String {
    let tool = said.split_once("cannot execute '").and_then(|(_, rest)| rest.split_once("': execv: Permission denied"));
    if let Some((tool, _)) = tool {
        let folder = Path::new(tool).parent().and_then(|folder| folder.canonicalize().ok()).unwrap_or_default();
        return format!(
            "\na confined compiler starts only programs in PATH or in its own folder: add {} to the end of PATH",
            folder.display()
        );
    }
    if said.contains("Permission denied") { format!("\na file cannot be read{UNREADABLE}") } else { String::new() }
}

/// The host compiler's flag for a list of what the assembler reads; none if it has no such list, or a path that commas or
/// quotes would split.
pub(crate) fn assembler_dependencies(host: &HostCompiler, to: &Path) -> Option<String> {
    let path = to.to_str().filter(|path| path.chars().all(|c| c.is_ascii_alphanumeric() || "/._-+".contains(c)))?;
    // clang has an assembler of its own.
    (!host.version.contains("clang")).then(|| format!("-Wa,--MD,{path}"))
}

/// A hint if the disk was full.
pub(crate) fn no_room(said: &str, folder: &Path) -> String {
    let full = ["No space left on device", "File size limit exceeded"];
    if full.iter().any(|words| said.contains(words)) {
        format!("\nno space is left in {}; free some, or set KERNELS_CACHE to a folder elsewhere", folder.display())
    } else {
        String::new()
    }
}

/// The files besides the source that a compiler read, by the dependency files of its preprocessor and of its assembler; of the
/// latter's, those of the project in `root` that do not lie in `scratch`.
pub(crate) fn read_files(root: &Path, scratch: &Path, compiled: &Path, assembled: &Path) -> Result<Vec<PathBuf>> {
    let text = fs::read(compiled).with_context(|| format!("cannot read {}", compiled.display()))?;
    let mut read: Vec<PathBuf> = prerequisites(&text).into_iter().skip(1).collect();
    // Not every assembler writes one.
    let assembled = fs::read(assembled).unwrap_or_default();
    let of_the_project = |path: &PathBuf| !path.starts_with(scratch) && root.join(path).is_file();
    read.extend(prerequisites(&assembled).into_iter().filter(of_the_project));
    Ok(read)
}

/// The prerequisites of a dependency file, the source first, with gcc's make escapes undone.
pub(crate) fn prerequisites(text: &[u8]) -> Vec<PathBuf> {
    let text = String::from_utf8_lossy(text);
    let Some((_, rest)) = text.split_once(" :").or_else(|| text.split_once(": ")) else {
        return Vec::new();
    };
    let mut paths = Vec::new();
    let mut path = String::new();
    let mut characters = rest.chars().peekable();
    while let Some(c) = characters.next() {
        match (c, characters.peek()) {
            ('\\', Some(' ' | '#')) | ('$', Some('$')) => path.extend(characters.next()),
            ('\\', Some('\n')) => {}
            (' ' | '\n' | '\t', _) => {
                if !path.is_empty() {
                    paths.push(PathBuf::from(std::mem::take(&mut path)));
                }
            }
            _ => path.push(c),
        }
    }
    if !path.is_empty() {
        paths.push(path.into());
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependency_files_are_read_with_their_escapes() {
        let text = b"out o's/a.o : a\\ b's.cu \\\n    include/x\\#1.cuh \\\n  c$$d.h\n";
        let paths: Vec<_> = prerequisites(text).iter().map(|path| path.display().to_string()).collect();
        assert_eq!(paths, ["a b's.cu", "include/x#1.cuh", "c$d.h"]);
    }

    #[test]
    fn a_tool_outside_of_path_is_named_with_its_folder() {
        let said = "g++: fatal error: cannot execute '/usr/bin/../bin/as': execv: Permission denied";
        assert!(unreadable(said).contains("add /usr/bin to the end of PATH"));
        assert!(unreadable("x.cu:1: ../y.h: Permission denied").contains("a file cannot be read"));
    }

    #[test]
    fn of_what_the_assembler_read_only_the_project_s_files_count() -> Result<()> {
        let root = tempfile::tempdir()?;
        let at = |name: &str| root.path().join(name);
        fs::create_dir(at("scratch"))?;
        for name in ["data.bin", "scratch/unit.s"] {
            fs::write(at(name), "")?;
        }
        let scratch = at("scratch");
        fs::write(at("unit.d"), "unit.o : unit.cu a.cuh /usr/include/x.h\n")?;
        fs::write(at("unit.asm.d"), format!("unit.o: data.bin gone.bin {}/unit.s\n", scratch.display()))?;
        let read = read_files(root.path(), &scratch, &at("unit.d"), &at("unit.asm.d"))?;
        assert_eq!(read, ["a.cuh", "/usr/include/x.h", "data.bin"].map(PathBuf::from));
        assert_eq!(read_files(root.path(), &scratch, &at("unit.d"), &at("none"))?.len(), 2);
        assert!(read_files(root.path(), &scratch, &at("none"), &at("none")).is_err());
        Ok(())
    }

    #[test]
    fn a_full_disk_is_named_with_the_way_out() {
        let hint = |said: &str| no_room(said, Path::new("/cache"));
        assert!(hint("ptxas: No space left on device").contains("no space is left in /cache; free some"));
        assert_eq!(hint("ptxas: error"), "");
    }

    #[test]
    fn only_an_assembler_that_lists_what_it_reads_is_asked_to() {
        let host = |version: &str| HostCompiler {
            path: "/usr/bin/c++".into(),
            version: version.to_owned(),
            origin: "CXX".to_owned(),
            cpu: "x86_64".to_owned(),
        };
        let flag = |version: &str, to: &str| assembler_dependencies(&host(version), Path::new(to));
        assert_eq!(flag("g++ 12.2.0", "/a/b-1.d").as_deref(), Some("-Wa,--MD,/a/b-1.d"));
        assert_eq!(flag("clang version 19.1.0", "/a/b.d"), None);
        assert_eq!((flag("g++ 12.2.0", "/a,b.d"), flag("g++ 12.2.0", "/a b.d")), (None, None));
    }

    #[test]
    fn a_path_that_a_shell_would_act_on_is_refused() {
        for path in ["a$(b)", "a`b`", "a\"b", "a\\b", "a\nb"] {
            assert!(check_path(Path::new(path)).is_err(), "{path}");
        }
        assert!(check_path(Path::new("it's a b;c&(d)")).is_ok());
    }
}
