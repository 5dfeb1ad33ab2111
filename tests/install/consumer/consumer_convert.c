/* Uses convert.h from plain C99: writes the model IN as the q4 file OUT. */
#include <stdio.h>
#include <weft/convert.h>

int main(int argc, char** argv) {
  weft_error error;
  char* report = NULL;
  weft_convert_options options = weft_convert_options_default();
  options.type = WEFT_FILE_TYPE_Q4_1;
  if (argc != 3) return 2;
  if (weft_convert(argv[1], argv[2], &options, &report, &error) != WEFT_OK) {
    printf("%s: %s: %s\n", weft_status_name(error.code), error.place, error.sentence);
    return 1;
  }
  printf("%s\n", report);
  weft_string_free(report);
  return 0;
}
