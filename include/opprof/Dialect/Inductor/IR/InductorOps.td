// The inductor dialect: what Inductor's generated wrapper launches.

#ifndef OPPROF_DIALECT_INDUCTOR_IR_INDUCTOROPS_TD
#define OPPROF_DIALECT_INDUCTOR_IR_INDUCTOROPS_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"

def Inductor_Dialect : Dialect {
  let name = "inductor";
  let cppNamespace = "::opprof::inductor";
  let summary = "what Inductor made of a graph: kernels and launches";
  let description = [{
    A program is one compiled graph: the kernels that its wrapper defines or
    calls, and its launches in call order, each with the post-grad nodes that it
    computes and the records that say so. It is the launch map of
    docs/formats/launches.md, op by op: nothing is in one and not in the other.

    ```mlir
    inductor.program @model__0_inference_0.0 stage "post_grad" statements 12 of 12 {
      inductor.kernel @extern_kernels.mm extern extern
      inductor.kernel @triton_poi_fused_relu_0 triton pointwise hash "cabc"
      inductor.launch 0 @extern_kernels.mm reads ["arg1_1", "arg0_1"] writes ["buf0"]
        computes [#inductor.node<"mm", evidence = ["provenance"]>] flops 4096
      inductor.launch 1 @triton_poi_fused_relu_0 reads ["buf0"] writes ["buf1"]
        computes [#inductor.node<"relu", evidence = ["provenance", "fragment"], source = "model.py:4">]
      inductor.not_launched "permute" because "view"
    }
    ```
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

def Inductor_Kind : I32EnumAttr<"KernelKind", "how a launch reaches the device", [
    I32EnumAttrCase<"Triton", 0, "triton">,
    I32EnumAttrCase<"Cpp", 1, "cpp">,
    I32EnumAttrCase<"Cutlass", 2, "cutlass">,
    I32EnumAttrCase<"CuteDsl", 3, "cutedsl">,
    I32EnumAttrCase<"Extern", 4, "extern">,
    I32EnumAttrCase<"Fallback", 5, "fallback">,
    I32EnumAttrCase<"Collective", 6, "collective">,
    I32EnumAttrCase<"Copy", 7, "copy">,
    I32EnumAttrCase<"User", 8, "user">,
    I32EnumAttrCase<"MultiKernel", 9, "multi_kernel">,
    I32EnumAttrCase<"Subgraph", 10, "subgraph">]> {
  let cppNamespace = "::opprof::inductor";
  let genSpecializedAttr = 0;
}
def Inductor_KindAttr : EnumAttr<Inductor_Dialect, Inductor_Kind, "kind">;

def Inductor_Category : I32EnumAttr<"KernelCategory", "what shape of work a launch is", [
    I32EnumAttrCase<"Pointwise", 0, "pointwise">,
    I32EnumAttrCase<"Reduction", 1, "reduction">,
    I32EnumAttrCase<"PersistentReduction", 2, "persistent_reduction">,
    I32EnumAttrCase<"SplitScan", 3, "split_scan">,
    I32EnumAttrCase<"Foreach", 4, "foreach">,
    I32EnumAttrCase<"Template", 5, "template">,
    I32EnumAttrCase<"Extern", 6, "extern">,
    I32EnumAttrCase<"Copy", 7, "copy">,
    I32EnumAttrCase<"Collective", 8, "collective">]> {
  let cppNamespace = "::opprof::inductor";
  let genSpecializedAttr = 0;
}
def Inductor_CategoryAttr : EnumAttr<Inductor_Dialect, Inductor_Category, "category">;

def Inductor_NodeAttr : Inductor_Attr<"Node", "node"> {
  let summary = "a post-grad node that a launch computes";
  let description = [{
    `evidence` names the records that say so: provenance, fragment,
    source_nodes, target, dataflow. `origins` are the exported nodes it was made
    from, each `["graph", "stage", "name"]`. A node that an earlier launch
    computed already is `recomputed`; one that this launch finishes `continued`;
    one that it only moves data for `prepares`.

    ```mlir
    inductor.program @gelu stage "post_grad" statements 1 of 1 {
      inductor.kernel @triton_poi_fused_gelu_0 triton pointwise
      inductor.launch 0 @triton_poi_fused_gelu_0 reads ["arg0_1"] writes ["buf0"] computes [
        #inductor.node<"mul", evidence = ["fragment"], recomputed = true,
                       origins = [["net", "export", "gelu"]], module = "h.0.mlp", source = "model.py:8">]
    }
    ```
  }];
  let parameters = (ins
    StringRefParameter<"node">:$name,
    "::mlir::ArrayAttr":$evidence,
    DefaultValuedParameter<"bool", "false">:$recomputed,
    DefaultValuedParameter<"bool", "false">:$continued,
    DefaultValuedParameter<"bool", "false">:$prepares,
    OptionalParameter<"::mlir::StringAttr">:$graph,
    OptionalParameter<"::mlir::ArrayAttr">:$origins,
    OptionalParameter<"::mlir::StringAttr">:$module,
    OptionalParameter<"::mlir::StringAttr">:$source);
  let assemblyFormat = [{
    `<` $name `,` struct($evidence, $recomputed, $continued, $prepares, $graph, $origins, $module, $source) `>`
  }];
  let genVerifyDecl = 1;
}

def Inductor_AlignmentAttr : Inductor_Attr<"AlignmentInfo", "alignment"> {
  let summary = "how post-grad nodes were joined to an exported graph";
  let description = [{
    `#inductor.alignment<"structure", "gpt2", "export", 586 of 613>`: by recorded
    identities (`recorded`) or as two captures of one model (`structure`); how
    many of the launched nodes found exported ones.
  }];
  let parameters = (ins
    StringRefParameter<"recorded or structure">:$method,
    StringRefParameter<"exported graph">:$graph,
    StringRefParameter<"its stage">:$stage,
    "uint64_t":$aligned, "uint64_t":$total);
  let assemblyFormat = "`<` $method `,` $graph `,` $stage `,` $aligned `of` $total `>`";
  let genVerifyDecl = 1;
}

def Inductor_ProgramOp : Inductor_Op<"program", [
    IsolatedFromAbove, NoTerminator, NoRegionArguments, SingleBlock, Symbol,
    SymbolTable]> {
  let summary = "one compiled graph";
  let description = [{
    Holds the kernels and launches of one wrapper. `stage` is the stage of the
    nodes' graph. `statements` says how many of the wrapper's statements the
    reader understood; the others were kept as text.

    ```mlir
    inductor.program @model__0_inference_0.0 stage "post_grad" statements 1 of 1 {
    }
    ```
  }];
  let arguments = (ins
    SymbolNameAttr:$sym_name, StrAttr:$stage,
    I64Attr:$understood, I64Attr:$total,
    OptionalAttr<Inductor_AlignmentAttr>:$alignment);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $sym_name `stage` $stage `statements` $understood `of` $total
    (`aligned` $alignment^)? attr-dict-with-keyword $body
  }];
  let hasVerifier = 1;
  let hasRegionVerifier = 1;
}

def Inductor_KernelOp : Inductor_Op<"kernel", [Symbol, HasParent<"ProgramOp">]> {
  let summary = "what launches call";
  let description = [{
    A kernel that the wrapper defines, or a library function that it calls.
    `hash` is the base name of its cached source file, which profiles repeat.

    ```mlir
    inductor.program @norm stage "post_grad" statements 1 of 1 {
      inductor.kernel @triton_red_fused_native_layer_norm_0 triton reduction hash "cxyz"
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Inductor_KindAttr:$kind,
                       Inductor_CategoryAttr:$category,
                       OptionalAttr<StrAttr>:$hash);
  let assemblyFormat = "$sym_name $kind $category (`hash` $hash^)? attr-dict";
}

def Inductor_LaunchOp : Inductor_Op<"launch", [
    HasParent<"ProgramOp">, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "one place where a kernel is launched";
  let description = [{
    `index` is the static place in call order; launches stand in that order.
    The location is the line in the wrapper. `reads` and `writes` name buffers
    as the wrapper does; `computes` the nodes; `listed` those that PyTorch's
    records name although the launch does not compute them. `function` and
    `call_lines` say where the launch stands; `handle` is its number in the
    provenance records, `dtype` the type of the first tensor that goes in.

    ```mlir
    inductor.program @linear stage "post_grad" statements 5 of 5 {
      inductor.kernel @extern_kernels.addmm extern extern
      inductor.launch 0 @extern_kernels.addmm in "partition_0" at [12, 40] reads ["arg0_1", "arg1_1"] writes ["buf0"]
        computes [#inductor.node<"addmm", evidence = ["target", "dataflow"]>] handle 7 flops 1024 dtype "float32" read 64 written 32 {conditional}
    }
    ```
  }];
  let arguments = (ins
    I64Attr:$index, FlatSymbolRefAttr:$kernel,
    OptionalAttr<StrAttr>:$function, OptionalAttr<DenseI64ArrayAttr>:$call_lines,
    StrArrayAttr:$inputs, StrArrayAttr:$outputs,
    TypedArrayAttrBase<Inductor_NodeAttr, "array of nodes">:$nodes,
    OptionalAttr<StrArrayAttr>:$listed,
    OptionalAttr<I64Attr>:$handle, OptionalAttr<I64Attr>:$flops,
    OptionalAttr<StrAttr>:$dtype,
    OptionalAttr<I64Attr>:$bytes_read, OptionalAttr<I64Attr>:$bytes_written,
    UnitAttr:$conditional, UnitAttr:$in_loop);
  let assemblyFormat = [{
    $index $kernel (`in` $function^)? (`at` $call_lines^)?
    `reads` $inputs `writes` $outputs `computes` $nodes (`listed` $listed^)?
    (`handle` $handle^)? (`flops` $flops^)? (`dtype` $dtype^)?
    (`read` $bytes_read^)? (`written` $bytes_written^)? attr-dict
  }];
  let hasVerifier = 1;
}

def Inductor_NotLaunchedOp : Inductor_Op<"not_launched", [HasParent<"ProgramOp">]> {
  let summary = "a post-grad node that no launch computes";
  let description = [{
    `reason` is view, getitem, attribute, symbolic, constant, dead, subgraph,
    mutation or unrecorded.

    ```mlir
    inductor.program @views stage "post_grad" statements 1 of 1 {
      inductor.not_launched "view_3" because "view"
      inductor.not_launched "permute" of "true_graph_0" because "view"
    }
    ```
  }];
  let arguments = (ins StrAttr:$node, OptionalAttr<StrAttr>:$graph, StrAttr:$reason);
  let assemblyFormat = "$node (`of` $graph^)? `because` $reason attr-dict";
}

#endif // OPPROF_DIALECT_INDUCTOR_IR_INDUCTOROPS_TD
