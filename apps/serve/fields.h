// A JSON object's fields, taken one by one. Fields that were not taken are refused at the end.
#pragma once

#include <set>

#include "protocol.h"

namespace weft::serve {

bool is_utf8(const std::string& bytes);

// The limits of a body's JSON, which docs/serving.md lists.
constexpr std::size_t kMostDepth = 64;         // of arrays and objects
constexpr std::size_t kMostFields = 1024;      // of an object
constexpr std::size_t kMostNodes = 128 << 10;  // objects, arrays and fields
constexpr std::size_t kMostValues = 1024 << 10;

// A body as one JSON object. Throws RequestError if it is none, or is beyond these limits. Its time is linear.
Json parse_body(const std::string& body);
// JSON as bytes. Never throws for text that is not UTF-8.
std::string bytes_of(const Json& json);

class Fields {
 public:
  // object: lives longer; path: its place in the request, "" or "messages[0]". Throws RequestError if it is none.
  Fields(const Json& object, std::string path);

  // A field's value; nullptr if it is absent or null.
  const Json* take(const std::string& name);
  const Json& need(const std::string& name);
  std::optional<bool> boolean(const std::string& name);
  std::optional<double> number(const std::string& name, double least, double most);
  std::optional<std::int64_t> whole(const std::string& name, std::int64_t least, std::int64_t most);
  std::optional<std::string> text(const std::string& name);
  // Fields that change no answer, whatever they are.
  void ignore(std::initializer_list<const char*> names);
  // A field that may have only the value that changes nothing.
  void only(const std::string& name, const Json& neutral);
  // Throws RequestError if there is a field that nobody took.
  void refuse_rest() const;

  std::string path(const std::string& name) const { return path_.empty() ? name : path_ + "." + name; }

 private:
  const Json& object_;
  const std::string path_;
  std::set<std::string> taken_;
};

// A string without zero bytes.
std::string text_of(const Json& value, const std::string& path);

}  // namespace weft::serve
