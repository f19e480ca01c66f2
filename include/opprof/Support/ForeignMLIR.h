// MLIR that may come from anyone. MLIR's parsers recurse as deeply as a file
// nests, and its printer spells out what attributes share: both are bounded
// here before either runs.

#ifndef OPPROF_SUPPORT_FOREIGNMLIR_H
#define OPPROF_SUPPORT_FOREIGNMLIR_H

#include "mlir/IR/AsmState.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Tools/mlir-translate/Translation.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBufferRef.h"

#include <memory>

namespace llvm {
class SourceMgr;
} // namespace llvm

namespace opprof {

/// Brackets and operators in one another, in text; operations, types and
/// attributes in one another, in bytecode.
inline constexpr unsigned kMaxMLIRDepth = 1024;
/// The same, where names of attributes and types (#a, !a) are followed.
inline constexpr unsigned kMaxMLIRAliasDepth = 4096;
/// Digits of one number: what reads them takes the square of that.
inline constexpr unsigned kMaxMLIRDigits = 4096;
/// What the names of a file stand for, spelled out: words to begin with, and to
/// each byte of the file.
inline constexpr uint64_t kMaxMLIRWords = uint64_t(64) << 20;
inline constexpr uint64_t kMaxMLIRWordsPerByte = 64;

/// Refuses text that MLIR's parser can't be given, and lets the process take
/// what it may cost (limitReading). Bytecode is for parseForeignMLIR to judge.
llvm::Error checkMLIRText(llvm::MemoryBufferRef file);

/// Parses and verifies text or bytecode. Null after an error, which is
/// reported. Resources that no dialect knows are dropped, with a warning, or
/// kept in `resources`.
mlir::OwningOpRef<mlir::ModuleOp>
parseForeignMLIR(llvm::SourceMgr &sources, mlir::MLIRContext *context,
                 mlir::FallbackAsmResourceMap *resources = nullptr);

/// Refuses a file that MLIR's own main functions can't be given, without
/// keeping anything of it.
mlir::LogicalResult checkForeignMLIR(llvm::MemoryBufferRef file,
                                     const mlir::DialectRegistry &registry);

/// A translation of opprof-translate that reads MLIR.
void registerTranslationFromMLIR(
    llvm::StringRef name, llvm::StringRef description,
    const std::function<mlir::LogicalResult(mlir::ModuleOp,
                                            llvm::raw_ostream &)> &translate,
    const mlir::DialectRegistrationFunction &dialects);

} // namespace opprof

#endif // OPPROF_SUPPORT_FOREIGNMLIR_H
