// Shared by the C APIs of both libraries: conversion of exceptions to weft_error, and types of numbers.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "base/json_value.h"
#include "base/thread_end.h"
#include "format/packed_row.h"
#include "ops/matrix.h"
#include "weft/weft.h"

namespace weft::capi {

// Turns the exception in flight into a status, and into *error unless that is NULL.
weft_status report(weft_error* error) noexcept;

inline void require(bool holds, const char* argument, const char* sentence) {
  if (!holds) throw Error(Code::invalid_argument, sentence, argument);
}

// Runs the body of an API function: nothing thrown in it gets out, unless the thread ends in a callback.
template <class Body>
weft_status guard(weft_error* error, Body&& body) {
  const NoCancel whole;
  try {
    body();
    return WEFT_OK;
  }
  WEFT_LET_THREAD_END
  catch (...) {
    return report(error);
  }
}

// A tensor's way from one type to another.
struct Retyped {
  std::string from, to;
  Rounding rounding;
};
// For each pair of types, in objects with these keys: how many tensors, and the most that rounding did to one.
JsonValue types_json(const std::vector<Retyped>& tensors, const char* from_key, const char* to_key);

// The format of that name. Throws Error(invalid_argument) naming the argument for what is none, WEFT_TYPE_FILE too.
Format format_of(weft_type type, const char* argument);

char* copy_string(const std::string& text);  // for weft_string_free

}  // namespace weft::capi
