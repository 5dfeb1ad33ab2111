# weft_room(NAME [SOURCES ...] [DEPENDS room ...] [LINKS library ...])
#
# One folder of runtime/ as a static library weft_NAME. Its headers are reachable as "NAME/x.h" only for the rooms that
# list it in DEPENDS: each room has an include folder of its own that holds nothing but a link to it, so an include against
# the direction of dependencies does not compile.
function(weft_room name)
  cmake_parse_arguments(PARSE_ARGV 1 ROOM "" "" "SOURCES;DEPENDS;LINKS")
  set(includes ${PROJECT_BINARY_DIR}/rooms/${name})
  file(MAKE_DIRECTORY ${includes})
  file(CREATE_LINK ${CMAKE_CURRENT_SOURCE_DIR}/${name} ${includes}/${name} SYMBOLIC)
  list(TRANSFORM ROOM_SOURCES PREPEND ${name}/)
  list(TRANSFORM ROOM_DEPENDS PREPEND weft_)
  add_library(weft_${name} STATIC ${ROOM_SOURCES})
  target_include_directories(weft_${name} PUBLIC ${includes})
  target_link_libraries(weft_${name} PUBLIC ${ROOM_DEPENDS} ${ROOM_LINKS})
  weft_options(weft_${name})
endfunction()
