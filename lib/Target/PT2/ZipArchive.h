// Zip archives in memory, read with bounds on what they may unpack to.

#ifndef OPPROF_LIB_TARGET_PT2_ZIPARCHIVE_H
#define OPPROF_LIB_TARGET_PT2_ZIPARCHIVE_H

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace opprof::fx {

class ZipArchive {
public:
  struct Entry {
    std::string name;
    uint64_t compressedSize = 0;
    uint64_t size = 0;
    /// Where minizip finds the entry again.
    uint64_t directoryOffset = 0;
    uint64_t index = 0;
  };

  /// Reads the directory. `bytes` have to outlive the archive.
  static llvm::Expected<ZipArchive> open(llvm::StringRef bytes);

  const std::vector<Entry> &getEntries() const { return entries; }

  /// The entry of that name, or null.
  const Entry *find(llvm::StringRef name) const;

  /// What the entry holds; checked against its check sum.
  llvm::Expected<std::string> read(const Entry &entry) const;

private:
  llvm::StringRef bytes;
  std::vector<Entry> entries;
  llvm::StringMap<size_t> index;
};

} // namespace opprof::fx

#endif // OPPROF_LIB_TARGET_PT2_ZIPARCHIVE_H
