# Finds MLIR 22 and decides how it is linked: component archives (the default: fast start, portable) or the dylib.
#
# Debian's exported archive targets name the LLVM dylib and shared zlib, zstd and z3 in their interfaces.
# Linking them as they are would put two copies of LLVM in one process, so the static mode rewrites the interfaces.
find_package(MLIR 22.1 REQUIRED CONFIG
  HINTS /usr/lib/llvm-22/lib/cmake/mlir)
message(STATUS "MLIR ${MLIR_PACKAGE_VERSION} in ${MLIR_DIR}, linked as ${OPPROF_MLIR_LINK}")

list(APPEND CMAKE_MODULE_PATH "${MLIR_CMAKE_DIR}" "${LLVM_CMAKE_DIR}")
set(LLVM_LINK_LLVM_DYLIB OFF)
include(TableGen)
include(AddLLVM)
include(AddMLIR)

include_directories(SYSTEM ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
separate_arguments(OPPROF_LLVM_DEFINITIONS NATIVE_COMMAND "${LLVM_DEFINITIONS}")
add_definitions(${OPPROF_LLVM_DEFINITIONS})

set(OPPROF_LLVM_ARCHIVES LLVMSupportLSP LLVMSupport LLVMRemarks LLVMBitstreamReader
    LLVMBinaryFormat LLVMTargetParser LLVMDemangle)

function(_opprof_fix_archive target)
  get_property(done GLOBAL PROPERTY _opprof_fixed_${target})
  if(done OR NOT TARGET ${target})
    return()
  endif()
  set_property(GLOBAL PROPERTY _opprof_fixed_${target} 1)
  get_target_property(interface ${target} INTERFACE_LINK_LIBRARIES)
  if(NOT interface)
    return()
  endif()
  set(rewritten)
  foreach(library IN LISTS interface)
    if(library STREQUAL "LLVM")
      list(APPEND rewritten ${OPPROF_LLVM_ARCHIVES})
    elseif(NOT library STREQUAL "MLIR" AND
           NOT library MATCHES "libz3|ZLIB::ZLIB|zstd::|CURL::|LibXml2::|LibEdit|FFI::")
      list(APPEND rewritten ${library})
    endif()
  endforeach()
  if(target STREQUAL "LLVMSupport")
    list(APPEND rewritten ${OPPROF_LIBZ_ARCHIVE} ${OPPROF_LIBZSTD_ARCHIVE})
  endif()
  list(REMOVE_DUPLICATES rewritten)
  set_target_properties(${target} PROPERTIES INTERFACE_LINK_LIBRARIES "${rewritten}")
  foreach(library IN LISTS rewritten)
    string(REGEX REPLACE "^\\$<LINK_ONLY:(.*)>$" "\\1" name "${library}")
    _opprof_fix_archive(${name})
  endforeach()
endfunction()

find_library(OPPROF_LIBZ_ARCHIVE libz.a REQUIRED)
find_library(OPPROF_LIBZSTD_ARCHIVE libzstd.a REQUIRED)

# Links `target` against the named MLIR component libraries, or against the dylib that holds them all.
function(opprof_link_mlir target)
  if(OPPROF_MLIR_LINK STREQUAL "dylib")
    target_link_libraries(${target} PUBLIC MLIR LLVM)
  else()
    foreach(component IN LISTS ARGN)
      _opprof_fix_archive(${component})
    endforeach()
    target_link_libraries(${target} PUBLIC ${ARGN})
  endif()
endfunction()
