// Files and folders for results: each file is written whole or not at all.

#ifndef OPPROF_SUPPORT_OUTPUTFILE_H
#define OPPROF_SUPPORT_OUTPUTFILE_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/Error.h"

namespace llvm {
class raw_ostream;
} // namespace llvm

namespace opprof {

/// Refuses a folder for results that is no folder, or where nothing may be
/// written; whether it is there already is all one.
llvm::Error checkFolder(const llvm::Twine &path);

/// Makes a folder for results, and the ones above it.
llvm::Error makeFolder(const llvm::Twine &path);

/// What stands at `path`, behind links, and is no file: "a folder", "a pipe";
/// empty for a file, and where there is nothing.
llvm::StringRef nameNoFile(const llvm::Twine &path);

/// Refuses such things where a file of a folder of results will be: taken away
/// they would be lost, and a pipe would wait for somebody forever.
llvm::Error checkPlace(const llvm::Twine &path);

/// Refuses these too, and what bears the name of one of opprof's files, would
/// be lost for it, and does not hold what opprof writes there: `mark`, in its
/// first 64 KiB.
llvm::Error checkOwn(const llvm::Twine &path, llvm::StringRef mark);

/// Prints into a file beside `path` that takes its name once all is written;
/// where that fails, `path` is as it was. The folder is made if it is missing.
/// What is no file, such as /dev/null and pipes, is written to itself.
llvm::Error writeFile(const llvm::Twine &path,
                      llvm::function_ref<void(llvm::raw_ostream &)> print);

/// The same for what may turn out to be wrong while it is printed, where
/// `print` gives false: `path` is then as it was. A path of "-" is stdout.
/// False where that was so.
llvm::Expected<bool>
writeOutput(llvm::StringRef path,
            llvm::function_ref<bool(llvm::raw_ostream &)> print);

/// The same for what opens its output itself: `write` is given the path of a
/// file beside it, and says whether all went well.
llvm::Expected<bool>
writeBeside(llvm::StringRef path,
            llvm::function_ref<bool(llvm::StringRef path)> write);

/// Whether a file called `name` is one that a process left which was killed
/// while it wrote `file` there.
bool isUnfinished(llvm::StringRef name, llvm::StringRef file);

} // namespace opprof

#endif // OPPROF_SUPPORT_OUTPUTFILE_H
