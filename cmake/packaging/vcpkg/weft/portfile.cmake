# The library, of the checkout that this port lies in: vcpkg install weft --overlay-ports=CHECKOUT/cmake/packaging/vcpkg
get_filename_component(SOURCE_PATH "${CURRENT_PORT_DIR}/../../../.." ABSOLUTE)
vcpkg_check_linkage(ONLY_DYNAMIC_LIBRARY)

# Weft includes <stb/stb_image.h>, as Debian has it.
set(stb "${CURRENT_BUILDTREES_DIR}/include")
file(COPY "${CURRENT_INSTALLED_DIR}/include/stb_image.h" "${CURRENT_INSTALLED_DIR}/include/stb_image_write.h" DESTINATION "${stb}/stb")
vcpkg_find_acquire_program(PKGCONFIG)
vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS
    -DWEFT_APPS=OFF -DWEFT_TESTS=OFF
    "-DSTB_INCLUDE_DIR=${stb}"
    "-DPKG_CONFIG_EXECUTABLE=${PKGCONFIG}"
    "-DGLSLANG_VALIDATOR=${CURRENT_HOST_INSTALLED_DIR}/tools/glslang/glslang${VCPKG_HOST_EXECUTABLE_SUFFIX}"
    "-DSPIRV_CROSS=${CURRENT_HOST_INSTALLED_DIR}/tools/spirv-cross/spirv-cross${VCPKG_HOST_EXECUTABLE_SUFFIX}"
)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(PACKAGE_NAME Weft CONFIG_PATH lib/cmake/Weft)
vcpkg_fixup_pkgconfig()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
