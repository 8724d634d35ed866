//! Confines the recording process: resource limits, no network, no other processes, no writes outside its scratch folder.

use std::fs::File;
use std::path::Path;

use rustix::process::{Resource, Rlimit};

/// Moves standard output to another descriptor, so that what a candidate prints is not read as a reply.
pub(super) fn private_stdout() -> anyhow::Result<File> {
    let private = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 200)?;
    let null = File::options().write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok(File::from(private))
}

/// Limits CPU time and file size, disables core dumps, and ends the process with its parent.
pub(super) fn limit() {
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

/// Locks the process down irrevocably. Returns the restrictions in force, or why they cannot be set.
#[cfg(target_os = "linux")]
pub(super) fn lock_down(scratch: &Path) -> Result<Vec<String>, String> {
    let mut held = vec!["limits on time, memory and file size".to_owned()];
    held.push(match files(scratch) {
        Ok(landlock::RulesetStatus::NotEnforced) => "no Landlock in this kernel: files are not protected".to_owned(),
        Ok(landlock::RulesetStatus::PartiallyEnforced) => {
            "Landlock, as far as this kernel knows it: files can be written in the scratch folder only".to_owned()
        }
        Ok(landlock::RulesetStatus::FullyEnforced) => {
            "Landlock: files can be written in the scratch folder only".to_owned()
        }
        Err(error) => format!("Landlock failed, files are not protected: {error}"),
    });
    calls().map_err(|error| format!("the system-call filter could not be set: {error}"))?;
    held.push("seccomp: no network, no other program or process".to_owned());
    Ok(held)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn lock_down(_scratch: &Path) -> Result<Vec<String>, String> {
    Err("candidates are recorded on Linux only".to_owned())
}

/// Allows reads everywhere, and writes to the scratch folder and the card.
#[cfg(target_os = "linux")]
fn files(scratch: &Path) -> Result<landlock::RulesetStatus, landlock::RulesetError> {
    use landlock::{ABI, Access, AccessFs, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreatedAttr};
    let abi = ABI::V5;
    let all = AccessFs::from_all(abi);
    let mut rules = Ruleset::default().handle_access(all)?.create()?;
    let mut allow = vec![(Path::new("/").to_path_buf(), AccessFs::from_read(abi)), (scratch.to_path_buf(), all)];
    let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;
    for entry in std::fs::read_dir("/dev").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("nvidia") || ["null", "zero", "urandom", "random"].contains(&&*name) {
            let access = if entry.path().is_dir() { device | AccessFs::ReadDir } else { device };
            allow.push((entry.path(), access));
        }
    }
    for (path, access) in allow {
        if let Ok(open) = PathFd::new(&path) {
            rules = rules.add_rule(PathBeneath::new(open, access))?;
        }
    }
    Ok(rules.restrict_self()?.ruleset)
}

/// System calls with which a library could leave its process or change the machine. They kill the process.
#[cfg(target_os = "linux")]
const KILLED: &[i64] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal,
    libc::SYS_tkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_io_uring_setup,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_sethostname,
    libc::SYS_setpriority,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_open_by_handle_at,
    libc::SYS_userfaultfd,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_fork,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_vfork,
];

/// System calls that change modes, owners, times and attributes of files, which Landlock does not cover. They fail.
#[cfg(target_os = "linux")]
const DENIED: &[i64] = &[
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    // fchmodat2, which crate libc does not name yet; the number is the same on every architecture.
    452,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_utimensat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chmod,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utime,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_utimes,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_futimesat,
];

/// Installs the system-call filters.
#[cfg(target_os = "linux")]
fn calls() -> Result<(), seccompiler::Error> {
    use seccompiler::{
        BpfProgram, SeccompAction, SeccompCmpArgLen as Length, SeccompCmpOp as Op, SeccompCondition, SeccompFilter,
        SeccompRule, TargetArch,
    };
    type Rule = (i64, Vec<SeccompRule>);
    let when = |call, argument, length, op, value| -> Result<Rule, seccompiler::Error> {
        let condition = SeccompCondition::new(argument, length, op, value)?;
        Ok((call, vec![SeccompRule::new(vec![condition])?]))
    };
    let always = |call: &i64| -> Rule { (*call, Vec::new()) };
    let local = u64::from(libc::AF_UNIX.cast_unsigned());
    let own = u64::from(std::process::id());
    let thread = u64::from(libc::CLONE_THREAD.cast_unsigned());
    let mut killed: Vec<Rule> = KILLED.iter().map(always).collect();
    killed.extend([
        when(libc::SYS_socket, 0, Length::Dword, Op::Ne, local)?,
        when(libc::SYS_kill, 0, Length::Dword, Op::Ne, own)?,
        when(libc::SYS_tgkill, 0, Length::Dword, Op::Ne, own)?,
        when(libc::SYS_clone, 0, Length::Qword, Op::MaskedEq(thread), 0)?,
        // Reading limits is allowed, by passing no new ones.
        when(libc::SYS_prlimit64, 2, Length::Qword, Op::Ne, 0)?,
    ]);
    let mut denied: Vec<Rule> = DENIED.iter().map(always).collect();
    // The driver tries a local socket, and works without one.
    denied.push(when(libc::SYS_socket, 0, Length::Dword, Op::Eq, local)?);
    // A filter cannot see the flags of clone3; glibc falls back to clone where clone3 does not exist.
    let absent = vec![always(&libc::SYS_clone3)];
    let errno = |number: i32| SeccompAction::Errno(number.cast_unsigned());
    for (rules, action) in
        [(absent, errno(libc::ENOSYS)), (denied, errno(libc::EACCES)), (killed, SeccompAction::KillProcess)]
    {
        let arch = TargetArch::try_from(std::env::consts::ARCH)?;
        let rules = rules.into_iter().collect();
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, action, arch)?;
        let program: BpfProgram = filter.try_into()?;
        seccompiler::apply_filter_all_threads(&program)?;
    }
    Ok(())
}

