// Inductor's own record of kernels. Three tables of name lists, out of one JSON
// object.

#include "opprof/Target/InductorCode/Provenance.h"

#include "opprof/Support/JSONReading.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::inductor;

namespace {
class Reader : public opprof::JSONReading {
public:
  using JSONReading::JSONReading;

  Error readProvenance(element root, Provenance &out) {
    object tables;
    if (Error error = getObject(root, tables))
      return error;
    bool isFound = false;
    for (auto [key, table] : {std::pair("preToPost", &out.preToPost),
                              std::pair("postToPre", &out.postToPre),
                              std::pair("cppCodeToPost", &out.kernelToPost)}) {
      element entries;
      isFound |= find(tables, key, entries);
      if (Error error = getEntries(
              tables, key,
              [&, table = table](const std::string &name, element names) {
                std::vector<std::string> &nodes = (*table)[name];
                return forEach(names, name, [&](element item) {
                  return getText(item, nodes.emplace_back());
                });
              }))
        return error;
    }
    if (!isFound)
      return fail("has none of preToPost, postToPre and cppCodeToPost: this is "
                  "not inductor_provenance_tracking_node_mappings.json");
    return Error::success();
  }
};
} // namespace

Expected<Provenance> opprof::inductor::readProvenance(StringRef text,
                                                      StringRef fileName) {
  Provenance out;
  Reader reader(fileName);
  if (Error error = reader.parse(text, [&](Reader::element root) {
        return reader.readProvenance(root, out);
      }))
    return error;
  return out;
}
