// Verify that the tool says why two partitions that look alike are not the same.

// RUN: opprof-opt %s --explain-difference=partitions=@first,@second -o /dev/null 2>&1 | FileCheck %s --check-prefix=CONSTANT
// RUN: opprof-opt %s --explain-difference=partitions=a,b -o /dev/null 2>&1 | FileCheck %s --check-prefix=EDGE
// RUN: opprof-opt %s --explain-difference=partitions=a,c -o /dev/null 2>&1 | FileCheck %s --check-prefix=SAME
// RUN: not opprof-opt %s --explain-difference=partitions=a,nowhere -o /dev/null 2>&1 | FileCheck %s --check-prefix=NOWHERE
// RUN: not opprof-opt %s --explain-difference=partitions=a -o /dev/null 2>&1 | FileCheck %s --check-prefix=ONE

// CONSTANT: remark: {{.*}}they differ in constant at node 0, softmax (aten.softmax.int) and softmax (aten.softmax.int): 0 in the first, -1 in the second
// CONSTANT: note: {{.*}}the other one is here
// EDGE: m.py:4:0: remark: they differ in edge at node 1, add (aten.add.Tensor) and add_1 (aten.add.Tensor): input 0 in the first, the result of node 0, neg_1 (aten.neg.default) in the second
// EDGE: m.py:6:0: note: the other one is here
// SAME: m.py:3:0: remark: a and c are the same: 2 nodes
// SAME: m.py:3:0: note: the other one is here
// NOWHERE-NOT: fx.node
// NOWHERE: error: 'nowhere' is no module path, no partition's label and no graph
// NOWHERE-NOT: fx.node
// ONE: error: --explain-difference takes the names of two partitions
fx.graph @first(%x: tensor<4xf32>) -> tensor<4xf32> {
  %softmax = fx.node "aten.softmax.int"(%x, 0) : (tensor<4xf32>) -> tensor<4xf32> loc("softmax")
  fx.output(%softmax) : (tensor<4xf32>)
}
fx.graph @second(%x: tensor<4xf32>) -> tensor<4xf32> {
  %softmax = fx.node "aten.softmax.int"(%x, -1) : (tensor<4xf32>) -> tensor<4xf32> loc("softmax")
  fx.output(%softmax) : (tensor<4xf32>)
}
fx.graph @model(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %neg = fx.node "aten.neg.default"(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("neg"(fused<{modules = [["a", "A"]]}>["m.py":3:0]))
  %add = fx.node "aten.add.Tensor"(%x, %neg) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("add"(fused<{modules = [["a", "A"]]}>["m.py":4:0]))
  %neg_1 = fx.node "aten.neg.default"(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("neg_1"(fused<{modules = [["b", "A"]]}>["m.py":5:0]))
  %add_1 = fx.node "aten.add.Tensor"(%neg_1, %neg_1) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("add_1"(fused<{modules = [["b", "A"]]}>["m.py":6:0]))
  %neg_2 = fx.node "aten.neg.default"(%add) : (tensor<4xf32>) -> tensor<4xf32> loc("neg_2"(fused<{modules = [["c", "A"]]}>["m.py":3:0]))
  %add_2 = fx.node "aten.add.Tensor"(%add, %neg_2) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("add_2"(fused<{modules = [["c", "A"]]}>["m.py":4:0]))
  fx.output(%add, %add_1, %add_2) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
}