#[cfg(all(test, target_os = "linux"))]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    const PROBE: &str = "KERNELS_CONFINE_PROBE";
    const SCRATCH: &str = "KERNELS_CONFINE_SCRATCH";
    /// Exit codes of the probe: its deed succeeded, or failed.
    const DONE: i32 = 10;
    const REFUSED: i32 = 11;
    const NO_LANDLOCK: i32 = 12;

    /// Tries one deed in a locked-down process. The test below runs it in a process of its own.
    #[test]
    fn probe() {
        let Ok(deed) = std::env::var(PROBE) else {
            return;
        };
        let scratch = std::path::PathBuf::from(std::env::var_os(SCRATCH).unwrap());
        let outside = scratch.parent().unwrap().join("outside");
        limit();
        let held = lock_down(&scratch).unwrap();
        let guarded = held.iter().any(|line| line.starts_with("Landlock:"));
        // SAFETY: plain system calls.
        let done = unsafe {
            match deed.as_str() {
                "internet" => libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0) >= 0,
                "internet6" => libc::socket(libc::AF_INET6, libc::SOCK_DGRAM, 0) >= 0,
                "local socket" => libc::socket(libc::AF_UNIX, libc::SOCK_STREAM, 0) >= 0,
                "program" => Command::new("/bin/true").status().is_ok(),
                "fork" => {
                    if libc::fork() == 0 {
                        libc::_exit(0);
                    }
                    true
                }
                "signal" => libc::kill(libc::getppid(), 0) == 0,
                "trace" => libc::ptrace(libc::PTRACE_ATTACH, libc::getppid(), 0, 0) == 0,
                "raise the limit" => {
                    let most = libc::rlimit { rlim_cur: 1 << 30, rlim_max: 1 << 30 };
                    libc::setrlimit(libc::RLIMIT_FSIZE, &raw const most) == 0
                }
                "thread" => std::thread::spawn(|| 1).join().is_ok(),
                "read" => std::fs::read("/etc/passwd").is_ok(),
                "write in scratch" => std::fs::write(scratch.join("file"), "x").is_ok(),
                "mode" => libc::chmod(c"/etc/hostname".as_ptr(), 0o644) == 0,
                "write outside" if guarded => std::fs::write(&outside, "x").is_ok(),
                "remove outside" if guarded => std::fs::remove_file(outside.with_extension("there")).is_ok(),
                "write outside" | "remove outside" => std::process::exit(NO_LANDLOCK),
                other => panic!("no deed {other}"),
            }
        };
        std::process::exit(if done { DONE } else { REFUSED });
    }

    #[test]
    fn a_locked_down_process_reaches_nothing_but_its_scratch_folder() {
        let folder = tempfile::tempdir().unwrap();
        let scratch = folder.path().join("scratch");
        std::fs::create_dir(&scratch).unwrap();
        std::fs::write(folder.path().join("outside.there"), "precious").unwrap();
        let killed = Err(libc::SIGSYS);
        for (deed, expected) in [
            ("internet", killed),
            ("internet6", killed),
            ("local socket", Ok(REFUSED)),
            ("program", killed),
            ("fork", killed),
            ("signal", killed),
            ("trace", killed),
            ("raise the limit", killed),
            ("mode", Ok(REFUSED)),
            ("write outside", Ok(REFUSED)),
            ("remove outside", Ok(REFUSED)),
            ("thread", Ok(DONE)),
            ("read", Ok(DONE)),
            ("write in scratch", Ok(DONE)),
        ] {
            let status = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "gpu::confine::tests::probe", "--test-threads", "1"])
                .env(PROBE, deed)
                .env(SCRATCH, &scratch)
                .stdout(std::process::Stdio::null())
                .stderr(std::process::Stdio::null())
                .status()
                .unwrap();
            let outcome = status.code().ok_or_else(|| status.signal().unwrap_or(0));
            if outcome == Ok(NO_LANDLOCK) {
                use std::io::Write;
                let _ = writeln!(std::io::stderr(), "\nnot run: {deed}: this kernel has no Landlock");
                continue;
            }
            assert_eq!(outcome, expected, "{deed}");
        }
        assert!(!folder.path().join("outside").exists());
        assert!(folder.path().join("outside.there").exists());
    }
}
