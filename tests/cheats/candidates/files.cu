// Files changed from the launcher. A candidate that gets through says so with an error of its own.
#include <dlfcn.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rms_norm.cuh"

#if defined(OWN_LIBRARY) || defined(BESIDE_THE_LIBRARY) || defined(HOME_FOLDER) || \
    defined(WORKING_FOLDER) || defined(REMOVES_THE_LIBRARY)
[[maybe_unused]] static bool writes(const char* path, int flags) {
  const int file = open(path, flags, 0644);
  if (file < 0) return false;
  const bool wrote = write(file, "#", 1) == 1;
  close(file);
  return wrote;
}

static bool got_through() {
  [[maybe_unused]] char path[4096] = {};
#if defined(HOME_FOLDER)
  // Not $HOME, which the harness sets to a folder of the candidate's own.
  const passwd* entry = getpwuid(getuid());
  const char* home = entry != nullptr ? entry->pw_dir : "/root";
  snprintf(path, sizeof path, "%s/.kernels-cheats-was-here", home);
  return writes(path, O_WRONLY | O_CREAT);
#elif defined(WORKING_FOLDER)
  // kernel.toml of the project, from the working folder.
  return writes("kernel.toml", O_WRONLY) || writes("../kernel.toml", O_WRONLY);
#else
  Dl_info own;
  if (dladdr(reinterpret_cast<void*>(&got_through), &own) == 0) return false;
#if defined(OWN_LIBRARY)
  return writes(own.dli_fname, O_WRONLY | O_APPEND);
#elif defined(REMOVES_THE_LIBRARY)
  return unlink(own.dli_fname) == 0 || chmod(own.dli_fname, 0) == 0;
#else
  snprintf(path, sizeof path, "%.4000s.kernels-cheats", own.dli_fname);
  return writes(path, O_WRONLY | O_CREAT);
#endif
#endif
}
#endif

static int launch(const Call& call) {
#if defined(OWN_LIBRARY) || defined(BESIDE_THE_LIBRARY) || defined(HOME_FOLDER) || \
    defined(WORKING_FOLDER) || defined(REMOVES_THE_LIBRARY)
  if (got_through()) return 4242;
#endif
  return launch_rows(rms_norm_kernel<float>, call);
}
