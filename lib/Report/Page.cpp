// A page of a terminal: columns, styles, paragraphs.

#include "Page.h"

#include "opprof/Support/TerminalText.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::report;

static StringRef code(Style style) {
  switch (style) {
  case Style::Plain:
    return "";
  case Style::Bold:
    return "\033[1m";
  case Style::Dim:
    return "\033[2m";
  case Style::Good:
    return "\033[36m";
  case Style::Warn:
    return "\033[33m";
  }
  llvm_unreachable("unhandled style");
}

Page &Page::text(StringRef unsafe, Style style) {
  std::string content = toTerminalText(unsafe);
  if (color && style != Style::Plain)
    os << code(style) << content << "\033[0m";
  else
    os << content;
  return *this;
}

Page &Page::left(StringRef content, unsigned size, Style style) {
  std::string fitted = fitColumns(content, size);
  text(fitted, style);
  os.indent(size - std::min(size, columnsOf(fitted)));
  return *this;
}

Page &Page::right(StringRef content, unsigned size, Style style) {
  std::string fitted = fitColumns(content, size);
  os.indent(size - std::min(size, columnsOf(fitted)));
  return text(fitted, style);
}

Page &Page::bar(double percent, unsigned size, Style style) {
  static constexpr const char *kEighths[] = {"",  "▏", "▎", "▍",
                                             "▌", "▋", "▊", "▉"};
  unsigned eighths = std::clamp(percent, 0.0, 100.0) / 100.0 * size * 8 + 0.5;
  std::string content;
  for (unsigned i = 0; i < eighths / 8; ++i)
    content += "█";
  content += kEighths[eighths % 8];
  text(content, style);
  os.indent(size - std::min(size, columnsOf(content)));
  return *this;
}

void Page::end() {
  os << '\n';
  ++lines;
}

void Page::heading(StringRef title, const std::string &note) {
  end();
  text(title, Style::Bold);
  if (!isNarrow())
    right(note, width - columnsOf(title), Style::Dim);
  end();
}

/// At spaces, but not between a number and its unit.
static SmallVector<StringRef> splitWords(StringRef content) {
  SmallVector<StringRef> words, joined;
  content.split(words, ' ', -1, false);
  for (StringRef word : words) {
    StringRef unit = word.rtrim(".,;:)…");
    bool isUnit =
        llvm::is_contained({"ns", "µs", "ms", "s", "min", "%", "B", "kB", "MB",
                            "GB", "TB", "GFLOP/s", "TFLOP/s", "GB/s", "TB/s"},
                           unit);
    if (isUnit && !joined.empty() && isDigit(joined.back().back()) &&
        joined.back().end() + 1 == word.begin())
      joined.back() =
          StringRef(joined.back().begin(), word.end() - joined.back().begin());
    else
      joined.push_back(word);
  }
  return joined;
}

void Page::flush(std::string &line, unsigned &printed, unsigned indent) {
  if (printed++)
    os.indent(indent);
  os << fitColumns(line, width - indent);
  end();
  line.clear();
}

/// A word that is a little wider than a line, such as a call that one would
/// copy, in two behind one of its dots, underscores and brackets: only paths
/// and what is wider still are shortened.
static SmallVector<StringRef> breakWords(ArrayRef<StringRef> words,
                                         unsigned room) {
  SmallVector<StringRef> broken;
  for (StringRef word : words) {
    bool isPath = word.contains('/');
    size_t cut = !isPath && columnsOf(word) > room
                     ? word.take_front(room).find_last_of("._(")
                     : StringRef::npos;
    if (cut == StringRef::npos || columnsOf(word.drop_front(cut + 1)) > room) {
      broken.push_back(word);
      continue;
    }
    broken.push_back(word.take_front(cut + 1));
    broken.push_back(word.drop_front(cut + 1));
  }
  return broken;
}

void Page::paragraph(StringRef content, unsigned indent, unsigned maxLines) {
  SmallVector<StringRef> words =
      breakWords(splitWords(content), width - indent);
  std::string line;
  unsigned printed = 0;
  size_t next = 0;
  for (; next < words.size(); ++next) {
    unsigned room = width - indent;
    if (!line.empty() && columnsOf(line) + 1 + columnsOf(words[next]) > room) {
      if (printed + 1 == maxLines)
        break;
      flush(line, printed, indent);
    }
    line += (line.empty() ? "" : " ") + words[next].str();
  }
  if (next < words.size()) {
    // What is whole ends at a clause; a number without what it counts of
    // says nothing.
    size_t space;
    while (columnsOf(line) + 2 > width - indent &&
           (space = line.rfind(' ')) != std::string::npos)
      line.resize(space);
    size_t clause = line.find_last_of(";,:");
    if (clause != std::string::npos && clause > line.size() / 3 &&
        clause + 1 < line.size())
      line.resize(clause + 1);
    else
      while ((space = line.rfind(' ')) != std::string::npos &&
             (isDigit(line[line.find_last_not_of(" ")]) ||
              isDigit(line[space + 1])))
        line.resize(space);
    line += " …";
  }
  if (!line.empty())
    flush(line, printed, indent);
}
