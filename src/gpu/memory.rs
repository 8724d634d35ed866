//! The host's memory.

/// Makes malloc keep freed memory instead of returning it to the system. A verification allocates gigabytes repeatedly,
/// and page faults on new memory take longer than the work on it.
pub(crate) fn keep_what_is_freed() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it sets limits of the allocator.
    unsafe {
        libc::mallopt(libc::M_MMAP_MAX, 0);
        // glibc returns an empty heap of a thread's own arena whatever the limits are.
        libc::mallopt(libc::M_ARENA_MAX, 1);
        libc::mallopt(libc::M_TRIM_THRESHOLD, -1);
        libc::mallopt(libc::M_TOP_PAD, 1 << 28);
    }
}
