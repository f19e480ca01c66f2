// What a command waits for ends with it: where the command is killed and begun
// again, two of these would fill one folder.

#ifndef OPPROF_TOOLS_PARENT_H
#define OPPROF_TOOLS_PARENT_H

#include <csignal>
#include <cstdlib>
#include <sys/prctl.h>
#include <unistd.h>

namespace opprof {
/// Names the process that waits for this one. What this one begins has another.
inline constexpr char kParent[] = "OPPROF_PARENT";

/// Has this process told to end when the one that waits for it is gone. It
/// takes away what it has not finished.
inline void endWithParent() {
  const char *named = std::getenv(kParent);
  if (!named)
    return;
  pid_t parent = static_cast<pid_t>(std::strtol(named, nullptr, 10));
  ::unsetenv(kParent);
  // Whoever began this process may ignore that.
  std::signal(SIGTERM, SIG_DFL);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  // It may have ended before that.
  if (::getppid() != parent)
    std::raise(SIGTERM);
}
} // namespace opprof

#endif // OPPROF_TOOLS_PARENT_H
