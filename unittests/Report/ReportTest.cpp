// Verifies the sums of a report, that the terminal page keeps to its columns,
// and that the HTML page shows names as text.

#include "opprof/Report/Report.h"
#include "opprof/Report/FindingExplanation.h"
#include "opprof/Report/ReportModel.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Unicode.h"

#include <gtest/gtest.h>

using namespace opprof;
using namespace opprof::profile;
using namespace opprof::report;

/// Two steps; `kernels` of (name, nanoseconds), each computing a node of its
/// own.
static void fill(Profile &profile,
                 std::vector<std::pair<std::string, int64_t>> kernels) {
  profile.graph = "model";
  profile.devices.push_back({});
  profile.devices.back().name = "NVIDIA H200";
  profile.summary.steps = 2;
  int64_t start = 0;
  for (auto &[name, duration] : kernels) {
    uint32_t id = profile.kernels.size();
    Activity kernel;
    kernel.id = id;
    kernel.name = profile.intern(name);
    kernel.startNs = start;
    kernel.durationNs = duration;
    profile.changeOrigin(kernel, [&](Origin &origin) { origin.nodes = {id}; });
    kernel.confidence = id % 2 ? Confidence::Low : Confidence::High;
    start += duration + 100;
    profile.kernels.push_back(kernel);
    Node node;
    node.id.name = "node_" + std::to_string(id);
    node.module = "h." + std::to_string(id) + ".mlp";
    node.source = "model.py:" + std::to_string(10 + id);
    node.kernelTimeNs = duration;
    node.kernels = {id};
    profile.nodes.push_back(node);
    profile.summary.kernelTimeNs += duration;
    profile.summary.attributedNs[size_t(kernel.confidence)] += duration;
    ++profile.summary.kernels;
  }
  profile.summary.wallNs = start;
  profile.summary.busyNs = profile.summary.kernelTimeNs;
}

static Finding makeFinding(std::string id, std::string text) {
  Finding finding;
  finding.evidence = evidence::Unread{std::move(id), {}};
  finding.text = std::move(text);
  return finding;
}

static std::string printText(const Profile &profile, TextOptions options = {}) {
  std::string text;
  llvm::raw_string_ostream os(text);
  report::printText(profile, os, options);
  return text;
}

static std::string printHTML(const Profile &profile) {
  std::string text;
  llvm::raw_string_ostream os(text);
  report::printHTML(profile, os);
  return text;
}

TEST(Report, GroupsModulesByTheirNumbers) {
  EXPECT_EQ(getModuleGroup("h.11.attn"), "h.*.attn");
  EXPECT_EQ(getModuleGroup("layer2.0.conv1"), "layer2.*.conv1");
  EXPECT_EQ(getModuleGroup("fc1"), "fc1");
  EXPECT_EQ(getModuleGroup(""), "");
}

TEST(Report, SumsAndRanks) {
  Profile profile;
  fill(profile, {{"small", 1000}, {"large", 5000}, {"middle", 2000}});
  Finding cheap = makeFinding("cheap", ""), costly = makeFinding("costly", ""),
          free = makeFinding("free", "");
  cheap.severityNsPerStep = 10;
  costly.severityNsPerStep = 500;
  profile.findings.push_back(std::move(free));
  profile.findings.push_back(std::move(cheap));
  profile.findings.push_back(std::move(costly));

  ReportModel model = makeReportModel(profile);
  ASSERT_EQ(model.modules.size(), 1u);
  EXPECT_EQ(model.modules[0].name, "h.*.mlp");
  EXPECT_EQ(model.modules[0].detail, "3 modules");
  EXPECT_EQ(model.modules[0].kernelTimeNs, 8000);
  EXPECT_EQ(model.perStep(8000), 4000);
  EXPECT_DOUBLE_EQ(model.share(2000), 25.0);
  ASSERT_EQ(model.nodes.size(), 3u);
  EXPECT_EQ(model.nodes[0].node->id.name, "node_1");
  EXPECT_EQ(model.nodes[0].kernel, "large");
  EXPECT_EQ(model.nodes[0].confidence, Confidence::Low);
  ASSERT_EQ(model.findings.size(), 3u);
  EXPECT_EQ(model.findings[0]->id(), "costly");
  EXPECT_EQ(model.findings[2]->id(), "free");
}

