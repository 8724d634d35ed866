//! Which system calls a confined thread makes, by seccomp: allow-lists as data, with reasons.

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen as Length, SeccompCmpOp as Op, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

/// Allowed with any arguments: a reason, and the calls.
type Allowed = (&'static str, &'static [i64]);

/// Allowed if the argument of this index is one of these values.
type Limited = (i64, u8, &'static [u64]);

/// What every program does. It reaches nothing outside the process but files, which Landlock limits.
const EVERYONE: &[Allowed] = &[
    (
        "memory of its own",
        &[
            libc::SYS_brk,
            libc::SYS_mmap,
            libc::SYS_munmap,
            libc::SYS_mremap,
            libc::SYS_mprotect,
            libc::SYS_madvise,
            libc::SYS_mincore,
            libc::SYS_msync,
            libc::SYS_mlock,
            libc::SYS_mlock2,
            libc::SYS_munlock,
            libc::SYS_mbind,
            libc::SYS_get_mempolicy,
            libc::SYS_set_mempolicy,
            libc::SYS_memfd_create,
            libc::SYS_pkey_alloc,
            libc::SYS_pkey_free,
            libc::SYS_pkey_mprotect,
        ],
    ),
    (
        "files, which Landlock limits, and descriptors",
        &[
            libc::SYS_openat,
            libc::SYS_openat2,
            libc::SYS_close,
            libc::SYS_close_range,
            libc::SYS_read,
            libc::SYS_write,
            libc::SYS_readv,
            libc::SYS_writev,
            libc::SYS_pread64,
            libc::SYS_pwrite64,
            libc::SYS_preadv,
            libc::SYS_pwritev,
            libc::SYS_lseek,
            libc::SYS_fstat,
            libc::SYS_newfstatat,
            libc::SYS_statx,
            libc::SYS_statfs,
            libc::SYS_fstatfs,
            libc::SYS_faccessat,
            libc::SYS_faccessat2,
            libc::SYS_readlinkat,
            libc::SYS_getdents64,
            libc::SYS_getcwd,
            libc::SYS_chdir,
            libc::SYS_fchdir,
            libc::SYS_ftruncate,
            libc::SYS_truncate,
            libc::SYS_fallocate,
            libc::SYS_fadvise64,
            libc::SYS_readahead,
            libc::SYS_fsync,
            libc::SYS_fdatasync,
            libc::SYS_mkdirat,
            libc::SYS_unlinkat,
            libc::SYS_renameat,
            libc::SYS_renameat2,
            libc::SYS_linkat,
            libc::SYS_symlinkat,
            libc::SYS_umask,
            libc::SYS_dup,
            libc::SYS_dup3,
            libc::SYS_pipe2,
            libc::SYS_copy_file_range,
            libc::SYS_sendfile,
            libc::SYS_splice,
            libc::SYS_tee,
        ],
    ),
    (
        "waiting",
        &[
            libc::SYS_futex,
            libc::SYS_futex_waitv,
            libc::SYS_ppoll,
            libc::SYS_pselect6,
            libc::SYS_epoll_create1,
            libc::SYS_epoll_ctl,
            libc::SYS_epoll_pwait,
            libc::SYS_epoll_pwait2,
            libc::SYS_eventfd2,
            libc::SYS_signalfd4,
            libc::SYS_timerfd_create,
            libc::SYS_timerfd_settime,
            libc::SYS_timerfd_gettime,
            libc::SYS_inotify_init1,
            libc::SYS_inotify_add_watch,
            libc::SYS_inotify_rm_watch,
            libc::SYS_nanosleep,
            libc::SYS_clock_nanosleep,
            libc::SYS_restart_syscall,
        ],
    ),
    (
        "time, and timers that signal the process itself",
        &[
            libc::SYS_clock_gettime,
            libc::SYS_clock_getres,
            libc::SYS_gettimeofday,
            libc::SYS_times,
            libc::SYS_setitimer,
            libc::SYS_getitimer,
            libc::SYS_timer_create,
            libc::SYS_timer_settime,
            libc::SYS_timer_gettime,
            libc::SYS_timer_getoverrun,
            libc::SYS_timer_delete,
        ],
    ),
    (
        "signals of its own threads: handlers, masks, stacks",
        &[
            libc::SYS_rt_sigaction,
            libc::SYS_rt_sigprocmask,
            libc::SYS_rt_sigreturn,
            libc::SYS_rt_sigpending,
            libc::SYS_rt_sigsuspend,
            libc::SYS_rt_sigtimedwait,
            libc::SYS_sigaltstack,
        ],
    ),
    (
        "threads",
        &[
            libc::SYS_exit,
            libc::SYS_exit_group,
            libc::SYS_set_tid_address,
            libc::SYS_set_robust_list,
            libc::SYS_get_robust_list,
            libc::SYS_rseq,
            libc::SYS_membarrier,
            libc::SYS_sched_yield,
        ],
    ),
    (
        "questions about the machine and the process",
        &[
            libc::SYS_getpid,
            libc::SYS_getppid,
            libc::SYS_gettid,
            libc::SYS_getpgid,
            libc::SYS_getsid,
            libc::SYS_getuid,
            libc::SYS_geteuid,
            libc::SYS_getgid,
            libc::SYS_getegid,
            libc::SYS_getresuid,
            libc::SYS_getresgid,
            libc::SYS_getgroups,
            libc::SYS_capget,
            libc::SYS_getrlimit,
            libc::SYS_getrusage,
            libc::SYS_getpriority,
            libc::SYS_sched_getaffinity,
            libc::SYS_sched_getscheduler,
            libc::SYS_sched_getparam,
            libc::SYS_sched_getattr,
            libc::SYS_sched_get_priority_max,
            libc::SYS_sched_get_priority_min,
            libc::SYS_getcpu,
            libc::SYS_getrandom,
            libc::SYS_sysinfo,
            libc::SYS_uname,
        ],
    ),
];

/// The same under the names that newer architectures dropped.
#[cfg(target_arch = "x86_64")]
const OLDER: &[i64] = &[
    libc::SYS_arch_prctl,
    libc::SYS_open,
    libc::SYS_creat,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_getdents,
    libc::SYS_mkdir,
    libc::SYS_rmdir,
    libc::SYS_unlink,
    libc::SYS_rename,
    libc::SYS_link,
    libc::SYS_symlink,
    libc::SYS_dup2,
    libc::SYS_pipe,
    libc::SYS_poll,
    libc::SYS_select,
    libc::SYS_epoll_create,
    libc::SYS_epoll_wait,
    libc::SYS_eventfd,
    libc::SYS_inotify_init,
    libc::SYS_alarm,
    libc::SYS_pause,
    libc::SYS_time,
    libc::SYS_getpgrp,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[i64] = &[];

/// What else compilers do: they start each other and wait. seccomp does not see paths; Landlock limits the programs.
const PROGRAMS: &[Allowed] = &[
    ("to start programs", &[libc::SYS_clone, libc::SYS_execve, libc::SYS_execveat, libc::SYS_wait4, libc::SYS_waitid]),
    #[cfg(target_arch = "x86_64")]
    ("to start programs", &[libc::SYS_fork, libc::SYS_vfork]),
    ("gcc raises the limit of its stack", &[libc::SYS_setrlimit]),
];

/// `fcntl` without `F_SETOWN`, `F_SETOWN_EX` and `F_SETSIG`, which send a signal to any process of the user, and without
/// leases, which would hold the harness's own files. A lock for writing needs a file opened for writing.
const FCNTL: &[u64] = &[
    libc::F_DUPFD as u64,
    libc::F_DUPFD_CLOEXEC as u64,
    libc::F_GETFD as u64,
    libc::F_SETFD as u64,
    libc::F_GETFL as u64,
    libc::F_SETFL as u64,
    libc::F_GETLK as u64,
    libc::F_SETLK as u64,
    libc::F_SETLKW as u64,
    libc::F_GETPIPE_SZ as u64,
    libc::F_SETPIPE_SZ as u64,
    libc::F_GET_SEALS as u64,
    libc::F_ADD_SEALS as u64,
];

/// `prctl` for names and questions: not the death signal, tracers, core scheduling, or whether the process can be read.
const PRCTL: &[u64] = &[
    libc::PR_SET_NAME as u64,
    libc::PR_GET_NAME as u64,
    libc::PR_GET_DUMPABLE as u64,
    libc::PR_GET_PDEATHSIG as u64,
    libc::PR_GET_SECCOMP as u64,
    libc::PR_GET_NO_NEW_PRIVS as u64,
    libc::PR_SET_NO_NEW_PRIVS as u64,
    libc::PR_GET_TIMERSLACK as u64,
    libc::PR_SET_TIMERSLACK as u64,
    libc::PR_CAPBSET_READ as u64,
    libc::PR_SET_VMA as u64,
];

/// Calls of both kinds of processes that are allowed with some arguments only.
const LIMITED: &[Limited] = &[
    (libc::SYS_fcntl, 1, FCNTL),
    (libc::SYS_prctl, 0, PRCTL),
    // To schedule the calling thread alone: with its number, any process of the user could be named.
    (libc::SYS_sched_setaffinity, 0, &[0]),
    (libc::SYS_sched_setscheduler, 0, &[0]),
    (libc::SYS_sched_setparam, 0, &[0]),
    (libc::SYS_sched_setattr, 0, &[0]),
    // Where the calling process's pages lie.
    (libc::SYS_move_pages, 0, &[0]),
    // Shared locks, with which the driver reads its cache.
    (
        libc::SYS_flock,
        1,
        &[
            libc::LOCK_SH as u64,
            (libc::LOCK_SH | libc::LOCK_NB) as u64,
            libc::LOCK_UN as u64,
            (libc::LOCK_UN | libc::LOCK_NB) as u64,
        ],
    ),
    // A pair has no other end outside.
    (libc::SYS_socketpair, 0, &[libc::AF_UNIX as u64]),
];

/// Controls of descriptors that signal another process, or type into a terminal.
const CONTROLS: [u64; 7] = [
    0x8901, // FIOSETOWN
    0x8902, // SIOCSPGRP
    0x5452, // FIOASYNC
    0x5410, // TIOCSPGRP
    0x5412, // TIOCSTI
    0x541c, // TIOCLINUX
    0x540e, // TIOCSCTTY
];

/// Calls by which a process would act on others or get around these filters. No confined process may make them.
const OUTWARD: &[i64] = &[
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_semget,
    libc::SYS_msgget,
    libc::SYS_mq_open,
    // It opens sockets where a filter does not see them.
    libc::SYS_io_uring_setup,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_mount,
    libc::SYS_unshare,
    libc::SYS_setns,
];

/// Calls by which a launcher would leave its process or act on another. These and those of [`OUTWARD`] end the process, and are
/// reported.
const KILLED: &[i64] = &[
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_send_signal,
    libc::SYS_tkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_fork,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_vfork,
];

/// Calls by which the tests of a task would leave their folder or act on another process. These and those of [`OUTWARD`]
/// fail.
const FORBIDDEN: &[i64] = &[
    libc::SYS_umount2,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_sethostname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_quotactl,
    libc::SYS_acct,
    libc::SYS_open_by_handle_at,
];

/// Signals, where Landlock does not keep them among the processes that the tests started.
const SIGNALS: &[i64] = &[
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_pidfd_send_signal,
];

/// The families of sockets that a coding agent opens. Routes are asked for its own addresses; local sockets would reach the
/// services of the user's session.
const FAMILIES: [i32; 3] = [libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
/// Kinds and protocols of which Landlock does not see where they connect.
const UNSEEN: [i32; 6] =
    [libc::SOCK_DGRAM, libc::SOCK_RAW, libc::SOCK_RDM, libc::SOCK_SEQPACKET, SOCK_DCCP, SOCK_PACKET];
const SOCK_DCCP: i32 = 6;
const SOCK_PACKET: i32 = 10;
/// The part of a kind that is not a flag.
const KIND: u64 = 0xf;
/// Connects while it sends, which Landlock does not see: a call, and the index of its flags.
const FAST: [(i64, u8); 3] = [(libc::SYS_sendto, 3), (libc::SYS_sendmsg, 2), (libc::SYS_sendmmsg, 3)];

type Rules = Vec<(i64, Vec<SeccompRule>)>;

fn any(calls: &[i64]) -> Rules {
    calls.iter().map(|call| (*call, Vec::new())).collect()
}

fn one(
    call: i64,
    index: u8,
    length: Length,
    op: Op,
    value: u64,
) -> Result<(i64, Vec<SeccompRule>), seccompiler::Error> {
    let condition = SeccompCondition::new(index, length, op, value)?;
    Ok((call, vec![SeccompRule::new(vec![condition])?]))
}

/// What both kinds of processes may do.
fn common() -> Result<Rules, seccompiler::Error> {
    let mut rules = any(OLDER);
    rules.extend(EVERYONE.iter().flat_map(|(_, calls)| any(calls)));
    for (call, index, values) in LIMITED {
        let each = |value: &u64| SeccompRule::new(vec![SeccompCondition::new(*index, Length::Dword, Op::Eq, *value)?]);
        rules.push((*call, values.iter().map(each).collect::<Result<_, _>>()?));
    }
    let controls = CONTROLS.iter().map(|value| SeccompCondition::new(1, Length::Dword, Op::Ne, *value));
    rules.push((libc::SYS_ioctl, vec![SeccompRule::new(controls.collect::<Result<_, _>>()?)?]));
    Ok(rules)
}

fn program(rules: Rules, otherwise: SeccompAction, action: SeccompAction) -> Result<BpfProgram, seccompiler::Error> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    Ok(SeccompFilter::new(rules.into_iter().collect(), otherwise, action, arch)?.try_into()?)
}

fn errno(number: i32) -> SeccompAction {
    SeccompAction::Errno(number.cast_unsigned())
}

/// For all threads of a process that runs a launcher. A call that is not listed does not exist for it, so that a library does without.
pub(super) fn of_a_launcher() -> Result<(), seccompiler::Error> {
    let own = u64::from(std::process::id());
    let local = u64::from(libc::AF_UNIX.cast_unsigned());
    let thread = u64::from(libc::CLONE_THREAD.cast_unsigned());
    let mut allowed = common()?;
    // Neither clone3, whose flags a filter cannot see: glibc falls back to clone.
    allowed.extend([
        one(libc::SYS_clone, 0, Length::Qword, Op::MaskedEq(thread), thread)?,
        one(libc::SYS_kill, 0, Length::Dword, Op::Eq, own)?,
        one(libc::SYS_tgkill, 0, Length::Dword, Op::Eq, own)?,
        // For the filters before this one to decide.
        (libc::SYS_socket, Vec::new()),
        // Reading limits, by passing no new ones.
        one(libc::SYS_prlimit64, 2, Length::Qword, Op::Eq, 0)?,
    ]);
    let mut killed = any(OUTWARD);
    killed.extend(any(KILLED));
    killed.extend([
        one(libc::SYS_socket, 0, Length::Dword, Op::Ne, local)?,
        one(libc::SYS_clone, 0, Length::Qword, Op::MaskedEq(thread), 0)?,
        one(libc::SYS_kill, 0, Length::Dword, Op::Ne, own)?,
        one(libc::SYS_tgkill, 0, Length::Dword, Op::Ne, own)?,
        one(libc::SYS_prlimit64, 2, Length::Qword, Op::Ne, 0)?,
    ]);
    // The driver has started by then, and goes on without a local socket.
    let denied = vec![one(libc::SYS_socket, 0, Length::Dword, Op::Eq, local)?];
    // The strictest decides. The allow-list is last, because it has no call that sets a filter.
    let filters = [
        program(denied, SeccompAction::Allow, errno(libc::EACCES))?,
        program(killed, SeccompAction::Allow, SeccompAction::KillProcess)?,
        program(allowed, errno(libc::ENOSYS), SeccompAction::Allow)?,
    ];
    filters.iter().try_for_each(|filter| seccompiler::apply_filter_all_threads(filter))
}

/// All sockets but local ones of kind `SOCK_SEQPACKET`: the driver listens on one when it starts, and fails with
/// `CUDA_ERROR_OPERATING_SYSTEM` where it cannot. Such a socket reaches nobody without `connect`, which is refused as well.
fn beside_the_drivers() -> Result<Rules, seccompiler::Error> {
    let value = |number: i32| u64::from(number.cast_unsigned());
    let kinds = [libc::SOCK_STREAM, libc::SOCK_DGRAM, libc::SOCK_RAW, libc::SOCK_RDM, SOCK_DCCP, SOCK_PACKET];
    let family = SeccompCondition::new(0, Length::Dword, Op::Ne, value(libc::AF_UNIX))?;
    let mut rules = vec![SeccompRule::new(vec![family])?];
    for kind in kinds {
        rules.push(SeccompRule::new(vec![SeccompCondition::new(1, Length::Dword, Op::MaskedEq(KIND), value(kind))?])?);
    }
    Ok(vec![(libc::SYS_socket, rules)])
}

/// Filters of a process that opens no socket, or with the card none but the driver's. `connect` fails as if nobody listened: the
/// driver first looks for the MPS server with it.
fn of_sockets(card: bool) -> Result<Vec<BpfProgram>, seccompiler::Error> {
    let sockets = if card { beside_the_drivers()? } else { any(&[libc::SYS_socket]) };
    Ok(vec![
        program(sockets, SeccompAction::Allow, errno(libc::EACCES))?,
        program(any(&[libc::SYS_connect]), SeccompAction::Allow, errno(libc::ENOENT))?,
    ])
}

/// For compilers that this thread starts: no sockets, no signals to other processes, nothing that outlives them but files. With the
/// card, for programs that use it as well.
pub(super) fn of_a_compiler(card: bool) -> Result<(), seccompiler::Error> {
    let mut allowed = common()?;
    allowed.extend(PROGRAMS.iter().flat_map(|(_, calls)| any(calls)));
    allowed.extend([
        // Of the caller's own limits, not of another process's.
        one(libc::SYS_prlimit64, 0, Length::Dword, Op::Eq, 0)?,
        // For the filters before this one to decide.
        (libc::SYS_socket, Vec::new()),
        (libc::SYS_connect, Vec::new()),
    ]);
    if card {
        allowed.extend(any(&[libc::SYS_setsockopt, libc::SYS_bind, libc::SYS_listen]));
    }
    let mut filters = of_sockets(card)?;
    filters.push(program(allowed, errno(libc::ENOSYS), SeccompAction::Allow)?);
    filters.iter().try_for_each(|filter| seccompiler::apply_filter(filter))
}

/// Sockets other than of TCP, of which Landlock holds the port, and TCP's ways around that.
fn beside_tcp() -> Result<Rules, seccompiler::Error> {
    let value = |number: i32| u64::from(number.cast_unsigned());
    let is = |index, op, number| SeccompCondition::new(index, Length::Dword, op, value(number));
    let inet = || is(0, Op::Ne, libc::AF_NETLINK);
    let families = FAMILIES.iter().map(|family| is(0, Op::Ne, *family)).collect::<Result<_, _>>()?;
    let mut sockets = vec![SeccompRule::new(families)?];
    for kind in UNSEEN {
        sockets.push(SeccompRule::new(vec![inet()?, is(1, Op::MaskedEq(KIND), kind)?])?);
    }
    sockets.push(SeccompRule::new(vec![inet()?, is(2, Op::Ne, 0)?, is(2, Op::Ne, libc::IPPROTO_TCP)?])?);
    let fast = vec![is(1, Op::Eq, libc::IPPROTO_TCP)?, is(2, Op::Eq, libc::TCP_FASTOPEN_CONNECT)?];
    let mut rules = vec![(libc::SYS_socket, sockets), (libc::SYS_setsockopt, vec![SeccompRule::new(fast)?])];
    // It takes a port without a bind.
    rules.push((libc::SYS_listen, Vec::new()));
    let flag = value(libc::MSG_FASTOPEN);
    for (call, index) in FAST {
        rules.push(one(call, index, Length::Dword, Op::MaskedEq(flag), flag)?);
    }
    Ok(rules)
}

/// For the tests of a task, which this thread becomes. `scoped`: Landlock holds their signals; `connects`: it holds the port
/// that they connect to, and without that they open no socket but the driver's, with the card.
pub(super) fn of_a_verifier(scoped: bool, connects: bool, card: bool) -> Result<(), seccompiler::Error> {
    // New user namespaces bring back what was forbidden.
    let namespace = u64::from(libc::CLONE_NEWUSER.cast_unsigned());
    let mut forbidden = any(OUTWARD);
    forbidden.extend(any(FORBIDDEN));
    forbidden.push(one(libc::SYS_clone, 0, Length::Qword, Op::MaskedEq(namespace), namespace)?);
    forbidden.push((
        libc::SYS_ioctl,
        CONTROLS
            .iter()
            .map(|value| SeccompRule::new(vec![SeccompCondition::new(1, Length::Dword, Op::Eq, *value)?]))
            .collect::<Result<_, _>>()?,
    ));
    let mut filters = vec![
        program(forbidden, SeccompAction::Allow, errno(libc::EPERM))?,
        // Its flags cannot be seen; libraries fall back to clone.
        program(any(&[libc::SYS_clone3]), SeccompAction::Allow, errno(libc::ENOSYS))?,
    ];
    if connects {
        filters.push(program(beside_tcp()?, SeccompAction::Allow, errno(libc::EACCES))?);
    } else {
        filters.extend(of_sockets(card)?);
    }
    if !scoped {
        // As if the process had ended: a program that ends its children does not fail for it.
        filters.push(program(any(SIGNALS), SeccompAction::Allow, errno(libc::ESRCH))?);
    }
    filters.iter().try_for_each(|filter| seccompiler::apply_filter(filter))
}
