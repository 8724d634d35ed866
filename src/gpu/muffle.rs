//! Discards what a candidate prints: `printf` in a kernel writes to the standard output of the process that launched
//! it, which is for the report.

use std::os::fd::OwnedFd;

/// Redirects standard output to /dev/null until dropped.
#[derive(Debug)]
pub(crate) struct Muffle(Option<OwnedFd>);

impl Muffle {
    /// If standard output cannot be redirected, it stays as it is.
    pub(crate) fn new() -> Self {
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

/// The driver prints through the C library, which buffers output that does not go to a terminal.
fn flush() {
    use std::io::Write;
    let _ = std::io::stdout().flush();
    #[cfg(target_os = "linux")]
    // SAFETY: a null pointer means all open streams.
    unsafe {
        libc::fflush(std::ptr::null_mut());
    }
}
