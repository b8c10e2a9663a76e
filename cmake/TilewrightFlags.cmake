# Compiler and linker flags that every target shares.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/archives)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2")
set(CMAKE_C_FLAGS_RELEASE "-O2")
set(CMAKE_CXX_FLAGS_DEBUG "-O0 -g")
set(CMAKE_C_FLAGS_DEBUG "-O0 -g")

# Results must not depend on what the compiler fuses by itself: the reference kernels are the oracle.
add_compile_options(-Wall -Wextra -Werror -ffp-contract=off -ffunction-sections -fdata-sections)
# Both are noise: g++ 12 reports its own std::string as overlapping, and designated initialisers as incomplete.
add_compile_options(-Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_compile_options(-Wno-restrict $<$<COMPILE_LANGUAGE:CXX>:-Wno-psabi>)
  # Later releases guess at data flow inside LLVM's and the standard library's headers; g++ 12 keeps the check alive.
  if(CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
    add_compile_options(-Wno-maybe-uninitialized -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread
                        $<$<COMPILE_LANGUAGE:CXX>:-Wno-dangling-reference>)
  endif()
endif()

if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # The standard library's own stable_sort calls what it declares deprecated.
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-deprecated-declarations>)
endif()

set(TILEWRIGHT_SANITIZE "" CACHE STRING "address, undefined or thread")
if(TILEWRIGHT_SANITIZE)
  # The instrumented flow makes g++ see uninitialised values that are not there.
  add_compile_options(-fsanitize=${TILEWRIGHT_SANITIZE} -fno-omit-frame-pointer -O1 -g1 -Wno-maybe-uninitialized)
  if(TILEWRIGHT_SANITIZE MATCHES "undefined")
    add_compile_options(-fno-sanitize-recover=undefined)
  endif()
  add_link_options(-fsanitize=${TILEWRIGHT_SANITIZE})
endif()

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_C_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE_PROGRAM})
endif()

# g++ 12 takes no path in -fuse-ld: -B shows it where lld lies. Linking LLVM takes 0.4 s with lld, 2.5 s with bfd.
find_program(LLD_PROGRAM ld.lld HINTS /usr/lib/llvm-22/bin NO_DEFAULT_PATH)
if(LLD_PROGRAM)
  get_filename_component(lld_folder ${LLD_PROGRAM} DIRECTORY)
  add_link_options(-fuse-ld=lld -B${lld_folder})
endif()
add_link_options(-Wl,--gc-sections -Wl,--build-id=sha1)
