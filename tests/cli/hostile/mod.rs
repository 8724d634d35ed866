//! Commands in places that are broken, used concurrently, or malicious.
//!
//! In every case: one of the four exit codes, no panic, no hang, a message that names the path, JSON
//! if it was requested, and no change outside the project and the home.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::stat::Mode;
use nix::unistd::{geteuid, mkfifo};
use serde_json::{Value, json};

use crate::interrupt::skipped;
use crate::interrupt::trace::{Fault, Plan};
use crate::support::random::Random;
use crate::support::{self, Picture, Ran, Test, area, list, names, not_run, number, picture, program, skill_md, write};

const NOBODY: u32 = 65_534;
const CLAUDE: &str = ".claude/skills/demo";

impl Ran {
    /// Expects that the message names this.
    #[track_caller]
    fn names(&self, word: &str) {
        assert!(self.err.contains(word), "no {word:?} in {self:#?}");
    }

    /// Expects one of these exit codes.
    #[track_caller]
    fn expect_any(&self, codes: &[i32]) -> &Self {
        assert!(codes.contains(&self.code), "none of {codes:?}: {self:#?}");
        self
    }
}

impl Test {
    /// With files outside that must not change, and the sources `V1` and `V2` beside them.
    fn hostile() -> Self {
        let test = Self::new();
        write(&test.outside().join("secret"), "a secret\n");
        write(&test.outside().join("folder/file"), "a file\n");
        write(&test.outside().join("ignored/.gitignore"), "mine\n");
        fs::create_dir(test.outside().join("empty")).unwrap();
        for version in ["1", "2"] {
            write_skill(&test.outside().join(format!("v{version}/demo")), version);
        }
        test
    }

    /// Expects that the command fails with these words, with and without `--json`, and that nothing changes.
    #[track_caller]
    fn refuses(&self, typed: &str, code: i32, words: &[&str]) {
        let before = picture(&self.root());
        self.run(typed).expect(code, words);
        self.run(&format!("{typed} --json")).expect(code, words);
        assert_unchanged(&before, &picture(&self.root()));
    }

    /// Expects that all read-only commands work, in text and in JSON.
    #[track_caller]
    fn look(&self) {
        let before = picture(&self.root());
        for typed in ["skills status", "skills list", "skills diff", "doctor"] {
            self.run(typed).expect_any(&[0, 1]);
            self.run(&format!("{typed} --json")).expect_any(&[0, 1]);
        }
        assert_unchanged(&before, &picture(&self.root()));
    }

    /// Expects that all installs are as they were installed. The sources lie outside the project, so more is not known.
    #[track_caller]
    fn is_unedited(&self) {
        let report = self.json("skills status");
        for install in report["installs"].as_array().unwrap() {
            assert!(["current", "unchecked"].contains(&install["state"].as_str().unwrap()), "{report:#}");
        }
    }

    fn link(&self, to: impl AsRef<Path>, path: &str) {
        fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
        symlink(to, self.at(path)).unwrap();
    }

    /// Everything that commands must not touch.
    fn untouchable(&self) -> Picture {
        picture(&self.outside())
    }

    /// The trees that were moved away, of all areas that the tests use.
    fn backups(&self) -> Vec<PathBuf> {
        [".claude/.kernels/backups", ".claude/skills/.kernels/backups"]
            .iter()
            .flat_map(|path| list(&self.at(path)))
            .collect()
    }

    #[track_caller]
    fn assert_no_change_waits(&self) {
        for area in [".claude/.kernels", ".claude/skills/.kernels", "dest/.kernels"] {
            let left: Vec<String> = names(&self.at(area)).into_iter().filter(|name| name.starts_with("txn-")).collect();
            assert!(left.is_empty(), "{left:?} in {area}");
        }
    }

    /// The installed tree is exactly this version.
    fn holds_version(&self, path: &str, version: &str) -> bool {
        let mut there = picture(&self.at(path));
        there.remove(Path::new(".kernels.json"));
        there == picture(&self.outside().join(format!("v{version}/demo")))
    }
}

/// A skill that takes a moment to write. Neither of two versions comes after the other, so that each replaces the other.
fn write_skill(folder: &Path, version: &str) {
    support::write_skill(folder, "demo", &format!("v{version}"));
    for n in 0..12 {
        write(&folder.join(format!("references/{n}.md")), format!("{n} of {version}\n"));
    }
}

#[track_caller]
fn assert_unchanged(before: &Picture, after: &Picture) {
    let differs: Vec<_> =
        before.keys().chain(after.keys()).filter(|path| before.get(*path) != after.get(*path)).collect();
    assert!(differs.is_empty(), "changed: {differs:?}");
}

fn pipe_at(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    mkfifo(path, Mode::from_bits_truncate(0o644)).unwrap();
}

mod a_clean_bill;
mod a_flip;
mod a_power_cut;
mod an_archive;
mod an_editor;
mod at_once;
mod dest;
mod file_systems;
mod limits;
mod the_area;
mod the_destination;
mod the_environment;
mod the_folders_above;
mod the_output;
mod the_receipt;
mod the_source;
mod without_permission;
