// What a launch is: once for the launch map, its file and the inductor dialect.

#ifndef OPPROF_LAUNCH_LAUNCHKINDS_TD
#define OPPROF_LAUNCH_LAUNCHKINDS_TD

include "mlir/IR/EnumAttr.td"

class Launch_Enum<string name, string what, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, what, cases> {
  let cppNamespace = "::opprof::launch";
  let genSpecializedAttr = 0;
}

def Launch_Kind : Launch_Enum<"LaunchKind", "how a launch reaches the device", [
    // Kernels that Inductor generated in Triton or C++.
    I32EnumAttrCase<"Triton", 0, "triton">,
    I32EnumAttrCase<"Cpp", 1, "cpp">,
    // Templates: CUTLASS (or ROCm CK), CuTe DSL.
    I32EnumAttrCase<"Cutlass", 2, "cutlass">,
    I32EnumAttrCase<"CuteDsl", 3, "cutedsl">,
    // An out-variant of a library call (extern_kernels.mm).
    I32EnumAttrCase<"Extern", 4, "extern">,
    // An ATen or custom operator called as it is.
    I32EnumAttrCase<"Fallback", 5, "fallback">,
    // A communication operator.
    I32EnumAttrCase<"Collective", 6, "collective">,
    // A copy that no kernel of the graph asked for.
    I32EnumAttrCase<"Copy", 7, "copy">,
    // A Triton kernel that the user wrote.
    I32EnumAttrCase<"User", 8, "user">,
    // One of several generated kernels, chosen at run time.
    I32EnumAttrCase<"MultiKernel", 9, "multi_kernel">,
    // A call of another function of the same file.
    I32EnumAttrCase<"Subgraph", 10, "subgraph">,
    // A view of a graph that runs operator by operator: nothing runs where it
    // stands, but its gradient may take kernels.
    I32EnumAttrCase<"View", 11, "view">]>;

def Launch_Category : Launch_Enum<"LaunchCategory", "what shape of work a launch is", [
    I32EnumAttrCase<"Pointwise", 0, "pointwise">,
    I32EnumAttrCase<"Reduction", 1, "reduction">,
    I32EnumAttrCase<"PersistentReduction", 2, "persistent_reduction">,
    I32EnumAttrCase<"SplitScan", 3, "split_scan">,
    I32EnumAttrCase<"Foreach", 4, "foreach">,
    I32EnumAttrCase<"Template", 5, "template">,
    I32EnumAttrCase<"Extern", 6, "extern">,
    I32EnumAttrCase<"Copy", 7, "copy">,
    I32EnumAttrCase<"Collective", 8, "collective">]>;

#endif // OPPROF_LAUNCH_LAUNCHKINDS_TD
