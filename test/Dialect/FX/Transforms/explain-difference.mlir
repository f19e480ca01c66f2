// Verify that the tool says why two partitions that look alike are not the same.

// RUN: opprof-opt %s --explain-difference=partitions=@first,@second -o /dev/null 2>&1 | FileCheck %s --check-prefix=CONSTANT
// RUN: opprof-opt %s --explain-difference=partitions=a,b -o /dev/null 2>&1 | FileCheck %s --check-prefix=EDGE
// RUN: opprof-opt %s --explain-difference=partitions=a,c -o /dev/null 2>&1 | FileCheck %s --check-prefix=SAME
// RUN: opprof-opt %s --explain-difference=partitions=@many,@others -o /dev/null 2>&1 | FileCheck %s --check-prefix=ALL
// RUN: opprof-opt %s --dedup-partitions="min-nodes=2 partition-map=%t.json" -o /dev/null
// RUN: opprof-opt %s --explain-difference="partitions=c0,c1 partition-map=%t.json" -o /dev/null 2>&1 | FileCheck %s --check-prefix=CLASS
// RUN: opprof-opt %s --dedup-partitions=min-nodes=2 --explain-difference="partitions=c0,c1 partition-map=%t.json" -o /dev/null 2>&1 | FileCheck %s --check-prefix=CLASS
// RUN: not opprof-opt %s --explain-difference="partitions=c0,c9 partition-map=%t.json" -o /dev/null 2>&1 | FileCheck %s --check-prefix=NOCLASS
// RUN: not opprof-opt %s --explain-difference="partitions=c0,c1 partition-map=%t.none" -o /dev/null 2>&1 | FileCheck %s --check-prefix=NOMAP
// RUN: not opprof-opt %s --explain-difference=partitions=a,nowhere -o /dev/null 2>&1 | FileCheck %s --check-prefix=NOWHERE
// RUN: not opprof-opt %s --explain-difference=partitions=a -o /dev/null 2>&1 | FileCheck %s --check-prefix=ONE

// CONSTANT: remark: {{.*}}they differ in constant at node 0, softmax (aten.softmax.int) and softmax (aten.softmax.int): the argument 'dim' is 0 in the first, -1 in the second
// CONSTANT: note: {{.*}}the other one is here
// EDGE: m.py:4:0: remark: they differ in edge at node 1, add (aten.add.Tensor) and add_1 (aten.add.Tensor): the argument 'self' is input 0 in the first, the result of node 0, neg_1 (aten.neg.default) in the second
// EDGE: m.py:6:0: note: the other one is here
// SAME: m.py:3:0: remark: a and c are the same: 2 nodes
// SAME: m.py:3:0: note: the other one is here
// A node that one of them lacks does not shift what follows, and a default that
// is left out has its value.
// ALL: only the second has node 0, dropout (aten.dropout.default)
// ALL-NEXT: remark: {{.*}}they differ in constant at node 0, gelu (aten.gelu.default) and gelu (aten.gelu.default): the argument 'approximate' is "none" in the first, "tanh" in the second
// ALL-NEXT: note: {{.*}}the other one is here
// ALL-NEXT: remark: {{.*}}they differ in edge at node 2, add (aten.add.Tensor) and add (aten.add.Tensor): the argument 'other' is the result of node 1, neg (aten.neg.default) in the first, the result of node 1, gelu (aten.gelu.default) in the second
// ALL-NEXT: note: {{.*}}the other one is here
// ALL-NOT: remark
// CLASS: remark: they differ in
// NOCLASS: error: 'c9' is no module path, no partition's label, no class of the partition map, and no graph
// NOMAP: error: --explain-difference cannot read its partition map: {{.*}}none: No such file or directory
// NOWHERE-NOT: fx.node
// NOWHERE: error: 'nowhere' is no module path, no partition's label, and no graph
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
fx.graph @many(%x: tensor<4xf32>) -> tensor<4xf32> {
  %gelu = fx.node "aten.gelu.default"(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("gelu")
  %neg = fx.node "aten.neg.default"(%gelu) : (tensor<4xf32>) -> tensor<4xf32> loc("neg")
  %add = fx.node "aten.add.Tensor"(%neg, %neg) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("add")
  fx.output(%add) : (tensor<4xf32>)
}
fx.graph @others(%x: tensor<4xf32>) -> tensor<4xf32> {
  %dropout = fx.node "aten.dropout.default"(%x, 0.5, true) : (tensor<4xf32>) -> tensor<4xf32> loc("dropout")
  %gelu = fx.node "aten.gelu.default"(%dropout, approximate = "tanh") : (tensor<4xf32>) -> tensor<4xf32> loc("gelu")
  %neg = fx.node "aten.neg.default"(%gelu) : (tensor<4xf32>) -> tensor<4xf32> loc("neg")
  %add = fx.node "aten.add.Tensor"(%neg, %gelu) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("add")
  fx.output(%add) : (tensor<4xf32>)
}
fx.graph @model2(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %e = fx.node "aten.exp.default"(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("e")
  %s = fx.node "aten.softmax.int"(%e, 0) : (tensor<4xf32>) -> tensor<4xf32> loc("s")
  %e1 = fx.node "aten.exp.default"(%s) : (tensor<4xf32>) -> tensor<4xf32> loc("e1")
  %s1 = fx.node "aten.softmax.int"(%e1, 0) : (tensor<4xf32>) -> tensor<4xf32> loc("s1")
  %i = fx.node "aten.sin.default"(%s1) : (tensor<4xf32>) -> tensor<4xf32> loc("i")
  %t = fx.node "aten.softmax.int"(%i, 0) : (tensor<4xf32>) -> tensor<4xf32> loc("t")
  %i1 = fx.node "aten.sin.default"(%t) : (tensor<4xf32>) -> tensor<4xf32> loc("i1")
  %t1 = fx.node "aten.softmax.int"(%i1, 0) : (tensor<4xf32>) -> tensor<4xf32> loc("t1")
  fx.output(%s, %s1, %t, %t1) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
}
