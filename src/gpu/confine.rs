//! What holds the child: limits, no network, no other process, no file but in its scratch folder.

use std::fs::File;
use std::path::Path;

use rustix::process::{Resource, Rlimit};

/// Moves standard output to a descriptor that nobody knows, so that a candidate's printing is not taken for a report.
pub(super) fn private_stdout() -> anyhow::Result<File> {
    let private = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 200)?;
    let null = File::options().write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok(File::from(private))
}

/// Limits that hold from the start: time, file size, no core dumps, and death with the parent.
pub(super) fn limit() {
    let set = |resource, limit| {
        let both = Rlimit {
            current: Some(limit),
            maximum: Some(limit),
        };
        // A lower limit that was set by somebody else stays.
        let _ = rustix::process::setrlimit(resource, both);
    };
    set(Resource::Core, 0);
    set(Resource::Cpu, 300);
    set(Resource::Fsize, 64 << 20);
    #[cfg(target_os = "linux")]
    {
        let _ =
            rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    }
}

/// Locks the process down for good. Answers what holds it, or why it cannot be held.
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

/// Elsewhere there is no NVIDIA driver either.
#[cfg(not(target_os = "linux"))]
pub(super) fn lock_down(_scratch: &Path) -> Result<Vec<String>, String> {
    Err("candidates are recorded on Linux only".to_owned())
}

/// Reads are free; writes go to the scratch folder and the card.
#[cfg(target_os = "linux")]
fn files(scratch: &Path) -> Result<landlock::RulesetStatus, landlock::RulesetError> {
    use landlock::{
        ABI, Access, AccessFs, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreatedAttr,
    };
    let abi = ABI::V5;
    let all = AccessFs::from_all(abi);
    let mut rules = Ruleset::default().handle_access(all)?.create()?;
    let mut allow = vec![
        (Path::new("/").to_path_buf(), AccessFs::from_read(abi)),
        (scratch.to_path_buf(), all),
    ];
    let device = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;
    for entry in std::fs::read_dir("/dev").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("nvidia") || ["null", "zero", "urandom", "random"].contains(&&*name) {
            let access = if entry.path().is_dir() {
                device | AccessFs::ReadDir
            } else {
                device
            };
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

/// `fchmodat2`, which is younger than crate libc's names; the same number everywhere.
#[cfg(target_os = "linux")]
const SYS_FCHMODAT2: i64 = 452;

/// System calls with which a library could reach out of its process. What is forbidden kills.
#[cfg(target_os = "linux")]
fn calls() -> Result<(), seccompiler::Error> {
    use std::collections::BTreeMap;

    use seccompiler::{
        BpfProgram, SeccompAction, SeccompCmpArgLen as Length, SeccompCmpOp as Op,
        SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
    };
    let when = |argument, length, op, value| -> Result<Vec<SeccompRule>, seccompiler::Error> {
        let condition = SeccompCondition::new(argument, length, op, value)?;
        Ok(vec![SeccompRule::new(vec![condition])?])
    };
    let own = u64::from(std::process::id());
    let mut forbidden: BTreeMap<i64, Vec<SeccompRule>> = [
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
        libc::SYS_prlimit64,
        libc::SYS_keyctl,
        libc::SYS_add_key,
        libc::SYS_open_by_handle_at,
        libc::SYS_userfaultfd,
    ]
    .into_iter()
    .map(|call| (call, Vec::new()))
    .collect();
    #[cfg(target_arch = "x86_64")]
    for call in [libc::SYS_fork, libc::SYS_vfork] {
        forbidden.insert(call, Vec::new());
    }
    let local = u64::from(libc::AF_UNIX.cast_unsigned());
    forbidden.insert(libc::SYS_socket, when(0, Length::Dword, Op::Ne, local)?);
    forbidden.insert(libc::SYS_kill, when(0, Length::Dword, Op::Ne, own)?);
    forbidden.insert(libc::SYS_tgkill, when(0, Length::Dword, Op::Ne, own)?);
    let thread = u64::from(libc::CLONE_THREAD.cast_unsigned());
    forbidden.insert(
        libc::SYS_clone,
        when(0, Length::Qword, Op::MaskedEq(thread), 0)?,
    );
    // prlimit64 is also how limits are read: of this process, without setting any.
    forbidden.insert(libc::SYS_prlimit64, when(2, Length::Qword, Op::Ne, 0)?);

    let arch = || TargetArch::try_from(std::env::consts::ARCH);
    let filter = SeccompFilter::new(
        forbidden,
        SeccompAction::Allow,
        SeccompAction::KillProcess,
        arch()?,
    )?;
    // clone3 hides its flags from filters: glibc takes the other call when it is not there.
    // A local socket is refused, not fatal: the driver tries one.
    #[allow(clippy::cast_sign_loss)]
    let absent = SeccompAction::Errno(libc::ENOSYS as u32);
    let hidden = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    let hidden = SeccompFilter::new(hidden, SeccompAction::Allow, absent, arch()?)?;
    #[allow(clippy::cast_sign_loss)]
    let denied = SeccompAction::Errno(libc::EACCES as u32);
    let sockets = BTreeMap::from([(libc::SYS_socket, when(0, Length::Dword, Op::Eq, local)?)]);
    let sockets = SeccompFilter::new(sockets, SeccompAction::Allow, denied, arch()?)?;
    // Landlock guards what files hold, not their modes, owners, times and attributes.
    let entries = [
        libc::SYS_fchmod,
        libc::SYS_fchmodat,
        SYS_FCHMODAT2,
        libc::SYS_fchown,
        libc::SYS_fchownat,
        libc::SYS_utimensat,
        libc::SYS_setxattr,
        libc::SYS_lsetxattr,
        libc::SYS_fsetxattr,
        libc::SYS_removexattr,
        libc::SYS_lremovexattr,
        libc::SYS_fremovexattr,
    ];
    let mut entries: BTreeMap<i64, Vec<SeccompRule>> =
        entries.map(|call| (call, Vec::new())).into();
    #[cfg(target_arch = "x86_64")]
    for call in [
        libc::SYS_chmod,
        libc::SYS_chown,
        libc::SYS_lchown,
        libc::SYS_utime,
        libc::SYS_utimes,
        libc::SYS_futimesat,
    ] {
        entries.insert(call, Vec::new());
    }
    #[allow(clippy::cast_sign_loss)]
    let kept = SeccompAction::Errno(libc::EACCES as u32);
    let entries = SeccompFilter::new(entries, SeccompAction::Allow, kept, arch()?)?;
    for filter in [hidden, sockets, entries, filter] {
        let program: BpfProgram = filter.try_into()?;
        seccompiler::apply_filter_all_threads(&program)?;
    }
    Ok(())
}
