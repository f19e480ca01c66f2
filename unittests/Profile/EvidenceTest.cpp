// Tests of evidence in files: of every kind, what is written is read back.

#include "EvidenceSamples.h"

#include "gtest/gtest.h"

using namespace opprof;
using namespace opprof::profile;

TEST(Evidence, OfEveryKindIsReadBack) {
  auto profile = sampleProfile();
  std::vector<Evidence> samples = sampleEvidence();
  ASSERT_EQ(samples.size(), kNumFindingKinds);
  for (size_t index = 0; index < kNumFindingKinds; ++index) {
    Finding finding;
    finding.evidence = samples[index];
    EXPECT_EQ(finding.kind(), static_cast<FindingKind>(index));
    EXPECT_EQ(parseFindingKind(finding.id()), finding.kind());
    llvm::json::Object written = toJSON(finding.evidence, *profile);
    Evidence read = readEvidence(finding.id(), written, *profile);
    EXPECT_EQ(read.index(), index + 1) << finding.id().str();
    EXPECT_EQ(toJSON(read, *profile), written) << finding.id().str();
  }
}

TEST(Evidence, OfAnotherTypeIsKeptAsItIs) {
  auto profile = sampleProfile();
  for (const Evidence &sample : sampleEvidence()) {
    Finding finding;
    finding.evidence = sample;
    llvm::json::Object written = toJSON(sample, *profile);
    for (const auto &[key, value] : written) {
      llvm::json::Object other = written;
      other[key] = "not what it was";
      Evidence read = readEvidence(finding.id(), other, *profile);
      EXPECT_EQ(toJSON(read, *profile), other);
      // Names are free; all else has its type.
      if (!value.getAsString()) {
        EXPECT_EQ(read.index(), 0u) << finding.id().str() << ' ' << key.str();
      }
    }
  }
}

TEST(Evidence, IsOfASumOverSteps) {
  auto profile = sampleProfile();
  evidence::WallTime time;
  time.wallNs = 201;
  llvm::json::Object written = toJSON(time, *profile);
  EXPECT_EQ(written.getInteger("wall_ns_per_step"), 100);
  profile->steps.clear();
  EXPECT_EQ(toJSON(time, *profile).getInteger("wall_ns_per_step"), 201);
}

TEST(Evidence, SaysWhyThereIsNoRoof) {
  auto profile = sampleProfile();
  for (NoRoof reason : {NoRoof::LaunchMap, NoRoof::Costs, NoRoof::CPU,
                        NoRoof::Device, NoRoof::Run}) {
    evidence::Roofline roofline;
    roofline.without = reason;
    if (reason == NoRoof::Device)
      roofline.ceilings.device = "Radeon's";
    roofline.rates = {2e9, 3e9, 4e12, 5e12};
    llvm::json::Object written = toJSON(roofline, *profile);
    Evidence read = readEvidence("roofline", written, *profile);
    ASSERT_TRUE(std::holds_alternative<evidence::Roofline>(read));
    EXPECT_EQ(std::get<evidence::Roofline>(read).without, reason);
    EXPECT_EQ(std::get<evidence::Roofline>(read).rates->bytesPerSecond, 5e12);
  }
}

TEST(Evidence, OfANodeWhoseNameTwoHaveIsKeptAsItIs) {
  auto profile = sampleProfile();
  llvm::json::Object written =
      toJSON(sampleEvidence()[size_t(FindingKind::Divergence)], *profile);
  profile->nodes.push_back(profile->nodes.front());
  profile->nodes.back().id.stage = "other";
  EXPECT_EQ(readEvidence("divergence", written, *profile).index(), 0u);
}
