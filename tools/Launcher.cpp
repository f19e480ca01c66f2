// The program of a tool's name (OPPROF_TOOL), which opprof-driver, beside it,
// becomes: a wheel holds no links.

#include "HugePages.h"

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

static char driver[PATH_MAX + 16];
static char name[] = OPPROF_TOOL;

int main(int argc, char **argv) {
  if (!realpath("/proc/self/exe", driver)) {
    std::fprintf(stderr, OPPROF_TOOL ": error: /proc/self/exe: %s\n",
                 std::strerror(errno));
    return 1;
  }
  std::strcpy(std::strrchr(driver, '/') + 1, "opprof-driver");
  // What it is called by stays in its messages, but for a link of another name.
  const char *base = argc ? std::strrchr(argv[0], '/') : nullptr;
  base = base ? base + 1 : argc ? argv[0] : "";
  char *none[] = {name, nullptr};
  if (!argc)
    argv = none;
  else if (std::strcmp(base, OPPROF_TOOL) != 0)
    argv[0] = name;
  opprof::askForHugePages();
  execv(driver, argv);
  std::fprintf(stderr,
               OPPROF_TOOL ": error: %s, which it is a part of: %s\n"
                           "  install opprof as a whole again\n",
               driver, std::strerror(errno));
  return 1;
}
