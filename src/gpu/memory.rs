//! The host's memory.

/// Has the C library keep the memory that is freed: a verification allocates gigabytes over and over, and new pages of the system
/// are slower than what is done with them.
pub(crate) fn keep_what_is_freed() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it sets limits of the allocator.
    unsafe {
        libc::mallopt(libc::M_MMAP_MAX, 0);
        libc::mallopt(libc::M_TRIM_THRESHOLD, i32::MAX);
        libc::mallopt(libc::M_TOP_PAD, 1 << 28);
    }
}
