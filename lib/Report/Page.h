// A page of a terminal: columns, styles, paragraphs. What all pages for people
// are laid out with.

#ifndef OPPROF_LIB_REPORT_PAGE_H
#define OPPROF_LIB_REPORT_PAGE_H

#include "opprof/Report/Report.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <algorithm>
#include <string>

namespace opprof::report {

enum class Style { Plain, Bold, Dim, Good, Warn };

/// Lays out columns and styles; counts the lines that it prints.
class Page {
public:
  Page(llvm::raw_ostream &os, const TextOptions &options)
      : os(os), color(options.color), width(std::max(options.width, 40u)) {}

  unsigned getWidth() const { return width; }
  /// Less than half a terminal: names alone have room beside figures.
  bool isNarrow() const { return width < 72; }
  unsigned getLines() const { return lines; }

  Page &text(llvm::StringRef unsafe, Style style = Style::Plain);
  Page &left(llvm::StringRef content, unsigned size,
             Style style = Style::Plain);
  Page &right(llvm::StringRef content, unsigned size,
              Style style = Style::Plain);
  /// A bar of `percent` of `size` columns, in eighths of a column.
  Page &bar(double percent, unsigned size, Style style = Style::Good);
  void end();
  void heading(llvm::StringRef title, const std::string &note);
  /// `content` broken at spaces into lines of the page, the second and later
  /// ones indented.
  void paragraph(llvm::StringRef content, unsigned indent, unsigned maxLines);

private:
  void flush(std::string &line, unsigned &printed, unsigned indent);

  llvm::raw_ostream &os;
  bool color;
  unsigned width;
  unsigned lines = 0;
};

} // namespace opprof::report

#endif // OPPROF_LIB_REPORT_PAGE_H
