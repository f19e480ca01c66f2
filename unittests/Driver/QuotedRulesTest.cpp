// Reports quote what rules offer where they say what to do about a finding:
// each rule's, at one at least.

#include "opprof/Report/FindingExplanation.h"
#include "opprof/Rewrite/Recommend.h"

#include "llvm/ADT/STLExtras.h"
#include "gtest/gtest.h"

using namespace opprof;
using namespace opprof::profile;

/// What is said of each kind of finding, where that was recommended.
template <size_t... Kinds>
static std::vector<std::string> adviseOnAll(const Profile &profile,
                                            std::index_sequence<Kinds...>) {
  std::vector<std::string> texts;
  auto add = [&](auto place) {
    Finding finding;
    finding.evidence.template emplace<place()>();
    texts.push_back(report::adviseOn(finding, profile));
  };
  (add(std::integral_constant<size_t, Kinds>()), ...);
  return texts;
}

TEST(QuotedRules, EveryRuleIsQuotedAtAFinding) {
  Profile profile;
  profile.graph = "model";
  profile.nodes.emplace_back();
  ASSERT_FALSE(rewrite::getRules().empty());
  for (const rewrite::Rule *rule : rewrite::getRules()) {
    RewriteOffer offer;
    offer.name = rule->name.str();
    offer.title = "the title of its offer";
    offer.file = "01.mlir";
    profile.offers = {offer};
    EXPECT_TRUE(llvm::any_of(
        adviseOnAll(profile,
                    std::make_index_sequence<
                        std::variant_size_v<decltype(Finding::evidence)>>()),
        [&](llvm::StringRef text) { return text.contains(offer.title); }))
        << "no report quotes what " << offer.name
        << " offers: add it to listRules in lib/Report/FindingExplanation.cpp";
  }
}
