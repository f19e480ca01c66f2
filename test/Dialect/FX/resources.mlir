// Resources that no dialect knows are kept, in text and in bytecode.

// RUN: opprof-opt %s | FileCheck %s
// RUN: opprof-opt %s --emit-bytecode | opprof-opt | FileCheck %s

// CHECK: external_resources
// CHECK: mine: {
// CHECK-NEXT: count: true

module {
}

{-#
  external_resources: {
    mine: {
      count: true
    }
  }
#-}
