//! Tests of the confinement of launchers: tries operations in a process that is confined in the same way.

#![allow(clippy::unwrap_used, clippy::panic)]

use crate::confine::launcher::{limit, limit_calls, limit_files};
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

const PROBE: &str = "KERNELS_CONFINE_PROBE";
const SCRATCH: &str = "KERNELS_CONFINE_SCRATCH";
/// Exit codes of the probe: the operation succeeded, failed, or needs Landlock to be refused.
const DONE: i32 = 10;
const REFUSED: i32 = 11;
const NO_LANDLOCK: i32 = 12;

fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// A descriptor that is never closed.
fn open(path: &std::path::Path) -> i32 {
    use std::os::fd::IntoRawFd;
    std::fs::File::open(path).unwrap().into_raw_fd()
}

/// Tries one operation in a confined process. The test below runs it as a child process.
#[test]
fn probe() {
    let Ok(operation) = std::env::var(PROBE) else {
        return;
    };
    let scratch = std::path::PathBuf::from(std::env::var_os(SCRATCH).unwrap());
    let outside = scratch.parent().unwrap().join("outside");
    limit();
    let guarded = limit_files(&scratch).starts_with("Landlock:");
    limit_calls().unwrap();
    // SAFETY: plain system calls.
    let done = unsafe {
        match operation.as_str() {
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
            "own a descriptor" => libc::fcntl(0, libc::F_SETOWN, libc::getppid()) == 0,
            "choose its signal" => libc::fcntl(0, 10, libc::SIGTERM) == 0,
            "own a descriptor by ioctl" => {
                let parent = libc::getppid();
                libc::ioctl(0, 0x8901, &raw const parent) == 0 || errno() != libc::ENOSYS
            }
            "lease a file" => libc::fcntl(open(&scratch.join("there")), 1024, libc::F_RDLCK) == 0,
            "lock a file" => libc::flock(open(&scratch.join("there")), libc::LOCK_EX | libc::LOCK_NB) == 0,
            "pin the parent" => {
                let mut one: libc::cpu_set_t = std::mem::zeroed();
                libc::CPU_SET(0, &mut one);
                libc::sched_setaffinity(libc::getppid(), size_of_val(&one), &raw const one) == 0
            }
            "idle the parent" => {
                let least = libc::sched_param { sched_priority: 0 };
                libc::sched_setscheduler(libc::getppid(), libc::SCHED_IDLE, &raw const least) == 0
            }
            // The same call by the number that x32 programs give it.
            "idle the parent, x32" => {
                let least = libc::sched_param { sched_priority: 0 };
                libc::syscall(0x4000_0090, libc::getppid(), libc::SCHED_IDLE, &raw const least) == 0
                    || errno() != libc::ENOSYS
            }
            "nice the parent" => libc::setpriority(libc::PRIO_PROCESS, libc::getppid().cast_unsigned(), 19) == 0,
            "last in the parent's queue" => libc::syscall(libc::SYS_ioprio_set, 1, libc::getppid(), 3 << 13) == 0,
            "outlive the parent" => libc::prctl(libc::PR_SET_PDEATHSIG, 0) == 0,
            "a tracer" => libc::prctl(libc::PR_SET_PTRACER, -1) == 0,
            "share a core's cookie" => libc::prctl(62, 2, libc::getppid(), 0, 0) == 0 || errno() != libc::ENOSYS,
            "leave the session" => libc::setsid() >= 0 || libc::setpgid(0, 0) == 0,
            "shared memory" => libc::shmget(77, 4096, libc::IPC_CREAT | 0o600) >= 0,
            "semaphores" => libc::semget(77, 1, libc::IPC_CREAT | 0o600) >= 0,
            "a queue" => libc::syscall(libc::SYS_mq_open, c"kernels".as_ptr(), libc::O_CREAT, 0o600, 0) >= 0,
            "the parent's environment" if guarded => {
                std::fs::read(format!("/proc/{}/environ", libc::getppid())).is_ok()
            }
            "the parent's command" if guarded => std::fs::read(format!("/proc/{}/cmdline", libc::getppid())).is_ok(),
            "its own maps" => std::fs::read("/proc/self/maps").is_ok_and(|text| !text.is_empty()),
            "a pair of sockets" => libc::socketpair(libc::AF_UNIX, libc::SOCK_STREAM, 0, [0; 2].as_mut_ptr()) == 0,
            "thread" => std::thread::spawn(|| 1).join().is_ok(),
            "read" => std::fs::read("/etc/passwd").is_ok(),
            "write in scratch" => std::fs::write(scratch.join("file"), "x").is_ok(),
            "mode" => libc::chmod(c"/etc/hostname".as_ptr(), 0o644) == 0,
            "write outside" if guarded => std::fs::write(&outside, "x").is_ok(),
            "remove outside" if guarded => std::fs::remove_file(outside.with_extension("there")).is_ok(),
            "write outside" | "remove outside" | "the parent's environment" | "the parent's command" => {
                std::process::exit(NO_LANDLOCK)
            }
            other => panic!("no operation {other}"),
        }
    };
    std::process::exit(if done { DONE } else { REFUSED });
}

