// Text of files on its way to a terminal, in pieces of any size: nothing in it
// commands the terminal, what comes out does not depend on the pieces, text
// that commands nothing stays as it is, and JSON stays the same value.

#include "Fuzzing.h"

#include "opprof/Support/TerminalText.h"

#include "llvm/Support/ConvertUTF.h"
#include "llvm/Support/JSON.h"

using namespace llvm;
using namespace opprof;

/// Whether all of it is text of UTF-8, and no character of it beyond ASCII
/// commands a terminal. Written anew, so that it is no copy of what it checks.
static bool isHarmless(StringRef text) {
  const auto *at = reinterpret_cast<const UTF8 *>(text.bytes_begin());
  if (!isLegalUTF8String(&at, reinterpret_cast<const UTF8 *>(text.bytes_end())))
    return false;
  for (StringRef bad : {"\x7f", "\u061c", "\u200e", "\u200f", "\u2028",
                        "\u2029", "\u202a", "\u202b", "\u202c", "\u202d",
                        "\u202e", "\u2066", "\u2067", "\u2068", "\u2069"})
    if (text.contains(bad))
      return false;
  // The second set of controls, as UTF-8 has it.
  for (size_t i = 0; i + 1 < text.size(); ++i)
    if (text[i] == '\xc2' && static_cast<unsigned char>(text[i + 1]) < 0xa0)
      return false;
  return true;
}

static bool hasControls(StringRef text) {
  return any_of(text.bytes(), [](unsigned char c) { return c < 0x20; });
}

/// Passed on in pieces of the lengths that `lengths` says.
static std::string pass(StringRef text, ArrayRef<uint8_t> lengths) {
  std::string result;
  raw_string_ostream os(result);
  {
    TerminalJSON json(os);
    json.SetUnbuffered();
    for (uint8_t length : lengths) {
      json << text.take_front(length);
      text = text.drop_front(std::min<size_t>(length, text.size()));
    }
    json << text;
  }
  return result;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  // The first bytes are lengths of pieces.
  size_t pieces = size ? std::min<size_t>(data[0] % 16, size - 1) : 0;
  ArrayRef<uint8_t> lengths(data + (size != 0), pieces);
  StringRef text = toText(data, size).drop_front(pieces + (size != 0));

  std::string shown = toTerminalText(text);
  require(isHarmless(shown) && !hasControls(shown));
  if (isHarmless(text) && !hasControls(text))
    require(shown == text);
  std::string lines = toTerminalLines(text);
  require(isHarmless(lines));
  require(StringRef(lines).count('\n') == text.count('\n'));

  std::string json = pass(text, lengths);
  require(isHarmless(json));
  require(json == pass(text, {}));
  if (isHarmless(text))
    require(json == text);
  Expected<json::Value> value = json::parse(text);
  if (!value) {
    consumeError(value.takeError());
    return 0;
  }
  require(cantFail(json::parse(json)) == *value);
  return 0;
}
