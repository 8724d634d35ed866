//! Runs a program under ptrace, counts its system calls, and kills it at one of them or makes one
//! of them fail.
//!
//! The program starts below a shell that waits for a line, so that ptrace can seize it before its
//! first instruction without any `unsafe` between fork and exec. A seccomp filter stops it at the
//! calls that can change something, and at no other: a stop takes longer than most calls. The filter
//! is installed in a thread of its own, whose children inherit it.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::thread;

use nix::errno::Errno;
use nix::libc;
use nix::sched::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use nix::sys::ptrace::{self, Event, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

/// The fault to inject. Numbers count the calls selected by [`Plan::counted`], from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// None: the run is only traced.
    None,
    /// The program is killed at the entry of the call, which is not executed.
    KillBefore(usize),
    /// The program is killed at the exit of the call, after its execution.
    KillAfter(usize),
    /// The call is not executed and returns this error.
    Fail(usize, Errno),
}

/// Which calls the numbers count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// Calls that can change something on the disk.
    Changing,
    /// Those, and calls that read from the disk.
    OnDisk,
    /// All.
    Every,
}

/// The faults of one run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub fault: Fault,
    pub counted: Counted,
    /// Every `renameat2` fails with EINVAL, as on a file system without support for its flags.
    pub plain_renames: bool,
    /// Every attempt to make a symbolic link fails with EPERM, as on a file system without them.
    pub no_links: bool,
}

impl Plan {
    pub fn changing(fault: Fault, plain_renames: bool) -> Self {
        Self { fault, counted: Counted::Changing, plain_renames, no_links: false }
    }
}

/// A traced system call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Call {
    pub number: i64,
    /// Whether it can change something on the disk.
    pub changing: bool,
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match CHANGING.iter().find(|(number, _)| *number == self.number) {
            Some((_, name)) => f.write_str(name),
            None => write!(f, "call {}", self.number),
        }
    }
}

/// The result of a traced run.
#[derive(Debug)]
pub struct Traced {
    /// The exit code; `None` if it was killed.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<Signal>,
    /// The call that was hit by the fault, if the run got that far.
    pub hit: Option<Call>,
    /// The calls after exec at which it stopped, in order: all calls, or those that can change something.
    pub calls: Vec<Call>,
    pub several_threads: bool,
    pub out: String,
    pub err: String,
}

/// Calls that can change something on the disk, and those that sync.
const CHANGING: &[(i64, &str)] = &[
    (libc::SYS_openat, "openat"),
    (libc::SYS_write, "write"),
    (libc::SYS_pwrite64, "pwrite64"),
    (libc::SYS_writev, "writev"),
    (libc::SYS_ftruncate, "ftruncate"),
    (libc::SYS_fallocate, "fallocate"),
    (libc::SYS_copy_file_range, "copy_file_range"),
    (libc::SYS_sendfile, "sendfile"),
    (libc::SYS_mkdirat, "mkdirat"),
    (libc::SYS_unlinkat, "unlinkat"),
    (libc::SYS_renameat, "renameat"),
    (libc::SYS_renameat2, "renameat2"),
    (libc::SYS_symlinkat, "symlinkat"),
    (libc::SYS_linkat, "linkat"),
    (libc::SYS_fsync, "fsync"),
    (libc::SYS_fdatasync, "fdatasync"),
    (libc::SYS_fchmod, "fchmod"),
    (libc::SYS_fchmodat, "fchmodat"),
    (libc::SYS_utimensat, "utimensat"),
    (libc::SYS_flock, "flock"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, "open"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, "creat"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mkdir, "mkdir"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_rmdir, "rmdir"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_unlink, "unlink"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_rename, "rename"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_symlink, "symlink"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_link, "link"),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, "chmod"),
];

/// Calls that read from the disk.
const LOOKING: &[i64] = &[
    libc::SYS_openat,
    libc::SYS_read,
    libc::SYS_statx,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_getdents64,
    libc::SYS_readlinkat,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_lseek,
    libc::SYS_getcwd,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_readlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_open,
];

