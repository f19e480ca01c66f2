# Finds the libraries that opprof uses beside MLIR. All are Debian packages; setup.sh lists them.
find_library(OPPROF_LIBDEFLATE NAMES libdeflate.a REQUIRED)
find_library(OPPROF_LIBSQLITE NAMES libsqlite3.a REQUIRED)
find_library(OPPROF_LIBMINIZIP NAMES libminizip.a REQUIRED)
find_package(Python3 3.11 REQUIRED COMPONENTS Interpreter)
# The tests run PyTorch; nothing else of the build does.
set(OPPROF_PYTHON "" CACHE FILEPATH "Python with PyTorch, used to run tests")
if(NOT OPPROF_PYTHON)
  if(EXISTS "${CMAKE_SOURCE_DIR}/.venv/bin/python")
    set(OPPROF_PYTHON "${CMAKE_SOURCE_DIR}/.venv/bin/python")
  else()
    set(OPPROF_PYTHON "${Python3_EXECUTABLE}")
  endif()
endif()

if(OPPROF_BUILD_TESTS)
  find_package(GTest REQUIRED)
  get_filename_component(_opprof_python_dir "${OPPROF_PYTHON}" DIRECTORY)
  find_program(OPPROF_LIT NAMES lit lit-22 HINTS "${_opprof_python_dir}" "${LLVM_TOOLS_BINARY_DIR}" REQUIRED)
endif()

# Debian has simdjson as a shared library only. A portable build takes its two source files from a PyPI package that
# carries them (pysimdjson 7.0.2 has simdjson 3.12.3), or from the folder OPPROF_SIMDJSON_SOURCE.
set(OPPROF_SIMDJSON_SOURCE "" CACHE PATH "Folder with simdjson.h and simdjson.cpp, for a portable build")
if(OPPROF_PORTABLE)
  set(_opprof_simdjson "${OPPROF_SIMDJSON_SOURCE}")
  if(NOT _opprof_simdjson)
    set(_opprof_simdjson_package pysimdjson-7.0.2)
    set(_opprof_simdjson "${CMAKE_BINARY_DIR}/simdjson/${_opprof_simdjson_package}/simdjson")
    if(NOT EXISTS "${_opprof_simdjson}/simdjson.cpp")
      string(REPLACE "-" "==" _opprof_requirement "${_opprof_simdjson_package}")
      message(STATUS "Fetching simdjson: ${_opprof_requirement}")
      execute_process(
        COMMAND "${OPPROF_PYTHON}" -m pip download --quiet --no-deps --no-binary :all: --no-build-isolation
          --disable-pip-version-check --dest "${CMAKE_BINARY_DIR}/simdjson" ${_opprof_requirement}
        ERROR_VARIABLE _opprof_pip_error)
      set(_opprof_archive "${CMAKE_BINARY_DIR}/simdjson/${_opprof_simdjson_package}.tar.gz")
      if(EXISTS "${_opprof_archive}")
        file(ARCHIVE_EXTRACT INPUT "${_opprof_archive}" DESTINATION "${CMAKE_BINARY_DIR}/simdjson")
      endif()
    endif()
  endif()
  if(NOT EXISTS "${_opprof_simdjson}/simdjson.cpp")
    message(FATAL_ERROR "simdjson's sources were not found and could not be fetched:\n${_opprof_pip_error}\n"
      "Put simdjson.h and simdjson.cpp into a folder and set OPPROF_SIMDJSON_SOURCE to it.")
  endif()
  add_library(opprof_simdjson STATIC "${_opprof_simdjson}/simdjson.cpp")
  target_include_directories(opprof_simdjson SYSTEM PUBLIC "${_opprof_simdjson}")
  add_library(simdjson::simdjson ALIAS opprof_simdjson)
else()
  find_package(simdjson REQUIRED)
endif()
