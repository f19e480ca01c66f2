// Text of files, which may hold anything, on its way to a terminal.

#ifndef OPPROF_SUPPORT_TERMINALTEXT_H
#define OPPROF_SUPPORT_TERMINALTEXT_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"

#include <string>

namespace opprof {

/// The text with a blank for each character that commands a terminal: controls,
/// escapes, marks that turn the direction of writing; and '?' for bytes that
/// are no text.
std::string toTerminalText(llvm::StringRef text);

/// The same of a message of several lines, each no longer than a screen shows.
std::string toTerminalLines(llvm::StringRef message);

/// How many columns the text takes; text that is malformed or cannot be printed
/// is shown byte by byte.
unsigned columnsOf(llvm::StringRef text);

/// `text` without control characters, cut in the middle to `limit` columns, of
/// which the part before the cut has `headQuarters` fourths. No number is cut
/// in two: what would be left of it would be another one.
std::string fitColumns(llvm::StringRef text, unsigned limit,
                       unsigned headQuarters = 2);

/// Passes JSON on to a stream that may be a terminal: in its strings, and there
/// alone, such characters may stand, and are escaped as JSON has it.
class TerminalJSON : public llvm::raw_ostream {
public:
  explicit TerminalJSON(llvm::raw_ostream &os) : os(os) {}
  ~TerminalJSON() override {
    flush();
    // What has no end by now is no character.
    pass(std::string(kept), /*isLast=*/true);
  }

private:
  void write_impl(const char *text, size_t size) override;
  uint64_t current_pos() const override { return written; }
  void pass(const std::string &text, bool isLast);

  llvm::raw_ostream &os;
  /// The beginning of a character whose end was not written yet.
  std::string kept;
  uint64_t written = 0;
};

} // namespace opprof

#endif // OPPROF_SUPPORT_TERMINALTEXT_H
