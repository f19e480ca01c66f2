// What the readers of JSON files share: every error names the file and the
// place in it ("kernels[3].nodes[0]"), and what is read is bounded: a file by
// JSONReading::kMaxBytes, its nesting by kMaxDepth, a number by the type that
// it is read as.

#ifndef OPPROF_SUPPORT_JSONREADING_H
#define OPPROF_SUPPORT_JSONREADING_H

#include "opprof/Support/NodeId.h"
#include "opprof/Support/Recording.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/Error.h"

#include <simdjson.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace opprof {

class JSONReading {
public:
  using element = simdjson::dom::element;
  using object = simdjson::dom::object;
  using array = simdjson::dom::array;

  /// simdjson reads documents below 4 GiB.
  static constexpr size_t kMaxBytes = simdjson::SIMDJSON_MAXSIZE_BYTES;
  /// Arrays and objects in one another. The formats nest to about ten.
  static constexpr size_t kMaxDepth = 128;

  explicit JSONReading(llvm::StringRef name) : fileName(name) {}

  llvm::Error fail(const llvm::Twine &message) const {
    std::string where = fileName;
    if (!place.empty())
      where += ": " + place;
    return llvm::createStringError(where + ": " + message.str());
  }

  /// Parses `text` and calls `body(root)`.
  template <typename Body>
  llvm::Error parse(llvm::StringRef text, Body body,
                    size_t maxDepth = kMaxDepth) {
    simdjson::dom::document document;
    element root;
    {
      // The document holds all that is read of it: of a large file the copy and
      // the parser's index would be in the way of what is made of it.
      if (text.size() >= kMaxBytes)
        return fail("more than " + llvm::Twine(kMaxBytes) + " bytes");
      simdjson::dom::parser parser;
      constexpr size_t kMinCapacity = 64;
      if (simdjson::error_code code =
              parser.allocate(std::max(text.size(), kMinCapacity), maxDepth))
        return fail(simdjson::error_message(code));
      simdjson::padded_string padded(text.data(), text.size());
      if (simdjson::error_code code =
              parser.parse_into_document(document, padded).get(root))
        return fail(llvm::Twine("not valid JSON: ") +
                    simdjson::error_message(code));
    }
    return body(root);
  }

  llvm::Error checkVersion(object from, int64_t known, llvm::StringRef what,
                           llvm::StringRef remedy) {
    std::optional<int64_t> version;
    if (llvm::Error error = getInteger(from, "version", version))
      return error;
    if (!version)
      return fail("the key \"version\" is missing: this is not " + what);
    if (*version != known)
      return fail("version " + llvm::Twine(*version) + " of " + what +
                  " is not known; this program reads version " +
                  llvm::Twine(known) + ": write the file again with " + remedy);
    return llvm::Error::success();
  }

  /// Runs `body` with `step` appended to the place.
  template <typename Body> llvm::Error in(const llvm::Twine &step, Body body) {
    size_t length = place.size();
    if (!place.empty())
      place += '.';
    place += step.str();
    if (llvm::Error error = body())
      return error;
    place.resize(length);
    return llvm::Error::success();
  }

  llvm::Error getObject(element value, object &out) const {
    if (value.get(out))
      return fail("expected an object");
    return llvm::Error::success();
  }

  /// Calls `each` for an object, or for every object of an array.
  template <typename Each> llvm::Error forOneOrMany(element root, Each each) {
    auto read = [&](element value) -> llvm::Error {
      object keys;
      if (llvm::Error error = getObject(value, keys))
        return error;
      return each(keys);
    };
    return root.is_array() ? forEach(root, "", read) : read(root);
  }

  llvm::Error getText(element value, std::string &out) const {
    std::string_view text;
    if (value.get(text))
      return fail("expected a string");
    out.assign(text);
    return llvm::Error::success();
  }

  /// Finds `key`; null counts as absent.
  static bool find(object from, llvm::StringRef key, element &value) {
    return !from[std::string_view(key.data(), key.size())].get(value) &&
           !value.is_null();
  }

  llvm::Error getString(object from, llvm::StringRef key, std::string &out,
                        bool required) const {
    element value;
    if (!find(from, key, value))
      return required ? missing(key) : llvm::Error::success();
    std::string_view text;
    if (value.get(text))
      return fail("\"" + key + "\" must be a string");
    out.assign(text);
    return llvm::Error::success();
  }

  llvm::Error getString(object from, llvm::StringRef key,
                        std::optional<std::string> &out) const {
    element value;
    if (!find(from, key, value))
      return llvm::Error::success();
    return getString(from, key, out.emplace(), true);
  }
  /// An enumerator by its name; `out` stays as it is where the key may be and
  /// is absent.
  template <typename Enum, typename Out>
  llvm::Error getEnum(object from, llvm::StringRef key, Out &out,
                      std::optional<Enum> (*parse)(llvm::StringRef),
                      bool required) const {
    std::string text;
    if (llvm::Error error = getString(from, key, text, required))
      return error;
    if (text.empty() && !required)
      return llvm::Error::success();
    std::optional<Enum> value = parse(text);
    if (!value)
      return fail("\"" + text + "\" is no known \"" + key + "\"");
    out = *value;
    return llvm::Error::success();
  }

  template <typename T>
  llvm::Error getInteger(object from, llvm::StringRef key,
                         std::optional<T> &out) const {
    element value;
    if (!find(from, key, value))
      return llvm::Error::success();
    std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t> number;
    if (value.get(number) ||
        number > std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>(
                     std::numeric_limits<T>::max()) ||
        number < std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>(
                     std::numeric_limits<T>::min()))
      return fail("\"" + key + "\" must be a whole number" +
                  (std::is_signed_v<T> ? "" : " that is not negative"));
    out = static_cast<T>(number);
    return llvm::Error::success();
  }

