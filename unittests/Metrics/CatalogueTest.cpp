// Tests of the catalogue of counters.

#include "opprof/Metrics/Catalogue.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"
#include "gtest/gtest.h"

using namespace opprof;
using namespace opprof::metrics;

namespace {

const DeviceFacts kDevice = {.smCount = 2, .warpsPerSM = 64};

/// Counters of a launch: all but those of DRAM's bytes.
RawCounters someCounters() {
  return {
      {"gpu__time_duration.sum", 1000},
      {"sm__cycles_elapsed.max", 500},
      {"sm__cycles_active.sum", 800},
      {"sm__warps_active.sum", 25600},
      {"smsp__issue_active.sum", 1600},
      {"smsp__inst_executed.sum", 1600},
      {"smsp__thread_inst_executed.sum", 51200},
      {"sm__pipe_tensor_cycles_active.sum", 1600},
      {"l1tex__t_sectors.sum", 10},
      {"l1tex__t_sectors_lookup_hit.sum", 4},
      {"lts__t_tag_requests.sum", 0},
      {"lts__t_tag_requests_hit.sum", 0},
      {"dram__bytes.avg.pct_of_peak_sustained_elapsed", 10},
      {"lts__t_sectors.avg.pct_of_peak_sustained_elapsed", 20},
      {"l1tex__t_sectors.avg.pct_of_peak_sustained_elapsed", 5},
  };
}

std::vector<std::string> resolved(llvm::StringRef names) {
  auto counters = resolve(names);
  if (counters)
    return *counters;
  ADD_FAILURE() << llvm::toString(counters.takeError());
  return {};
}

std::string errorOf(llvm::StringRef names) {
  auto counters = resolve(names);
  return counters ? "" : llvm::toString(counters.takeError());
}

TEST(Catalogue, NamesAreThereOnce) {
  llvm::StringSet<> names;
  for (const Metric &metric : getMetrics()) {
    EXPECT_TRUE(names.insert(metric.name).second) << metric.name.str();
    EXPECT_EQ(findMetric(metric.name), &metric);
  }
  EXPECT_FALSE(findMetric("no_such_value"));
}

TEST(Catalogue, SetsAndNamesAreResolvedInOrderAndOnce) {
  std::vector<std::string> base = resolved("default");
  std::vector<std::string> counters =
      resolved("roofline, dram__cycles_active.sum,default");
  ASSERT_GT(counters.size(), base.size());
  EXPECT_TRUE(std::equal(base.begin(), base.end(), counters.begin()));
  EXPECT_EQ(counters.back(), "dram__cycles_active.sum");
  EXPECT_FALSE(llvm::is_contained(base, kLocalMemory));
  EXPECT_TRUE(llvm::is_contained(resolved("memory"), kLocalMemory));
  llvm::StringSet<> once;
  for (const std::string &counter : counters)
    EXPECT_TRUE(once.insert(counter).second) << counter;
}

TEST(Catalogue, LocalMemoryIsCountedBesideTheDefaultSetAlone) {
  EXPECT_EQ(getLocalMemoryCounters(resolved("default")),
            std::vector<std::string>{kLocalMemory.str()});
  EXPECT_TRUE(getLocalMemoryCounters(resolved("roofline")).empty());
  EXPECT_TRUE(getLocalMemoryCounters(resolved("dram__bytes.sum")).empty());
}

TEST(Catalogue, TheClockIsOfTheRange) {
  EXPECT_EQ(getSmClockMHz(someCounters()), 500.0);
  RawCounters counters = someCounters();
  counters["sm__cycles_elapsed.max"] = 0;
  EXPECT_FALSE(getSmClockMHz(counters));
  counters["sm__cycles_elapsed.max"] = 500;
  counters["gpu__time_duration.sum"] = 0;
  EXPECT_FALSE(getSmClockMHz(counters));
  counters.erase("gpu__time_duration.sum");
  EXPECT_FALSE(getSmClockMHz(counters));
}

TEST(Catalogue, UnknownNamesSayWhatIsNear) {
  std::string error = errorOf("rooflin");
  EXPECT_NE(error.find("'rooflin' is neither a set of metrics nor a metric of "
                       "CUPTI; near names: roofline"),
            std::string::npos)
      << error;
  EXPECT_NE(error.find("sets: default, roofline, memory, stalls, pipes"),
            std::string::npos);
  EXPECT_EQ(errorOf(" , ").find("no metric is named"), 0u);
}

TEST(Catalogue, ValuesOfALaunch) {
  LaunchFacts launch;
  launch.registers = 32;
  launch.localBytes = 0;
  CounterRow row = derive(someCounters(), kDevice, launch);
  EXPECT_DOUBLE_EQ(row.values.at("achieved_occupancy_pct"), 50);
  EXPECT_DOUBLE_EQ(row.values.at("ipc"), 2);
  EXPECT_DOUBLE_EQ(row.values.at("issue_active_pct"), 50);
  EXPECT_DOUBLE_EQ(row.values.at("threads_per_warp"), 32);
  EXPECT_DOUBLE_EQ(row.values.at("tensor_pipe_pct"), 50);
  EXPECT_DOUBLE_EQ(row.values.at("sm_throughput_pct"), 40);
  EXPECT_DOUBLE_EQ(row.values.at("memory_throughput_pct"), 20);
  EXPECT_DOUBLE_EQ(row.values.at("l2_throughput_pct"), 20);
  EXPECT_DOUBLE_EQ(row.values.at("l1_hit_pct"), 40);
  EXPECT_DOUBLE_EQ(row.values.at("registers"), 32);
  EXPECT_DOUBLE_EQ(row.values.at("local_memory_wavefronts"), 0);
  EXPECT_EQ(row.absent.at("l2_hit_pct"),
            "nothing was done that it could be a share of");
  EXPECT_EQ(row.absent.at("dram_read_bytes"),
            "dram__bytes_read.sum was not collected");
  EXPECT_EQ(row.absent.at("dynamic_shared_bytes"),
            "the launch is not in the timeline");
  // Every value of a launch is there, or says why not.
  for (const Metric &metric : getMetrics())
    EXPECT_EQ(row.values.count(metric.name.str()) +
                  row.absent.count(metric.name.str()),
              metric.scope == Scope::Step ? 0u : 1u)
        << metric.name.str();
}

TEST(Catalogue, ARangeLongerThanItsKernelIsPutOnTheKernelsTime) {
  LaunchFacts launch;
  launch.durationNs = 500;
  CounterRow row = derive(someCounters(), kDevice, launch);
  EXPECT_DOUBLE_EQ(row.values.at("time_ns"), 500);
  EXPECT_DOUBLE_EQ(row.values.at("dram_throughput_pct"), 20);
  EXPECT_DOUBLE_EQ(row.values.at("l2_throughput_pct"), 40);
  EXPECT_DOUBLE_EQ(row.values.at("sm_throughput_pct"), 80);
  EXPECT_DOUBLE_EQ(row.values.at("ipc"), 2);
  // A range is never shorter than what ran in it.
  launch.durationNs = 2000;
  EXPECT_DOUBLE_EQ(derive(someCounters(), kDevice, launch).values.at("time_ns"),
                   1000);
}

TEST(Catalogue, ValuesOfAStep) {
  CounterRow row = deriveStep(someCounters(), kDevice, std::nullopt);
  EXPECT_DOUBLE_EQ(row.values.at("sm_active_pct"), 80);
  EXPECT_FALSE(row.values.count("registers") || row.absent.count("registers"));
  EXPECT_EQ(row.absent.at("local_memory_wavefronts"),
            kLocalMemory.str() + " was not collected");
  RawCounters none;
  EXPECT_EQ(deriveStep(none, kDevice, 0).absent.at("sm_active_pct"),
            "sm__cycles_active.sum, sm__cycles_elapsed.max was not collected");
}

TEST(Catalogue, SumsOverKernels) {
  EXPECT_EQ(sumOf("dram_read_bytes"), Sum::Amount);
  EXPECT_EQ(sumOf("registers"), Sum::Limit);
  EXPECT_EQ(sumOf("ipc"), Sum::Rate);
  // Raw counters say it in their names, as CUPTI gives them.
  EXPECT_EQ(sumOf("lts__t_bytes.sum"), Sum::Amount);
  EXPECT_EQ(sumOf("sm__cycles_elapsed.max"), Sum::Limit);
  EXPECT_EQ(sumOf("x__y.ratio"), Sum::Rate);
  EXPECT_EQ(sumOf("my.sum"), Sum::Rate);
}

TEST(Catalogue, WhatOtherToolsCollectStandsIn) {
  RawCounters raw = {
      {"gpu__time_duration.avg", 1000},
      {"sm__cycles_active.avg", 400},
      {"smsp__issue_active.avg.per_cycle_active", 0.5},
      {"sm__throughput.avg.pct_of_peak_sustained_elapsed", 30},
      {"gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed", 70},
      {"smsp__inst_executed.avg.per_cycle_active", 0.25},
  };
  CounterRow row = derive(raw, kDevice, {});
  EXPECT_EQ(row.values["time_ns"], 1000);
  EXPECT_EQ(row.values["active_cycles"], 800);
  EXPECT_EQ(row.values["issue_active_pct"], 50);
  EXPECT_EQ(row.values["sm_throughput_pct"], 30);
  EXPECT_EQ(row.values["memory_throughput_pct"], 70);
  EXPECT_EQ(row.values["ipc"], 1);
  EXPECT_TRUE(row.absent.contains("l2_hit_pct"));
  // What the formula gives comes first.
  raw["sm__cycles_active.sum"] = 900;
  EXPECT_EQ(derive(raw, kDevice, {}).values["active_cycles"], 900);
  // A mean of unknown many is no sum.
  raw.erase("sm__cycles_active.sum");
  EXPECT_FALSE(derive(raw, {}, {}).values.contains("active_cycles"));
}

TEST(Catalogue, FindingsReadCountersOfSetsByName) {
  EXPECT_TRUE(isFindingCounter("l1tex__data_bank_conflicts_pipe_lsu.sum"));
  EXPECT_FALSE(isFindingCounter("gpu__time_duration.sum"));
  EXPECT_FALSE(isFindingCounter("sm__anything.sum"));
}

} // namespace
