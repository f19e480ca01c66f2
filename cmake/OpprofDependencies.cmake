# Finds the libraries that opprof uses beside MLIR. All are Debian packages; setup.sh lists them.
find_package(nlohmann_json 3.11 REQUIRED)
find_package(simdjson REQUIRED)
find_library(OPPROF_LIBDEFLATE NAMES libdeflate.a REQUIRED)
find_library(OPPROF_LIBMINIZIP NAMES libminizip.a REQUIRED)
find_package(Python3 3.11 REQUIRED COMPONENTS Interpreter)
# The operator schemas come from the PyTorch of this Python.
set(OPPROF_PYTHON "" CACHE FILEPATH "Python with PyTorch, used to generate the schema table and to run tests")
if(NOT OPPROF_PYTHON)
  if(EXISTS "${CMAKE_SOURCE_DIR}/.venv/bin/python")
    set(OPPROF_PYTHON "${CMAKE_SOURCE_DIR}/.venv/bin/python")
  else()
    set(OPPROF_PYTHON "${Python3_EXECUTABLE}")
  endif()
endif()
execute_process(COMMAND ${OPPROF_PYTHON} -c "import torch; print(torch.__version__)"
  OUTPUT_VARIABLE OPPROF_TORCH_VERSION OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "${OPPROF_PYTHON} has no PyTorch, which the operator schemas are generated from. "
    "Run ./setup.sh, or set OPPROF_PYTHON to a Python that has it.")
endif()
message(STATUS "Operator schemas from PyTorch ${OPPROF_TORCH_VERSION}")

if(OPPROF_BUILD_TESTS)
  find_package(GTest REQUIRED)
  get_filename_component(_opprof_python_dir "${OPPROF_PYTHON}" DIRECTORY)
  find_program(OPPROF_LIT NAMES lit lit-22 HINTS "${_opprof_python_dir}" "${LLVM_TOOLS_BINARY_DIR}" REQUIRED)
endif()