TEST(Report, CountsAKernelOfSeveralNodesOnceAndWhatHasNoNode) {
  Profile profile;
  fill(profile, {{"fused", 300}, {"eager", 200}});
  // Both nodes lie in modules that are shown as one row.
  profile.changeOrigin(profile.kernels[0],
                       [&](Origin &origin) { origin.nodes = {0, 1}; });
  profile.nodes[0].kernelTimeNs = profile.nodes[1].kernelTimeNs = 150;
  profile.nodes[1].kernels = {0};
  profile.changeOrigin(profile.kernels[1],
                       [&](Origin &origin) { origin.nodes.clear(); });
  ReportModel model = makeReportModel(profile);
  ASSERT_EQ(model.modules.size(), 2u);
  EXPECT_EQ(model.modules[0].name, "h.*.mlp");
  EXPECT_EQ(model.modules[0].kernelTimeNs, 300);
  EXPECT_EQ(model.modules[0].count, 1u);
  EXPECT_EQ(model.modules[1].name, "(no node known)");
  EXPECT_EQ(model.modules[1].kernelTimeNs, 200);
  EXPECT_EQ(model.modules[1].count, 1u);
}

TEST(Report, GroupsNodesAtTheSamePlaceOfRepeatedModules) {
  Profile profile;
  fill(profile, {{"a", 1000}, {"b", 5000}, {"c", 2000}, {"d", 100}});
  for (unsigned i : {0u, 1u, 2u}) {
    profile.nodes[i].id.name = i ? "linear_" + std::to_string(i) : "linear";
    profile.nodes[i].source = "model.py:1";
  }
  profile.nodes[3].id.name = "conv2d"; // The 2 is no number of a repetition.
  ReportModel model = makeReportModel(profile);
  ASSERT_EQ(model.nodeGroups.size(), 2u);
  EXPECT_EQ(model.nodeGroups[0].getName(), "linear_* ×3");
  EXPECT_EQ(model.nodeGroups[0].getModule(), "h.*.mlp");
  EXPECT_EQ(model.nodeGroups[0].kernelTimeNs, 8000);
  EXPECT_EQ(model.nodeGroups[0].slowest.kernel, "b");
  EXPECT_EQ(model.nodeGroups[0].confidence, Confidence::Low);
  EXPECT_EQ(model.nodeGroups[1].getName(), "conv2d");
  EXPECT_EQ(model.nodeGroups[1].getModule(), "h.3.mlp");
}

TEST(Report, CountsWhatHasNoLaunchApart) {
  Profile profile;
  fill(profile, {{"a", 1000}, {"b", 3000}});
  LaunchRecord launch;
  launch.category = launch::LaunchCategory::Pointwise;
  profile.launches.push_back(launch);
  profile.kernels[0].launch = 0;
  ReportModel model = makeReportModel(profile);
  ASSERT_EQ(model.categories.size(), 2u);
  EXPECT_EQ(model.categories[0].name, "not from the compiled graph");
  EXPECT_EQ(model.categories[1].name, "pointwise");
  EXPECT_EQ(model.categories[1].kernelTimeNs, 1000);
}

TEST(Report, ShortensNamesOfKernels) {
  EXPECT_EQ(shortKernelName("triton_poi_fused_add_0"),
            "triton_poi_fused_add_0");
  EXPECT_EQ(shortKernelName("void scal_kernel<float, 1>(float const*, int)"),
            "scal_kernel<float, 1>");
  EXPECT_EQ(
      shortKernelName(
          "void at::native::vectorized_elementwise_kernel<4, at::native::"
          "(anonymous namespace)::silu_kernel(at::TensorIteratorBase&)::"
          "{lambda()#1}::operator()() const::{lambda(float)#1}, "
          "std::array<char*, 2ul> >(int, at::native::(anonymous "
          "namespace)::silu_kernel(at::TensorIteratorBase&)::{lambda()#1})"),
      "vectorized_elementwise_kernel<4, silu_kernel>");
  for (llvm::StringRef odd : {"(", "()", "a(b", "{lambda", "::{lambda", ""})
    EXPECT_EQ(shortKernelName(odd), odd);
}

