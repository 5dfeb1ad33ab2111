#include "capi/support.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>

#include "base/process_limits.h"

namespace weft::capi {
namespace {

weft_status status_of(Code code) {
  switch (code) {
    case Code::invalid_argument:
      return WEFT_INVALID_ARGUMENT;
    case Code::not_found:
      return WEFT_NOT_FOUND;
    case Code::io:
      return WEFT_IO;
    case Code::bad_file:
      return WEFT_BAD_FILE;
    case Code::unsupported:
      return WEFT_UNSUPPORTED;
    case Code::no_device:
      return WEFT_NO_DEVICE;
    case Code::out_of_memory:
      return WEFT_OUT_OF_MEMORY;
    case Code::device_lost:
      return WEFT_DEVICE_LOST;
    case Code::context_full:
      return WEFT_CONTEXT_FULL;
    case Code::cancelled:
      return WEFT_CANCELLED;
    case Code::internal:
      break;
  }
  return WEFT_INTERNAL;
}

template <size_t N>
void copy_text(char (&to)[N], std::string_view from) {
  size_t length = std::min(from.size(), N - 1);
  while (length < from.size() && length > 0 && (from[length] & 0xc0) == 0x80) --length;  // no half UTF-8 character
  std::memcpy(to, from.data(), length);
  to[length] = 0;
}

void fill(weft_error* error, weft_status status, std::string_view sentence, std::string_view place,
          std::string_view hint) {
  if (!error) return;
  error->code = status;
  copy_text(error->sentence, sentence);
  copy_text(error->place, place);
  copy_text(error->hint, hint);
}

void fill_memory(weft_error* error) {
  std::string hint;
  try {
    hint = limits_hint();
  } catch (const std::bad_alloc&) {
  }
  fill(error, WEFT_OUT_OF_MEMORY, "the host is out of memory", "", hint);
}

}  // namespace

weft_status report(weft_error* error) noexcept {
  try {
    throw;
  } catch (const Error& e) {
    fill(error, status_of(e.code()), e.sentence(), e.place(), e.hint());
    return status_of(e.code());
  } catch (const std::bad_alloc&) {
    fill_memory(error);
    return WEFT_OUT_OF_MEMORY;
  } catch (const std::exception& e) {
    fill(error, WEFT_INTERNAL, e.what(), "", "please report this");
  } catch (...) {
    fill(error, WEFT_INTERNAL, "something was thrown that is no exception", "", "please report this");
  }
  return WEFT_INTERNAL;
}

JsonValue types_json(const std::vector<Retyped>& tensors, const char* from_key, const char* to_key) {
  struct Most {
    uint64_t count = 0;
    double error = 0, relative = 0;
  };
  std::map<std::pair<std::string, std::string>, Most> types;
  for (const Retyped& tensor : tensors) {
    Most& most = types[{tensor.from, tensor.to}];
    ++most.count;
    most.error = std::max(most.error, tensor.rounding.largest_error);
    most.relative = std::max(most.relative, tensor.rounding.relative());
  }
  JsonValue list = JsonValue::array();
  for (const auto& [key, most] : types)
    list.push_back({{from_key, key.first},
                    {to_key, key.second},
                    {"tensors", most.count},
                    {"exact", most.error == 0},
                    {"largest_error", most.error},
                    {"relative_error", most.relative}});
  return list;
}

Format format_of(weft_type type, const char* argument) {
  switch (type) {
    case WEFT_TYPE_F16:
      return Format::f16;
    case WEFT_TYPE_Q8:
      return Format::q8;
    case WEFT_TYPE_Q4:
      return Format::q4;
    case WEFT_TYPE_FILE:
    case WEFT_TYPE_NATIVE:
      break;
  }
  throw Error(Code::invalid_argument, "it is " + std::to_string(type) + ", no type of numbers", argument,
              "WEFT_TYPE_F16, WEFT_TYPE_Q8 or WEFT_TYPE_Q4");
}

void read_struct(void* copy, size_t known, const void* given, size_t first, const char* name) {
  constexpr size_t kMost = 4096;  // more is no size but what happened to be in the caller's memory
  size_t size = 0;
  std::memcpy(&size, given, sizeof size);
  if (size < first || size > kMost)
    throw Error(Code::invalid_argument,
                std::string(name) + ".size is " + std::to_string(size) + ", expected " + std::to_string(first) +
                    " to " + std::to_string(kMost),
                name, std::string("begin with ") + name + "_default()");
  const auto* const bytes = static_cast<const std::byte*>(given);
  if (std::any_of(bytes + std::min(size, known), bytes + size, [](std::byte one) { return one != std::byte{0}; }))
    throw Error(Code::invalid_argument,
                std::string(name) + " has " + std::to_string(size) + " bytes, and a value that is not 0 after the " +
                    std::to_string(known) + " that this library knows",
                name, "the program's header is newer than the library: leave what is new at 0");
  std::memcpy(copy, given, std::min(size, known));
  std::memcpy(copy, &known, sizeof known);
}

char* copy_string(const std::string& text) {
  char* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (!copy) throw std::bad_alloc();
  std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

}  // namespace weft::capi
