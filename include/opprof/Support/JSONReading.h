//===- JSONReading.h - Reading JSON with places in errors -------*- C++ -*-===//
//
// What the readers of opprof's own JSON files share: every error names the
// file and the place in it ("kernels[3].nodes[0]").
//
//===----------------------------------------------------------------------===//

#ifndef OPPROF_SUPPORT_JSONREADING_H
#define OPPROF_SUPPORT_JSONREADING_H

#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/Error.h"

#include <simdjson.h>

#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace opprof {

class JSONReading {
public:
  using element = simdjson::dom::element;
  using object = simdjson::dom::object;
  using array = simdjson::dom::array;

  explicit JSONReading(llvm::StringRef name) : fileName(name) {}

  llvm::Error fail(const llvm::Twine &message) const {
    std::string where = fileName;
    if (!place.empty())
      where += ": " + place;
    return llvm::createStringError(where + ": " + message.str());
  }

  /// Parses `text` and calls `body(root)`.
  template <typename Body> llvm::Error parse(llvm::StringRef text, Body body) {
    simdjson::dom::parser parser;
    simdjson::padded_string padded(text.data(), text.size());
    element root;
    if (simdjson::error_code code = parser.parse(padded).get(root))
      return fail(llvm::Twine("not valid JSON: ") +
                  simdjson::error_message(code));
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

  /// An array of strings, which may be absent.
  llvm::Error getStrings(object from, llvm::StringRef key,
                         std::vector<std::string> &out) {
    return getArray(from, key, /*required=*/false, [&](element item) {
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