TEST(Report, WithoutAGraphKernelsAreShownByNameAndRange) {
  Profile profile;
  fill(profile, {{"void gemm(float*)", 5000}, {"relu", 1000}, {"relu", 2000}});
  profile.graph.clear();
  profile.nodes.clear();
  profile.summary.steps.reset();
  for (Activity &kernel : profile.kernels)
    profile.changeOrigin(kernel, [&](Origin &origin) { origin.nodes.clear(); });
  profile.changeOrigin(profile.kernels[0],
                       [&](Origin &origin) { origin.range = "forward"; });
  Source &source = profile.sources.emplace_back();
  source.kind = "opprof capture";
  source.file = "run/capture-r1-p4242.opcap";
  source.rank = 1;
  source.worldSize = 2;
  source.processId = 4242;
  Finding finding = makeFinding("device-busy", "text");
  finding.severityNsPerStep = 300;
  profile.findings.push_back(std::move(finding));

  ReportModel model = makeReportModel(profile);
  ASSERT_EQ(model.kernels.size(), 2u);
  EXPECT_EQ(model.kernels[0].name, "gemm");
  EXPECT_EQ(model.kernels[1].kernelTimeNs, 3000);
  EXPECT_EQ(model.kernels[1].count, 2u);
  ASSERT_EQ(model.ranges.size(), 2u);
  EXPECT_EQ(model.ranges[0].name, "forward");
  EXPECT_EQ(model.ranges[1].name, "(in no range)");
  EXPECT_EQ(model.ranges[1].count, 2u);

  std::string text = printText(profile, {120});
  EXPECT_EQ(text.find("capture-r1-p4242.opcap on NVIDIA H200, by opprof "
                      "capture, rank 1 of 2, process 4242\ncapture 8.30 µs, "),
            0u)
      << text;
  for (const char *part : {"By kernel", "By range",
                           "share, time in the capture", "cost of the capture"})
    EXPECT_NE(text.find(part), std::string::npos) << part << text;
  std::string html = printHTML(profile);
  EXPECT_NE(html.find("<h2>Timeline of the capture</h2>"), std::string::npos);
  for (const std::string &page : {text, html})
    for (const char *part : {"step", "attributed", "node", "By module"})
      EXPECT_EQ(page.find(part), std::string::npos) << part << page;

  // The command line says more than the name of a file, and may be long.
  profile.run.emplace().program = "train.py --lr " + std::string(200, '0');
  profile.run->exitStatus = 3;
  profile.run->ended = "ValueError: no more data";
  text = printText(profile, {120});
  EXPECT_EQ(text.find("train.py --lr 0"), 0u);
  EXPECT_EQ(
      llvm::sys::unicode::columnWidthUTF8(text.substr(0, text.find('\n'))),
      120);
  EXPECT_NE(text.find("the program ended with status 3"), std::string::npos);
  EXPECT_NE(text.find("the program ended while it was recorded: ValueError: no "
                      "more data"),
            std::string::npos);
}

TEST(Report, LayersOfASequentialAreToldApartByTheirKinds) {
  Profile profile;
  fill(profile, {{"a", 50}, {"b", 40}, {"c", 30}, {"d", 20}, {"e", 10}});
  const char *modules[] = {"net.0", "net.1", "net.2", "net.3", "net.4"};
  const char *names[] = {"conv2d", "relu", "conv2d_1", "relu_1", "softmax"};
  for (auto [index, node] : llvm::enumerate(profile.nodes)) {
    node.module = modules[index];
    node.id.name = names[index];
  }
  ReportModel model = makeReportModel(profile);
  ASSERT_EQ(model.modules.size(), 3u);
  EXPECT_EQ(model.modules[0].name, "net.* conv2d");
  EXPECT_EQ(model.modules[0].detail, "2 modules");
  EXPECT_EQ(model.modules[1].name, "net.* relu");
  EXPECT_EQ(model.modules[2].name, "net.4");
  // One kind of node in common makes them repeats.
  profile.nodes[1].module = "net.0";
  profile.nodes[4].module = "net.2";
  profile.nodes[4].id.name = "relu_2";
  model = makeReportModel(profile);
  EXPECT_EQ(model.modules[0].name, "net.*");
  EXPECT_EQ(model.modules[0].detail, "3 modules");
}

