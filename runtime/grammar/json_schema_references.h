// Targets of references in a JSON Schema: identifiers and anchors (RFC 3986, section 5; JSON Schema Core, section 8).
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "grammar/json_tree.h"

namespace weft {

// An absolute or relative reference, seen from a base.
std::string resolved_uri(const std::string& base, std::string_view reference);

struct SchemaPlace {
  const JsonTree* tree = nullptr;
  std::string pointer;
};

// Constant after construction.
class JsonSchemaReferences {
 public:
  explicit JsonSchemaReferences(const JsonTree& root) { visit(root, "#", "", 0); }

  // The base of a schema's references: the identifier of the schema that it is embedded in; "" without an identifier.
  const std::string& base(const JsonTree& schema) const;
  // The schema with this identifier or anchor, a URI without or with a name after '#'; nullptr if none has it.
  const SchemaPlace* find(const std::string& uri) const;

 private:
  void visit(const JsonTree& schema, const std::string& pointer, std::string base, int depth);

  std::map<const JsonTree*, std::string> bases_;
  std::map<std::string, SchemaPlace> places_;
};

// A name as part of a JSON pointer (RFC 6901).
std::string pointer_part(std::string_view name);

}  // namespace weft
