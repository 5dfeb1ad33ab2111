#include "gpu/plan_fields.h"

#include <algorithm>
#include <bit>
#include <charconv>

#include "base/error.h"
#include "gpu/plan_requirements.h"

namespace weft {
namespace {

bool any(const Caps&, const Plan&, uint64_t) { return true; }
bool flag(uint64_t value) { return value <= 1; }

// A power of two from `least` to `most`.
bool power(uint64_t value, uint64_t least, uint64_t most) {
  return std::has_single_bit(value) && value >= least && value <= most;
}

// Lanes that share a row hand their sums over in shared memory (shaders/lib/product.glsl): all but the 64 of a part, or
// all but 8 where they have one row each, or two of a product with gates. The rest takes less than 512 bytes.
bool splits(const Caps& caps, const Plan& plan, uint64_t split) {
  const uint64_t lanes = plan.row_tiles > 1 ? (split - 1) * 64 : split * 64 - 8;
  const uint64_t sums = uint64_t{plan.block_tokens} * std::max(plan.row_tiles, 2u);
  return power(split, 1, caps.max_threads / 64) && lanes * sums * 4 + 512 <= caps.max_shared;
}

constexpr uint32_t kMostStagedCols = 2048;  // 8 KiB of shared memory
constexpr uint32_t kMostChunk = 1024;
bool chunks(const Caps&, const Plan& plan, uint64_t tokens) {
  return tokens >= 1 && tokens <= kMostChunk && tokens % plan.block_tokens == 0;
}

bool texels(const Caps& caps, const Plan& plan, uint64_t value) {
  return value == 0 || (value == 1 && can_use_texels(caps) && plan.row_tiles == 4);
}

const PlanField kFields[] = {
    {"subgroup", &Plan::subgroup, "0, or 1 where the device has subgroup arithmetic",
     [](const Caps& caps, const Plan&, uint64_t value) { return flag(value) && value <= caps.subgroup; }},
    {"reduce_threads", &Plan::reduce_threads, "64, 128 or 256, at most the device's max_threads",
     [](const Caps& caps, const Plan&, uint64_t value) { return power(value, 64, std::min(caps.max_threads, 256u)); }},
    {"split", &Plan::split,
     "a power of two; 64 * split at most the device's max_threads, sums within its shared memory", splits},
    {"product_groups", &Plan::product_groups, "1 to 65536",
     [](const Caps&, const Plan&, uint64_t value) { return value >= 1 && value <= 65536; }},
    {"staged_cols", &Plan::staged_cols, "0 to 2048",
     [](const Caps&, const Plan&, uint64_t value) { return value <= kMostStagedCols; }},
    {"row_tiles", &Plan::row_tiles, "1, 2 or 4; 4 with texel_products",
     [](const Caps&, const Plan& plan, uint64_t value) { return power(value, plan.texel_products ? 4 : 1, 4); }},
    {"texel_products", &Plan::texel_products, "0, or 1 with row_tiles 4 where subgroups have 8 threads and shuffle",
     texels},
    {"fewest_registers", &Plan::fewest_registers, "0 or 1",
     [](const Caps&, const Plan&, uint64_t value) { return flag(value); }},
    {"gates_apart", &Plan::gates_apart, "0 or 1", [](const Caps&, const Plan&, uint64_t value) { return flag(value); }},
    {"uniform_parts", &Plan::uniform_parts, "0, or 1 where full subgroups of 4 to 64 threads shuffle",
     [](const Caps& caps, const Plan&, uint64_t value) { return flag(value) && value <= has_uniform_parts(caps); }},
    {"attend_span", &Plan::attend_span, "a power of two from 64 to 16384",
     [](const Caps&, const Plan&, uint64_t value) { return power(value, 64, 16384); }},
    {"block_tokens", &Plan::block_tokens, "1, 2, 4, 8 or 16; chunk_tokens is a multiple of it",
     [](const Caps& caps, const Plan& plan, uint64_t value) {
       return power(value, 1, 16) && chunks(caps, plan, plan.chunk_tokens) && splits(caps, plan, plan.split);
     }},
    {"tile_tokens", &Plan::tile_tokens, "0, 16, 32 or 64",
     [](const Caps&, const Plan&, uint64_t value) { return value == 0 || power(value, 16, 64); }},
    {"matrix_side", &Plan::matrix_side, "0, or the device's matrix_side where its matrices can be used",
     [](const Caps& caps, const Plan&, uint64_t value) {
       return value == 0 || (can_use_matrices(caps) && value == caps.matrix_side);
     }},
    {"half_tiles", &Plan::half_tiles, "0, or 1 where the device has fp16",
     [](const Caps& caps, const Plan&, uint64_t value) { return flag(value) && value <= caps.fp16; }},
    {"int8_inputs", &Plan::int8_inputs, "0, or 1 with tile_tokens above 0 where the device has int8_dot",
     [](const Caps& caps, const Plan& plan, uint64_t value) {
       return value == 0 || (value == 1 && caps.int8_dot && plan.tile_tokens > 0);
     }},
    {"chunk_tokens", &Plan::chunk_tokens, "a multiple of block_tokens, at most 1024", chunks},
    {"slice_bytes", &Plan::slice_bytes, "1 to the device's max_range_bytes",
     [](const Caps& caps, const Plan&, uint64_t value) { return value >= 1 && value <= caps.max_range; }},
    {"run_ahead", &Plan::run_ahead, "1 to 8",
     [](const Caps&, const Plan&, uint64_t value) { return value >= 1 && value <= 8; }},
    {"submission_ms", &Plan::submission_ms, "0 to 10000; 0: no bound",
     [](const Caps&, const Plan&, uint64_t value) { return value <= 10000; }},
    {"profile_every", &Plan::profile_every, "0, or more where the device has timestamps",
     [](const Caps& caps, const Plan&, uint64_t value) { return value == 0 || caps.timestamps; }},
    {"memory_budget", &Plan::memory_budget, "bytes; 0: no limit", any},
};

std::string trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\n");
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(" \t\n") - first + 1));
}

