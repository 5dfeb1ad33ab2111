# For systems without packages, such as Android: PCRE2 and utf8proc are built from their sources and linked into libweft. Header-only
# libraries (volk, Vulkan's, nlohmann/json and stb) are the build machine's. FETCHCONTENT_SOURCE_DIR_PCRE2 and _UTF8PROC name sources that are
# there already.
include(FetchContent)
FetchContent_Declare(pcre2 EXCLUDE_FROM_ALL DOWNLOAD_EXTRACT_TIMESTAMP ON
  URL https://deb.debian.org/debian/pool/main/p/pcre2/pcre2_10.42.orig.tar.gz
      https://github.com/PCRE2Project/pcre2/releases/download/pcre2-10.42/pcre2-10.42.tar.gz
  URL_HASH SHA256=c33b418e3b936ee3153de2c61cc638e7e4fe3156022a5c77d0711bcbb9d64f1f)
FetchContent_Declare(utf8proc EXCLUDE_FROM_ALL DOWNLOAD_EXTRACT_TIMESTAMP ON
  URL https://deb.debian.org/debian/pool/main/u/utf8proc/utf8proc_2.8.0.orig.tar.gz
      https://github.com/JuliaStrings/utf8proc/archive/v2.8.0.tar.gz
  URL_HASH SHA256=a0a60a79fe6f6d54e7d411facbfcc867a6e198608f2cd992490e46f04b1bcecc)

function(weft_bundle)
  set(CMAKE_POLICY_DEFAULT_CMP0077 NEW) # the variables below are these projects' options
  set(CMAKE_POLICY_DEFAULT_CMP0126 NEW) # those that are cache variables too
  set(CMAKE_POLICY_VERSION_MINIMUM 3.5)
  set(CMAKE_POLICY_DEFAULT_CMP0063 NEW)
  set(BUILD_SHARED_LIBS OFF)
  set(PCRE2_BUILD_PCRE2GREP OFF)
  set(PCRE2_BUILD_TESTS OFF)
  set(PCRE2_SUPPORT_JIT ON)
  set(PCRE2_SUPPORT_UNICODE ON)
  FetchContent_MakeAvailable(pcre2 utf8proc) # before CMake 3.28 they are built whole
endfunction()
weft_bundle()
add_library(PkgConfig::PCRE2 ALIAS pcre2-8-static)
add_library(PkgConfig::UTF8PROC ALIAS utf8proc)

# Only links to these: what else lies beside them is the build machine's C library.
set(headers ${PROJECT_BINARY_DIR}/headers)
file(MAKE_DIRECTORY ${headers})
foreach(name volk.h volk.c vulkan vk_video nlohmann stb kissfft)
  find_file(HEADER_${name} ${name} PATHS /usr/local/include /usr/include NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH REQUIRED)
  file(CREATE_LINK ${HEADER_${name}} ${headers}/${name} SYMBOLIC)
endforeach()
set(VOLK_INCLUDE_DIR ${headers})
set(VULKAN_INCLUDE_DIR ${headers})
set(STB_INCLUDE_DIR ${headers})
set(KISSFFT_INCLUDE_DIR ${headers})
add_library(nlohmann_json::nlohmann_json INTERFACE IMPORTED)
target_include_directories(nlohmann_json::nlohmann_json INTERFACE ${headers})

if(WEFT_TESTS) # those without a device, for tests/tools/musl.py
  add_subdirectory(/usr/src/googletest ${PROJECT_BINARY_DIR}/googletest EXCLUDE_FROM_ALL)
  find_file(HEADER_CLI CLI PATHS /usr/include NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH REQUIRED)
  file(CREATE_LINK ${HEADER_CLI} ${headers}/CLI SYMBOLIC)
  add_library(CLI11::CLI11 INTERFACE IMPORTED)
  target_include_directories(CLI11::CLI11 INTERFACE ${headers})
endif()

set(CMAKE_PLATFORM_NO_VERSIONED_SONAME ON)
add_link_options(-Wl,-z,max-page-size=16384) # Android's pages, since Android 15
