//! nvcc's command line: permitted project flags and paths; dependency files.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail, ensure};

/// System headers; the host compiler's version represents them in cache keys.
pub(crate) const SYSTEM: [&str; 2] = ["/usr/include", "/usr/lib"];

/// Options that this program sets itself.
const OURS: [&str; 31] = [
    "-arch",
    "--gpu-architecture",
    "-gencode",
    "--generate-code",
    "-code",
    "--gpu-code",
    "-o",
    "--output-file",
    "-c",
    "--compile",
    "-ccbin",
    "--compiler-bindir",
    "-keep",
    "--keep",
    "-keep-dir",
    "--keep-dir",
    "-MF",
    "-MD",
    "-MMD",
    "-M",
    "-MM",
    "-E",
    "-cubin",
    "--cubin",
    "-ptx",
    "--ptx",
    "-fatbin",
    "--fatbin",
    "-dryrun",
    "--dryrun",
    "-lib",
];
const RELOCATABLE: [&str; 6] = ["-rdc", "-rdc=true", "--relocatable-device-code", "-dc", "--device-c", "-dlto"];

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

/// Rejects `cuda-flags` that conflict with this program's, and relocatable device code. `why` and `instead` end
/// the two messages.
pub(crate) fn check_flags(own: &[String], why: &str, instead: &str) -> Result<()> {
    for flag in own {
        let name = flag.split('=').next().unwrap_or(flag);
        ensure!(!OURS.contains(&name), "cuda-flags: {flag} cannot be set by a project; {why}");
        ensure!(
            !RELOCATABLE.contains(&flag.as_str()) && !RELOCATABLE.contains(&name) || flag.ends_with("=false"),
            "cuda-flags: {flag} asks for relocatable device code, which is not supported: every kernel must be whole in \
             its own .cu file; {instead}"
        );
    }
    Ok(())
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

/// A hint if the disk was full.
pub(crate) fn no_room(said: &str, folder: &Path) -> String {
    let full = ["No space left on device", "File size limit exceeded"];
    if full.iter().any(|words| said.contains(words)) {
        format!("\nthere is no room in {}; free some, or set KERNELS_CACHE to a folder elsewhere", folder.display())
    } else {
        String::new()
    }
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
    fn a_path_that_a_shell_would_act_on_is_refused() {
        for path in ["a$(b)", "a`b`", "a\"b", "a\\b", "a\nb"] {
            assert!(check_path(Path::new(path)).is_err(), "{path}");
        }
        assert!(check_path(Path::new("it's a b;c&(d)")).is_ok());
    }
}
