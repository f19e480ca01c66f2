// opprof-translate: reads foreign files into MLIR and writes MLIR as other
// formats.

#include "../Tools.h"

#include "opprof/Driver/ProfileTranslation.h"
#include "opprof/Report/Report.h"
#include "opprof/Support/InputFile.h"
#include "opprof/Support/OutputFile.h"
#include "opprof/Support/TerminalText.h"
#include "opprof/Support/ToolOptions.h"
#include "opprof/Target/FXJSON/FXJSON.h"
#include "opprof/Target/InductorCode/InductorTranslation.h"
#include "opprof/Target/PT2/PT2.h"
#include "opprof/Target/Python/PythonEmitter.h"
#include "opprof/Target/TransformScript/TransformScript.h"

#include "mlir/Support/LogicalResult.h"
#include "mlir/Tools/mlir-translate/MlirTranslateMain.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/raw_ostream.h"

#include <string>
#include <vector>

/// The index of what follows the last -o, or 0. MLIR's own main function keeps
/// its options to itself.
static size_t findOutput(llvm::ArrayRef<std::string> arguments) {
  size_t found = 0;
  for (size_t i = 1; i + 1 < arguments.size(); ++i)
    if (arguments[i] == "-o" || arguments[i] == "--o")
      found = i + 1;
  return found;
}

static void sayUnwritten(llvm::StringRef path, llvm::StringRef reason) {
  llvm::errs() << "error: " << opprof::toTerminalText(path)
               << ": cannot be written: " << reason << '\n';
}

/// Names the output, where LLVM ends the process for a disk that is full.
static void sayWhere(void *path, const char *reason, bool) {
  llvm::StringRef cause(reason);
  if (cause.consume_front("IO failure on output stream: "))
    sayUnwritten(*static_cast<std::string *>(path), cause);
  else
    llvm::errs() << "error: " << cause << '\n';
}

/// mlir-translate's own, but that the output is written beside its place.
static bool run(llvm::ArrayRef<char *> argv) {
  std::vector<std::string> arguments;
  for (llvm::StringRef argument : argv) {
    bool isOutput =
        argument.consume_front("--o=") || argument.consume_front("-o=");
    if (isOutput)
      arguments.emplace_back("-o");
    arguments.push_back(argument.str());
  }
  auto translate = [&] {
    std::vector<char *> values;
    for (std::string &argument : arguments)
      values.push_back(argument.data());
    int count = static_cast<int>(values.size());
    values.push_back(nullptr);
    return succeeded(mlir::mlirTranslateMain(count, values.data(),
                                             "opprof's translation driver\n"));
  };
  size_t output = findOutput(arguments);
  // MLIR's own main function opens them, and reads a device without end.
  for (size_t i = 1; i < arguments.size(); ++i) {
    if (i == output || llvm::StringRef(arguments[i]).starts_with("-"))
      continue;
    if (std::error_code code = opprof::checkInput(arguments[i])) {
      llvm::errs() << "error: cannot open input file '"
                   << opprof::toTerminalText(arguments[i])
                   << "': " << code.message() << '\n';
      return false;
    }
  }
  if (!output) {
    bool succeeded = translate();
    llvm::outs().flush();
    if (std::error_code code = llvm::outs().error()) {
      sayUnwritten("<stdout>", code.message());
      llvm::outs().clear_error();
      return false;
    }
    return succeeded;
  }
  std::string path = arguments[output];
  llvm::ScopedFatalErrorHandler handler(sayWhere, &path);
  llvm::Expected<bool> written =
      opprof::writeBeside(path, [&](llvm::StringRef beside) {
        arguments[output] = beside.str();
        return translate();
      });
  if (written)
    return *written;
  llvm::errs() << "error: " << llvm::toString(written.takeError()) << '\n';
  return false;
}

int opprof::runTranslate(int argc, char **argv) {
  opprof::fx::registerFXJSONTranslations();
  opprof::fx::registerPT2Translation();
  opprof::fx::registerPythonTranslation();
  opprof::inductor::registerInductorTranslations();
  opprof::profile::registerProfileTranslations();
  opprof::fx::registerEmitRewriteTranslation();
  opprof::report::registerReportTranslations();

  opprof::printLocationsByDefault();
  return run(llvm::ArrayRef(argv, argc)) ? 0 : 1;
}
