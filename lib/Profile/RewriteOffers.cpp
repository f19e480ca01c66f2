// Reads what has been recommended for a run.

#include "opprof/Profile/RewriteOffers.h"
#include "opprof/Support/JSONReading.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::profile;
using opprof::JSONReading;
using simdjson::dom::element;
using simdjson::dom::object;

static Error readOffer(JSONReading &reader, object from, RewriteOffer &offer) {
  if (Error error = reader.getString(from, "name", offer.name, true))
    return error;
  if (Error error = reader.getString(from, "file", offer.file, false))
    return error;
  if (Error error = reader.getString(from, "title", offer.title, false))
    return error;
  std::optional<int64_t> saves;
  if (Error error = reader.getInteger(from, "saves_ns", saves))
    return error;
  offer.savesNs = saves.value_or(0);
  if (Error error = reader.getInteger(from, "measured_ns", offer.measuredNs))
    return error;
  for (int64_t time : {offer.savesNs, offer.measuredNs.value_or(0)})
    if (time > kMaxTotalNs || time < -kMaxTotalNs)
      return reader.fail(Twine(time) + " ns is no time of a step");
  return reader.getString(from, "end", offer.end, false);
}

Expected<std::vector<RewriteOffer>>
opprof::profile::readRewriteOffers(StringRef text, StringRef name) {
  std::vector<RewriteOffer> offers;
  JSONReading reader(name);
  Error error = reader.parse(text, [&](element root) -> Error {
    object keys;
    if (Error error = reader.getObject(root, keys))
      return error;
    if (Error error = reader.checkVersion(keys, 1, "a rewrites.json",
                                          "`opprof recommend`"))
      return error;
    return reader.getObjects(keys, "rewrites", true, [&](object entry) {
      return readOffer(reader, entry, offers.emplace_back());
    });
  });
  if (error)
    return error;
  llvm::stable_sort(offers, [](const RewriteOffer &a, const RewriteOffer &b) {
    return a.measuredNs.value_or(a.savesNs) > b.measuredNs.value_or(b.savesNs);
  });
  return offers;
}
