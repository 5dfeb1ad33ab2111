# weft_module(NAME [HOT source ...] [DEPENDS module ...] [LINKS library ...])
#
# One folder of runtime/, every .cpp and .c file of it and of its folders, as a static library weft_NAME. Its headers are reachable as "NAME/x.h"
# only for the modules that list it in DEPENDS, and those that depend on them: each module has an include folder of its own that holds nothing but a link to it,
# so an include against the direction of dependencies does not compile. HOT sources are compiled to be fast, the others to be small.
function(weft_module name)
  cmake_parse_arguments(PARSE_ARGV 1 MODULE "" "" "HOT;DEPENDS;LINKS")
  set(includes ${PROJECT_BINARY_DIR}/modules/${name})
  file(MAKE_DIRECTORY ${includes})
  file(CREATE_LINK ${CMAKE_CURRENT_SOURCE_DIR}/${name} ${includes}/${name} SYMBOLIC)
  file(GLOB sources CONFIGURE_DEPENDS ${name}/*.cpp ${name}/*/*.cpp ${name}/*.c)
  list(TRANSFORM MODULE_HOT PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/${name}/)
  list(TRANSFORM MODULE_DEPENDS PREPEND weft_)
  add_library(weft_${name} STATIC ${sources})
  target_include_directories(weft_${name} PUBLIC ${includes})
  target_link_libraries(weft_${name} PUBLIC ${MODULE_DEPENDS} ${MODULE_LINKS})
  weft_options(weft_${name})
  weft_small(weft_${name})
  if(MODULE_HOT) # a precompiled header fits only what is compiled with the same options
    set_property(SOURCE ${MODULE_HOT} APPEND PROPERTY COMPILE_OPTIONS ${WEFT_FAST})
    set_property(SOURCE ${MODULE_HOT} PROPERTY SKIP_PRECOMPILE_HEADERS ON)
  endif()
  weft_precompiled(weft_${name})
endfunction()

# weft_precompiled(TARGET): the headers that most of the runtime includes are precompiled once; weft_base, the first target, owns them.
# CMAKE_DISABLE_PRECOMPILE_HEADERS=ON builds without, and finds files that do not include what they use.
function(weft_precompiled target)
  if(NOT target STREQUAL weft_base)
    target_precompile_headers(${target} REUSE_FROM weft_base)
    return()
  endif()
  set(headers algorithm array cmath cstdint cstring deque filesystem functional map memory mutex optional span string string_view
      unordered_map utility vector)
  list(TRANSFORM headers REPLACE "(.+)" "$<$<COMPILE_LANGUAGE:CXX>:<\\1$<ANGLE-R>>")
  target_precompile_headers(weft_base PRIVATE ${headers})
endfunction()