TEST(Report, CountsAreOfAStepAsTimesAre) {
  Profile profile;
  fill(profile, {{"gemm", 1000}, {"gemm", 1000}, {"relu", 500}});
  ReportModel model = makeReportModel(profile);
  EXPECT_EQ(model.countPerStep(2), "1");
  EXPECT_EQ(model.countPerStep(3), "1.5");
  EXPECT_EQ(model.countPerStep(0), "0");
  profile.summary.steps = 100;
  EXPECT_EQ(makeReportModel(profile).countPerStep(3), "<0.1");
  profile.summary.steps = 2;
  std::string text = printText(profile, {120});
  EXPECT_NE(text.find("1.5 kernels"), std::string::npos) << text;
  for (llvm::StringRef line : llvm::split(text, '\n'))
    EXPECT_FALSE(line.ends_with(" ")) << line.str();
}

TEST(Report, WithoutAGraphWhatRanOutsideOfStepsIsToldApart) {
  Profile profile;
  fill(profile, {{"start", 9000}, {"gemm", 1000}, {"gemm", 3000}});
  profile.graph.clear();
  profile.nodes.clear();
  for (Activity &kernel : profile.kernels)
    profile.changeOrigin(kernel, [&](Origin &origin) { origin.nodes.clear(); });
  profile.steps = {{0, 0, 1, Phase::WarmUp},
                   {1, 1, 2, Phase::Steady},
                   {2, 2, 3, Phase::Steady}};
  profile.kernels[1].step = 1;
  profile.kernels[2].step = 2;
  ReportModel model = makeReportModel(profile);
  EXPECT_EQ(model.steps, 2u);
  ASSERT_EQ(model.kernels.size(), 1u);
  EXPECT_EQ(model.kernels[0].name, "gemm");
  EXPECT_DOUBLE_EQ(model.share(model.kernels[0].kernelTimeNs), 100.0);
  std::string text = printText(profile, {120});
  EXPECT_NE(text.find("kernels 1 in 2.00 µs"), std::string::npos) << text;
  EXPECT_NE(text.find("1 kernel of 9.00 µs ran outside of the steady steps"),
            std::string::npos)
      << text;
}

TEST(Report, OfManyKernelsTheMiddleIsDrawn) {
  Profile profile;
  fill(profile, std::vector<std::pair<std::string, int64_t>>(5000, {"k", 10}));
  profile.graph.clear();
  profile.nodes.clear();
  profile.summary.steps.reset();
  for (Activity &kernel : profile.kernels)
    profile.changeOrigin(kernel, [&](Origin &origin) { origin.nodes.clear(); });
  std::string html = printHTML(profile);
  EXPECT_NE(html.find("Timeline of 4000 kernels from the middle of the trace"),
            std::string::npos);
  EXPECT_EQ(llvm::StringRef(html).count("<rect"), 4000u);
}

TEST(Report, AnEmptyProfilePrints) {
  Profile profile;
  EXPECT_NE(printText(profile).find("Findings"), std::string::npos);
  EXPECT_NE(printHTML(profile).find("</html>"), std::string::npos);
}

TEST(Report, TheTerminalPageKeepsToItsColumns) {
  Profile profile;
  fill(profile, {{std::string(300, 'k'), 1000},
                 {"µ-kernel …", 5000},
                 {"with\nnewline\x1b[31m and escape", 4000},
                 {"\xff\xfe not UTF-8", 3000}});
  profile.nodes[0].module = std::string(200, 'm');
  profile.nodes[1].source = "/very/long/" + std::string(200, 'p') + ".py:1";
  Finding finding = makeFinding(
      "gaps", "a text of many words that goes on past the end of the line "
              "and is broken there, and then cut where it would take more "
              "lines than a page of the terminal has room for, as here");
  finding.severityNsPerStep = 1234567;
  profile.findings.push_back(std::move(finding));
  profile.notes.push_back("something the reader noticed");
  for (unsigned width : {60u, 80u, 100u, 163u}) {
    std::string page = printText(profile, {width, 45, false});
    llvm::SmallVector<llvm::StringRef> lines;
    llvm::StringRef(page).split(lines, '\n');
    EXPECT_LE(lines.size(), 46u);
    for (llvm::StringRef line : lines) {
      EXPECT_EQ(line.find('\x1b'), llvm::StringRef::npos);
      int columns = llvm::sys::unicode::columnWidthUTF8(line);
      // Text that is not UTF-8 has no width.
      EXPECT_LE(columns, int(width)) << line.str();
    }
  }
}

