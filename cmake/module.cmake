# weft_module(NAME [DEPENDS module ...] [LINKS library ...])
#
# One folder of runtime/, every .cpp and .c file of it, as a static library weft_NAME. Its headers are reachable as "NAME/x.h"
# only for the modules that list it in DEPENDS: each module has an include folder of its own that holds nothing but a link to it,
# so an include against the direction of dependencies does not compile.
function(weft_module name)
  cmake_parse_arguments(PARSE_ARGV 1 MODULE "" "" "DEPENDS;LINKS")
  set(includes ${PROJECT_BINARY_DIR}/modules/${name})
  file(MAKE_DIRECTORY ${includes})
  file(CREATE_LINK ${CMAKE_CURRENT_SOURCE_DIR}/${name} ${includes}/${name} SYMBOLIC)
  file(GLOB sources CONFIGURE_DEPENDS ${name}/*.cpp ${name}/*.c)
  list(TRANSFORM MODULE_DEPENDS PREPEND weft_)
  add_library(weft_${name} STATIC ${sources})
  target_include_directories(weft_${name} PUBLIC ${includes})
  target_link_libraries(weft_${name} PUBLIC ${MODULE_DEPENDS} ${MODULE_LINKS})
  weft_options(weft_${name})
endfunction()
