//===- Provenance.cpp - Inductor's own record of kernels ------------------===//
//
// Three tables of name lists, out of one JSON object.
//
//===----------------------------------------------------------------------===//

#include "opprof/Target/InductorCode/Provenance.h"

#include "llvm/ADT/Twine.h"

#include <simdjson.h>

using namespace llvm;
using namespace opprof::inductor;

Expected<Provenance> opprof::inductor::readProvenance(StringRef text,
                                                      StringRef fileName) {
  simdjson::dom::parser parser;
  simdjson::padded_string padded(text.data(), text.size());
  simdjson::dom::element root;
  if (simdjson::error_code code = parser.parse(padded).get(root))
    return createStringError(fileName +
                             ": not JSON: " + simdjson::error_message(code));
  simdjson::dom::object object;
  if (root.get(object))
    return createStringError(fileName + ": expected an object");

  Provenance out;
  bool found = false;
  auto readTable = [&](StringRef key, Provenance::Table &table) -> Error {
    simdjson::dom::element value;
    if (object[std::string_view(key.data(), key.size())].get(value))
      return Error::success();
    found = true;
    simdjson::dom::object entries;
    if (value.get(entries))
      return createStringError(fileName + ": \"" + key +
                               "\" must be an object");
    for (auto [name, list] : entries) {
      simdjson::dom::array names;
      if (list.get(names))
        return createStringError(fileName + ": " + key + "[\"" +
                                 StringRef(name) + "\"] must be an array");
      std::vector<std::string> &target = table[StringRef(name)];
      for (simdjson::dom::element item : names) {
        std::string_view text;
        if (item.get(text))
          return createStringError(fileName + ": " + key + "[\"" +
                                   StringRef(name) +
                                   "\"] must hold node names");
        target.emplace_back(text);
      }
    }
    return Error::success();
  };
  if (Error error = readTable("preToPost", out.preToPost))
    return error;
  if (Error error = readTable("postToPre", out.postToPre))
    return error;
  if (Error error = readTable("cppCodeToPost", out.kernelToPost))
    return error;
  if (!found)
    return createStringError(
        fileName + ": has none of preToPost, postToPre and cppCodeToPost: this "
                   "is not inductor_provenance_tracking_node_mappings.json");
  return out;
}
