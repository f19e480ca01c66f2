// Tests of findings in words: a sentence of every kind.

#include "../Profile/EvidenceSamples.h"

#include "opprof/Report/FindingText.h"

#include "gtest/gtest.h"

using namespace opprof;
using namespace opprof::profile;

static std::string describe(Profile &profile, Evidence evidence) {
  profile.findings.clear();
  profile.findings.emplace_back().evidence = std::move(evidence);
  report::describeFindings(profile);
  return profile.findings.front().text;
}

static std::string describe(FindingKind kind) {
  return describe(*sampleProfile(), sampleEvidence()[size_t(kind)]);
}

TEST(FindingText, OfEveryKind) {
  auto profile = sampleProfile();
  for (Evidence &sample : sampleEvidence()) {
    std::string text = describe(*profile, sample);
    EXPECT_TRUE(llvm::StringRef(text).ends_with(".")) << text;
  }
}

TEST(FindingText, OfTheTimeline) {
  EXPECT_EQ(describe(FindingKind::WallTime),
            "Of 10.0 µs that a step takes, 3 kernels keep the device busy for "
            "4.0 µs (40.0 %); copies add 200 ns; the device idles 500 ns while "
            "the host waits for the device, and 4.0 µs while it does something "
            "else. Another 300 ns idle was the profiler's own.");
  EXPECT_EQ(
      describe(FindingKind::DeviceBusy),
      "The device is busy 40.0 % of the time; while it was idle, the "
      "host was in aten::item for 750 ns; the host was late for 1.5 "
      "µs of 4.0 µs idle before kernels: the program is launch-bound; "
      "the largest gap, 4.0 µs, is before linear (h.0, model.py:42); 500 "
      "ns of kernel time overlaps and counts once. Of the devices, device "
      "0 is busy 40.0 % and idle for 6.0 µs in 3 gaps, the largest 4.0 "
      "µs before linear (h.0, model.py:42); device 1 is busy 10.0 % and "
      "idle for 9.0 µs in 1 gap.");
  EXPECT_EQ(
      describe(FindingKind::SmallKernels),
      "2 of 3 kernels are small (under 10.0 µs or shorter than their own "
      "launch): 1.5 µs of work, 33.3 % of kernel time; launching them "
      "takes the host 2.5 µs, and the device is idle 1.0 µs between them; "
      "most before linear (h.0, model.py:42).");
  EXPECT_EQ(describe(FindingKind::HostCopies),
            "4 copies between host and devices inside the steps: 1.5 µs and "
            "2.05 kB a step, from or to pageable memory, which blocks the "
            "host; the longest is Memcpy HtoD. Of the devices, device 0 has 2 "
            "of them, for 1.0 µs; device 1 has 2 of them, for 500 ns.");
}

TEST(FindingText, OfWhatTheHostDidTheLineStays) {
  EXPECT_EQ(report::shortHost("aten::conv2d"), "aten::conv2d");
  EXPECT_EQ(report::shortHost("transformers/models/videomae/"
                              "image_processing_videomae.py(235): preprocess"),
            "…/videomae/image_processing_videomae.py(235): preprocess");
}

TEST(FindingText, OfMemory) {
  EXPECT_EQ(describe(FindingKind::MemoryGrowth),
            "Each step holds 4.00 kB more on cuda:0 of what is allocated at "
            "train.py:9 (Net.head), and gives none of it back: something keeps "
            "the tensors; all lines that grow hold 5.00 kB more. The peak of "
            "the recording was 70.0 kB.");
}

TEST(FindingText, OfBiasCopies) {
  EXPECT_EQ(describe(FindingKind::BiasCopies),
            "2 copies on the device put a bias where a product adds to it: 1.5 "
            "µs and 2.05 kB a step; the product after the longest is linear "
            "(h.0, model.py:42).");
}

TEST(FindingText, OfLayoutsThatAreTurned) {
  EXPECT_EQ(describe(FindingKind::LayoutConversions),
            "1 kernel turns tensors of convolutions from one layout, channels "
            "first or last, into the other: 1.5 µs a step, 12.5 % of kernel "
            "time; the longest is of linear (h.0, model.py:42).");
}