#[test]
fn a_confined_process_reaches_nothing_but_its_scratch_folder() {
    let folder = tempfile::tempdir().unwrap();
    let scratch = folder.path().join("scratch");
    std::fs::create_dir(&scratch).unwrap();
    std::fs::write(scratch.join("there"), "").unwrap();
    std::fs::write(folder.path().join("outside.there"), "precious").unwrap();
    let killed = Err(libc::SIGSYS);
    for (operation, expected) in [
        ("internet", killed),
        ("internet6", killed),
        ("local socket", Ok(REFUSED)),
        ("program", killed),
        ("fork", killed),
        ("signal", killed),
        ("trace", killed),
        ("raise the limit", killed),
        ("mode", Ok(REFUSED)),
        ("own a descriptor", Ok(REFUSED)),
        ("choose its signal", Ok(REFUSED)),
        ("own a descriptor by ioctl", Ok(REFUSED)),
        ("lease a file", Ok(REFUSED)),
        ("lock a file", Ok(REFUSED)),
        ("pin the parent", Ok(REFUSED)),
        ("idle the parent", Ok(REFUSED)),
        ("idle the parent, x32", Ok(REFUSED)),
        ("nice the parent", Ok(REFUSED)),
        ("last in the parent's queue", Ok(REFUSED)),
        ("outlive the parent", Ok(REFUSED)),
        ("a tracer", Ok(REFUSED)),
        ("share a core's cookie", Ok(REFUSED)),
        ("leave the session", Ok(REFUSED)),
        ("shared memory", killed),
        ("semaphores", killed),
        ("a queue", killed),
        ("the parent's environment", Ok(REFUSED)),
        ("the parent's command", Ok(REFUSED)),
        ("its own maps", Ok(DONE)),
        ("a pair of sockets", Ok(DONE)),
        ("write outside", Ok(REFUSED)),
        ("remove outside", Ok(REFUSED)),
        ("thread", Ok(DONE)),
        ("read", Ok(DONE)),
        ("write in scratch", Ok(DONE)),
    ] {
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "gpu::confined::probe", "--test-threads", "1"])
            .env(PROBE, operation)
            .env(SCRATCH, &scratch)
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .status()
            .unwrap();
        let outcome = status.code().ok_or_else(|| status.signal().unwrap_or(0));
        if outcome == Ok(NO_LANDLOCK) {
            use std::io::Write;
            let _ = writeln!(std::io::stderr(), "\nnot run: {operation}: this kernel has no Landlock");
            continue;
        }
        assert_eq!(outcome, expected, "{operation}");
    }
    assert!(!folder.path().join("outside").exists());
    assert!(folder.path().join("outside.there").exists());
}
