// The inductor dialect: what Inductor's generated wrapper launches.

#ifndef OPPROF_DIALECT_INDUCTOR_IR_INDUCTOROPS_TD
#define OPPROF_DIALECT_INDUCTOR_IR_INDUCTOROPS_TD

include "opprof/Launch/LaunchKinds.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"

def Inductor_Dialect : Dialect {
  let name = "inductor";
  let cppNamespace = "::opprof::inductor";
  let summary = "what Inductor made of a graph: its launches, tied to nodes";
  let description = [{
    A program is what one compiled graph launches, in call order; each launch
    names by symbol the nodes that it computes, and the records that say so. It is
    the launch map of docs/formats/launches.md, op by op: nothing is in one and
    not in the other.

    ```mlir
    fx.external @"model__0_inference_0.0" stage "post_grad"
    fx.external @net stage "export"
    inductor.program of @"model__0_inference_0.0" statements 12 of 12 {
      inductor.launch 0 "extern_kernels.mm" extern extern reads ["arg1_1", "arg0_1"] writes ["buf0"]
        computes [#inductor.node<@"model__0_inference_0.0"::@mm, evidence = ["provenance"], from = [@net::@linear]>] flops 4096
      inductor.launch 1 "triton_poi_fused_relu_0" triton pointwise hash "cabc" reads ["buf0"] writes ["buf1"]
        computes [#inductor.node<@"model__0_inference_0.0"::@relu, evidence = ["provenance", "fragment"], source = "model.py:4">]
      inductor.not_launched @"model__0_inference_0.0"::@permute because "view"
    }
    ```

    A program is no symbol table and no symbol: references to the module's graphs
    are seen by everything that renames or removes them.
  }];
  let useDefaultAttributePrinterParser = 1;
  let extraClassDeclaration = "void registerAttributes();";
}

class Inductor_Op<string mnemonic, list<Trait> traits = []>
    : Op<Inductor_Dialect, mnemonic, traits>;

class Inductor_Attr<string name, string attrMnemonic>
    : AttrDef<Inductor_Dialect, name> {
  let mnemonic = attrMnemonic;
}

class Inductor_EnumAttr<EnumInfo info, string name>
    : EnumAttr<Inductor_Dialect, info, name> {
  let cppNamespace = Inductor_Dialect.cppNamespace;
}
def Inductor_KindAttr : Inductor_EnumAttr<Launch_Kind, "kind">;
def Inductor_CategoryAttr : Inductor_EnumAttr<Launch_Category, "category">;

def Inductor_NodeAttr : Inductor_Attr<"Node", "node"> {
  let summary = "a node that a launch computes";
  let description = [{
    `evidence` names the records that say so: provenance, fragment,
    source_nodes, target, dataflow. `from` are the exported nodes it was made
    from, those at the places `idle` computing nothing. `confidence` says how sure
    it is that the launch computes the node, `from_confidence` how sure `from` is,
    `work` what the cost model estimates of it. A node that an earlier launch computed already is `recomputed`; one that
    this launch finishes `continued`; one that it only moves data for `prepares`.

    ```mlir
    fx.external @net stage "export"
    fx.external @compiled stage "post_grad"
    inductor.program of @compiled statements 1 of 1 {
      inductor.launch 0 "triton_poi_fused_gelu_0" triton pointwise reads ["arg0_1"] writes ["buf0"] computes [
        #inductor.node<@compiled::@mul, evidence = ["fragment"], recomputed = true,
                       from = [@net::@gelu], module = "h.0.mlp", source = "model.py:8">]
    }
    ```
  }];
  let parameters = (ins
    "::mlir::SymbolRefAttr":$node,
    OptionalParameter<"::mlir::ArrayAttr">:$evidence,
    OptionalParameter<"::mlir::StringAttr">:$confidence,
    DefaultValuedParameter<"bool", "false">:$recomputed,
    DefaultValuedParameter<"bool", "false">:$continued,
    DefaultValuedParameter<"bool", "false">:$prepares,
    OptionalParameter<"::mlir::ArrayAttr">:$from,
    OptionalParameter<"::mlir::DenseI64ArrayAttr">:$idle,
    OptionalParameter<"::mlir::StringAttr">:$from_confidence,
    OptionalParameter<"::mlir::IntegerAttr">:$work,
    OptionalParameter<"::mlir::StringAttr">:$module,
    OptionalParameter<"::mlir::StringAttr">:$source);
  let assemblyFormat = [{
    `<` $node (`,` struct($evidence, $confidence, $recomputed, $continued, $prepares, $from, $idle, $from_confidence, $work, $module, $source)^)? `>`
  }];
  let genVerifyDecl = 1;
}

def Inductor_AlignmentAttr : Inductor_Attr<"AlignmentInfo", "alignment"> {
  let summary = "how post-grad nodes were joined to an exported graph";
  let description = [{
    `#inductor.alignment<"structure", @gpt2, 586 of 613, 580>`: by recorded
    identities (`recorded`) or as two captures of one model (`structure`); how
    many of the launched nodes found exported ones, and of how many that is
    certain.
  }];
  let parameters = (ins
    StringRefParameter<"recorded or structure">:$method,
    "::mlir::FlatSymbolRefAttr":$graph,
    "uint64_t":$aligned, "uint64_t":$total,
    OptionalParameter<"std::optional<uint64_t>">:$proven);
  let assemblyFormat = [{
    `<` $method `,` $graph `,` $aligned `of` $total (`,` $proven^)? `>`
  }];
  let genVerifyDecl = 1;
}

