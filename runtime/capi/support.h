// Shared by the C APIs of both libraries: conversion of exceptions to weft_error, and types of numbers.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
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

// ---- structs that carry their size ----

// A struct that callers fill in; WEFT_STRUCT defines it for each.
template <class Struct>
struct StructInfo;

// last: the field at the end of the struct's first version. Fields may be added after it, never in the padding after
// the last one: an older caller has no values there.
#define WEFT_STRUCT(Struct, last)                                                  \
  template <>                                                                      \
  struct weft::capi::StructInfo<Struct> {                                          \
    static constexpr const char* name = #Struct;                                   \
    static constexpr size_t first = offsetof(Struct, last) + sizeof(Struct::last); \
    static Struct defaults() { return Struct##_default(); }                        \
  }

// Copies a struct of `first` bytes or more whose header may be older or newer than the library, over its `known` bytes
// of defaults. Throws Error(invalid_argument) for a size that is none, and for values that the library does not know.
void read_struct(void* copy, size_t known, const void* given, size_t first, const char* name);

// A caller's struct with the library's size; given may be NULL: the defaults.
template <class Struct>
Struct read_struct(const Struct* given) {
  using Info = StructInfo<Struct>;
  static_assert(offsetof(Struct, size) == 0);
  Struct copy = Info::defaults();
  if (given) read_struct(&copy, sizeof copy, given, Info::first, Info::name);
  return copy;
}

// Writes as much of a struct as the caller has room for, and zeros after what the library knows. to may be NULL.
template <class Struct>
void write_struct(const Struct& from, Struct* to, size_t size) {
  if (!to) return;
  std::memset(static_cast<void*>(to), 0, size);
  std::memcpy(static_cast<void*>(to), &from, std::min(size, sizeof from));
}

char* copy_string(const std::string& text);  // for weft_string_free

}  // namespace weft::capi

WEFT_STRUCT(weft_model_options, tie);
WEFT_STRUCT(weft_session_options, kv_values);
WEFT_STRUCT(weft_sampling, typical_p);
WEFT_STRUCT(weft_request, assistant);
WEFT_STRUCT(weft_generate_options, user);