  template <typename T, T none>
  llvm::Error getInteger(object from, llvm::StringRef key,
                         OptionalNumber<T, none> &out) const {
    std::optional<T> value = out;
    if (llvm::Error error = getInteger(from, key, value))
      return error;
    out = value;
    return llvm::Error::success();
  }

  template <typename T>
  llvm::Error getRequired(object from, llvm::StringRef key, T &out) const {
    std::optional<T> value;
    if (llvm::Error error = getInteger<T>(from, key, value))
      return error;
    if (!value)
      return missing(key);
    out = *value;
    return llvm::Error::success();
  }

  llvm::Error getNumber(object from, llvm::StringRef key,
                        std::optional<double> &out) const {
    element value;
    if (!find(from, key, value))
      return llvm::Error::success();
    double number;
    if (value.get(number))
      return fail("\"" + key + "\" must be a number");
    out = number;
    return llvm::Error::success();
  }

  llvm::Error getBool(object from, llvm::StringRef key, bool &out) const {
    element value;
    if (!find(from, key, value))
      return llvm::Error::success();
    if (value.get(out))
      return fail("\"" + key + "\" must be true or false");
    return llvm::Error::success();
  }

  /// Calls `each` for every item of an array; an absent key has none.
  template <typename Each>
  llvm::Error getArray(object from, llvm::StringRef key, bool required,
                       Each each) {
    element value;
    if (!find(from, key, value))
      return required ? missing(key) : llvm::Error::success();
    return forEach(value, key, each);
  }

  /// Calls `each` for every item of the array `value`, which `key` names.
  template <typename Each>
  llvm::Error forEach(element value, llvm::StringRef key, Each each) {
    array items;
    if (value.get(items))
      return fail("\"" + key + "\" must be an array");
    size_t index = 0;
    for (element item : items)
      if (llvm::Error error = in(key + "[" + llvm::Twine(index++) + "]",
                                 [&] { return each(item); }))
        return error;
    return llvm::Error::success();
  }

  /// Calls `each` for every object of an array of objects.
  template <typename Each>
  llvm::Error getObjects(object from, llvm::StringRef key, bool required,
                         Each each) {
    return getArray(from, key, required, [&](element item) -> llvm::Error {
      object entry;
      if (llvm::Error error = getObject(item, entry))
        return error;
      return each(entry);
    });
  }

  /// Reads the keys of a node; those of its graph and stage may be absent.
  llvm::Error getNodeKeys(object from, llvm::StringRef graph,
                          llvm::StringRef stage, NodeId &out) const {
    out.graph = graph;
    out.stage = stage;
    if (llvm::Error error = getString(from, "graph", out.graph, false))
      return error;
    if (llvm::Error error = getString(from, "stage", out.stage, false))
      return error;
    return getString(from, "name", out.name, true);
  }

  /// Reads a node: a plain name is one of `graph` and `stage`, others are
  /// objects.
  llvm::Error getNode(element value, llvm::StringRef graph,
                      llvm::StringRef stage, NodeId &out) const {
    object keys;
    if (!value.get(keys))
      return getNodeKeys(keys, graph, stage, out);
    out.graph = graph;
    out.stage = stage;
    if (!value.is_string())
      return fail("a node must be a name or an object with the key \"name\"");
    return getText(value, out.name);
  }

  /// Runs `body` on the object under `key`, if there is one.
  template <typename Body>
  llvm::Error inObject(object from, llvm::StringRef key, Body body) {
    element value;
    if (!find(from, key, value))
      return llvm::Error::success();
    return in(key, [&]() -> llvm::Error {
      object inner;
      if (llvm::Error error = getObject(value, inner))
        return error;
      return body(inner);
    });
  }

  /// Calls `each` for every entry of the object under `key`, if there is one.
  template <typename Each>
  llvm::Error getEntries(object from, llvm::StringRef key, Each each) {
    return inObject(from, key, [&](object entries) -> llvm::Error {
      for (auto field : entries)
        if (llvm::Error error = each(std::string(field.key), field.value))
          return error;
      return llvm::Error::success();
    });
  }

  /// Numbers by name.
  llvm::Error getNumbers(object from, llvm::StringRef key,
                         std::map<std::string, double> &out) {
    return getEntries(from, key, [&](const std::string &name, element value) {
      return value.get(out[name]) ? fail("\"" + name + "\" must be a number")
                                  : llvm::Error::success();
    });
  }

  /// Texts by name.
  llvm::Error getTexts(object from, llvm::StringRef key,
                       std::map<std::string, std::string> &out) {
    return getEntries(from, key, [&](const std::string &name, element value) {
      return getText(value, out[name]);
    });
  }

  /// An array of whole numbers that are not negative, which may be absent.
  template <typename T>
  llvm::Error getIntegers(object from, llvm::StringRef key,
                          std::vector<T> &out) {
    return getArray(from, key, false, [&](element item) -> llvm::Error {
      uint64_t number;
      if (item.get(number) || number > std::numeric_limits<T>::max())
        return fail("expected a whole number that is not negative");
      out.push_back(static_cast<T>(number));
      return llvm::Error::success();
    });
  }

  llvm::Error getStrings(object from, llvm::StringRef key, bool required,
                         std::vector<std::string> &out) {
    return getArray(from, key, required, [&](element item) {
      return getText(item, out.emplace_back());
    });
  }

private:
  llvm::Error missing(llvm::StringRef key) const {
    return fail("the key \"" + key + "\" is missing");
  }

  std::string fileName;
  std::string place;
};

} // namespace opprof

#endif // OPPROF_SUPPORT_JSONREADING_H
