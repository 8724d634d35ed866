//! Whether somebody has a file open for writing.
#![allow(unsafe_code, reason = "no library has this call of fcntl")]

use std::fs::File;

/// Whether somebody else has this file open for writing, opened here for reading alone: Linux gives a lease for reading only where
/// nobody has. On file systems without leases, and elsewhere, nobody is taken to have.
pub(crate) fn is_being_written(file: &File) -> bool {
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsRawFd;
        const SET_SIGNAL: libc::c_int = 10;
        let file = file.as_raw_fd();
        // Who opens it now breaks the lease, of which a signal tells: one that is ignored by default.
        // SAFETY: commands that take a number, on an open descriptor.
        unsafe {
            libc::fcntl(file, SET_SIGNAL, libc::SIGURG);
            libc::fcntl(file, libc::F_SETLEASE, libc::F_RDLCK) == -1
                && std::io::Error::last_os_error().raw_os_error() == Some(libc::EAGAIN)
        }
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = file;
        false
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test")]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_being_written_while_it_is_open_for_writing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        std::fs::write(&path, "a").unwrap();
        let is = || is_being_written(&File::open(&path).unwrap());
        assert!(!is());
        let writer = File::options().append(true).open(&path).unwrap();
        assert_eq!(is(), cfg!(target_os = "linux"));
        drop(writer);
        let reader = File::open(&path).unwrap();
        assert!(!is(), "readers do not count");
        drop(reader);
    }
}
