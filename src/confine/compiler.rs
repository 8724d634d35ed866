//! Confines compilers, assemblers and linkers: they read the toolchain, the system and what they are given, write to their
//! own folders, run each other, and open no sockets.
//!
//! The project's flags and sources are a stranger's. The allow-list of flags ([`crate::compile::flags`]) is what keeps a
//! flag from running a program; this holds where that list has a hole.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

#[cfg(target_os = "linux")]
use super::{
    calls,
    files::{self, Right},
};

/// What compilers reach.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    #[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "confines nothing there"))]
    host: PathBuf,
    toolchain: PathBuf,
    reads: Vec<PathBuf>,
    writes: Vec<PathBuf>,
}

impl Cell {
    /// For a host compiler, and the root of a CUDA toolchain.
    pub(crate) fn new(host: &Path, toolchain: &Path) -> Self {
        Self { host: host.to_owned(), toolchain: toolchain.to_owned(), reads: Vec::new(), writes: Vec::new() }
    }

    /// May read these files, and what is below these folders.
    #[must_use]
    pub(crate) fn reads<P: AsRef<Path>>(mut self, paths: impl IntoIterator<Item = P>) -> Self {
        self.reads.extend(paths.into_iter().map(|path| path.as_ref().to_owned()));
        self
    }

    /// May write below this folder.
    #[must_use]
    pub(crate) fn writes(mut self, path: &Path) -> Self {
        self.writes.push(path.to_owned());
        self
    }

    /// Whether a file belongs to the toolchain or the system.
    pub(crate) fn is_system(&self, file: &Path) -> bool {
        #[cfg(target_os = "linux")]
        let mut folders = SYSTEM.iter().map(PathBuf::from).chain(programs(&self.host));
        #[cfg(not(target_os = "linux"))]
        let mut folders = ["/usr", "/opt", "/Library", "/Applications"].iter().map(PathBuf::from);
        folders.any(|folder| file.starts_with(folder)) || self.roots().iter().any(|root| file.starts_with(root))
    }

    /// The toolchain's root, and those of its parts that are links to elsewhere: package managers compose one so.
    fn roots(&self) -> BTreeSet<PathBuf> {
        let real = |part: &&str| {
            let real = self.toolchain.join(part).canonicalize().ok()?;
            // The folder in which the part has the same path; else the part alone.
            let same = real.ends_with(part).then(|| real.ancestors().nth(Path::new(part).components().count()));
            Some(same.flatten().filter(|root| root.parent().is_some()).map_or_else(|| real.clone(), Path::to_owned))
        };
        PARTS.iter().filter_map(real).chain([self.toolchain.clone()]).collect()
    }

    /// Runs a command to its end.
    ///
    /// The restrictions are those of a thread, which starts the command and ends: no program is between, and nothing of
    /// this process is restricted.
    #[cfg(target_os = "linux")]
    pub(crate) fn output(&self, command: &mut Command) -> io::Result<Output> {
        let allowed = self.allowed();
        // A compiler behind ccache is run by it, which would write to a folder of its own.
        command.env("CCACHE_DISABLE", "1");
        let run = || {
            files::restrict(&allowed).map_err(io::Error::other)?;
            calls::of_a_compiler(false).map_err(io::Error::other)?;
            command.output()
        };
        std::thread::scope(|scope| scope.spawn(run).join()).unwrap_or_else(|_| Err(io::Error::other("it panicked")))
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn output(&self, command: &mut Command) -> io::Result<Output> {
        command.output()
    }

    #[cfg(target_os = "linux")]
    fn allowed(&self) -> Vec<(PathBuf, Right)> {
        let mut allowed: Vec<(PathBuf, Right)> = SYSTEM.iter().map(|path| (PathBuf::from(path), Right::Read)).collect();
        allowed.extend(files::devices(|_| false));
        allowed.extend(programs(&self.host).into_iter().map(|path| (path, Right::Run)));
        allowed.extend(self.roots().into_iter().map(|path| (path, Right::Run)));
        allowed.extend(self.reads.iter().map(|path| (path.clone(), Right::Read)));
        allowed.extend(self.writes.iter().map(|path| (path.clone(), Right::Write)));
        allowed
    }
}

/// Parts of a toolchain, one of each package that it is made of.
const PARTS: [&str; 10] = [
    "bin/nvcc",
    "bin/ptxas",
    "bin/cudafe++",
    "nvvm/bin/cicc",
    "nvvm/libdevice/libdevice.10.bc",
    "include/cuda_runtime.h",
    "include/crt/host_config.h",
    "include/nv/target",
    "include/cccl/nv/target",
    "lib/libcudart_static.a",
];

/// Why compilers are not held to their files; none where they are.
pub(crate) fn unprotected() -> Option<&'static str> {
    #[cfg(target_os = "linux")]
    if files::available() {
        return None;
    }
    Some("no Landlock in this kernel: the compiler can read and write the user's files")
}

