# Places of the files that `cmake --install` installs. They find each other by relative paths: the prefix can be moved afterwards.
include(CMakePackageConfigHelpers)

set(pocket ${PROJECT_SOURCE_DIR}/apps/pocket)
set(copyright ${PROJECT_SOURCE_DIR}/cmake/packaging/copyright.in) # of Weft, and of the libraries within
if(SKBUILD) # the wheel of runtime/bindings/python: the library under one name, because a wheel holds no links, and the model it loads
  install(TARGETS weft LIBRARY DESTINATION lib COMPONENT python)
  install(FILES ${pocket}/pocket.gguf ${pocket}/pocket.md ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION share/weft COMPONENT python)
  install(FILES ${copyright} RENAME copyright DESTINATION share/weft COMPONENT python)
  return()
endif()

set_target_properties(weft weft_convert_library PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/Weft)
# Components are packages of Debian (package.cmake).
install(TARGETS weft weft_convert_library EXPORT Weft
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT libweft0 NAMELINK_COMPONENT libweft-dev)
if(TARGET weft_static)
  install(TARGETS weft_static EXPORT Weft ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT libweft-dev)
endif()
install(DIRECTORY runtime/include/weft DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT libweft-dev)
# The model that loads with no path given, also from the build tree, and its description.
install(FILES ${pocket}/pocket.gguf ${pocket}/pocket.md DESTINATION ${CMAKE_INSTALL_DATADIR}/weft COMPONENT libweft0)
# The Debian packages have these each in a folder of its own (package.cmake).
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/weft COMPONENT licences)
install(FILES ${copyright} RENAME copyright DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/weft COMPONENT licences)
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/share/weft)
file(CREATE_LINK ${pocket}/pocket.gguf ${PROJECT_BINARY_DIR}/share/weft/pocket.gguf COPY_ON_ERROR SYMBOLIC)
if(WEFT_APPS)
  install(TARGETS weft_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT weft)
  if(NOT CMAKE_CROSSCOMPILING)
    set(described ${PROJECT_BINARY_DIR}/apps/describe)
    install(FILES ${described}/weft.1.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT weft)
    install(FILES ${described}/weft DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT weft)
    install(FILES ${described}/_weft DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT weft)
    install(FILES ${described}/weft.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT weft)
  endif()
  install(TARGETS weft-microbench RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

# find_package(Weft) makes Weft::weft, Weft::static and Weft::convert.
install(EXPORT Weft FILE WeftTargets.cmake NAMESPACE Weft:: DESTINATION ${package_dir} COMPONENT libweft-dev)
configure_package_config_file(cmake/WeftConfig.cmake.in ${PROJECT_BINARY_DIR}/WeftConfig.cmake INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/WeftConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/WeftConfig.cmake ${PROJECT_BINARY_DIR}/WeftConfigVersion.cmake DESTINATION ${package_dir}
        COMPONENT libweft-dev)

# pkg-config: ${pcfiledir} is where the .pc files lie.
cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_INCLUDEDIR BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX} OUTPUT_VARIABLE WEFT_INCLUDEDIR)
cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_LIBDIR BASE_DIRECTORY ${CMAKE_INSTALL_PREFIX} OUTPUT_VARIABLE WEFT_LIBDIR)
file(RELATIVE_PATH WEFT_PREFIX_FROM_PC ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
set(names weft weft-convert)
if(TARGET weft_static)
  list(APPEND names weft-static)
endif()
foreach(name ${names})
  configure_file(cmake/${name}.pc.in ${PROJECT_BINARY_DIR}/${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT libweft-dev)
endforeach()
