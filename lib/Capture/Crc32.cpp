// The checksum of capture chunks. CRC-32 as in IEEE 802.3, eight bytes at a
// time.

#include "opprof/Capture/CaptureFile.h"

#include <array>
#include <cstring>

using namespace opprof::capture;

namespace {
using Tables = std::array<std::array<uint32_t, 256>, 8>;

} // namespace

static constexpr Tables makeTables() {
  Tables tables{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit)
      c = (c & 1) ? 0xedb88320u ^ (c >> 1) : c >> 1;
    tables[0][i] = c;
  }
  for (uint32_t i = 0; i < 256; ++i)
    for (int t = 1; t < 8; ++t)
      tables[t][i] =
          (tables[t - 1][i] >> 8) ^ tables[0][tables[t - 1][i] & 0xff];
  return tables;
}

namespace {
constexpr Tables kTables = makeTables();
} // namespace

uint32_t opprof::capture::crc32(uint32_t seed, const void *data, size_t size) {
  const auto *p = static_cast<const unsigned char *>(data);
  uint32_t c = ~seed;
  for (; size >= 8; size -= 8, p += 8) {
    uint32_t low, high;
    std::memcpy(&low, p, 4);
    std::memcpy(&high, p + 4, 4);
    low ^= c;
    c = kTables[7][low & 0xff] ^ kTables[6][(low >> 8) & 0xff] ^
        kTables[5][(low >> 16) & 0xff] ^ kTables[4][low >> 24] ^
        kTables[3][high & 0xff] ^ kTables[2][(high >> 8) & 0xff] ^
        kTables[1][(high >> 16) & 0xff] ^ kTables[0][high >> 24];
  }
  for (; size; --size, ++p)
    c = kTables[0][(c ^ *p) & 0xff] ^ (c >> 8);
  return ~c;
}
