# cmake -DINPUT=page.html -DOUTPUT=FILE -P page.cmake
#
# Writes a page with the files that it includes: "{{include NAME}}" becomes the file NAME of the page's folder.
get_filename_component(folder ${INPUT} DIRECTORY)
file(READ ${INPUT} page)
while(page MATCHES "{{include ([^}]+)}}")
  set(place "${CMAKE_MATCH_0}")
  file(READ ${folder}/${CMAKE_MATCH_1} text)
  string(REPLACE "${place}" "${text}" page "${page}")
endwhile()
file(WRITE ${OUTPUT} "${page}")
