// Reads what `opprof ceilings` measured of a device.

#include "opprof/Profile/Ceilings.h"
#include "opprof/Support/JSONReading.h"

using namespace llvm;
using namespace opprof;
using namespace opprof::profile;
using opprof::JSONReading;
using simdjson::dom::element;
using simdjson::dom::object;

static Error readRate(JSONReading &reader, object from, StringRef key,
                      double &rate) {
  std::optional<double> found;
  if (Error error = reader.getNumber(from, key, found))
    return error;
  // Beyond any device, and far from what overflows.
  constexpr double kMost = 1e18;
  if (!found || !(*found > 0) || *found > kMost)
    return reader.fail("\"" + key + "\" must be a rate a second, above 0");
  rate = *found;
  return Error::success();
}

static Error readAll(JSONReading &reader, element root, Ceilings &ceilings) {
  object keys;
  if (Error error = reader.getObject(root, keys))
    return error;
  if (Error error =
          reader.checkVersion(keys, 1, "a ceilings.json", "`opprof ceilings`"))
    return error;
  if (Error error =
          reader.inObject(keys, "device", [&](object device) -> Error {
            if (Error error =
                    reader.getString(device, "type", ceilings.deviceKind, true))
              return error;
            return reader.getString(device, "name", ceilings.rates.device,
                                    true);
          }))
    return error;
  if (ceilings.deviceKind.empty())
    return reader.fail("it does not say which \"device\" was measured");
  if (Error error = reader.inObject(keys, "memory", [&](object memory) {
        return readRate(reader, memory, "bytes_per_second",
                        ceilings.rates.memory);
      }))
    return error;
  MeasuredRates &rates = ceilings.rates;
  if (Error error =
          reader.inObject(keys, "products", [&](object products) -> Error {
            for (auto [type, rate] : {std::pair("float32", &rates.fp32),
                                      std::pair("tf32", &rates.tf32),
                                      std::pair("bfloat16", &rates.bf16),
                                      std::pair("float16", &rates.fp16)})
              if (Error error =
                      reader.inObject(products, type, [&](object found) {
                        return readRate(reader, found, "operations_per_second",
                                        *rate);
                      }))
                return error;
            return Error::success();
          }))
    return error;
  if (!rates.memory || !rates.fp32)
    return reader.fail(
        "\"memory\" and \"float32\" of \"products\" must both be measured; "
        "write the file again with `opprof ceilings`");
  return Error::success();
}

Expected<Ceilings> opprof::profile::readCeilings(StringRef text,
                                                 StringRef name) {
  Ceilings ceilings;
  JSONReading reader(name);
  if (Error error = reader.parse(
          text, [&](element root) { return readAll(reader, root, ceilings); }))
    return error;
  return ceilings;
}

bool opprof::profile::setCeilings(Profile &profile, const Ceilings &ceilings) {
  bool any = false;
  for (Device &device : profile.devices) {
    if (device.kind != ceilings.deviceKind ||
        (device.kind != "cpu" && device.name != ceilings.rates.device))
      continue;
    device.measured = ceilings.rates;
    any = true;
  }
  return any;
}
