//! Confines the process that runs a launcher: resource limits, no network, no other processes, no writes outside its
//! scratch folder, no look at other processes.

use std::fs::File;
use std::path::Path;
#[cfg(target_os = "linux")]
use std::path::PathBuf;
use std::process::Command;

use rustix::process::{Resource, Rlimit};

#[cfg(target_os = "linux")]
use super::{
    calls,
    files::{self, Right},
};

/// Moves standard output to another descriptor, so that what a candidate prints is not read as a reply.
pub(crate) fn private_stdout() -> anyhow::Result<File> {
    let private = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 200)?;
    let null = File::options().write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok(File::from(private))
}

/// Limits CPU time and file size, disables core dumps, and ends the process with its parent.
pub(crate) fn limit() {
    let set = |resource, limit| {
        let both = Rlimit { current: Some(limit), maximum: Some(limit) };
        // Fails where a lower limit is in force, which then stays.
        let _ = rustix::process::setrlimit(resource, both);
    };
    set(Resource::Core, 0);
    set(Resource::Cpu, 300);
    set(Resource::Fsize, 64 << 20);
    #[cfg(target_os = "linux")]
    {
        let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    }
}

/// Limits the files of the process, which must not have started a thread yet: a thread started before keeps all rights, and
/// shares its memory. Returns the restriction in force.
#[cfg(target_os = "linux")]
pub(crate) fn limit_files(scratch: &Path) -> String {
    hold(scratch, Right::Read)
}

#[cfg(target_os = "linux")]
fn hold(scratch: &Path, elsewhere: Right) -> String {
    use landlock::RulesetStatus::{FullyEnforced, NotEnforced, PartiallyEnforced};
    match files::restrict(&allowed(scratch, elsewhere)) {
        Ok(NotEnforced) => "no Landlock in this kernel: files are not protected".to_owned(),
        Ok(PartiallyEnforced) => {
            "Landlock, as far as this kernel knows it: files can be written in the scratch folder only".to_owned()
        }
        Ok(FullyEnforced) => "Landlock: files can be written in the scratch folder only".to_owned(),
        Err(error) => format!("Landlock failed, files are not protected: {error}"),
    }
}

/// Reads everywhere but of other processes; writes to the scratch folder, the card, and this process's own part of /proc.
#[cfg(target_os = "linux")]
fn allowed(scratch: &Path, elsewhere: Right) -> Vec<(PathBuf, Right)> {
    let below = |folder: &str, unless: fn(&str) -> bool| {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let names = entries.filter(move |entry| !unless(&entry.file_name().to_string_lossy()));
        names.map(|entry| (entry.path(), elsewhere)).collect::<Vec<_>>()
    };
    let mut allowed = below("/", |name| name == "proc");
    allowed.extend(below("/proc", |name| name.starts_with(|c: char| c.is_ascii_digit())));
    // The driver names its threads there when it starts (CUDA_ERROR_OPERATING_SYSTEM where it cannot).
    allowed.push((PathBuf::from("/proc/self"), Right::Write));
    allowed.push((scratch.to_path_buf(), Right::Write));
    allowed.extend(files::devices(files::is_card));
    allowed
}

/// Limits the system calls of all threads, irrevocably. Returns the restrictions in force, or why they cannot be set.
#[cfg(target_os = "linux")]
pub(crate) fn limit_calls() -> Result<Vec<String>, String> {
    calls::of_a_launcher().map_err(|error| format!("the system-call filter could not be set: {error}"))?;
    Ok(vec![
        "limits on time, memory and file size".to_owned(),
        "seccomp: no network, no other program or process".to_owned(),
    ])
}

/// Becomes a program that runs a stranger's code: it may start others, writes to the scratch folder alone, opens no socket but the
/// driver's, and ends with its parent. `KERNELS_HELD` tells it what holds for its files. Returns only if that fails.
#[cfg(target_os = "linux")]
pub(crate) fn become_confined(command: &mut Command, scratch: &Path) -> anyhow::Error {
    let parent = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    command.env("KERNELS_HELD", hold(scratch, Right::Run));
    match parent.map_err(anyhow::Error::from).and_then(|()| Ok(calls::of_a_compiler(true)?)) {
        Ok(()) => std::os::unix::process::CommandExt::exec(command).into(),
        Err(error) => error,
    }
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn become_confined(_command: &mut Command, _scratch: &Path) -> anyhow::Error {
    anyhow::anyhow!("a stranger's code is run on Linux only")
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn limit_files(_scratch: &Path) -> String {
    "files are not protected".to_owned()
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn limit_calls() -> Result<Vec<String>, String> {
    Err("candidates are recorded on Linux only".to_owned())
}
