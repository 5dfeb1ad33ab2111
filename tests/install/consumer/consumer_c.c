/* Uses weft.h from plain C99: prints the version and the devices, or the error as "place: sentence" and its hint, and
 * shows that a missing model is an error and no crash. 0: devices could be listed; 3: they could not. */
#include <stdio.h>
#include <string.h>
#include <weft/weft.h>

int main(void) {
  weft_error error;
  weft_model* model = NULL;
  char* json = NULL;
  memset(&error, 0, sizeof error);
  printf("weft %s\n", weft_version());
  if (weft_model_load("/no/such/model", NULL, &model, &error) == WEFT_OK || model != NULL ||
      error.sentence[0] == '\0') {
    fprintf(stderr, "a model that is not there was loaded\n");
    return 1;
  }
  printf("%s: %s: %s\n", weft_status_name(error.code), error.place, error.sentence);
  weft_model_options options = weft_model_options_default();
  options.vocab_type = (weft_type)9;
  memset(&error, 0, sizeof error);
  if (weft_model_load("/no/such/model", &options, &model, &error) != WEFT_INVALID_ARGUMENT || model != NULL ||
      strcmp(error.place, "vocab_type") != 0) {
    fprintf(stderr, "a type that is none was not refused: %s: %s\n", error.place, error.sentence);
    return 1;
  }
  memset(&error, 0, sizeof error);
  if (weft_devices(&json, &error) != WEFT_OK) {
    printf("%s: %s: %s\nhint: %s\n", weft_status_name(error.code), error.place, error.sentence, error.hint);
    return 3;
  }
  printf("%s\n", json);
  weft_string_free(json);
  return 0;
}
