# weft_shaders()
#
# Compiles every NAME.comp of this folder to SPIR-V and writes the C++ header "NAME.spv.h" from it: `weft::shaders::NAME`, a Shader
# (gpu/shader.h) with the bindings, the buffers written and the push constants that the SPIR-V itself declares. "all.spv.h" lists all.
#
# Comment lines of a .comp say more:
#   // Variants: subgroup texel      The source is compiled once more for each, with WEFT_SUBGROUP or WEFT_TEXEL defined: NAME_subgroup, NAME_texel.
#   // Variant of: attend            NAME is attend_VARIANT: a source of its own for a variant of the operation `attend`.
#   // Interface of: attend_texel    NAME has that shader's bindings and push constants. spirv-cross cannot read its own.
#   // Needs: GL_KHR_x               Where glslang is too old for that extension, NAME has no code.
find_program(GLSLANG_VALIDATOR NAMES glslangValidator glslang REQUIRED)
find_program(SPIRV_CROSS NAMES spirv-cross REQUIRED)
set(WEFT_NEWER_GLSLANG ${GLSLANG_VALIDATOR} CACHE FILEPATH "A glslang for shaders that GLSLANG_VALIDATOR is too old for")

# Sets `result` to whether WEFT_NEWER_GLSLANG knows an extension.
function(weft_glslang_knows extension result)
  set(probe ${CMAKE_CURRENT_BINARY_DIR}/spirv/knows_${extension})
  file(WRITE ${probe}.comp "#version 450\n#extension ${extension} : require\nvoid main() {}\n")
  execute_process(COMMAND ${WEFT_NEWER_GLSLANG} -V --target-env vulkan1.1 -o ${probe}.spv ${probe}.comp RESULT_VARIABLE status
                  OUTPUT_QUIET ERROR_QUIET)
  if(status EQUAL 0)
    set(${result} TRUE PARENT_SCOPE)
  else()
    set(${result} FALSE PARENT_SCOPE)
  endif()
endfunction()

# Sets `result` to the list of words after `// KEY: ` in a source.
function(weft_shader_line source key result)
  file(STRINGS ${source} line LIMIT_COUNT 1 REGEX "^// ${key}: ")
  string(REGEX REPLACE "^// ${key}: " "" words "${line}")
  string(REPLACE " " ";" words "${words}")
  set(${result} ${words} PARENT_SCOPE)
endfunction()

function(weft_shaders)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.comp)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/spirv)
  set(script ${PROJECT_SOURCE_DIR}/cmake/shader_header.cmake)
  set(headers)
  set(includes)
  set(addresses)
  foreach(source ${sources})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source}) # for the two lines
    cmake_path(GET source STEM name)
    weft_shader_line(${source} "Variants" variants)
    weft_shader_line(${source} "Variant of" operation)
    weft_shader_line(${source} "Interface of" interface)
    weft_shader_line(${source} "Needs" needs)
    set(compiler ${GLSLANG_VALIDATOR})
    set(modules)
    if(interface)
      list(APPEND modules ${folder}/${interface}.spv)
    endif()
    if(needs)
      set(compiler ${WEFT_NEWER_GLSLANG})
      weft_glslang_knows(${needs} known)
      if(NOT known)
        message(STATUS "${name}.comp is left out: ${compiler} does not know ${needs} (-DWEFT_NEWER_GLSLANG=PROGRAM)")
        set(interface left_out)
        set(modules)
      endif()
    endif()
    list(TRANSFORM variants PREPEND ${name}_ OUTPUT_VARIABLE names)
    if(interface STREQUAL left_out)
      set(names)
    else()
      list(PREPEND names ${name})
    endif()
    foreach(shader ${names})
      string(REPLACE "${name}" "" define ${shader})
      if(define)
        string(TOUPPER "-DWEFT${define}=1" define)
      endif()
      add_custom_command(
        OUTPUT ${folder}/${shader}.spv
        COMMAND ${compiler} --quiet -V -g0 --target-env vulkan1.1 -I${CMAKE_CURRENT_SOURCE_DIR} ${define}
                --depfile ${folder}/${shader}.d -o ${folder}/${shader}.spv ${source}
        DEPENDS ${source}
        DEPFILE ${folder}/${shader}.d
        COMMENT "Shader ${shader}"
        VERBATIM)
      list(APPEND modules ${folder}/${shader}.spv)
      string(APPEND addresses "  &${shader},\n")
    endforeach()
    add_custom_command(
      OUTPUT ${folder}/${name}.spv.h
      COMMAND ${CMAKE_COMMAND} -DSPIRV_CROSS=${SPIRV_CROSS} -DFOLDER=${folder} -DNAME=${name} "-DVARIANTS=${variants}" -DOPERATION=${operation}
              -DINTERFACE=${interface} -P ${script}
      DEPENDS ${modules} ${script}
      COMMENT "Shader header ${name}"
      VERBATIM)
    list(APPEND headers ${folder}/${name}.spv.h)
    string(APPEND includes "#include \"${name}.spv.h\"\n")
  endforeach()
  file(CONFIGURE OUTPUT ${folder}/all.spv.h CONTENT
"// By cmake/shaders.cmake.
#pragma once

${includes}
namespace weft::shaders {
inline constexpr const Shader* all[] = {
${addresses}};
}
" @ONLY)
  add_custom_target(weft_spirv DEPENDS ${headers})
endfunction()