/// The registers of a system call, for each architecture.
mod registers {
    use nix::libc::user_regs_struct;

    #[cfg(target_arch = "x86_64")]
    pub fn number(regs: &user_regs_struct) -> i64 {
        regs.orig_rax.cast_signed()
    }

    #[cfg(target_arch = "x86_64")]
    pub fn argument(regs: &user_regs_struct, at: usize) -> u64 {
        [regs.rdi, regs.rsi, regs.rdx, regs.r10][at]
    }

    /// All ones is neither a valid descriptor nor a valid address, so the call has no effect.
    #[cfg(target_arch = "x86_64")]
    pub fn spoil_arguments(regs: &mut user_regs_struct) {
        (regs.rdi, regs.rsi, regs.rdx, regs.r10) = (u64::MAX, u64::MAX, u64::MAX, u64::MAX);
    }

    #[cfg(target_arch = "x86_64")]
    pub fn set_result(regs: &mut user_regs_struct, result: i64) {
        regs.rax = result.cast_unsigned();
    }

    #[cfg(target_arch = "aarch64")]
    pub fn number(regs: &user_regs_struct) -> i64 {
        regs.regs[8].cast_signed()
    }

    #[cfg(target_arch = "aarch64")]
    pub fn argument(regs: &user_regs_struct, at: usize) -> u64 {
        regs.regs[at]
    }

    #[cfg(target_arch = "aarch64")]
    pub fn spoil_arguments(regs: &mut user_regs_struct) {
        regs.regs[..4].fill(u64::MAX);
    }

    #[cfg(target_arch = "aarch64")]
    pub fn set_result(regs: &mut user_regs_struct, result: i64) {
        regs.regs[0] = result.cast_unsigned();
    }
}

const WRITING: i32 = libc::O_WRONLY | libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC;

/// The index of the argument with the open flags.
fn flags_of(number: i64) -> Option<u8> {
    match number {
        libc::SYS_openat => Some(2),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_open => Some(1),
        _ => None,
    }
}

fn can_change(regs: &libc::user_regs_struct) -> bool {
    let number = registers::number(regs);
    match flags_of(number) {
        Some(at) => registers::argument(regs, at.into()) & u64::from(WRITING.cast_unsigned()) != 0,
        None => CHANGING.iter().any(|(known, _)| *known == number),
    }
}

/// Stops at the calls for which [`can_change`] holds.
static FILTER: LazyLock<BpfProgram> = LazyLock::new(|| {
    let rules = CHANGING.iter().map(|(number, _)| {
        let bit = |at: u8, bit: i32| {
            let bit = u64::from(bit.cast_unsigned());
            let set = SeccompCmpOp::MaskedEq(bit);
            let condition = SeccompCondition::new(at, SeccompCmpArgLen::Dword, set, bit).unwrap();
            SeccompRule::new(vec![condition]).unwrap()
        };
        let bits = [libc::O_WRONLY, libc::O_RDWR, libc::O_CREAT, libc::O_TRUNC];
        let rules = flags_of(*number).map(|at| bits.map(|one| bit(at, one)).to_vec());
        (*number, rules.unwrap_or_default())
    });
    SeccompFilter::new(
        rules.collect(),
        SeccompAction::Allow,
        SeccompAction::Trace(0),
        std::env::consts::ARCH.try_into().unwrap(),
    )
    .and_then(BpfProgram::try_from)
    .unwrap()
});

/// Starts a command with [`FILTER`] installed.
fn spawn_filtered(command: &mut Command) -> nix::Result<Child> {
    let spawned = thread::scope(|scope| {
        let filtered = scope.spawn(|| {
            seccompiler::apply_filter(&FILTER).map_err(|_| Errno::EPERM)?;
            Ok(command.spawn().expect("a shell can be started"))
        });
        filtered.join()
    });
    spawned.expect("the thread ends")
}

/// A script of a shell that starts its arguments after it has read a line.
pub const AFTER_A_LINE: &str = "read go; exec \"$0\" \"$@\"";

