# cmake -DINPUT=FILE -DNAME=page_html -DOUTPUT=FILE.h -P bytes_header.cmake
#
# Writes a header with the file's bytes as an array of that name.
file(READ ${INPUT} hex HEX)
string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
string(REPEAT "0x..," 24 line)
string(REGEX REPLACE "(${line})" "\\1\n" bytes "${bytes}")
file(WRITE ${OUTPUT} "#pragma once\n\ninline constexpr unsigned char ${NAME}[] = {\n${bytes}};\n")