def Inductor_ProgramOp : Inductor_Op<"program", [
    IsolatedFromAbove, NoTerminator, NoRegionArguments, SingleBlock,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "what one compiled graph launches";
  let description = [{
    Holds the launches of one wrapper. `of` names the graph that it was compiled
    from, whose nodes they compute: an `fx.graph` of the module, or an
    `fx.external`. `statements` says how many of the wrapper's statements the
    reader understood; the others were kept as text. It is left out where nobody
    read the wrapper: a profile lists launches too.

    ```mlir
    fx.external @"model__0_inference_0.0" stage "post_grad"
    inductor.program of @"model__0_inference_0.0" statements 1 of 1 {
    }
    ```
  }];
  let arguments = (ins
    FlatSymbolRefAttr:$graph,
    OptionalAttr<I64Attr>:$understood, OptionalAttr<I64Attr>:$total,
    OptionalAttr<Inductor_AlignmentAttr>:$alignment);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    `of` $graph (`statements` $understood^ `of` $total)?
    (`aligned` $alignment^)? attr-dict-with-keyword $body
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def Inductor_LaunchOp : Inductor_Op<"launch", [
    HasParent<"ProgramOp">, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "one place where a kernel is launched";
  let description = [{
    `index` is the static place in call order; launches stand in that order.
    The location is the line in the wrapper. `kernel` is what the wrapper calls: a
    kernel that it defines or a library function; `hash` the base name of its
    cached source file, which profiles repeat. `reads` and `writes` name buffers
    as the wrapper does; `computes` the nodes; `listed` those that PyTorch's
    records name although the launch does not compute them. `function` and
    `call_lines` say where the launch stands; `handle` is its number in the
    provenance records, `dtype` the type of the first tensor that goes in.
    `prof.time` and `prof.counters` say what it cost.

    ```mlir
    fx.external @compiled stage "post_grad"
    inductor.program of @compiled statements 5 of 5 {
      inductor.launch 0 "extern_kernels.addmm" extern extern in "partition_0" at [12, 40] reads ["arg0_1", "arg1_1"] writes ["buf0"]
        computes [#inductor.node<@compiled::@addmm, evidence = ["target", "dataflow"]>] handle 7 flops 1024 dtype "float32" read 64 written 32
        {conditional, prof.time = #prof.time<ns = 3456, kernels = 2, steps = 2, share = whole, confidence = high>}
    }
    ```
  }];
  let arguments = (ins
    I64Attr:$index, StrAttr:$kernel,
    Inductor_KindAttr:$kind, Inductor_CategoryAttr:$category,
    OptionalAttr<StrAttr>:$hash,
    OptionalAttr<StrAttr>:$function, OptionalAttr<DenseI64ArrayAttr>:$call_lines,
    StrArrayAttr:$inputs, StrArrayAttr:$outputs,
    TypedArrayAttrBase<Inductor_NodeAttr, "array of nodes">:$nodes,
    OptionalAttr<TypedArrayAttrBase<SymbolRefAttr, "array of nodes">>:$listed,
    OptionalAttr<I64Attr>:$handle, OptionalAttr<I64Attr>:$flops,
    OptionalAttr<StrAttr>:$dtype,
    OptionalAttr<I64Attr>:$bytes_read, OptionalAttr<I64Attr>:$bytes_written,
    UnitAttr:$conditional, UnitAttr:$in_loop);
  let assemblyFormat = [{
    $index $kernel $kind $category (`hash` $hash^)?
    (`in` $function^)? (`at` $call_lines^)?
    `reads` $inputs `writes` $outputs `computes` $nodes (`listed` $listed^)?
    (`handle` $handle^)? (`flops` $flops^)? (`dtype` $dtype^)?
    (`read` $bytes_read^)? (`written` $bytes_written^)? attr-dict
  }];
  let hasVerifier = 1;
}

def Inductor_NotLaunchedOp : Inductor_Op<"not_launched", [
    HasParent<"ProgramOp">, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "a node that no launch computes";
  let description = [{
    `reason` is view, getitem, attribute, symbolic, constant, dead, subgraph,
    mutation or unrecorded.

    ```mlir
    fx.external @compiled stage "post_grad"
    fx.external @true_graph_0 stage "post_grad"
    inductor.program of @compiled statements 1 of 1 {
      inductor.not_launched @compiled::@view_3 because "view"
      inductor.not_launched @true_graph_0::@permute because "view"
    }
    ```
  }];
  let arguments = (ins SymbolRefAttr:$node, StrAttr:$reason);
  let assemblyFormat = "$node `because` $reason attr-dict";
}

#endif // OPPROF_DIALECT_INDUCTOR_IR_INDUCTOROPS_TD
