# cpack runs this when the files of a package lie in CPACK_TEMPORARY_DIRECTORY. A Debian package installs where the loader looks, and
# its programs may name no other folder.
if(CPACK_GENERATOR STREQUAL DEB)
  file(GLOB programs ${CPACK_TEMPORARY_DIRECTORY}/weft/usr/bin/*)
  foreach(program ${programs})
    file(RPATH_REMOVE FILE ${program})
  endforeach()
endif()
