// The pass that applies rewrite scripts.

#ifndef OPPROF_TARGET_TRANSFORMSCRIPT_PASSES_TD
#define OPPROF_TARGET_TRANSFORMSCRIPT_PASSES_TD

include "mlir/Pass/PassBase.td"

def ApplyRewritesPass : Pass<"apply-rewrites", "::mlir::ModuleOp"> {
  let summary = "Apply the rewrite scripts of a file or a folder, by rank";
  let description = [{
    Runs every script of the folder on the module's graphs, the best ranked
    first, as the transform interpreter would: `--apply-rewrites=rewrites/`.
    Graphs have to be inlined, because outlining hides a pattern that crosses
    the border of a partition. A remark says at how many places each
    replacement was made, a warning that there was none; nothing is written when
    a script is wrong.
  }];
  let options = [Option<"path", "path", "std::string", /*default=*/"\"\"",
                        "A rewrite script, or a folder of them">];
  let dependentDialects = ["::opprof::fx::FXDialect",
                           "::mlir::transform::TransformDialect"];
}

#endif // OPPROF_TARGET_TRANSFORMSCRIPT_PASSES_TD
