# `cpack` makes Debian packages (libweft0, libweft-dev and weft) and an archive of all that is installed.
if(SKBUILD)
  return()
endif()
set(CPACK_PACKAGE_NAME weft)
set(CPACK_PACKAGE_CONTACT "Weft <weft@packages.debian.org>" CACHE STRING "Whom a package names as its maintainer: NAME <ADDRESS>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY ${PROJECT_DESCRIPTION})
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_GENERATOR DEB TGZ)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL libweft0 libweft-dev weft)
set(CPACK_DEB_COMPONENT_INSTALL ON) # a package each; an archive has all

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_LIBRARY_OUTPUT_DIRECTORY})
set(CPACK_DEBIAN_LIBWEFT0_PACKAGE_NAME libweft0)
set(CPACK_DEBIAN_LIBWEFT0_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBWEFT0_PACKAGE_RECOMMENDS "libvulkan1, mesa-vulkan-drivers | vulkan-icd")
set(CPACK_DEBIAN_WEFT_PACKAGE_RECOMMENDS "ca-certificates") # for `weft pull`
set(CPACK_DEBIAN_LIBWEFT-DEV_PACKAGE_NAME libweft-dev)
set(CPACK_DEBIAN_LIBWEFT-DEV_PACKAGE_SECTION libdevel)
set(exactly "libweft0 (= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})")
set(CPACK_DEBIAN_LIBWEFT-DEV_PACKAGE_DEPENDS "${exactly}, libpcre2-dev, libutf8proc-dev") # of libweft.a
set(CPACK_DEBIAN_WEFT_PACKAGE_NAME weft)
set(CPACK_DEBIAN_WEFT_PACKAGE_SECTION utils)
set(CPACK_DEBIAN_WEFT_PACKAGE_DEPENDS ${exactly})

set(CPACK_COMPONENT_LIBWEFT0_DESCRIPTION "This package has the shared libraries, and pocket, a model that is loaded
if none is named.")
set(CPACK_COMPONENT_LIBWEFT-DEV_DESCRIPTION "This package has the headers for C and C++, the static library, and what
CMake and pkg-config need.")
set(CPACK_COMPONENT_WEFT_DESCRIPTION "This package has the program weft, which chats, serves, measures and
converts.")

# Files that Debian requires in every package. A plain `cmake --install` leaves them out.
set(folder ${PROJECT_BINARY_DIR}/package)
string(TIMESTAMP now "%a, %d %b %Y %H:%M:%S +0000" UTC)
configure_file(cmake/packaging/copyright.in ${folder}/copyright @ONLY)
configure_file(cmake/packaging/changelog.in ${folder}/changelog @ONLY)
execute_process(COMMAND gzip -9nc ${folder}/changelog OUTPUT_FILE ${folder}/changelog.Debian.gz)
file(WRITE ${folder}/triggers "activate-noawait ldconfig\n")
file(WRITE ${folder}/shlibs "libweft 0 libweft0 (>= ${PROJECT_VERSION})\nlibweft_convert 0 libweft0 (>= ${PROJECT_VERSION})\n")
set(CPACK_DEBIAN_LIBWEFT0_PACKAGE_CONTROL_EXTRA ${folder}/triggers ${folder}/shlibs)
foreach(package ${CPACK_COMPONENTS_ALL})
  install(FILES ${folder}/copyright ${folder}/changelog.Debian.gz DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/${package} COMPONENT ${package}
          EXCLUDE_FROM_ALL)
endforeach()
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/packaging/package_files.cmake)
include(CPack)
