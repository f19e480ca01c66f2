// The tools that are linked into one program, opprof-driver, as most of each is
// MLIR: what is begun by its name is each one's main function.

#ifndef OPPROF_TOOLS_TOOLS_H
#define OPPROF_TOOLS_TOOLS_H

namespace opprof {
int runOpt(int argc, char **argv);
int runTranslate(int argc, char **argv);
int runLspServer(int argc, char **argv);
} // namespace opprof

#endif // OPPROF_TOOLS_TOOLS_H
