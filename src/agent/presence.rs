//! Which agents are on this machine.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use super::machine::Machine;
use super::table::{self, Agent};

/// The traces of an agent on this machine.
#[derive(Clone, Debug, Default)]
pub(crate) struct Presence {
    /// Its program on `PATH`.
    pub(crate) program: Option<PathBuf>,
    /// Its version, where the program's package says it; nothing is run to learn it.
    pub(crate) version: Option<String>,
    /// Its settings folder, where there is one.
    pub(crate) config: Option<PathBuf>,
}

impl Presence {
    /// Looks for an agent's program and settings.
    pub(crate) fn of(agent: &Agent, machine: &Machine) -> Self {
        let program = agent.program.as_deref().and_then(find_program);
        Self {
            version: program.as_deref().and_then(package_version),
            config: agent.config.as_ref().and_then(|config| machine.resolve(config)).filter(|folder| folder.is_dir()),
            program,
        }
    }

    /// Whether there is any trace.
    pub(crate) fn is_present(&self) -> bool {
        self.program.is_some() || self.config.is_some()
    }
}

/// The agents with a trace on this machine.
pub(crate) fn present(machine: &Machine) -> Vec<&'static Agent> {
    table::all().iter().filter(|agent| Presence::of(agent, machine).is_present()).collect()
}

fn find_program(name: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?).filter(|folder| folder.is_absolute()).map(|folder| folder.join(name)).find(
        |file| {
            use std::os::unix::fs::PermissionsExt;
            fs::metadata(file).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
        },
    )
}

/// The version in the package.json that a program installed by npm lies below.
fn package_version(program: &Path) -> Option<String> {
    let real = program.canonicalize().ok()?;
    let manifest =
        real.ancestors().skip(1).take(4).map(|folder| folder.join("package.json")).find(|file| file.is_file())?;
    let package: serde_json::Value = serde_json::from_slice(&fs::read(manifest).ok()?).ok()?;
    Some(package.get("version")?.as_str()?.to_owned())
}
