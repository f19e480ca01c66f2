# Finds the libraries that opprof uses beside MLIR. All are Debian packages; setup.sh lists them.
find_package(nlohmann_json 3.11 REQUIRED)
find_package(simdjson REQUIRED)
find_library(OPPROF_LIBDEFLATE NAMES libdeflate.a REQUIRED)
find_package(Python3 3.11 REQUIRED COMPONENTS Interpreter)
if(OPPROF_BUILD_TESTS)
  find_package(GTest REQUIRED)
endif()
