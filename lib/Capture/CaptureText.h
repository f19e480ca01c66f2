// Texts of captures as JSON has them.

#ifndef OPPROF_LIB_CAPTURE_CAPTURETEXT_H
#define OPPROF_LIB_CAPTURE_CAPTURETEXT_H

#include <string>
#include <string_view>

namespace opprof::capture {

/// A text as JSON has it; what is not UTF-8 in it is replaced.
std::string quoted(std::string_view text);

} // namespace opprof::capture

#endif // OPPROF_LIB_CAPTURE_CAPTURETEXT_H