TEST(FindingText, OfWorkThatCouldRunAtOnce) {
  EXPECT_EQ(describe(FindingKind::SerializedWork),
            "3 kernels need nothing of one another and run one after another "
            "all the same, in 1 group, though their blocks together are fewer "
            "than the device has multiprocessors: 4.5 µs a step, of which "
            "running side by side would save 2.0 µs at most; the group that "
            "would save most has 4 kernels, from linear (h.0, model.py:42) to "
            "linear (h.0, model.py:42).");
}

TEST(FindingText, OfTheModel) {
  EXPECT_EQ(describe(FindingKind::Roofline),
            "Of 8.0 µs of kernels with known work, 25.0 % compute-bound, 75.0 "
            "% memory-bound (25.0 % by counters, the rest by the model); the "
            "roof allows 5.0 µs. Furthest off: linear (h.0, model.py:42), 3.0 "
            "µs where 2.0 µs would do (12.5 FLOP/byte; H200: 4.3 TB/s "
            "measured, tf32 394 TFLOP/s half).");
  EXPECT_EQ(describe(FindingKind::TensorCoresIdle),
            "2 matrix products run in fp32 without tensor cores (their counter "
            "shows none): 3.0 µs a step, 75.0 % of kernel time, where tf32's "
            "ceiling allows 500 ns; longest is linear (h.0, model.py:42), "
            "kernel gemm.");
  evidence::Roofline roofline;
  roofline.without = NoRoof::Device;
  roofline.ceilings.device = "Radeon";
  EXPECT_EQ(describe(*sampleProfile(), roofline),
            "No roofline class: the ceilings of the device 'Radeon' are not in "
            "the table (`opprof ceilings` measures them where nothing else "
            "runs).");
}

TEST(FindingText, OfCounters) {
  EXPECT_EQ(describe(FindingKind::SpeedOfLight),
            "By counters, 75.0 % of the time of all kernels runs at over 80 % "
            "of the peak of compute, 0.0 % of memory, and 25.0 % at under half "
            "of both, where latency decides; means are 66.5 % and 20.0 %; some "
            "are those of launches that do the same work.");
  EXPECT_EQ(describe(FindingKind::LowOccupancy),
            "2 launches (3.0 µs a step) are latency-bound with under half of "
            "the warps that the device holds, mostly as registers leave no "
            "room for more blocks; the longest is linear (h.0, model.py:42), "
            "11 %.");
  EXPECT_EQ(describe(FindingKind::Stalls),
            "Warps wait most for other warps at a barrier (barrier) in "
            "launches of 3.0 µs a step (100.0 % of what was counted); it asks "
            "for smaller blocks, or fewer barriers.");
}

TEST(FindingText, WithoutStepsIsOfTheCapture) {
  auto profile = sampleProfile();
  profile->steps.clear();
  profile->sources.emplace_back().kind = "opprof capture";
  for (FindingKind kind :
       {FindingKind::WallTime, FindingKind::DeviceBusy,
        FindingKind::Synchronizations, FindingKind::HostCopies,
        FindingKind::Communication}) {
    std::string text = describe(*profile, sampleEvidence()[size_t(kind)]);
    EXPECT_EQ(text.find("step"), std::string::npos) << text;
  }
  EXPECT_EQ(describe(*profile, sampleEvidence()[size_t(FindingKind::WallTime)])
                .find("Of 20.0 µs of the capture, from the device's first "
                      "event to its last, 6 kernels keep"),
            0u);
}

TEST(FindingText, OfAFileStays) {
  auto profile = sampleProfile();
  Finding &finding = profile->findings.emplace_back();
  finding.evidence = evidence::Unread{"of-a-later-version", {}};
  finding.text = "what the file says";
  report::describeFindings(*profile);
  EXPECT_EQ(finding.text, "what the file says");
}

TEST(FindingText, OfCountersWithoutStepsIsOfAll) {
  auto profile = sampleProfile();
  profile->steps.clear();
  for (FindingKind kind :
       {FindingKind::MemoryTraffic, FindingKind::LowOccupancy,
        FindingKind::LocalMemory, FindingKind::ScatteredAccess,
        FindingKind::Stalls, FindingKind::Pipes, FindingKind::Divergence}) {
    std::string text = describe(*profile, sampleEvidence()[size_t(kind)]);
    EXPECT_EQ(text.find("step"), std::string::npos) << text;
    EXPECT_NE(text.find(" in all"), std::string::npos) << text;
  }
}
