// simdjson's own rate on traces: processor seconds in which its on-demand
// parser goes over all keys of all events without looking into them, and its
// other parser makes a document of the text, the least of three runs each.
// benchmarks/trace_read.py --simdjson compiles and runs it.

#include <simdjson.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <limits>

using namespace simdjson;

static double processorSeconds() {
  timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return double(now.tv_sec) + double(now.tv_nsec) * 1e-9;
}

/// Keys of all events; 0 where there are none.
static size_t countKeys(ondemand::parser &parser, const padded_string &text) {
  ondemand::document document;
  ondemand::array events;
  size_t keys = 0;
  if (parser.iterate(text).get(document) ||
      document["traceEvents"].get_array().get(events))
    return 0;
  for (auto item : events) {
    ondemand::object event;
    if (std::move(item).get_object().get(event))
      return 0;
    for (auto field : event)
      keys += !field.error();
  }
  return keys;
}

int main(int count, char **files) {
  for (int place = 1; place < count; ++place) {
    padded_string text;
    if (padded_string::load(files[place]).get(text))
      return 1;
    double onDemand = std::numeric_limits<double>::max(), document = onDemand;
    for (int run = 0; run < 3; ++run) {
      double start = processorSeconds();
      ondemand::parser parser;
      if (!countKeys(parser, text))
        return 1;
      onDemand = std::min(onDemand, processorSeconds() - start);
      start = processorSeconds();
      dom::parser other;
      if (other.parse(text).error())
        return 1;
      document = std::min(document, processorSeconds() - start);
    }
    std::printf("%g %g\n", onDemand, document);
  }
}
