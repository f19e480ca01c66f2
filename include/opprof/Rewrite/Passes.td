// The pass that recommends rewrites.

#ifndef OPPROF_REWRITE_PASSES_TD
#define OPPROF_REWRITE_PASSES_TD

include "mlir/Pass/PassBase.td"

def RecommendRewritesPass : Pass<"recommend-rewrites", "::mlir::ModuleOp"> {
  let summary = "Write the rewrites that should make a graph faster, ranked";
  let description = [{
    Asks every rule what it has to offer for the module's public graphs (but for
    those that Inductor lowered, stage post_grad), ranks the answers by the time
    that each should save, but merges of more products before those of fewer,
    and writes one script each to `dir`, with an index
    (docs/formats/rewrites.md):

        opprof-opt --recommend-rewrites="dir=rewrites/ profile=run/profile.opprof.json" gpt2.mlir

    The graphs are not changed. Rules read the times that `--attach-profile` put
    on nodes; `profile` does that for this pass alone. Without either, times come
    from the model of FLOPs and bytes and a table of devices, and the index says
    so. `opprof-opt --list-rules` prints the rules; `rules` names a folder of a
    person's own scripts (docs/rewrites.md).
  }];
  let options = [
    Option<"dir", "dir", "std::string", /*default=*/"\"\"",
           "The folder to write, made if it is missing">,
    Option<"profile", "profile", "std::string", /*default=*/"\"\"",
           "A profile.opprof.json of this graph">,
    Option<"device", "device", "std::string", /*default=*/"\"\"",
           "The device that predictions are for; the profile's, or that of the "
           "graph's tensors, where it is not given">,
    Option<"errorBudget", "error-budget", "double", /*default=*/"1e-3",
           "The relative error against float32 that a rewrite may bring">,
    Option<"script", "script", "std::string", /*default=*/"\"\"",
           "The model script that the graph is of, for the index">,
    Option<"training", "training", "bool", /*default=*/"false",
           "Whether a step trains: only what keeps gradients right is offered">,
    Option<"rules", "rules", "std::string", /*default=*/"\"\"",
           "A folder of rewrite scripts that are offered, where their patterns "
           "are, like those of the rules">,
  ];
  let dependentDialects = ["::opprof::fx::FXDialect",
                           "::opprof::inductor::InductorDialect",
                           "::opprof::prof::ProfDialect",
                           "::mlir::transform::TransformDialect"];
}

#endif // OPPROF_REWRITE_PASSES_TD
