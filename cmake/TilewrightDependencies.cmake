# Finds what docs/dependencies.md lists. LLVM is static, and its components are named where they are linked.
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

# Optional parts of LLVM that are never linked here; looking for them only prints that they are missing.
set(CMAKE_DISABLE_FIND_PACKAGE_LibEdit ON)
set(CMAKE_DISABLE_FIND_PACKAGE_CURL ON)
find_package(LLVM 22.1 REQUIRED CONFIG HINTS /usr/lib/llvm-22/lib/cmake/llvm)

# tw_llvm(<name> <component>...): an interface target with the headers as system headers and the static libraries.
function(tw_llvm name)
  llvm_map_components_to_libnames(libraries ${ARGN})
  add_library(${name} INTERFACE)
  target_include_directories(${name} SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS})
  separate_arguments(definitions UNIX_COMMAND "${LLVM_DEFINITIONS}")
  target_compile_options(${name} INTERFACE ${definitions})
  target_link_libraries(${name} INTERFACE ${libraries})
endfunction()

tw_llvm(tw_llvm_ir core support targetparser)
tw_llvm(tw_llvm_x86 core support targetparser target mc orcjit jitlink x86codegen x86asmparser)
tw_llvm(tw_llvm_nvptx core support targetparser target mc nvptxcodegen)
tw_llvm(tw_llvm_codegen core support targetparser target mc codegen scalaropts instcombine transformutils analysis)

# libffi has a position independent static library of its own.
find_path(FFI_INCLUDE_DIR ffi.h REQUIRED)
find_library(FFI_LIBRARY NAMES libffi_pic.a ffi REQUIRED)
add_library(tw_ffi INTERFACE)
target_include_directories(tw_ffi SYSTEM INTERFACE ${FFI_INCLUDE_DIR})
target_link_libraries(tw_ffi INTERFACE ${FFI_LIBRARY})

# Header only: spdlog (with fmt compiled once in base), xxHash, CLI11, nlohmann-json.
find_path(SPDLOG_INCLUDE_DIR spdlog/spdlog.h REQUIRED)
find_path(FMT_INCLUDE_DIR fmt/format.h REQUIRED)
find_path(XXHASH_INCLUDE_DIR xxhash.h REQUIRED)
find_path(CLI11_INCLUDE_DIR CLI/CLI.hpp REQUIRED)
find_path(JSON_INCLUDE_DIR nlohmann/json.hpp REQUIRED)
find_package(GTest REQUIRED)
