# Finds the headers of CUPTI and CUDA, from their PyPI packages: no CUDA toolkit is needed. Nothing of CUDA is linked.
#
# They are looked for in OPPROF_CUDA_INCLUDE_DIRS, in the site-packages of the build's Python and of the project's .venv,
# and else fetched once into the build folder.
set(OPPROF_CUDA_INCLUDE_DIRS "" CACHE STRING "Folders with cupti.h and cuda.h, when not from the PyPI packages")
set(OPPROF_CUPTI_PACKAGES nvidia-cuda-cupti==13.0.85 nvidia-cuda-runtime==13.0.96 nvidia-cuda-crt==13.0.88
  nvidia-nvtx==13.0.85)

set(_opprof_site_packages)
foreach(python IN ITEMS "${OPPROF_PYTHON}" "${CMAKE_SOURCE_DIR}/.venv/bin/python" "${Python3_EXECUTABLE}")
  if(python AND EXISTS "${python}")
    execute_process(COMMAND "${python}" -c "import sysconfig; print(sysconfig.get_path('purelib'))"
      OUTPUT_VARIABLE purelib OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    list(APPEND _opprof_site_packages "${purelib}/nvidia/cu13/include")
  endif()
endforeach()
# A second build folder, such as the fuzzers', takes what the first one fetched.
list(APPEND _opprof_site_packages "${CMAKE_BINARY_DIR}/cuda-headers/nvidia/cu13/include"
  "${CMAKE_SOURCE_DIR}/build/cuda-headers/nvidia/cu13/include")

# A folder of PyTorch's own packages may lack the compiler's headers (crt/), which the others include. What an earlier configuration found
# may lie in an environment that is another one by now.
macro(_opprof_find_cupti)
  foreach(found IN ITEMS OPPROF_CUPTI_INCLUDE/cupti_range_profiler.h OPPROF_CUDA_INCLUDE/cuda.h OPPROF_CUDA_CRT_INCLUDE/crt/host_defines.h)
    string(REGEX MATCH "^([^/]+)/(.*)$" _opprof_match "${found}")
    if(NOT EXISTS "${${CMAKE_MATCH_1}}/${CMAKE_MATCH_2}")
      unset(${CMAKE_MATCH_1} CACHE)
    endif()
  endforeach()
  find_path(OPPROF_CUPTI_INCLUDE cupti_range_profiler.h PATHS ${OPPROF_CUDA_INCLUDE_DIRS} ${_opprof_site_packages}
    NO_DEFAULT_PATH)
  find_path(OPPROF_CUDA_INCLUDE cuda.h PATHS ${OPPROF_CUDA_INCLUDE_DIRS} ${_opprof_site_packages} NO_DEFAULT_PATH)
  find_path(OPPROF_CUDA_CRT_INCLUDE crt/host_defines.h PATHS ${OPPROF_CUDA_INCLUDE_DIRS} ${_opprof_site_packages}
    NO_DEFAULT_PATH)
endmacro()

_opprof_find_cupti()
if(NOT OPPROF_CUPTI_INCLUDE OR NOT OPPROF_CUDA_INCLUDE OR NOT OPPROF_CUDA_CRT_INCLUDE)
  message(STATUS "Fetching the CUDA headers: ${OPPROF_CUPTI_PACKAGES}")
  execute_process(
    COMMAND "${OPPROF_PYTHON}" -m pip install --quiet --no-deps --disable-pip-version-check
      --target "${CMAKE_BINARY_DIR}/cuda-headers" ${OPPROF_CUPTI_PACKAGES}
    ERROR_VARIABLE _opprof_pip_error RESULT_VARIABLE _opprof_pip_status)
  _opprof_find_cupti()
  if(NOT OPPROF_CUPTI_INCLUDE OR NOT OPPROF_CUDA_INCLUDE OR NOT OPPROF_CUDA_CRT_INCLUDE)
    message(FATAL_ERROR "The headers cupti_range_profiler.h, cuda.h and crt/host_defines.h were not found and could not be fetched:\n"
      "${_opprof_pip_error}\nInstall them into .venv (pip install ${OPPROF_CUPTI_PACKAGES}) or set OPPROF_CUDA_INCLUDE_DIRS.")
  endif()
endif()
message(STATUS "CUPTI headers in ${OPPROF_CUPTI_INCLUDE}")

add_library(opprof_cupti_headers INTERFACE)
target_include_directories(opprof_cupti_headers SYSTEM INTERFACE ${OPPROF_CUPTI_INCLUDE} ${OPPROF_CUDA_INCLUDE} ${OPPROF_CUDA_CRT_INCLUDE})
