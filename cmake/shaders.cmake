# weft_shader(NAME [SUBGROUP] [UNIFORM | TEXEL] [FP16] [INT8])
#
# Compiles NAME.comp of this folder to SPIR-V, as the C++ array NAME_spv in the header "NAME.spv.h". With SUBGROUP the same source is compiled once
# more with WEFT_SUBGROUP defined, as NAME_subgroup_spv: the variant for devices with subgroup arithmetic;
# with UNIFORM likewise as NAME_uniform_spv, with inputs in uniform buffers, and NAME_texel_spv, with weights and inputs as texels
# (lib/product.glsl); with TEXEL as NAME_texel_spv, which reads as texels what the shader says;
# with FP16 as NAME_fp16_spv, with WEFT_FP16 defined: for devices that compute with halves;
# with INT8 as NAME_int8_spv, with WEFT_INT8 defined: for those with integer dot products.
find_program(GLSLANG_VALIDATOR NAMES glslangValidator glslang REQUIRED)

function(weft_compile_shader source name)
  set(output ${CMAKE_CURRENT_BINARY_DIR}/spirv/${name}.spv.h)
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${GLSLANG_VALIDATOR} --quiet -V --target-env vulkan1.1 -I${CMAKE_CURRENT_SOURCE_DIR} ${ARGN} --vn ${name}_spv
            --depfile ${output}.d -o ${output} ${source}
    DEPENDS ${source}
    DEPFILE ${output}.d
    COMMENT "Shader ${name}"
    VERBATIM)
  set_property(DIRECTORY APPEND PROPERTY WEFT_SHADER_HEADERS ${output})
endfunction()

function(weft_shader name)
  cmake_parse_arguments(PARSE_ARGV 1 SHADER "SUBGROUP;UNIFORM;TEXEL;FP16;INT8" "" "")
  set(source ${CMAKE_CURRENT_SOURCE_DIR}/${name}.comp)
  weft_compile_shader(${source} ${name})
  if(SHADER_SUBGROUP)
    weft_compile_shader(${source} ${name}_subgroup -DWEFT_SUBGROUP=1)
  endif()
  if(SHADER_UNIFORM)
    weft_compile_shader(${source} ${name}_uniform -DWEFT_UNIFORM=1)
    weft_compile_shader(${source} ${name}_texel -DWEFT_UNIFORM=1 -DWEFT_TEXEL=1)
  endif()
  if(SHADER_TEXEL)
    weft_compile_shader(${source} ${name}_texel -DWEFT_TEXEL=1)
  endif()
  if(SHADER_FP16)
    weft_compile_shader(${source} ${name}_fp16 -DWEFT_FP16=1)
  endif()
  if(SHADER_INT8)
    weft_compile_shader(${source} ${name}_int8 -DWEFT_INT8=1)
  endif()
endfunction()
