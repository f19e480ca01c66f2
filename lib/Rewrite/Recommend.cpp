// Asks all rules, ranks what they offer, and writes it as rewrite scripts.

#include "opprof/Rewrite/Recommend.h"
#include "opprof/Dialect/FX/IR/FX.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

using namespace opprof::rewrite;

static const Rule kRules[] = {recommendSharedInputGemms,
                              recommendRegionStrategies};

std::vector<Recommendation>
opprof::rewrite::recommend(fx::GraphOp graph, const Evidence &evidence) {
  std::vector<Recommendation> results;
  for (Rule rule : kRules)
    rule(graph, evidence, results);
  llvm::erase_if(results, [&](const Recommendation &result) {
    // A budget of 0 asks for equal bits, which only a run can show.
    return result.error > evidence.errorBudget && evidence.errorBudget > 0;
  });
  llvm::stable_sort(results,
                    [](const Recommendation &a, const Recommendation &b) {
                      return a.savesNs > b.savesNs;
                    });
  return results;
}

/// `text` as an attribute.
static std::string quote(llvm::StringRef text) {
  std::string result;
  llvm::raw_string_ostream os(result);
  os << '"';
  llvm::printEscapedString(text, os);
  os << '"';
  return result;
}

/// `text` as comment lines.
static std::string getComment(llvm::StringRef text, llvm::StringRef indent) {
  std::string result;
  llvm::SmallVector<llvm::StringRef> words;
  text.split(words, ' ');
  std::string line = (indent + "//").str();
  for (llvm::StringRef word : words) {
    if (line.size() + 1 + word.size() > 80) {
      result += line + "\n";
      line = (indent + "//").str();
    }
    line += " " + word.str();
  }
  return result + line + "\n";
}

std::string opprof::rewrite::getScriptText(const Recommendation &current,
                                           unsigned rank) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << getComment(current.title + ".", "") << "//\n"
     << getComment(current.explanation, "") << "\n"
     << current.types << (current.types.empty() ? "" : "\n")
     << "module attributes {transform.with_named_sequence, fx.rewrite = {\n"
     << "  rank = " << rank << ", name = " << quote(current.name) << ",\n"
     << "  finding = " << quote(current.finding) << ",\n"
     << "  title = " << quote(current.title) << ",\n"
     << "  explanation = " << quote(current.explanation) << ",\n"
     << "  saves_ns = " << static_cast<int64_t>(current.savesNs)
     << ", expected_error = " << llvm::formatv("{0:e}", current.error);
  if (!current.places.empty()) {
    os << ",\n  nodes = [";
    llvm::interleave(
        current.places, os,
        [&](const std::vector<std::string> &names) {
          os << "[";
          llvm::interleaveComma(
              names, os, [&](const std::string &name) { os << quote(name); });
          os << "]";
        },
        ",\n           ");
    os << "]";
  }
  os << "}} {\n"
     << current.graphs << (current.graphs.empty() ? "" : "\n")
     << "  transform.named_sequence @__transform_main(%root: "
        "!transform.any_op {transform.readonly}) {\n"
     << current.sequence << "    transform.yield\n  }\n}\n";
  return text;
}
