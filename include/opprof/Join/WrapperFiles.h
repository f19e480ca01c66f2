// Whose code a file of a run is. A launch was recorded with the file that the
// program had loaded: a copy of Inductor's code in its cache. A launch map
// speaks of output_code.py beside itself. Both are the same text, and Inductor
// names the file in its cache after a hash of that text.

#ifndef OPPROF_JOIN_WRAPPERFILES_H
#define OPPROF_JOIN_WRAPPERFILES_H

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>
#include <vector>

namespace opprof::join {

class WrapperFiles {
public:
  /// The code of launch map number `map`: `path` is where it lies, `text` what
  /// it says.
  void add(uint32_t map, llvm::StringRef path, llvm::StringRef text);

  /// The launch map whose code `file` is: by its path, by the hash that is its
  /// name, or else because it can be read and says the same.
  std::optional<uint32_t> find(llvm::StringRef file) const;

  /// The launch map whose code Inductor's cache calls `name`.
  std::optional<uint32_t> findName(llvm::StringRef name) const;

  /// Whether the code of each of `count` launch maps is here.
  bool haveCodeOfAll(uint32_t count) const;

  /// Whether the code of launch map `map` is here, and has no symbolic sizes:
  /// each time that it runs, shapes are the same.
  bool isStatic(uint32_t map) const;

  /// The tensors that the code of launch map `map` is given, by name, with
  /// their shapes as "256,512"; none where the code is not here.
  std::vector<std::pair<std::string, std::string>> inputsOf(uint32_t map) const;

  /// Whether `file` is known not to be the code of launch map `map`: both are
  /// known by their hash, and differ.
  bool isOtherCode(llvm::StringRef file, uint32_t map) const;

private:
  struct Code {
    uint32_t map = 0;
    std::string path;
    std::string text;
    /// Inductor's name for this text, without ".py".
    std::string name;
  };
  std::vector<Code> codes;
  mutable llvm::StringMap<std::optional<uint32_t>> found;
};

/// Whether this is such a name as Inductor's cache gives code.
bool isCodeName(llvm::StringRef name);

/// The name that Inductor's cache gives a file of this text: "c" and 51
/// characters of SHA-256 in base 32.
std::string inductorCacheName(llvm::StringRef text);

} // namespace opprof::join

#endif // OPPROF_JOIN_WRAPPERFILES_H
