# Functions that turn a folder into a target, so that adding a source file never means editing a list.

# tw_library(<name> [GLOBS pattern...] [LINKS target...] [INCLUDES dir...]): a static library of the folder's sources, *.cpp by default.
# A folder that has none yet becomes an interface library, so that its users need not know.
function(tw_library name)
  cmake_parse_arguments(arg "" "" "GLOBS;LINKS;INCLUDES" ${ARGN})
  if(NOT arg_GLOBS)
    set(arg_GLOBS *.cpp)
  endif()
  list(TRANSFORM arg_GLOBS PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  file(GLOB sources CONFIGURE_DEPENDS ${arg_GLOBS})
  if(sources)
    add_library(${name} STATIC ${sources})
    target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
    target_link_libraries(${name} PRIVATE ${arg_LINKS})
    target_include_directories(${name} SYSTEM PRIVATE ${arg_INCLUDES})
  else()
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE ${arg_LINKS})
  endif()
endfunction()

# tw_programs(LINKS target... [PREFIX text] [EXCEPT name...]): each source file here, and each folder here that has sources,
# becomes a program named after it.
function(tw_programs)
  cmake_parse_arguments(arg "" "PREFIX" "LINKS;INCLUDES;EXCEPT" ${ARGN})
  set(root ${CMAKE_CURRENT_SOURCE_DIR})
  file(GLOB singles CONFIGURE_DEPENDS ${root}/*.cpp ${root}/*.c)
  file(GLOB nested CONFIGURE_DEPENDS ${root}/*/*.cpp)
  set(folders ${nested})
  list(TRANSFORM folders REPLACE "/[^/]*$" "")
  list(REMOVE_DUPLICATES folders)
  foreach(entry ${singles} ${folders})
    get_filename_component(program ${entry} NAME_WE)
    if(program IN_LIST arg_EXCEPT)
      continue()
    endif()
    set(sources ${entry})
    if(IS_DIRECTORY ${entry})
      file(GLOB sources CONFIGURE_DEPENDS ${entry}/*.cpp)
    endif()
    tw_program(${arg_PREFIX}${program} SOURCES ${sources} LINKS ${arg_LINKS} INCLUDES ${arg_INCLUDES})
  endforeach()
endfunction()

function(tw_program name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINKS;INCLUDES" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/capi/include)
  target_include_directories(${name} SYSTEM PRIVATE ${arg_INCLUDES})
  target_link_libraries(${name} PRIVATE ${arg_LINKS} Threads::Threads ${CMAKE_DL_LIBS})
endfunction()

# tw_gtest(<name> <folder> [LINKS target...]): a GoogleTest program of the folder's *_test.cpp files, one ctest entry, run from
# the repository root. Tests of internals link the static libraries; tests of the C API pass LINKS tilewright.
function(tw_gtest name folder)
  cmake_parse_arguments(arg "" "" "LINKS" ${ARGN})
  if(NOT arg_LINKS)
    set(arg_LINKS tw_everything)
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${folder}/*_test.cpp ${folder}/*_test.c)
  if(NOT sources)
    return()
  endif()
  tw_program(${name}_tests SOURCES ${sources} LINKS ${arg_LINKS} GTest::gtest GTest::gtest_main)
  set_target_properties(${name}_tests PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  tw_add_test(${name} COMMAND ${name}_tests LABELS ${name})
endfunction()

# tw_add_test(<name> COMMAND ... [LABELS ...] [ENVIRONMENT ...] [TIMEOUT n]): a ctest entry run from the repository root with
# a private cache directory.
function(tw_add_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "COMMAND;LABELS;ENVIRONMENT" ${ARGN})
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 600)
  endif()
  add_test(NAME ${name} COMMAND ${arg_COMMAND} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set(environment TILEWRIGHT_CACHE_DIR=${PROJECT_BINARY_DIR}/test_cache/${name} TILEWRIGHT_VERIFY_IR=1)
  if(TILEWRIGHT_SANITIZE STREQUAL "thread")
    # Our forked children start threads again, which the sanitizer otherwise takes for a mistake.
    list(APPEND environment TSAN_OPTIONS=die_after_fork=0)
  endif()
  list(APPEND environment ${arg_ENVIRONMENT})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${arg_TIMEOUT} LABELS "${arg_LABELS}" ENVIRONMENT "${environment}"
                       SKIP_RETURN_CODE 77)
endfunction()

# What tests, benchmarks and developer tools link: all internal libraries.
add_library(tw_everything INTERFACE)
target_link_libraries(tw_everything INTERFACE tw_runtime tw_codegen tw_codegen_emit tw_codegen_tile tw_targets tw_cache tw_ir tw_base)
