//! torch for tests: the two that `tests/torch/setup` installs once into the test cache, and the headers that `kernels
//! toolchain install --torch` puts there.

#![allow(dead_code, reason = "every test target uses its own part of this")]
#![allow(clippy::unwrap_used, unreachable_pub, reason = "a helper that fails is a test that fails")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use super::{cuda, program};

/// The two torches, with the Hub's loader; `None` if they cannot be installed.
pub struct Torches {
    folder: PathBuf,
}

/// The folder of `tests/torch/setup`, or the reason of its failure.
pub fn torches() -> Result<Torches, String> {
    static FOLDER: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let setup = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/torch/setup");
        let output = Command::new(setup).output().unwrap();
        if output.status.success() {
            Ok(String::from_utf8(output.stdout).unwrap().trim().into())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
        }
    });
    folder.clone().map(|folder| Torches { folder })
}

impl Torches {
    /// A Python with the newest torch.
    pub fn newest(&self) -> Command {
        let mut command = Command::new(self.folder.join("venv/bin/python"));
        command.env_remove("PYTHONPATH").env_remove("LOCAL_KERNELS");
        // Tests must not look for a kernel on the network.
        command.env("HF_HUB_OFFLINE", "1");
        command
    }

    /// A Python with the oldest torch.
    pub fn oldest(&self) -> Command {
        let mut command = self.newest();
        command.env("PYTHONPATH", self.folder.join("oldest"));
        command
    }

    /// The folder that holds the oldest torch's package.
    pub fn packages(&self) -> PathBuf {
        self.folder.join("oldest")
    }
}

/// The package of torch's headers in the test cache.
pub fn headers() -> PathBuf {
    static HEADERS: OnceLock<PathBuf> = OnceLock::new();
    HEADERS
        .get_or_init(|| {
            let installed = Command::new(program())
                .args(["toolchain", "install", "--torch"])
                .env("KERNELS_CACHE", cuda::cache())
                .output()
                .unwrap();
            assert!(installed.status.success(), "the tests need torch's headers: {installed:?}");
            cuda::cache().join("torch-2.11.0")
        })
        .clone()
}
