#include "vocab/heads/output_head.h"

#include "base/error.h"

namespace weft {

// Makes a head of a file's keys, as read_output_head does. Each is in its head's file.
using Reader = std::shared_ptr<const OutputHead>(const JsonObject& values, const std::string& prefix,
                                                 const HeadModel& model);
Reader read_mixture, read_adaptive;

namespace {

// The registry: a line for each head.
constexpr struct {
  const char* kind;  // the value of the key softmax.kind
  Reader* read;
} kHeads[] = {
    {"mixture", read_mixture},
    {"adaptive", read_adaptive},
};

}  // namespace

std::shared_ptr<const OutputHead> read_output_head(const JsonObject& values, const std::string& prefix,
                                                   const HeadModel& model) {
  const std::string kind = values.text(prefix + "softmax.kind", "plain");
  if (kind == "plain") return nullptr;
  for (const auto& head : kHeads)
    if (head.kind == kind) return head.read(values, prefix, model);
  throw Error(Code::unsupported, "not supported: softmax '" + kind + "'", values.place());
}

}  // namespace weft
