//! Which files a confined thread reaches, by Landlock.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, NetPort, PathBeneath, PathFd, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, RulesetStatus,
};

/// Later versions restrict nothing that matters here.
const VERSION: ABI = ABI::V5;

/// What is allowed with a file, or with everything below a folder.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Right {
    Read,
    /// To read and to execute.
    Run,
    /// Everything.
    Write,
    /// To read, write and control, but not to create. The driver names its threads by files in /proc, which it truncates.
    Device,
}

impl Right {
    fn access(self) -> BitFlags<AccessFs> {
        let read = AccessFs::ReadFile | AccessFs::ReadDir;
        match self {
            Self::Read => read,
            Self::Run => read | AccessFs::Execute,
            Self::Write => AccessFs::from_all(VERSION),
            Self::Device => read | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev,
        }
    }
}

/// Devices that hold nothing.
const HARMLESS: [&str; 4] = ["null", "zero", "urandom", "random"];

/// How the driver's devices are named: everywhere, on Tegra, in WSL.
const CARDS: [&str; 6] = ["nvidia", "nvhost", "nvmap", "nvgpu", "nvsciipc", "dxg"];

/// Whether this is the name of a device of the driver.
pub(super) fn is_card(name: &str) -> bool {
    CARDS.iter().any(|card| name.starts_with(card))
}

/// The harmless devices, and those whose name a caller wants besides.
pub(super) fn devices(also: impl Fn(&str) -> bool) -> Vec<(PathBuf, Right)> {
    let named = |name: &str| HARMLESS.contains(&name) || also(name);
    let entries = std::fs::read_dir("/dev").into_iter().flatten().flatten();
    entries
        .filter(|entry| named(&entry.file_name().to_string_lossy()))
        .map(|entry| (entry.path(), Right::Device))
        .collect()
}

/// Leaves this thread, and what it starts, these rights. Paths that do not exist are passed over.
pub(super) fn restrict(allowed: &[(PathBuf, Right)]) -> Result<RulesetStatus, RulesetError> {
    limit(Ruleset::default().handle_access(AccessFs::from_all(VERSION))?.create()?, allowed)
}

/// The same; signals reach only what this thread starts, where the kernel knows that (Linux 6.12). Returns whether it does.
/// With a port, TCP connects to this one alone; that is an error where the kernel does not know it (before Linux 6.7).
pub(super) fn restrict_and_scope(
    allowed: &[(PathBuf, Right)],
    port: Option<u16>,
) -> Result<(RulesetStatus, bool), RulesetError> {
    use landlock::Scope;
    let scoped = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .scope(Scope::Signal)
        .and_then(Ruleset::create)
        .is_ok();
    let mut rules = Ruleset::default().handle_access(AccessFs::from_all(VERSION))?.scope(Scope::Signal)?;
    if port.is_some() {
        rules = rules.set_compatibility(CompatLevel::HardRequirement).handle_access(AccessNet::from_all(ABI::V4))?;
        rules = rules.set_compatibility(CompatLevel::BestEffort);
    }
    let mut rules = rules.create()?;
    if let Some(port) = port {
        rules = rules.add_rule(NetPort::new(port, AccessNet::ConnectTcp))?;
    }
    Ok((limit(rules, allowed)?, scoped))
}

fn limit(mut rules: RulesetCreated, allowed: &[(PathBuf, Right)]) -> Result<RulesetStatus, RulesetError> {
    for (path, right) in allowed {
        let Ok(open) = PathFd::new(path) else { continue };
        let mut access = right.access();
        if !path.is_dir() {
            access &= AccessFs::from_file(VERSION);
        }
        rules = rules.add_rule(PathBeneath::new(open, access))?;
    }
    Ok(rules.restrict_self()?.ruleset)
}

/// Whether this kernel has Landlock.
pub(super) fn available() -> bool {
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V1))
        .and_then(Ruleset::create)
        .is_ok()
}

/// The folder of a path, links resolved.
pub(super) fn folder(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok()?.parent().map(Path::to_owned)
}
