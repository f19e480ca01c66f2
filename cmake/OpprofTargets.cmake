# add_opprof_library, add_opprof_tool, add_opprof_unittest: the flags every target shares.
include(CheckCXXCompilerFlag)

add_library(opprof_flags INTERFACE)
target_compile_options(opprof_flags INTERFACE -Wall -Wextra -Wno-unused-parameter
  -fvisibility-inlines-hidden -ffunction-sections -fdata-sections)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 reports these inside MLIR's own headers and generated code.
  target_compile_options(opprof_flags INTERFACE -Wno-dangling-pointer -Wno-maybe-uninitialized
    -Wno-stringop-overread -Wno-array-bounds -Wno-restrict)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # libstdc++ 12's own std::stable_sort calls the deprecated std::get_temporary_buffer.
  target_compile_options(opprof_flags INTERFACE -Wno-deprecated-declarations)
endif()
if(EXISTS "${LLVM_TOOLS_BINARY_DIR}/ld.lld")
  target_link_options(opprof_flags INTERFACE "-B${LLVM_TOOLS_BINARY_DIR}" -fuse-ld=lld)
endif()
target_link_options(opprof_flags INTERFACE -Wl,--gc-sections)
if(OPPROF_SANITIZE)
  target_compile_options(opprof_flags INTERFACE -fsanitize=${OPPROF_SANITIZE} -fno-omit-frame-pointer -g)
  target_link_options(opprof_flags INTERFACE -fsanitize=${OPPROF_SANITIZE})
  if(OPPROF_SANITIZE MATCHES "undefined")
    # What is undefined stops the program, as a bad address does. LLVM's classes have no type information to check.
    target_compile_options(opprof_flags INTERFACE -fno-sanitize-recover=undefined -fno-sanitize=vptr)
    target_link_options(opprof_flags INTERFACE -fno-sanitize=vptr)
  endif()
endif()

# add_opprof_library(NAME sources… [LINK_LIBS opprof libraries…] [MLIR_LIBS MLIR components…]): the preset `fuzz` compiles
# several of the sources as one.
function(add_opprof_library name)
  cmake_parse_arguments(ARG "" "" "LINK_LIBS;MLIR_LIBS" ${ARGN})
  add_library(${name} STATIC ${ARG_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PUBLIC opprof_flags ${ARG_LINK_LIBS})
  opprof_link_mlir(${name} ${ARG_MLIR_LIBS})
  add_dependencies(${name} opprof-headers)
endfunction()

set(OPPROF_PROGRAM_SOURCES)
if(OPPROF_SANITIZE MATCHES "address")
  set(OPPROF_PROGRAM_SOURCES ${CMAKE_CURRENT_LIST_DIR}/SanitizerDefaults.cpp)
elseif(OPPROF_PORTABLE)
  set(OPPROF_PROGRAM_SOURCES ${CMAKE_CURRENT_LIST_DIR}/PortableLibc.cpp)
endif()

# A Python wheel puts the tools beside the interpreter's own scripts.
if(DEFINED SKBUILD_SCRIPTS_DIR)
  set(OPPROF_INSTALL_BINDIR "${SKBUILD_SCRIPTS_DIR}")
else()
  set(OPPROF_INSTALL_BINDIR "${CMAKE_INSTALL_BINDIR}")
endif()

# _opprof_install_tool(NAME): an executable of build/bin that the package holds.
function(_opprof_install_tool name)
  set_target_properties(${name} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin
    INSTALL_RPATH "$ORIGIN/../lib/opprof")
  if(OPPROF_PORTABLE)
    target_link_options(${name} PRIVATE -static-libstdc++ -static-libgcc -Wl,-s -Wl,--as-needed)
  endif()
  set_property(GLOBAL APPEND PROPERTY OPPROF_TOOLS ${name})
  install(TARGETS ${name} RUNTIME DESTINATION ${OPPROF_INSTALL_BINDIR} COMPONENT opprof)
endfunction()

# add_opprof_tool(NAME sources… [LINK_LIBS …] [MLIR_LIBS …]): a tool that opprof-driver holds, and the small program of its name
# that becomes it. MLIR, which is most of each, is linked, installed and packed once.
function(add_opprof_tool name)
  add_opprof_library(${name}-main ${ARGN})
  set_property(GLOBAL APPEND PROPERTY OPPROF_TOOL_MAINS ${name}-main)
  add_executable(${name} ${PROJECT_SOURCE_DIR}/tools/Launcher.cpp)
  target_compile_definitions(${name} PRIVATE OPPROF_TOOL="${name}")
  add_dependencies(${name} opprof-driver)
  _opprof_install_tool(${name})
endfunction()

# add_opprof_driver(NAME sources… [LINK_LIBS …] [MLIR_LIBS …]): the program that holds the tools that were added before.
function(add_opprof_driver name)
  cmake_parse_arguments(ARG "" "" "LINK_LIBS;MLIR_LIBS" ${ARGN})
  get_property(mains GLOBAL PROPERTY OPPROF_TOOL_MAINS)
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS} ${OPPROF_PROGRAM_SOURCES})
  target_link_libraries(${name} PRIVATE opprof_flags ${mains} ${ARG_LINK_LIBS})
  opprof_link_mlir(${name} ${ARG_MLIR_LIBS})
  add_dependencies(${name} opprof-headers)
  _opprof_install_tool(${name})
endfunction()

# add_opprof_unittest(NAME sources… LINK_LIBS …): one gtest program, run by check-opprof and ctest.
function(add_opprof_unittest name)
  cmake_parse_arguments(ARG "" "" "LINK_LIBS" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS} ${OPPROF_PROGRAM_SOURCES})
  target_link_libraries(${name} PRIVATE opprof_flags ${ARG_LINK_LIBS} GTest::gtest GTest::gtest_main)
  add_dependencies(${name} opprof-headers)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/unittests)
  add_test(NAME ${name} COMMAND ${name})
  set_property(GLOBAL APPEND PROPERTY OPPROF_UNITTESTS ${name})
endfunction()

# add_opprof_fuzzer(NAME sources… LINK_LIBS …): one libFuzzer program, run briefly by test.sh.
function(add_opprof_fuzzer name)
  cmake_parse_arguments(ARG "" "" "LINK_LIBS" ${ARGN})
  add_executable(${name} ${ARG_UNPARSED_ARGUMENTS} ${OPPROF_PROGRAM_SOURCES})
  target_link_libraries(${name} PRIVATE opprof_flags ${ARG_LINK_LIBS})
  target_link_options(${name} PRIVATE -fsanitize=fuzzer)
  add_dependencies(${name} opprof-headers)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzz)
  set_property(GLOBAL APPEND PROPERTY OPPROF_FUZZERS ${name})
endfunction()

# add_opprof_reference(NAME FILE.td arguments of the documentation generator…): a page of docs/reference, made from
# TableGen. The pages are kept in the repository; `cmake --build build --target opprof-doc` renews them, and a test
# compares them.
function(add_opprof_reference name definitions)
  set(LLVM_TARGET_DEFINITIONS ${definitions})
  mlir_tablegen(${name}.md ${ARGN})
  set(generated ${CMAKE_BINARY_DIR}/docs/reference/${name}.md)
  add_custom_command(OUTPUT ${generated}
    COMMAND ${CMAKE_COMMAND} -E copy ${CMAKE_CURRENT_BINARY_DIR}/${name}.md ${generated}
    DEPENDS ${CMAKE_CURRENT_BINARY_DIR}/${name}.md)
  add_custom_target(opprof-reference-${name} DEPENDS ${generated})
  add_dependencies(opprof-reference opprof-reference-${name})
endfunction()
