// Tests of whether code was compiled from a graph.

#include "../../lib/Driver/Belonging.h"

#include "gtest/gtest.h"

using namespace opprof;

TEST(Belonging, ANodeIsTiedWhereOneOfItsLaunchesSaysSo) {
  launch::LaunchMap map;
  map.launches.resize(2);
  launch::LaunchNode node;
  node.name = "add";
  map.launches[0].nodes = {node};
  EXPECT_EQ(driver::findBelonging({}, map, {}).tiedNodes, 0u);
  // Computed again, and tied there.
  node.from.emplace_back();
  node.fromConfidence = Confidence::High;
  map.launches[1].nodes = {node};
  driver::Belonging found = driver::findBelonging({}, map, {});
  EXPECT_EQ(found.nodes, 1u);
  EXPECT_EQ(found.tiedNodes, 1u);
  // By its name alone it is not.
  map.launches[1].nodes[0].fromConfidence = Confidence::Low;
  EXPECT_EQ(driver::findBelonging({}, map, {}).tiedNodes, 0u);
}
