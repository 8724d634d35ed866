//! Keeps what a candidate prints away from the harness's own standard output.
//!
//! `printf` in a kernel ends on the standard output of the process that launched it, where the report goes.

use std::os::fd::OwnedFd;

/// While it lives, standard output leads nowhere.
#[derive(Debug)]
pub struct Muffle(Option<OwnedFd>);

impl Muffle {
    /// Puts the null device in the place of standard output; does nothing where that cannot be.
    pub fn new() -> Self {
        flush();
        let muffled = || -> std::io::Result<OwnedFd> {
            let kept = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 200)?;
            let null = std::fs::File::options().write(true).open("/dev/null")?;
            rustix::stdio::dup2_stdout(&null)?;
            Ok(kept)
        };
        Self(muffled().ok())
    }
}

impl Default for Muffle {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Muffle {
    fn drop(&mut self) {
        flush();
        if let Some(kept) = &self.0 {
            let _ = rustix::stdio::dup2_stdout(kept);
        }
    }
}

/// The driver prints through the C library, which keeps what is not to a terminal until it is flushed.
fn flush() {
    use std::io::Write;
    let _ = std::io::stdout().flush();
    #[cfg(target_os = "linux")]
    // SAFETY: a null pointer stands for all open streams.
    unsafe {
        libc::fflush(std::ptr::null_mut());
    }
}
