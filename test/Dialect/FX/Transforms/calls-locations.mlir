// Where the nodes of a call are: in the location that outlining gives it, and in the one that it gave before.

// RUN: rm -rf %t && split-file %s %t
// RUN: opprof-opt %t/nodes.mlir --dedup-partitions=min-nodes=2 -mlir-print-debuginfo -o %t/outlined.mlir 2> %t/remarks
// RUN: opprof-opt %t/outlined.mlir -mlir-print-debuginfo -mlir-print-local-scope | FileCheck %s
// RUN: opprof-translate --emit-python %t/outlined.mlir | FileCheck %s --check-prefix=PYTHON
// RUN: opprof-opt %t/outlined.mlir --inline-partitions -mlir-print-debuginfo -mlir-print-local-scope | FileCheck %s --check-prefix=INLINED
// RUN: opprof-opt %t/earlier.mlir --inline-partitions -mlir-print-debuginfo -mlir-print-local-scope | FileCheck %s --check-prefix=INLINED

// CHECK: prof.partition<"l.0", unique>
// CHECK-SAME: loc(fused<[loc("a"({{.*}}), loc("b"({{.*}})]>["m.py":1:0])
// CHECK: prof.partition<"l.1", duplicate>
// CHECK-SAME: loc(fused<[loc("a1"({{.*}}), loc("b1"({{.*}})]>["m.py":3:0])
// PYTHON: # l.0 (unique)  m.py:1
// PYTHON-NEXT: (l_0,) = L(
// PYTHON-NEXT: # l.1 (duplicate)  m.py:3
// PYTHON-NEXT: (l_1,) = L(l_0)
// INLINED: %a = {{.*}} loc("a"(fused<{modules = {{\[\[}}"l.0", "L"{{\]\]}}}>["m.py":1:0]))
// INLINED-NEXT: %b = {{.*}} loc("b"(fused<{modules = {{\[\[}}"l.0", "L"{{\]\]}}}>["m.py":2:0]))
// INLINED-NEXT: %a1 = {{.*}} loc("a1"(fused<{modules = {{\[\[}}"l.1", "L"{{\]\]}}}>["m.py":3:0]))
// INLINED-NEXT: %b1 = {{.*}} loc("b1"(fused<{modules = {{\[\[}}"l.1", "L"{{\]\]}}}>["m.py":4:0]))

//--- nodes.mlir
fx.graph @g(%x: tensor<4xf32>) -> tensor<4xf32> attributes {functional} {
  %a = fx.node "aten.relu.default"(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("a"(fused<{modules = [["l.0", "L"]]}>["m.py":1:0]))
  %b = fx.node "aten.exp.default"(%a) : (tensor<4xf32>) -> tensor<4xf32> loc("b"(fused<{modules = [["l.0", "L"]]}>["m.py":2:0]))
  %a1 = fx.node "aten.relu.default"(%b) : (tensor<4xf32>) -> tensor<4xf32> loc("a1"(fused<{modules = [["l.1", "L"]]}>["m.py":3:0]))
  %b1 = fx.node "aten.exp.default"(%a1) : (tensor<4xf32>) -> tensor<4xf32> loc("b1"(fused<{modules = [["l.1", "L"]]}>["m.py":4:0]))
  fx.output(%b1) : (tensor<4xf32>)
}

//--- earlier.mlir
#a = loc("a"(fused<{modules = [["l.0", "L"]]}>["m.py":1:0]))
#b = loc("b"(fused<{modules = [["l.0", "L"]]}>["m.py":2:0]))
#a1 = loc("a1"(fused<{modules = [["l.1", "L"]]}>["m.py":3:0]))
#b1 = loc("b1"(fused<{modules = [["l.1", "L"]]}>["m.py":4:0]))
fx.graph @g(%x: tensor<4xf32>) -> tensor<4xf32> attributes {functional} {
  %0 = fx.call @L(%x) {prof.partition = #prof.partition<"l.0", unique>} : (tensor<4xf32>) -> tensor<4xf32> loc("l.0"(fused<{instance = [#a, #b]}>["m.py":1:0]))
  %1 = fx.call @L(%0) {prof.partition = #prof.partition<"l.1", duplicate>} : (tensor<4xf32>) -> tensor<4xf32> loc("l.1"(fused<{instance = [#a1, #b1]}>["m.py":3:0]))
  fx.output(%1) : (tensor<4xf32>)
}
fx.graph private @L(%x: tensor<4xf32>) -> tensor<4xf32> attributes {functional} {
  %a = fx.node "aten.relu.default"(%x) : (tensor<4xf32>) -> tensor<4xf32> loc(fused[#a, #a1])
  %b = fx.node "aten.exp.default"(%a) : (tensor<4xf32>) -> tensor<4xf32> loc(fused[#b, #b1])
  fx.output(%b) : (tensor<4xf32>)
}
