// Transform operations on fx graphs: what a rewrite script is made of.

#ifndef OPPROF_DIALECT_FX_TRANSFORMOPS_FXTRANSFORMOPS_TD
#define OPPROF_DIALECT_FX_TRANSFORMOPS_FXTRANSFORMOPS_TD

include "mlir/Dialect/Transform/IR/TransformDialect.td"
include "mlir/Dialect/Transform/Interfaces/TransformInterfaces.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def ReplaceSubgraphOp : Op<Transform_Dialect, "fx.replace_subgraph", [
    DeclareOpInterfaceMethods<TransformOpInterface>,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "puts one subgraph in the place of another, wherever it is";
  let description = [{
    Finds every place of the graph `pattern` in the graphs below `target` and
    puts the nodes of the graph `replacement` there. Both are private graphs of
    the script's own module, with the same arguments and as many results. The
    arguments stand for values that the matched nodes take, the results for
    what other nodes take of them.

    What a pattern leaves open is said at the matcher
    (opprof/Analysis/Structure/Equivalence.h), what has to hold at a place at its
    conditions (opprof/Analysis/Structure/PatternConditions.h): among others, the graph
    returns no result as it is nor a view of one, because a replacement may
    return views of a larger tensor.

    A pattern may write what it makes itself and takes once (`aten.div_.Tensor` of
    a product): edges say then in which order all is read and written. For whatever
    else writes, and in a replacement, take the operator that gives a new tensor.

    The result, which may be left out, is a handle to the new nodes of all
    places. Handles to other nodes stay true; those to replaced ones are to the
    node that gives the result now, and lose what is gone.

    A pattern that is nowhere is a silenceable failure, which names the nearest
    place and what differs there, so that `transform.alternatives` may try
    something else. Under `--apply-rewrites` it is a warning where the operation
    stands in the entry sequence itself: the rest of the script, and the other
    scripts, still apply.

    ```mlir
    module attributes {transform.with_named_sequence} {
      fx.graph private @pattern(%x: tensor<4xf32>) -> tensor<4xf32> {
        %neg = fx.node "aten.neg.default"(%x) : (tensor<4xf32>) -> tensor<4xf32>
        %twice = fx.node "aten.neg.default"(%neg) : (tensor<4xf32>) -> tensor<4xf32>
        fx.output(%twice) : (tensor<4xf32>)
      }
      fx.graph private @replacement(%x: tensor<4xf32>) -> tensor<4xf32> {
        fx.output(%x) : (tensor<4xf32>)
      }
      transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
        %new = transform.fx.replace_subgraph %root, @pattern -> @replacement : !transform.any_op -> !transform.any_op
        transform.yield
      }
    }
    ```
  }];
  let arguments = (ins TransformHandleTypeInterface:$target,
                       FlatSymbolRefAttr:$pattern,
                       FlatSymbolRefAttr:$replacement);
  let results = (outs Optional<TransformHandleTypeInterface>:$replaced);
  let assemblyFormat = [{
    $target `,` $pattern `->` $replacement attr-dict `:` type($target)
    (`->` type($replaced)^)?
  }];
}

def RegionStrategyOp : Op<Transform_Dialect, "fx.region_strategy", [
    DeclareOpInterfaceMethods<TransformOpInterface>,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "says how whole graphs are to be compiled and run";
  let description = [{
    Adds to the `fx.strategies` attribute of the public graphs below `target`.
    The nodes stay as they are: a strategy is carried out by the emitted
    backend.

    - `prologue`: what depends on weights alone is computed once, not in every
      call.
    - `freeze`: weights become constants that Inductor lays out once for its
      kernels; a prologue is part of it.
    - `precision`: weights are cast once, inputs and outputs in every call, and
      everything between runs at that precision ("float16" or "bfloat16").
    - `regions`: nodes of each named class run at the level beside it, all others
      in float32. A class is an operator, and of a product the sizes of what it
      multiplies; a level is "float16", "bfloat16", "float16_float32" (a product
      of float16 with its result in float32), "float16x2" or "float16x3" (the
      same of twice or three times the depth: one or both factors in two parts).
    - `tf32`: float32 products run on TF32 units, which round what they multiply
      to eleven bits; all values stay float32.
    - `autotune`: Inductor times its choices for each GEMM and convolution.
    - `cuda_graph`: the compiled program is captured once and replayed.
    - `recurrent`: recurrent layers, which Dynamo keeps from every backend unless
      it is told not to, are compiled with the rest and stay the library's own
      kernels: they are never unrolled.
    - `training`: graphs whose gradients are needed are rewritten too, where the
      other strategies keep gradients right: `tf32`, and `precision` and `regions`
      of bfloat16, with weights and gradients in float32. Without it they are
      compiled as they are.

    ```mlir
    module attributes {transform.with_named_sequence} {
      transform.named_sequence @__transform_main(%root: !transform.any_op {transform.readonly}) {
        transform.fx.region_strategy %root {cuda_graph, precision = "float16"} : !transform.any_op
        transform.yield
      }
    }
    ```
  }];
  let arguments = (ins TransformHandleTypeInterface:$target,
                       UnitAttr:$prologue,
                       UnitAttr:$freeze,
                       OptionalAttr<StrAttr>:$precision,
                       OptionalAttr<DictionaryAttr>:$regions,
                       UnitAttr:$tf32,
                       UnitAttr:$autotune,
                       UnitAttr:$cuda_graph,
                       UnitAttr:$recurrent,
                       UnitAttr:$training);
  let assemblyFormat = "$target attr-dict `:` type($target)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The strategies that are given, by name.
    ::mlir::DictionaryAttr getStrategies();
  }];
}

#endif // OPPROF_DIALECT_FX_TRANSFORMOPS_FXTRANSFORMOPS_TD