std::string names() {
  std::string list;
  for (const PlanField& field : kFields) list += (list.empty() ? "" : ", ") + std::string(field.name);
  return list;
}

const PlanField& field_called(const std::string& name, const std::string& place) {
  const auto field = std::ranges::find_if(kFields, [&](const PlanField& one) { return name == one.name; });
  if (field == std::end(kFields))
    throw Error(Code::invalid_argument, "the plan has no field '" + name + "'", place, "there are: " + names());
  return *field;
}

uint64_t number(const std::string& text, const PlanField& field, const std::string& place) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool fits = std::holds_alternative<uint64_t Plan::*>(field.field) || value <= UINT32_MAX;
  if (error != std::errc() || end != text.data() + text.size() || !fits)
    throw Error(Code::invalid_argument, "'" + text + "' is no value of " + field.name, place,
                std::string(field.name) + " can be: " + field.values);
  return value;
}

void set(Plan& plan, const PlanField& field, uint64_t value) {
  std::visit(
      [&](const auto member) {
        using Type = std::remove_reference_t<decltype(plan.*member)>;
        plan.*member = static_cast<Type>(value);
      },
      field.field);
}

}  // namespace

std::span<const PlanField> plan_fields() { return kFields; }

uint64_t value_of(const Plan& plan, const PlanField& field) {
  return std::visit([&](const auto member) { return static_cast<uint64_t>(plan.*member); }, field.field);
}

void set_fields(Plan& plan, const Caps& caps, std::string_view settings, const std::string& place) {
  Plan changed = plan;
  std::vector<std::pair<const PlanField*, uint64_t>> values;
  while (!settings.empty()) {
    const std::string_view setting = settings.substr(0, settings.find(','));
    settings.remove_prefix(std::min(setting.size() + 1, settings.size()));
    const size_t equals = std::min(setting.find('='), setting.size());
    const std::string name = trimmed(setting.substr(0, equals));
    const PlanField& field = field_called(name, place);
    const std::string text = trimmed(setting.substr(std::min(equals + 1, setting.size())));
    values.emplace_back(&field, number(text, field, place));
    // A flag keeps only whether it is set: larger numbers are refused here.
    if (std::holds_alternative<bool Plan::*>(field.field) && values.back().second > 1)
      throw Error(Code::invalid_argument, "'" + text + "' is no value of " + field.name, place,
                  std::string(field.name) + " can be: " + field.values);
    set(changed, field, values.back().second);
  }
  for (const auto& [field, value] : values)  // the last one of a field counts
    if (const uint64_t last = value_of(changed, *field); !field->allows(caps, changed, last))
      throw Error(Code::unsupported,
                  std::string(field->name) + " cannot be " + std::to_string(last) + " on this device", place,
                  std::string(field->name) + " can be: " + field->values);
  plan = std::move(changed);
}

}  // namespace weft
