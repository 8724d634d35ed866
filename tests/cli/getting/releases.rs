//! Releases good and bad in a folder, and a server of it on loopback.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use crate::support::http::{self, Request};
use crate::support::{Ran, Test, script, write};

pub(super) const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// A program that prints `kernels 1.2.3`; the installer looks whether what it replaces is a program.
static PROGRAM: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let folder = tempfile::TempDir::new().unwrap();
    let source = folder.path().join("kernels.c");
    write(&source, "#include <stdio.h>\nint main(void) { puts(\"kernels 1.2.3 (abc)\"); return 0; }\n");
    let program = folder.path().join("kernels");
    Ran::ok(Command::new("cc").arg(&source).arg("-o").arg(&program));
    fs::read(program).unwrap()
});

/// Releases in a folder, and a server of it that ends with the process. A file FILE.to redirects, FILE.cut cuts an answer.
pub(super) struct Releases {
    pub(super) test: Test,
    pub(super) root: PathBuf,
    pub(super) url: String,
}

impl Releases {
    pub(super) fn new() -> Self {
        let test = Test::new();
        let root = test.outside();
        let served = root.clone();
        let url = http::serve(move |request, stream| stream.write_all(&answer(&request, &served)));
        Self { test, root, url }
    }

    pub(super) fn archive(&self, version: &str) -> PathBuf {
        let name = format!("kernels-{version}-{}-unknown-linux-gnu.tar.gz", std::env::consts::ARCH);
        self.root.join(format!("releases/download/v{version}/{name}"))
    }

    /// A release as `./package` writes it, whose program is one byte string.
    pub(super) fn release(&self, version: &str, program: &[u8]) -> PathBuf {
        let archive = self.archive(version);
        let name = archive.file_name().unwrap().to_str().unwrap();
        let folder = name.strip_suffix(".tar.gz").unwrap();
        let (stage, to) = (self.root.join("stage"), archive.parent().unwrap());
        write(&stage.join(folder).join("kernels"), program);
        fs::create_dir_all(to).unwrap();
        let pack =
            format!("tar -czf {to}/{name} {folder} && cd {to} && sha256sum {name} >{name}.sha256", to = to.display());
        Ran::ok(self.test.command_of("sh").current_dir(&stage).args(["-c", &pack]));
        archive
    }

    pub(super) fn good(&self, version: &str) -> PathBuf {
        self.release(version, &of_version(version))
    }

    /// The installer with programs of the test's first in PATH.
    pub(super) fn command(&self, typed: &str) -> Command {
        let mut command = self.test.command_of("sh");
        command.arg(Path::new(ROOT).join("install.sh")).args(typed.split(' ').filter(|word| !word.is_empty()));
        command.env("PATH", format!("{}:/usr/bin:/bin", self.test.root().join("bin").display()));
        command
    }

    pub(super) fn run(&self, typed: &str) -> Ran {
        Ran::of(self.command(&format!("--from {} {typed}", self.url)).arg("--version").arg("1.2.3"))
    }

    pub(super) fn fake(&self, name: &str, text: &str) {
        script(&self.test.root().join("bin").join(name), text);
    }

    pub(super) fn installed(&self) -> PathBuf {
        self.test.home.join(".local/bin/kernels")
    }
}

pub(super) fn of_version(version: &str) -> Vec<u8> {
    let at = PROGRAM.windows(5).position(|bytes| bytes == b"1.2.3").unwrap();
    let mut program = PROGRAM.clone();
    program[at..at + 5].copy_from_slice(version.as_bytes());
    program
}

fn answer(request: &Request, root: &Path) -> Vec<u8> {
    let path = root.join(request.path.trim_start_matches('/'));
    let beside = |ending: &str| PathBuf::from(format!("{}.{ending}", path.display()));
    if let Ok(to) = fs::read_to_string(beside("to")) {
        return http::answer("302 Found", &format!("Location: {to}\r\n"), "");
    }
    let (status, body) = fs::read(&path).map_or(("404 Not Found", Vec::new()), |body| ("200 OK", body));
    let mut whole = http::answer(status, "", &body);
    let sent = match request.method.as_str() {
        "HEAD" => 0,
        _ if beside("cut").exists() => body.len() / 2,
        _ => body.len(),
    };
    whole.truncate(whole.len() - body.len() + sent);
    whole
}
