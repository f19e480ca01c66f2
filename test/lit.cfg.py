"""lit configuration of opprof's regression tests: each file carries its own RUN lines, checked with FileCheck."""

import os

import lit.formats

config.name = "opprof"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["Inputs", "python", "lib"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.opprof_obj_root, "test")

path = [config.opprof_tools_dir, config.llvm_tools_dir, config.environment["PATH"]]
config.environment["PATH"] = os.path.pathsep.join(path)
config.environment["OPPROF_TOOLS_DIR"] = config.opprof_tools_dir
config.environment["PYTHONPATH"] = os.path.join(config.opprof_src_root, "python")
config.environment["PYTHONDONTWRITEBYTECODE"] = "1"

config.substitutions.append(("%python", config.python))
config.substitutions.append(("%examples", os.path.join(config.opprof_src_root, "examples")))
config.substitutions.append(("%opprof_obj_root", config.opprof_obj_root))
config.substitutions.append(("%opprof_src_root", config.opprof_src_root))