TEST(Report, TheNarrowestPageHasEveryColumnThatFits) {
  Profile profile;
  fill(profile, {{"a", 60'000}, {"b", 30'000}});
  // A graph's nodes stand for the operators.
  profile.graph.clear();
  profile.nodes.clear();
  for (Activity &kernel : profile.kernels)
    profile.changeOrigin(kernel, [&](Origin &origin) { origin.nodes.clear(); });
  OperatorTime op;
  op.name = "aten::convolution";
  op.inputDims = "[[16, 128, 32, 32], [256, 128, 3, 3]]";
  op.calls = op.kernels = 2;
  op.kernelTimeNs = 90'000;
  op.flops = op.bytesRead = op.bytesWritten = 1'000'000;
  profile.operators.push_back(op);
  profile.summary.wallNs = 200'000;
  profile.summary.busyNs = 90'000;
  Finding talk;
  talk.evidence = evidence::Communication{};
  profile.findings.push_back(talk);
  for (unsigned width : {1u, 40u, 60u, 71u, 72u}) {
    TextOptions options;
    options.width = width;
    std::string text = printText(profile, options);
    EXPECT_NE(text.find("aten::convolution"), std::string::npos) << text;
    EXPECT_EQ(text.find("FLOP/s") != std::string::npos, width == 72) << text;
    llvm::raw_string_ostream os(text);
    report::printComparison({&profile, &profile}, os, options);
    EXPECT_EQ(text.find("collectives") != std::string::npos, width == 72);
    llvm::SmallVector<llvm::StringRef> lines;
    llvm::StringRef(text).split(lines, '\n');
    for (llvm::StringRef line : lines)
      EXPECT_LE(llvm::sys::unicode::columnWidthUTF8(line),
                int(std::max(width, 40u)))
          << line.str();
  }
}

