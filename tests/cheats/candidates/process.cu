// A launcher that does to its process, and to others, what it must not. One that gets through says so with an
// error of its own.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <stdexcept>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rms_norm.cuh"

constexpr int GOT_THROUGH = 4242;

#if defined(OVERFLOWS_THE_STACK)
static int deeper(volatile int depth) {
  volatile char frame[4096] = {};
  return depth + frame[depth % 4096] + (depth < 1 << 30 ? deeper(depth + 1) : 0);
}
#endif

static int launch(const Call& call) {
#if defined(HANGS)
  for (volatile bool forever = true; forever;) {}
#elif defined(SLEEPS)
  for (;;) pause();
#elif defined(ALLOCATES_WITHOUT_END)
  for (;;) {
    void* more = malloc(64 << 20);
    if (more == nullptr) abort();
    memset(more, 1, 64 << 20);
  }
#elif defined(EXITS)
  launch_rows(rms_norm_kernel<float>, call);
  exit(0);
#elif defined(EXITS_AT_ONCE)
  launch_rows(rms_norm_kernel<float>, call);
  _exit(0);
#elif defined(ABORTS)
  abort();
#elif defined(FAULTS)
  volatile uintptr_t nowhere = 8;
  *reinterpret_cast<volatile int*>(nowhere) = 1;
#elif defined(THROWS)
  throw std::runtime_error("thrown by a launcher");
#elif defined(OVERFLOWS_THE_STACK)
  if (deeper(1) == 7) return 8;
#elif defined(RETURNS_AN_ERROR)
  launch_rows(rms_norm_kernel<float>, call);
  return 7;
#elif defined(STOPS_ITSELF)
  raise(SIGSTOP);
#elif defined(FORKS)
  // The copy goes on by itself, in the hope that nobody ends it.
  const pid_t copy = fork();
  if (copy == 0)
    for (;;) pause();
  if (copy > 0) return GOT_THROUGH;
#elif defined(RUNS_A_PROGRAM)
  char program[] = "/bin/true";
  char* arguments[] = {program, nullptr};
  pid_t started;
  if (posix_spawn(&started, program, nullptr, nullptr, arguments, nullptr) == 0) {
    int status = 1;
    if (waitpid(started, &status, 0) == started && status == 0) return GOT_THROUGH;
  }
#elif defined(INSTALLS_A_PACKAGE)
  if (system("python3 -m pip --version > /dev/null 2>&1 || exit 0") == 0) return GOT_THROUGH;
#elif defined(CONNECTS)
  const int connection = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  if (connection >= 0) return GOT_THROUGH;
#elif defined(CONNECTS_BY_SIX)
  const int connection = socket(AF_INET6, SOCK_DGRAM, 0);
  if (connection >= 0) return GOT_THROUGH;
#elif defined(SIGNALS_THE_HARNESS)
  if (kill(getppid(), SIGTERM) == 0) return GOT_THROUGH;
#elif defined(READS_THE_HARNESS)
  char word[8];
  iovec mine = {word, sizeof word};
  iovec theirs = {reinterpret_cast<void*>(&getpid), sizeof word};
  if (process_vm_readv(getppid(), &mine, 1, &theirs, 1, 0) > 0) return GOT_THROUGH;
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/mem", static_cast<int>(getppid()));
  if (open(path, O_RDWR) >= 0) return GOT_THROUGH;
#elif defined(TRACES_THE_HARNESS)
  if (ptrace(PTRACE_SEIZE, getppid(), nullptr, nullptr) == 0) return GOT_THROUGH;
#endif
  (void)GOT_THROUGH;
  return launch_rows(rms_norm_kernel<float>, call);
}
