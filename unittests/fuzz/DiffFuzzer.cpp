// Two profiles from anywhere, with a form feed between them, compared: the page
// for a terminal holds nothing that commands it and no line that is too long,
// no text of a profile is Markdown of the table, and the JSON is JSON.

#include "Fuzzing.h"

#include "opprof/Compare/Compare.h"
#include "opprof/Profile/ProfileJSON.h"
#include "opprof/Report/Report.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/Unicode.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::compare;

/// In percent of a step.
static constexpr double kLimit = 3;

static void checkTerminal(const Comparison &comparison, unsigned width) {
  std::string page;
  raw_string_ostream os(page);
  report::TextOptions options;
  options.width = width;
  report::printDifference(comparison, kLimit, os, options);
  for (unsigned char c : page)
    require(c == '\n' || (c >= 0x20 && c != 0x7f));
  for (StringRef line : llvm::split(page, '\n'))
    require(sys::unicode::columnWidthUTF8(line) <= int(width));
}

/// The cells of a row, as GitHub tells them apart: a backslash takes the
/// character behind it, be that another one or a bar.
static unsigned countCells(StringRef row) {
  unsigned bars = 0;
  for (size_t i = 0; i < row.size(); ++i) {
    if (row[i] == '\\' && i + 1 < row.size() && isPunct(row[i + 1]))
      ++i;
    else
      bars += row[i] == '|';
  }
  return bars - 1;
}

static void checkMarkdown(const Comparison &comparison) {
  std::string page;
  raw_string_ostream os(page);
  report::printDifferenceMarkdown(comparison, kLimit, os);
  for (StringRef line : llvm::split(page, '\n')) {
    require(all_of(line.bytes(), [](unsigned char c) { return c >= 0x20; }));
    if (line.starts_with("|"))
      require(countCells(line) == 8);
    // Code that is begun is ended, and what is outside of code is ours.
    SmallVector<StringRef> parts;
    line.split(parts, '`');
    require(parts.size() % 2 == 1);
    for (size_t i = 0; i < parts.size(); i += 2)
      require(!parts[i].contains("](") &&
              (!parts[i].contains('<') || line.contains("details>")));
  }
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  auto [first, second] = toText(data, size).split('\f');
  std::vector<std::unique_ptr<profile::Profile>> read;
  for (StringRef text : {first, second.empty() ? first : second}) {
    Expected<std::unique_ptr<profile::Profile>> profile =
        profile::readProfile(text, "fuzz");
    if (!profile) {
      consumeError(profile.takeError());
      return 0;
    }
    read.push_back(std::move(*profile));
  }
  Recording a{read[0].get(), "a|\\`<b>.json"}, b{read[1].get(), "b"};
  for (auto by : {std::optional<profile::ItemKind>(),
                  std::optional(profile::ItemKind::Kernel)}) {
    Comparison comparison = compareRecordings(a, b, by);
    checkTerminal(comparison, 40);
    checkTerminal(comparison, 120);
    checkMarkdown(comparison);
    std::string text;
    raw_string_ostream os(text);
    writeComparison(comparison, kLimit, os);
    cantFail(json::parse(text));
  }
  return 0;
}
