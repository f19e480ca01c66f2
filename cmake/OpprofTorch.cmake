# Finds LibTorch inside the PyTorch of the build's Python, for what is linked to it and not to LLVM. It is optional: without
# its headers everything else is built.
#
# The headers and libraries are taken as they lie, and not through PyTorch's own CMake package: that of a build with CUDA stops
# where there is no CUDA toolkit, which nothing here needs.
set(OPPROF_TORCH_FOUND OFF)
execute_process(
  COMMAND ${OPPROF_PYTHON} -c "import os, torch; print(os.path.dirname(os.path.dirname(torch.utils.cmake_prefix_path))); print(int(torch._C._GLIBCXX_USE_CXX11_ABI)); print(torch.__version__)"
  OUTPUT_VARIABLE _opprof_torch OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE _opprof_torch_result)
if(_opprof_torch_result EQUAL 0)
  string(REPLACE "\n" ";" _opprof_torch "${_opprof_torch}")
  list(GET _opprof_torch 0 OPPROF_TORCH_DIR)
  list(GET _opprof_torch 1 OPPROF_TORCH_ABI)
  list(GET _opprof_torch 2 OPPROF_TORCH_VERSION)
endif()
find_library(OPPROF_LIBSECCOMP libseccomp.a)
find_path(OPPROF_SECCOMP_INCLUDE seccomp.h)

if(OPPROF_PORTABLE OR OPPROF_SANITIZE)
  message(STATUS "opprof-torchscript is not built: LibTorch is neither portable nor instrumented")
elseif(NOT EXISTS "${OPPROF_TORCH_DIR}/include/torch/csrc/jit/api/module.h" OR
       NOT EXISTS "${OPPROF_TORCH_DIR}/lib/libtorch_cpu.so")
  message(STATUS "opprof-torchscript is not built: the PyTorch of ${OPPROF_PYTHON} has no LibTorch")
elseif(NOT OPPROF_LIBSECCOMP OR NOT OPPROF_SECCOMP_INCLUDE)
  message(STATUS "opprof-torchscript is not built: install libseccomp-dev")
else()
  set(OPPROF_TORCH_FOUND ON)
  message(STATUS "LibTorch in ${OPPROF_TORCH_DIR}")
  add_library(opprof_libtorch INTERFACE)
  target_include_directories(opprof_libtorch SYSTEM INTERFACE
    "${OPPROF_TORCH_DIR}/include" "${OPPROF_TORCH_DIR}/include/torch/csrc/api/include")
  # PyTorch is built with NDEBUG, without which some of its classes have fields more.
  target_compile_definitions(opprof_libtorch INTERFACE _GLIBCXX_USE_CXX11_ABI=${OPPROF_TORCH_ABI} NDEBUG)
  # A build with CUDA needs libraries that other packages hold, which are found when the program starts.
  target_link_options(opprof_libtorch INTERFACE -Wl,--allow-shlib-undefined "-Wl,-rpath,${OPPROF_TORCH_DIR}/lib")
  target_link_libraries(opprof_libtorch INTERFACE
    "${OPPROF_TORCH_DIR}/lib/libtorch_cpu.so" "${OPPROF_TORCH_DIR}/lib/libc10.so")
endif()

# What reads CPython's frames knows their layout in these versions, from headers that Debian has in python3-dev.
execute_process(
  COMMAND ${OPPROF_PYTHON} -c "import sys, sysconfig; print(sysconfig.get_paths()['include']); print('%d.%d' % sys.version_info[:2])"
  OUTPUT_VARIABLE _opprof_python OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
string(REPLACE "\n" ";" _opprof_python "${_opprof_python}")
list(GET _opprof_python 0 OPPROF_PYTHON_INCLUDE)
list(GET _opprof_python 1 OPPROF_PYTHON_VERSION)
set(OPPROF_PYTHON_FRAMES OFF)
if(NOT OPPROF_PYTHON_VERSION MATCHES "^3\\.1[123]$")
  message(STATUS "operators have no lines: the frames of Python ${OPPROF_PYTHON_VERSION} are not known")
elseif(NOT EXISTS "${OPPROF_PYTHON_INCLUDE}/internal/pycore_frame.h")
  message(STATUS "operators have no lines: ${OPPROF_PYTHON_INCLUDE} has no headers; install python3-dev")
else()
  set(OPPROF_PYTHON_FRAMES ON)
endif()
