// What of a file's text a terminal is given.

#include "opprof/Support/TerminalText.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ConvertUTF.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/Unicode.h"

using namespace llvm;

/// Controls of ASCII and of Latin-1, separators of lines, and what turns the
/// direction of writing.
static bool isCommand(UTF32 c) {
  return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x061c ||
         (c >= 0x200e && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
         (c >= 0x2066 && c <= 0x2069);
}

std::string opprof::toTerminalText(StringRef text) {
  std::string clean;
  const auto *at = reinterpret_cast<const UTF8 *>(text.bytes_begin());
  const auto *end = reinterpret_cast<const UTF8 *>(text.bytes_end());
  while (at != end) {
    const UTF8 *begin = at;
    UTF32 c = 0, *out = &c;
    if (ConvertUTF8toUTF32(
            &at, at + std::min<size_t>(end - at, getNumBytesForUTF8(*at)), &out,
            out + 1, strictConversion) != conversionOK) {
      clean += '?';
      at = begin + 1;
    } else if (isCommand(c)) {
      clean += ' ';
    } else {
      clean.append(begin, at);
    }
  }
  return clean;
}

/// Longer lines are cut: some files are one line.
static constexpr size_t kLongestLine = 4096;

unsigned opprof::columnsOf(StringRef text) {
  int width = llvm::sys::unicode::columnWidthUTF8(text);
  return width < 0 ? text.size() : width;
}

/// Continuation bytes stay with their first.
static bool isContinuation(char c) { return (c & 0xC0) == 0x80; }

/// Whether a number goes on across `place`: "12|34", "1|.5", "1.|5".
static bool isInsideNumber(StringRef text, size_t place) {
  if (!place || place >= text.size())
    return false;
  char before = text[place - 1], after = text[place];
  if (isDigit(before))
    return isDigit(after) || (after == '.' && place + 1 < text.size() &&
                              isDigit(text[place + 1]));
  return before == '.' && isDigit(after) && place > 1 &&
         isDigit(text[place - 2]);
}

std::string opprof::fitColumns(StringRef text, unsigned limit,
                               unsigned headQuarters) {
  std::string clean = toTerminalText(text);
  if (columnsOf(clean) <= limit)
    return clean;
  if (limit < 2)
    return std::string(limit, '.');
  size_t left = 0, right = clean.size();
  unsigned headSize = (limit - 1) * headQuarters / 4;
  while (left < right &&
         columnsOf(StringRef(clean).take_front(left)) < headSize)
    for (++left; left < right && isContinuation(clean[left]);)
      ++left;
  while (right > left &&
         columnsOf(StringRef(clean).drop_front(right)) < limit - 1 - headSize)
    for (--right; right > left && isContinuation(clean[right]);)
      --right;
  // More digits than this are no number that anybody reads.
  constexpr size_t kMostDigits = 12;
  size_t headEnd = left, tailBegin = right;
  while (isInsideNumber(clean, headEnd))
    --headEnd;
  while (isInsideNumber(clean, tailBegin))
    ++tailBegin;
  if (left - headEnd <= kMostDigits)
    left = headEnd;
  if (tailBegin - right <= kMostDigits)
    right = tailBegin;
  return clean.substr(0, left) + "…" + clean.substr(right);
}

std::string opprof::toTerminalLines(StringRef message) {
  SmallVector<std::string> lines;
  for (StringRef line : split(message, '\n'))
    lines.push_back(toTerminalText(line.take_front(kLongestLine)) +
                    (line.size() > kLongestLine ? " ..." : ""));
  return join(lines, "\n");
}

void opprof::TerminalJSON::write_impl(const char *text, size_t size) {
  written += size;
  pass(kept + std::string(text, size), /*isLast=*/false);
}

void opprof::TerminalJSON::pass(const std::string &text, bool isLast) {
  kept.clear();
  size_t passed = 0, size = text.size();
  for (size_t i = 0; i < size;) {
    auto byte = static_cast<unsigned char>(text[i]);
    // Other letters than ASCII's alone are looked into; the line's end stays.
    if (byte < 0x7f) {
      ++i;
      continue;
    }
    size_t length = getNumBytesForUTF8(byte);
    if (length > size - i && !isLast) {
      kept = text.substr(i);
      size = i;
      break;
    }
    const auto *at = reinterpret_cast<const UTF8 *>(text.data() + i);
    UTF32 c = 0, *out = &c;
    bool isCharacter = length <= size - i &&
                       ConvertUTF8toUTF32(&at, at + length, &out, out + 1,
                                          strictConversion) == conversionOK;
    if (!isCharacter || isCommand(c)) {
      os << StringRef(text).slice(passed, i);
      if (isCharacter)
        os << "\\u" << format_hex_no_prefix(c, 4);
      else
        os << "\\ufffd";
      length = isCharacter ? length : 1;
      passed = i + length;
    }
    i += length;
  }
  os << StringRef(text).slice(passed, size);
}
