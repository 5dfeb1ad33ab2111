# share/weft/weft.spdx.json: what is in the libraries and programs, in SPDX 2.3 (spdx.dev). Versions are those that this build has found.
set(sbom_packages)
set(sbom_relations)

# weft_sbom(NAME VERSION LICENSE RELATION URL [CHECKSUM]): a package, and how Weft relates to it: CONTAINS (compiled in, or beside it) or
# DYNAMIC_LINK.
function(weft_sbom name version license relation url)
  string(REGEX REPLACE "[^A-Za-z0-9.-]" "-" id "SPDXRef-${name}")
  set(checksum)
  if(ARGN)
    set(checksum ", \"checksums\": [{\"algorithm\": \"SHA256\", \"checksumValue\": \"${ARGN}\"}]")
  endif()
  list(APPEND sbom_packages "    {\"name\": \"${name}\", \"SPDXID\": \"${id}\", \"versionInfo\": \"${version}\", \"downloadLocation\": \"${url}\",
     \"licenseConcluded\": \"${license}\", \"licenseDeclared\": \"${license}\", \"copyrightText\": \"NOASSERTION\", \"filesAnalyzed\": false${checksum}}")
  list(APPEND sbom_relations "    {\"spdxElementId\": \"SPDXRef-Weft\", \"relationshipType\": \"${relation}\", \"relatedSpdxElement\": \"${id}\"}")
  set(sbom_packages "${sbom_packages}" PARENT_SCOPE)
  set(sbom_relations "${sbom_relations}" PARENT_SCOPE)
endfunction()

# weft_version_in(RESULT FILE REGEX): what the regex's group finds in a line of a header.
function(weft_version_in result file regex)
  file(STRINGS ${file} line LIMIT_COUNT 1 REGEX "${regex}")
  string(REGEX MATCH "${regex}" line "${line}")
  set(${result} "${CMAKE_MATCH_1}" PARENT_SCOPE)
endfunction()

file(SHA256 ${PROJECT_SOURCE_DIR}/apps/pocket/pocket.gguf pocket_hash)
weft_version_in(volk_version ${VOLK_INCLUDE_DIR}/volk.h "define VOLK_HEADER_VERSION ([0-9]+)")
weft_version_in(vulkan_version ${VULKAN_INCLUDE_DIR}/vulkan/vulkan_core.h "define VK_HEADER_VERSION ([0-9]+)")
weft_sbom(pocket ${PROJECT_VERSION} Apache-2.0 CONTAINS NOASSERTION ${pocket_hash})
weft_sbom(nlohmann-json ${nlohmann_json_VERSION} MIT CONTAINS https://github.com/nlohmann/json)
weft_sbom(volk "${volk_version}" MIT CONTAINS https://github.com/zeux/volk)
weft_sbom(Vulkan-Headers "${vulkan_version}" Apache-2.0 CONTAINS https://github.com/KhronosGroup/Vulkan-Headers)
weft_version_in(stb_image_version ${STB_INCLUDE_DIR}/stb/stb_image.h "stb_image - v([0-9.]+)")
weft_sbom(stb_image "${stb_image_version}" "MIT OR Unlicense" CONTAINS https://github.com/nothings/stb)
weft_version_in(stb_version ${STB_INCLUDE_DIR}/stb/stb_image_write.h "stb_image_write - v([0-9.]+)")
weft_sbom(stb_image_write "${stb_version}" "MIT OR Unlicense" CONTAINS https://github.com/nothings/stb)
pkg_check_modules(KISSFFT QUIET kissfft-float) # its version: of it Weft has the header alone
weft_sbom(kissfft "${KISSFFT_VERSION}" BSD-3-Clause CONTAINS https://github.com/mborgerding/kissfft)
set(linked DYNAMIC_LINK)
if(WEFT_PORTABLE)
  set(linked CONTAINS)
endif()
weft_sbom(PCRE2 "${PCRE2_VERSION}" BSD-3-Clause ${linked} https://github.com/PCRE2Project/pcre2)
weft_sbom(utf8proc "${UTF8PROC_VERSION}" "MIT AND Unicode-DFS-2016" ${linked} https://github.com/JuliaStrings/utf8proc)
if(WEFT_APPS) # of the program
  find_package(CLI11 2.1 QUIET REQUIRED)
  weft_sbom(CLI11 ${CLI11_VERSION} BSD-3-Clause CONTAINS https://github.com/CLIUtils/CLI11)
  find_package(Boost 1.74 CONFIG QUIET REQUIRED)
  weft_sbom(Boost "${Boost_VERSION}" BSL-1.0 CONTAINS https://www.boost.org)
  # The chat page of `weft serve`.
  foreach(library "marked 18.2.1 MIT" "dompurify 3.4.18 Apache-2.0" "highlight.js 11.12.0 BSD-3-Clause" "katex 0.19.1 MIT")
    string(REPLACE " " ";" library ${library})
    list(GET library 0 name)
    weft_sbom(${library} CONTAINS https://www.npmjs.com/package/${name})
  endforeach()
  weft_sbom(cairo "${CAIRO_cairo_VERSION}" "LGPL-2.1-only OR MPL-1.1" DYNAMIC_LINK https://www.cairographics.org)
  weft_sbom(libsndfile "${SNDFILE_VERSION}" LGPL-2.1-or-later DYNAMIC_LINK https://libsndfile.github.io/libsndfile)
  weft_sbom(libedit "${LIBEDIT_VERSION}" BSD-3-Clause DYNAMIC_LINK https://thrysoee.dk/editline)
  weft_sbom(curl "${CURL_VERSION}" curl DYNAMIC_LINK https://curl.se)
  weft_sbom(OpenSSL "${CRYPTO_VERSION}" Apache-2.0 DYNAMIC_LINK https://www.openssl.org)
endif()

string(TIMESTAMP created "%Y-%m-%dT%H:%M:%SZ" UTC) # of SOURCE_DATE_EPOCH, if that is set
list(JOIN sbom_packages ",\n" packages)
list(JOIN sbom_relations ",\n" relations)
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/weft.spdx.json @ONLY CONTENT [[{
  "spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": "weft-@PROJECT_VERSION@",
  "documentNamespace": "https://spdx.org/spdxdocs/weft-@PROJECT_VERSION@-@pocket_hash@",
  "creationInfo": {"created": "@created@", "creators": ["Tool: cmake/sbom.cmake"]},
  "documentDescribes": ["SPDXRef-Weft"],
  "packages": [
    {"name": "weft", "SPDXID": "SPDXRef-Weft", "versionInfo": "@PROJECT_VERSION@", "downloadLocation": "NOASSERTION",
     "licenseConcluded": "Apache-2.0", "licenseDeclared": "Apache-2.0", "copyrightText": "2026 The authors of Weft", "filesAnalyzed": false},
@packages@
  ],
  "relationships": [
@relations@
  ]
}
]])
install(FILES ${PROJECT_BINARY_DIR}/weft.spdx.json DESTINATION ${CMAKE_INSTALL_DATADIR}/weft COMPONENT libweft0)