TEST(Report, SizesOfListsAreClosed) {
  Profile profile;
  fill(profile, {{"a", 60'000}});
  profile.graph.clear();
  profile.nodes.clear();
  profile.changeOrigin(profile.kernels.front(),
                       [&](Origin &origin) { origin.nodes.clear(); });
  OperatorTime op;
  op.name = "aten::cat";
  op.calls = op.kernels = 1;
  op.kernelTimeNs = 60'000;
  auto shown = [&](llvm::StringRef dims) {
    op.inputDims = dims.str();
    profile.operators = {op};
    std::string text = printText(profile, {80, 40, false});
    llvm::StringRef row(text);
    row = row.substr(row.find("aten::cat"));
    return row.take_until([](char c) { return c == '\n'; })
        .split("  ")
        .first.str();
  };
  EXPECT_EQ(shown("[[[8, 8], [8]], [], [4]]"), "aten::cat [[8, 8], [8]] [4]");
  EXPECT_EQ(shown("[[[1000, 1000], [2000, 1000], [3000, 1000]], []]"),
            "aten::cat [[1000, 1000], …]");
  EXPECT_EQ(shown("[[], [[1000, 1000, 1000, 1000, 1000, 1000, 1000]]]"),
            "aten::cat …");
  EXPECT_EQ(shown("[[8], [[8, 8"), "aten::cat [8]");
  EXPECT_EQ(shown("[[[8],]]"), "aten::cat [[8],]");
}

TEST(Report, ManyRowsFitTheScreen) {
  Profile profile;
  std::vector<std::pair<std::string, int64_t>> kernels;
  for (int i = 0; i < 500; ++i)
    kernels.push_back({"kernel_" + std::to_string(i), 1000 + i});
  fill(profile, kernels);
  for (int i = 0; i < 500; ++i)
    profile.nodes[i].module = "unique_" + std::to_string(i);
  for (int i = 0; i < 30; ++i) {
    profile.findings.push_back(
        makeFinding("finding-" + std::to_string(i), "text"));
  }
  std::string page = printText(profile, {100, 40, false});
  EXPECT_LE(llvm::StringRef(page).count('\n'), 44u);
  EXPECT_NE(page.find("more"), std::string::npos);
}

TEST(Report, ColorsOnlyWhenAsked) {
  Profile profile;
  fill(profile, {{"a", 1000}});
  EXPECT_EQ(printText(profile).find('\x1b'), std::string::npos);
  EXPECT_NE(printText(profile, {100, 45, true}).find('\x1b'),
            std::string::npos);
}

TEST(Report, HTMLShowsNamesAsText) {
  Profile profile;
  fill(profile, {{"<script>alert('k')</script>", 1000}});
  profile.graph = "</title><script>alert(1)</script>";
  profile.nodes[0].id.name = "<img src=x onerror=alert(2)>";
  profile.nodes[0].module = "\"><b>";
  Finding finding = makeFinding("<i>", "</div><script>");
  std::get<evidence::Unread>(finding.evidence).object["<key>"] =
      "</code><script>";
  finding.nodes = {0, 77};
  profile.findings.push_back(std::move(finding));
  profile.notes.push_back("<script>");
  std::string page = printHTML(profile);
  // The page's own is the only one.
  EXPECT_EQ(llvm::StringRef(page).count("<script"), 1u);
  EXPECT_NE(page.find("<script>\nconst units"), std::string::npos);
  EXPECT_EQ(page.find("<img"), std::string::npos);
  EXPECT_EQ(page.find("http"), std::string::npos) << "needs the network";
  EXPECT_NE(page.find("&lt;script&gt;alert(&#39;k&#39;)"), std::string::npos);
}

/// Counters of every kernel but the last; those of the second are the first's.
static void addCounters(Profile &profile) {
  CounterRow &row = profile.counters.emplace_back();
  row.values = {{"sm_throughput_pct", 61.2},
                {"memory_throughput_pct", 4.25},
                {"registers", 128}};
  for (size_t i = 0; i + 1 < profile.kernels.size(); ++i) {
    profile.kernels[i].counters = 0;
    profile.nodes[i].metrics = row.values;
  }
  profile.changeOrigin(profile.kernels[1], [&](Origin &origin) {
    origin.countersFrom = "launch 3 of <graph>";
  });
  profile.nodes[1].inferredFrom = {.node = profile.nodes[0].id, .launch = ""};
}

TEST(Report, ShowsCountersAndWhoseTheyAre) {
  Profile profile;
  fill(profile, {{"a", 60'000}, {"b", 30'000}, {"c", 10'000}});
  EXPECT_EQ(printText(profile).find("occ"), std::string::npos);
  addCounters(profile);
  TextOptions wide;
  wide.width = 120;
  std::string text = printText(profile, wide);
  EXPECT_NE(text.find("SM  mem regs"), std::string::npos) << text;
  // 61.2 and 4.25 % of the peaks; the second node's are inferred.
  EXPECT_NE(text.find("   61  4.2  128"), std::string::npos) << text;
  EXPECT_NE(text.find("128* node_1"), std::string::npos) << text;
  EXPECT_NE(text.find("counters of 90.0 % of kernel time, 33.3 % of it"),
            std::string::npos)
      << text;
  std::string page = printHTML(profile);
  EXPECT_NE(page.find("<th class=\"num\">SM %</th>"), std::string::npos);
  EXPECT_NE(page.find("title=\"of launch 3 of &lt;graph&gt;\"><i>61*</i>"),
            std::string::npos);
}

TEST(Report, CountersKeepToTheColumns) {
  Profile profile;
  fill(profile, {{std::string(300, 'k'), 60'000}, {"b", 30'000}, {"c", 1}});
  addCounters(profile);
  for (unsigned width : {60u, 80u, 100u, 120u, 200u}) {
    TextOptions options;
    options.width = width;
    std::string text = printText(profile, options);
    llvm::SmallVector<llvm::StringRef> lines;
    llvm::StringRef(text).split(lines, '\n');
    for (llvm::StringRef line : lines)
      EXPECT_LE(llvm::sys::unicode::columnWidthUTF8(line), int(width))
          << line.str();
  }
}

TEST(Report, SaysHowMuchRecordingCost) {
  Profile profile;
  fill(profile, {{"kernel", 99'900}});
  RunFacts &run = profile.run.emplace();
  // Two steps of 50 µs each were traced.
  run.stepNs = 40'000;
  std::string text = printText(profile, {200});
  EXPECT_NE(text.find("a step takes 40.0 µs; recording made it 25 % longer"),
            std::string::npos)
      << text;
  // Steps that follow one another are what the recorded ones are held against.
  run.loopNs = 20'000;
  text = printText(profile, {200});
  EXPECT_NE(text.find("a step takes 40.0 µs, 20.0 µs where steps follow one "
                      "another; recording made it 150 % longer"),
            std::string::npos)
      << text;
  run.loopNs = 49'000;
  EXPECT_EQ(printText(profile).find("recording made"), std::string::npos);
}

TEST(Report, SaysHowTheProgramRan) {
  Profile profile;
  fill(profile, {{"a", 60'000}});
  profile.sources.push_back({});
  profile.sources.back().kind = "opprof capture";
  RunFacts &run = profile.run.emplace();
  run.mode = "inductor";
  run.stepNs = 50'000;
  run.eagerStepNs = 100'000;
  run.countersLeftOut = "no permission";
  run.peakBytes = 2'000'000;
  run.peakReservedBytes = 3'000'000;
  profile.memory.push_back({});
  profile.memory.back().peakBytes = 1'500'000'000;
  profile.changeOrigin(profile.kernels[0], [&](Origin &origin) {
    origin.range = "layer::unique::h.0";
  });
  profile.overheads.push_back({"flush", 0, 1000});
  std::string text = printText(profile);
  EXPECT_NE(text.find("inductor, by opprof capture"), std::string::npos);
  EXPECT_NE(text.find("a step takes 50.0 µs, uncompiled 100 µs (×2.00)"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("no counters: no permission"), std::string::npos);
  EXPECT_NE(text.find("at most 1.50 GB"), std::string::npos) << text;
  EXPECT_NE(text.find("1 of 1 kernels lie in ranges"), std::string::npos);
  EXPECT_NE(text.find("1.00 µs of the host's time"), std::string::npos);
  EXPECT_NE(text.find("tensors held at most 2.00 MB of 3.00 MB"),
            std::string::npos)
      << text;
  EXPECT_NE(printHTML(profile).find("1.50 GB"), std::string::npos);
}

TEST(Report, GivesProgramsWithoutPyTorchAdviceOfTheirOwn) {
  Profile profile;
  profile.devices.emplace_back().kind = "cuda";
  Activity &kernel = profile.kernels.emplace_back();
  kernel.name = "step(float*, int)";
  kernel.durationNs = 1'000;
  Finding small, copies;
  small.evidence = evidence::SmallKernels{};
  copies.evidence = evidence::HostCopies{};
  auto hasWord = [&](const Finding &finding, llvm::StringRef word) {
    return llvm::StringRef(adviseOn(finding, profile)).contains(word);
  };
  EXPECT_TRUE(hasWord(small, "cudaGraphLaunch"));
  EXPECT_FALSE(hasWord(small, "torch"));
  EXPECT_TRUE(hasWord(copies, "cudaMallocHost"));
  // One kernel of PyTorch's says what the program is.
  profile.kernels.emplace_back().name =
      "void at::native::vectorized_elementwise_kernel<4>()";
  EXPECT_TRUE(hasWord(small, "torch.compile"));
  EXPECT_TRUE(hasWord(copies, "pin_memory"));
}

TEST(Report, OpensWithWhatPaysMostAndWhatToDo) {
  Profile profile;
  fill(profile, {{"a", 60'000}, {"b", 40'000}});
  profile.summary.wallNs = 200'000; // 100 µs a step.
  profile.nodes[0].source = "/x/site-packages/transformers/utils.py:9";
  profile.nodes[0].stack = {"/home/user/train.py:3",
                            "/x/site-packages/transformers/utils.py:9"};
  Finding &small = profile.findings.emplace_back();
  small.evidence = evidence::SmallKernels{};
  small.severityNsPerStep = 20'000;
  small.nodes = {0};
  Finding &moves = profile.findings.emplace_back();
  moves.evidence = evidence::Synchronizations{};
  moves.severityNsPerStep = 50'000;
  // Nothing is left of a step, or next to nothing is gained.
  profile.findings.push_back(makeFinding("later", "text"));
  profile.findings.back().severityNsPerStep = 10'000;
  Finding &copies = profile.findings.emplace_back();
  copies.evidence = evidence::BiasCopies{};
  copies.severityNsPerStep = 100;

  ReportModel model = makeReportModel(profile);
  ASSERT_EQ(model.payoffs.size(), 2u);
  EXPECT_EQ(model.payoffs[0].finding->id(), "synchronization");
  EXPECT_EQ(model.payoffs[0].leavesNs, 50'000);
  EXPECT_DOUBLE_EQ(model.payoffs[0].times, 2);
  EXPECT_EQ(model.payoffs[1].leavesNs, 80'000);
  // Idle time is said by what knows its cause and line, where that is most.
  profile.findings.emplace_back().evidence = evidence::DeviceBusy{};
  profile.findings.back().severityNsPerStep = 60'000;
  profile.findings.emplace_back().evidence = evidence::DataLoadingWaits{};
  profile.findings.back().severityNsPerStep = 20'000;
  EXPECT_EQ(makeReportModel(profile).payoffs[0].finding->id(), "device-busy");
  profile.findings.back().severityNsPerStep = 55'000;
  ReportModel explained = makeReportModel(profile);
  EXPECT_EQ(explained.payoffs[0].finding->id(), "data-loading-waits");
  EXPECT_EQ(explained.payoffs[1].finding->id(), "synchronization");
  // So it is by several that are most of it together.
  profile.findings.back().severityNsPerStep = 20'000;
  profile.findings.emplace_back().evidence = evidence::CheckpointWriting{};
  profile.findings.back().severityNsPerStep = 15'000;
  EXPECT_EQ(makeReportModel(profile).payoffs[0].finding->id(),
            "synchronization");
  profile.findings.resize(profile.findings.size() - 3);

  std::string advice = adviseOn(profile.findings[0], profile);
  EXPECT_NE(advice.find("Begin at /home/user/train.py:3."), std::string::npos)
      << advice;
  EXPECT_NE(advice.find("`opprof recommend`"), std::string::npos) << advice;
  // Where it was asked, its answer is quoted: best first, and of rules that
  // answer such a finding.
  profile.offers.emplace();
  EXPECT_NE(
      adviseOn(profile.findings[0], profile)
          .find("`opprof recommend` has no rewrite of this graph for it."),
      std::string::npos);
  profile.offers = {{"float16", "01-float16.mlir", "Halves", 90'000, {}, ""},
                    {"cuda-graph", "02-cuda-graph.mlir", "One CUDA graph",
                     40'000, std::nullopt, ""}};
  advice = adviseOn(profile.findings[0], profile);
  EXPECT_TRUE(llvm::StringRef(advice).ends_with(
      "Of `opprof recommend`: One CUDA graph (02-cuda-graph.mlir) is predicted "
      "to save 40.0 µs of a step."))
      << advice;
  profile.offers->back().measuredNs = 35'000;
  profile.offers->back().end = "kept";
  advice = adviseOn(profile.findings[0], profile);
  EXPECT_TRUE(llvm::StringRef(advice).ends_with(
      "is predicted to save 40.0 µs of a step, and was measured to save 35.0 "
      "µs (kept)."))
      << advice;
  profile.offers->back().measuredNs = -2'000;
  profile.offers->back().end = "not faster";
  EXPECT_TRUE(llvm::StringRef(adviseOn(profile.findings[0], profile))
                  .ends_with("and was measured to cost 2.00 µs (not faster)."));
  // Of what a search made nothing need be predicted.
  profile.offers->back().savesNs = 0;
  EXPECT_TRUE(llvm::StringRef(adviseOn(profile.findings[0], profile))
                  .ends_with("(02-cuda-graph.mlir) was measured to cost 2.00 "
                             "µs of a step (not faster)."));
  profile.offers.reset();
  // Of a library's line the module says more.
  profile.nodes[0].stack.clear();
  EXPECT_NE(adviseOn(profile.findings[0], profile).find("Begin at h.0.mlp."),
            std::string::npos);
  profile.devices[0].kind = "cpu";
  profile.devices[0].busyNs = 1;
  EXPECT_EQ(adviseOn(profile.findings[0], profile).find("CUDA"),
            std::string::npos);
  EXPECT_EQ(adviseOn(makeFinding("later", "text"), profile), "");

  Finding near;
  evidence::Roofline roofline;
  roofline.roofNs = 90'000;
  roofline.aboveRoofNs = 10'000;
  near.evidence = roofline;
  EXPECT_EQ(adviseOn(near, profile),
            "Nothing: these kernels reach 90.0 % of what the device allows.");

  std::string text = printText(profile, {72});
  EXPECT_LT(text.find("What pays most"), text.find("Kernel time by kind"));
  EXPECT_NE(text.find("leaves 50.0 µs (×2.00)"), std::string::npos) << text;
}

TEST(Report, EqualDevicesAreCounted) {
  Profile profile;
  fill(profile, {{"a", 1000}});
  profile.devices.push_back(profile.devices.front());
  EXPECT_EQ(makeReportModel(profile).deviceName, "2 × NVIDIA H200");
}
