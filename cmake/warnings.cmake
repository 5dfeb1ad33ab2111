# weft_options(TARGET): the warnings and sanitizers every target of the project is built with.
function(weft_options target)
  # Vulkan structures are begun with their type and the rest is zero: no missing-field-initializers.
  # gcc 12's -Wrestrict warns inside std::string's operator+ (GCC bug 105651).
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wshadow -Wundef -Wno-missing-field-initializers
                         $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor> $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
  if(WEFT_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(WEFT_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${WEFT_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all -g1)
    target_link_options(${target} PRIVATE -fsanitize=${WEFT_SANITIZE})
    # With sanitizers gcc 12 takes std::regex for uninitialised (GCC bug 105616).
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
    get_target_property(type ${target} TYPE)
    if(type STREQUAL EXECUTABLE AND WEFT_SANITIZE MATCHES address)
      target_sources(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tests/support/keep_drivers.cpp)
    endif()
  endif()
endfunction()

# weft_small(TARGET): for what ships: small rather than fast, and the linker drops what nobody calls. HOT sources of a module are fast
# (module.cmake), but for functions that run once for a file, which are [[gnu::cold]]. Builds with sanitizers keep the optimisation they ask for.
if(NOT WEFT_SANITIZE)
  set(WEFT_SMALL $<$<CONFIG:Release>:-Os>)
  set(WEFT_FAST $<$<CONFIG:Release>:-O3>)
endif()
function(weft_small target)
  target_compile_options(${target} PRIVATE -ffunction-sections -fdata-sections ${WEFT_SMALL})
endfunction()
