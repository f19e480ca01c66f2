# Finds the libraries that opprof uses beside MLIR. All are Debian packages; setup.sh lists them.
find_package(nlohmann_json 3.11 REQUIRED)
find_package(simdjson REQUIRED)
find_library(OPPROF_LIBDEFLATE NAMES libdeflate.a REQUIRED)

# The Python that generates tables from PyTorch and runs the tests: the virtual environment of setup.sh, if there is one.
if(EXISTS "${PROJECT_SOURCE_DIR}/.venv/bin/python")
  set(OPPROF_PYTHON "${PROJECT_SOURCE_DIR}/.venv/bin/python" CACHE FILEPATH "Python with PyTorch installed")
else()
  find_package(Python3 3.11 REQUIRED COMPONENTS Interpreter)
  set(OPPROF_PYTHON "${Python3_EXECUTABLE}" CACHE FILEPATH "Python with PyTorch installed")
endif()
execute_process(COMMAND "${OPPROF_PYTHON}" -c "import importlib.util as u; print(u.find_spec('torch') is not None)"
  OUTPUT_VARIABLE OPPROF_PYTHON_HAS_TORCH OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
if(OPPROF_BUILD_TESTS)
  find_package(GTest REQUIRED)
  get_filename_component(_opprof_python_dir "${OPPROF_PYTHON}" DIRECTORY)
  find_program(OPPROF_LIT NAMES lit lit-22 HINTS "${_opprof_python_dir}" "${LLVM_TOOLS_BINARY_DIR}" REQUIRED)
endif()
