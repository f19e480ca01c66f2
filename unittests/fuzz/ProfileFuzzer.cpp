// profile.opprof.json from anywhere: it is refused with an error, or written,
// read again and written the same, and shown. A page for the terminal holds
// nothing that commands it and no line that is too long for it, and no text of
// the profile is markup of the HTML page.

#include "Fuzzing.h"

#include "opprof/Profile/ProfileJSON.h"
#include "opprof/Report/FindingText.h"
#include "opprof/Report/Report.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Unicode.h"

using namespace llvm;
using namespace opprof;

static std::string write(const profile::Profile &profile) {
  std::string text;
  raw_string_ostream os(text);
  writeProfile(profile, os);
  return text;
}

static void checkTerminal(const profile::Profile &profile, unsigned width) {
  std::string page;
  raw_string_ostream os(page);
  report::TextOptions options;
  options.width = width;
  report::printText(profile, os, options);
  report::printComparison({&profile, &profile}, os, options);
  for (unsigned char c : page)
    require(c == '\n' || (c >= 0x20 && c != 0x7f));
  for (StringRef line : llvm::split(page, '\n'))
    require(sys::unicode::columnWidthUTF8(line) <= int(width));
}

/// Every element that is begun is ended, in order, and there is no script or
/// handler but the page's own.
static void checkHTML(StringRef page) {
  static const StringSet<> noEnd = {"meta", "link",  "br", "hr",
                                    "img",  "input", "col"};
  SmallVector<StringRef> open;
  unsigned scripts = 0;
  for (size_t at = page.find('<'); at != StringRef::npos;
       at = page.find('<', at)) {
    page = page.drop_front(at + 1);
    at = 0;
    if (page.consume_front("!"))
      continue;
    bool ends = page.consume_front("/");
    StringRef name = page.take_while(isAlnum);
    require(!name.empty());
    // A quoted value may have any character but its quote.
    size_t end = 0;
    for (char quote = 0; end < page.size(); ++end) {
      char c = page[end];
      if (quote)
        quote = c == quote ? 0 : quote;
      else if (c == '"' || c == '\'')
        quote = c;
      else if (c == '>')
        break;
    }
    require(end < page.size());
    bool endsItself = page.take_front(end).ends_with("/");
    page = page.drop_front(end + 1);
    if (ends) {
      require(!open.empty() && open.pop_back_val() == name);
      continue;
    }
    if (noEnd.contains(name) || endsItself)
      continue;
    open.push_back(name);
    if (name == "script" || name == "style") {
      scripts += name == "script";
      at = page.find(("</" + name).str());
      require(at != StringRef::npos);
    }
  }
  require(open.empty());
  static const unsigned ownScripts = scripts;
  require(scripts == ownScripts);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  Expected<std::unique_ptr<profile::Profile>> read =
      profile::readProfile(toText(data, size), "fuzz");
  if (!read) {
    consumeError(read.takeError());
    return 0;
  }
  profile::Profile &profile = **read;
  std::string first = write(profile);
  Expected<std::unique_ptr<profile::Profile>> again =
      profile::readProfile(first, "written");
  if (!again) {
    errs() << toString(again.takeError()) << '\n' << first;
    require(false);
  }
  require(write(**again) == first);
  report::describeFindings(profile);
  checkTerminal(profile, 40);
  checkTerminal(profile, 120);
  std::string page;
  raw_string_ostream os(page);
  report::printHTML(profile, os);
  checkHTML(page);
  return 0;
}