/// Runs [`AFTER_A_LINE`]. An error means that tracing is not permitted.
pub fn run(command: &mut Command, plan: Plan) -> nix::Result<Traced> {
    watch(command, plan, &mut || ())
}

/// The same, and calls `at_stop` at the entry and the exit of each call that can change something.
pub fn watch(command: &mut Command, plan: Plan, at_stop: &mut dyn FnMut()) -> nix::Result<Traced> {
    let _here = OneProcessor::take();
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let every_call = plan.counted != Counted::Changing;
    let mut child =
        if every_call { command.spawn().expect("a shell can be started") } else { spawn_filtered(command)? };
    let pid = Pid::from_raw(child.id().cast_signed());
    let options = Options::PTRACE_O_TRACESYSGOOD
        | Options::PTRACE_O_TRACESECCOMP
        | Options::PTRACE_O_TRACEEXEC
        | Options::PTRACE_O_TRACECLONE
        | Options::PTRACE_O_EXITKILL;
    if let Err(error) = ptrace::seize(pid, options) {
        drop(child.stdin.take());
        let _ = child.wait();
        return Err(error);
    }
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(b"\n").expect("the shell listens");
    }
    let mut tracer = Tracer {
        plan,
        every_call,
        at_stop,
        main: pid,
        counted: 0,
        calls: Vec::new(),
        several_threads: false,
        hit: None,
        kill_at_exit: None,
        failing: BTreeMap::new(),
    };
    let (code, signal) = tracer.follow()?;
    let text = |pipe: Option<&mut dyn Read>| {
        let mut bytes = Vec::new();
        if let Some(pipe) = pipe {
            pipe.read_to_end(&mut bytes).expect("a pipe can be read");
        }
        String::from_utf8_lossy(&bytes).into_owned()
    };
    Ok(Traced {
        code,
        signal,
        hit: tracer.hit,
        calls: tracer.calls,
        several_threads: tracer.several_threads,
        out: text(child.stdout.as_mut().map(|pipe| pipe as &mut dyn Read)),
        err: text(child.stderr.as_mut().map(|pipe| pipe as &mut dyn Read)),
    })
}

/// Pins this thread and its children to its current processor: tracer and program alternate at every
/// call, and waking another processor takes much longer than the call.
struct OneProcessor(Option<CpuSet>);

impl OneProcessor {
    fn take() -> Self {
        let pin = || -> nix::Result<CpuSet> {
            let all = sched_getaffinity(Pid::from_raw(0))?;
            let mut one = CpuSet::new();
            one.set(sched_getcpu()?)?;
            sched_setaffinity(Pid::from_raw(0), &one)?;
            Ok(all)
        };
        Self(pin().ok())
    }
}

impl Drop for OneProcessor {
    fn drop(&mut self) {
        if let Some(all) = &self.0 {
            let _ = sched_setaffinity(Pid::from_raw(0), all);
        }
    }
}

struct Tracer<'a> {
    plan: Plan,
    every_call: bool,
    at_stop: &'a mut dyn FnMut(),
    main: Pid,
    counted: usize,
    calls: Vec<Call>,
    several_threads: bool,
    hit: Option<Call>,
    /// The thread to kill at its next exit stop.
    kill_at_exit: Option<Pid>,
    /// Calls in progress whose result will be replaced: their registers at the entry, and the error.
    failing: BTreeMap<Pid, (libc::user_regs_struct, Errno)>,
}

