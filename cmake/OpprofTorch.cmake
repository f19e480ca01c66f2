# Finds LibTorch inside the PyTorch of the build's Python, for what is linked to it and not to LLVM. It is optional: without
# its headers everything else is built.
#
# The headers and libraries are taken as they lie, and not through PyTorch's own CMake package: that of a build with CUDA stops
# where there is no CUDA toolkit, which nothing here needs.
set(OPPROF_TORCH_FOUND OFF)
execute_process(
  COMMAND ${OPPROF_PYTHON} -c "import os, torch; print(os.path.dirname(os.path.dirname(torch.utils.cmake_prefix_path))); print(int(torch._C._GLIBCXX_USE_CXX11_ABI))"
  OUTPUT_VARIABLE _opprof_torch OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE _opprof_torch_result)
if(_opprof_torch_result EQUAL 0)
  string(REPLACE "\n" ";" _opprof_torch "${_opprof_torch}")
  list(GET _opprof_torch 0 OPPROF_TORCH_DIR)
  list(GET _opprof_torch 1 OPPROF_TORCH_ABI)
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
  target_compile_definitions(opprof_libtorch INTERFACE _GLIBCXX_USE_CXX11_ABI=${OPPROF_TORCH_ABI})
  # A build with CUDA needs libraries that other packages hold, which are found when the program starts.
  target_link_options(opprof_libtorch INTERFACE -Wl,--allow-shlib-undefined "-Wl,-rpath,${OPPROF_TORCH_DIR}/lib")
  target_link_libraries(opprof_libtorch INTERFACE
    "${OPPROF_TORCH_DIR}/lib/libtorch_cpu.so" "${OPPROF_TORCH_DIR}/lib/libc10.so")
endif()
