// Every dialect and extension that a file of opprof's may hold.

#ifndef OPPROF_DIALECT_DIALECTS_H
#define OPPROF_DIALECT_DIALECTS_H

namespace mlir {
class DialectRegistry;
} // namespace mlir

namespace opprof {

/// Registers all that the tools must know to read graphs, launches, markers and
/// rewrite scripts. A tool or translation that reads MLIR from files calls this
/// and nothing else, so that all of them read the same files.
void registerDialects(mlir::DialectRegistry &registry);

} // namespace opprof

#endif // OPPROF_DIALECT_DIALECTS_H