impl Tracer<'_> {
    /// Follows the program and all its threads to the end.
    fn follow(&mut self) -> nix::Result<(Option<i32>, Option<Signal>)> {
        // Only children of this thread: other tests trace their own.
        let flags = WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD;
        let mut started = false;
        loop {
            match waitpid(None, Some(flags))? {
                WaitStatus::Exited(pid, code) if pid == self.main => return Ok((Some(code), None)),
                WaitStatus::Signaled(pid, signal, _) if pid == self.main => {
                    return Ok((None, Some(signal)));
                }
                WaitStatus::PtraceEvent(pid, _, event) if event == Event::PTRACE_EVENT_SECCOMP as i32 && started => {
                    gone_is_fine(self.enter(pid).and_then(|()| resume(pid, true, None)))?;
                }
                WaitStatus::PtraceEvent(pid, _, event) => {
                    self.several_threads |= started && event == Event::PTRACE_EVENT_CLONE as i32;
                    started |= event == Event::PTRACE_EVENT_EXEC as i32;
                    resume(pid, started && self.every_call, None)?;
                }
                WaitStatus::PtraceSyscall(pid) => gone_is_fine(self.stopped_at_call(pid))?,
                WaitStatus::Stopped(pid, signal) => {
                    resume(pid, started && self.every_call, Some(signal))?;
                }
                _ => {}
            }
        }
    }

    fn stopped_at_call(&mut self, pid: Pid) -> nix::Result<()> {
        match ptrace::syscall_info(pid)?.op {
            libc::PTRACE_SYSCALL_INFO_ENTRY => self.enter(pid)?,
            libc::PTRACE_SYSCALL_INFO_EXIT => self.leave(pid)?,
            _ => {}
        }
        resume(pid, self.every_call, None)
    }

    fn enter(&mut self, pid: Pid) -> nix::Result<()> {
        let regs = ptrace::getregs(pid)?;
        let call = Call { number: registers::number(&regs), changing: can_change(&regs) };
        self.calls.push(call);
        if call.changing {
            (self.at_stop)();
        }
        let number = self.counted;
        let counts = match self.plan.counted {
            Counted::Changing => call.changing,
            Counted::OnDisk => call.changing || LOOKING.contains(&call.number),
            Counted::Every => true,
        };
        self.counted += usize::from(counts);
        let mut fails_with = None;
        match self.plan.fault {
            Fault::KillBefore(at) if counts && at == number => {
                self.hit = Some(call);
                kill(self.main, Signal::SIGKILL)?;
            }
            Fault::KillAfter(at) if counts && at == number => {
                self.hit = Some(call);
                self.kill_at_exit = Some(pid);
            }
            Fault::Fail(at, error) if counts && at == number => {
                self.hit = Some(call);
                fails_with = Some(error);
            }
            _ => {}
        }
        if self.plan.plain_renames && call.number == libc::SYS_renameat2 {
            fails_with = fails_with.or(Some(Errno::EINVAL));
        }
        if self.plan.no_links && is_symlink(call.number) {
            fails_with = fails_with.or(Some(Errno::EPERM));
        }
        if let Some(error) = fails_with {
            let mut spoiled = regs;
            registers::spoil_arguments(&mut spoiled);
            ptrace::setregs(pid, spoiled)?;
            self.failing.insert(pid, (regs, error));
        }
        Ok(())
    }

    fn leave(&mut self, pid: Pid) -> nix::Result<()> {
        if self.kill_at_exit == Some(pid) {
            kill(self.main, Signal::SIGKILL)?;
        }
        if !self.every_call {
            (self.at_stop)();
        }
        if let Some((mut regs, error)) = self.failing.remove(&pid) {
            registers::set_result(&mut regs, -i64::from(error as i32));
            ptrace::setregs(pid, regs)?;
        }
        Ok(())
    }
}

fn is_symlink(number: i64) -> bool {
    #[cfg(target_arch = "x86_64")]
    if number == libc::SYS_symlink {
        return true;
    }
    number == libc::SYS_symlinkat
}

/// A thread that died with its process cannot be inspected or resumed.
fn gone_is_fine(result: nix::Result<()>) -> nix::Result<()> {
    result.or_else(|error| if error == Errno::ESRCH { Ok(()) } else { Err(error) })
}

/// Resumes a thread; with `to_a_call`, until the next entry or exit of a call.
fn resume(pid: Pid, to_a_call: bool, signal: Option<Signal>) -> nix::Result<()> {
    let resumed = if to_a_call { ptrace::syscall(pid, signal) } else { ptrace::cont(pid, signal) };
    match resumed {
        // The thread was killed meanwhile; the next wait reports it.
        Err(Errno::ESRCH) => Ok(()),
        other => other,
    }
}
