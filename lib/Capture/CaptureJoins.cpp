// What records of a capture point at.

#include "opprof/Capture/CaptureJoins.h"

#include <charconv>

using namespace opprof::capture;

uint64_t CaptureJoins::idOf(uint32_t correlation, uint64_t graphNode) const {
  // A file may say that nodes are clones of one another.
  for (int hops = 0; graphNode && hops < 16; ++hops) {
    auto it = Nodes.find(graphNode);
    if (it == Nodes.end())
      break;
    if (it->second.externalId)
      return it->second.externalId;
    graphNode = it->second.original;
  }
  auto it = ByCorrelation.find(correlation);
  return it == ByCorrelation.end() ? 0 : it->second;
}

const std::string *CaptureJoins::nameOfId(uint64_t id) const {
  auto it = IdNames.find(id);
  return it == IdNames.end() ? nullptr : &it->second;
}

std::string CaptureJoins::apiNameOf(uint32_t domain, uint32_t cbid) const {
  auto it = ApiNames.find({domain, cbid});
  if (it != ApiNames.end())
    return it->second;
  return (domain ? "runtime call " : "driver call ") + std::to_string(cbid);
}

std::optional<uint64_t> CaptureJoins::metaNumber(const std::string &key) const {
  auto it = Meta.find(key);
  if (it == Meta.end())
    return std::nullopt;
  const std::string &text = it->second;
  uint64_t number = 0;
  auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size())
    return std::nullopt;
  return number;
}

static const char *memoryKindName(unsigned kind) {
  static const char *names[] = {"Unknown",       "Pageable",      "Pinned",
                                "Device",        "Array",         "Managed",
                                "Device Static", "Managed Static"};
  return names[kind < std::size(names) ? kind : 0];
}

std::string opprof::capture::copyName(const MemcpyRecord &r) {
  static const char *kinds[] = {"",     "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
                                "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"};
  std::string name = "Memcpy";
  if (r.copyKind > 0 && r.copyKind < std::size(kinds))
    name += std::string(" ") + kinds[r.copyKind];
  return name + " (" + memoryKindName(r.sourceKind) + " -> " +
         memoryKindName(r.destinationKind) + ")";
}

std::string opprof::capture::memsetName(const MemsetRecord &r) {
  return std::string("Memset (") + memoryKindName(r.memoryKind) + ")";
}

std::string opprof::capture::overheadName(uint32_t kind) {
  switch (kind) {
  case 1:
    return "driver compiler";
  case 1u << 16:
    return "buffer flush";
  case 2u << 16:
    return "instrumentation";
  case 3u << 16:
    return "resource";
  case 4u << 16:
    return "module loading";
  case 5u << 16:
    return "function loading";
  case 6u << 16:
    return "command buffer full";
  case 7u << 16:
    return "activity buffer request";
  case 8u << 16:
    return "unified memory";
  default:
    return "overhead " + std::to_string(kind);
  }
}
