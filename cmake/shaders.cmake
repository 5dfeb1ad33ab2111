# weft_shaders()
#
# Compiles every NAME.comp of this folder to SPIR-V and writes the C++ header "NAME.spv.h" from it: the kernel `weft::shaders::NAME` with its
# bindings and specialisation constants by name (cmake/shader_header.cmake). "all.spv.h" lists all kernels.
#
# Comment lines of a .comp say more:
#   // Variants: subgroup texel      The source is compiled once more for each, with WEFT_SUBGROUP or WEFT_TEXEL defined: NAME_subgroup, NAME_texel.
#   // Variant of: attend            NAME is attend_VARIANT: a source of its own for a variant of the operation `attend`.
#   // Optional: bias begun          Bindings that only some specialisation constants use. A dispatch may leave them out.
#   // Full subgroups: NAME_int8     Kernels whose pipelines need full subgroups; a workgroup's size in x is a multiple of the subgroups'.
#   // Interface of: attend_texel    NAME has that shader's bindings, push constants and specialisation constants, and its own specialisation
#                                    constants, which the .comp itself declares. spirv-cross cannot read its SPIR-V.
#   // Needs: GL_KHR_x               If no glslang here knows that extension, NAME has no code.
find_program(GLSLANG_VALIDATOR NAMES glslangValidator glslang REQUIRED)
find_program(SPIRV_CROSS NAMES spirv-cross REQUIRED)
set(WEFT_NEWER_GLSLANG "" CACHE FILEPATH "A glslang for shaders that GLSLANG_VALIDATOR is too old for")

# Sets `result` to the first of GLSLANG_VALIDATOR and WEFT_NEWER_GLSLANG that knows an extension; "" if neither does.
function(weft_glslang_for extension result)
  set(probe ${CMAKE_CURRENT_BINARY_DIR}/spirv/knows_${extension})
  file(WRITE ${probe}.comp "#version 450\n#extension ${extension} : require\nvoid main() {}\n")
  set(${result} "" PARENT_SCOPE)
  foreach(program ${GLSLANG_VALIDATOR} ${WEFT_NEWER_GLSLANG})
    execute_process(COMMAND ${program} -V --target-env vulkan1.1 -o ${probe}.spv ${probe}.comp RESULT_VARIABLE status
                    OUTPUT_QUIET ERROR_QUIET)
    if(status EQUAL 0)
      set(${result} ${program} PARENT_SCOPE)
      return()
    endif()
  endforeach()
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
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source}) # for the comment lines
    cmake_path(GET source STEM name)
    weft_shader_line(${source} "Variants" variants)
    weft_shader_line(${source} "Variant of" operation)
    weft_shader_line(${source} "Interface of" interface)
    weft_shader_line(${source} "Needs" needs)
    weft_shader_line(${source} "Optional" optional)
    weft_shader_line(${source} "Full subgroups" full_subgroups)
    set(compiler ${GLSLANG_VALIDATOR})
    set(modules)
    if(interface)
      list(APPEND modules ${folder}/${interface}.named.spv)
    endif()
    set(left_out FALSE)
    if(needs)
      weft_glslang_for(${needs} compiler)
      if(NOT compiler)
        set(tried ${GLSLANG_VALIDATOR} ${WEFT_NEWER_GLSLANG})
        list(JOIN tried " and " tried)
        message(STATUS "${name}.comp is left out: ${needs} is unknown to ${tried} (-DWEFT_NEWER_GLSLANG=PROGRAM names a newer glslang)")
        set(left_out TRUE)
        set_property(GLOBAL APPEND PROPERTY WEFT_KERNELS_LEFT_OUT ${name})
      endif()
    endif()
    list(TRANSFORM variants PREPEND ${name}_ OUTPUT_VARIABLE names)
    if(left_out)
      set(names)
    else()
      list(PREPEND names ${name})
    endif()
    foreach(shader ${names})
      string(REPLACE "${name}" "" define ${shader})
      if(define)
        string(TOUPPER "-DWEFT${define}=1" define)
      endif()
      set(compile ${compiler} --quiet -V --target-env vulkan1.1 -I${CMAKE_CURRENT_SOURCE_DIR} ${define})
      set(outputs ${folder}/${shader}.spv)
      set(named)
      if(NOT interface)
        list(APPEND outputs ${folder}/${shader}.named.spv)
        set(named COMMAND ${compile} -o ${folder}/${shader}.named.spv ${source})
      endif()
      add_custom_command(
        OUTPUT ${outputs}
        COMMAND ${compile} -g0 --depfile ${folder}/${shader}.d -o ${folder}/${shader}.spv ${source}
        ${named}
        DEPENDS ${source}
        DEPFILE ${folder}/${shader}.d
        COMMENT "Shader ${shader}"
        VERBATIM)
      list(APPEND modules ${outputs})
      string(APPEND addresses "  &${shader},\n")
    endforeach()
    add_custom_command(
      OUTPUT ${folder}/${name}.spv.h
      COMMAND ${CMAKE_COMMAND} -DSPIRV_CROSS=${SPIRV_CROSS} -DFOLDER=${folder} -DSOURCE=${source} "-DVARIANTS=${variants}"
              -DOPERATION=${operation} -DINTERFACE=${interface} "-DOPTIONAL=${optional}" "-DFULL_SUBGROUPS=${full_subgroups}"
              -DLEFT_OUT=${left_out} -P ${script}
      DEPENDS ${modules} ${source} ${script}
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