/// What programs read of a system: libraries, headers, its description.
#[cfg(target_os = "linux")]
const SYSTEM: [&str; 19] = [
    "/usr",
    "/bin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/gnu/store",
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/etc/ld.so.preload",
    "/etc/localtime",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/filesystems",
    "/proc/version",
    "/sys/devices/system",
    "/sys/fs/cgroup",
];

/// The tools that a host compiler and nvcc start, in PATH or beside the compiler; another compiler where one wraps it.
#[cfg(target_os = "linux")]
const TOOLS: [&str; 16] = [
    "as", "ld", "ld.bfd", "ld.gold", "ld.lld", "ld.mold", "objcopy", "strip", "rm", "sh", "gcc", "g++", "cc", "c++",
    "clang", "clang++",
];

/// The host compiler, its parts, binutils, the shell with which nvcc starts its parts, and the loader of programs.
#[cfg(target_os = "linux")]
fn programs(host: &Path) -> Vec<PathBuf> {
    use std::collections::BTreeMap;
    use std::sync::{Mutex, PoisonError};
    static KNOWN: Mutex<BTreeMap<PathBuf, Vec<PathBuf>>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    known.entry(host.to_owned()).or_insert_with(|| found(host)).clone()
}

#[cfg(target_os = "linux")]
fn found(host: &Path) -> Vec<PathBuf> {
    let mut programs = vec![host.to_owned(), PathBuf::from("/bin/sh")];
    let real = host.canonicalize().unwrap_or_else(|_| host.to_owned());
    let name = real.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let script = std::fs::read(&real).is_ok_and(|bytes| bytes.starts_with(b"#!"));
    if script || name.contains("cache") || name.contains("distcc") {
        // It starts a compiler that is somewhere on the system.
        programs.extend(["/usr", "/bin", "/opt", "/nix/store", "/gnu/store"].map(PathBuf::from));
    }
    let beside = files::folder(host);
    // A compiler in a folder of its own has its parts below it.
    if let Some(prefix) = beside.as_deref().and_then(Path::parent).filter(|prefix| {
        prefix.parent().is_some() && *prefix != Path::new("/usr") && Some(*prefix) != std::env::home_dir().as_deref()
    }) {
        programs.push(prefix.to_owned());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).filter(|path| path.is_absolute()).chain(beside).collect();
    programs.extend(TOOLS.iter().flat_map(|tool| folders.iter().map(move |folder| folder.join(tool))));
    for part in ["cc1plus", "collect2"] {
        let said = Command::new(host).arg(format!("-print-prog-name={part}")).output();
        let said = said.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
        programs
            .extend(Some(PathBuf::from(said)).filter(|path| path.is_absolute()).and_then(|path| files::folder(&path)));
    }
    // The kernel opens a program's loader as it opens the program.
    for folder in ["/lib", "/lib64", "/lib32", "/usr/lib", "/usr/lib64"] {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        programs.extend(entries.map(|entry| entry.path()).filter(|path| {
            path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"ld-") || name == "ld.so")
        }));
    }
    programs.retain(|path| path.exists());
    programs
}
