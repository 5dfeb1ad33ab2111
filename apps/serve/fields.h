// A JSON object's fields, taken one by one. What was not taken is refused at the end.
#pragma once

#include <set>

#include "protocol.h"

namespace weft::serve {

// A body as one JSON object. Throws RequestError for what is none, or is nested too deeply.
Json parse_body(const std::string& body);

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
