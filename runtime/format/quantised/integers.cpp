#include "format/quantised/integers.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/half.h"

namespace weft {
namespace {

constexpr uint64_t kBlock = 32;

// Bytes of a block of one of the types: scale, minimum of Q4_1, fifth bits of Q5_0, integers (format/quants.cpp).
void write_block(DType type, float scale, int zero, const uint8_t* integers, std::byte* out) {
  const auto put = [&out](uint16_t half) {
    std::memcpy(out, &half, sizeof half);
    out += sizeof half;
  };
  put(float_to_half(scale));
  if (type == DType::q8_0) {
    for (uint64_t e = 0; e < kBlock; ++e) out[e] = static_cast<std::byte>(integers[e] - zero);
    return;
  }
  // Q4_0 and Q5_0 have the zero points 8 and 16, Q4_1 has a minimum instead.
  const int shift = type == DType::q5_0 ? 16 - zero : type == DType::q4_0 ? 8 - zero : 0;
  if (type == DType::q4_1) put(float_to_half(scale * static_cast<float>(-zero)));
  const auto quant = [&](uint64_t e) { return static_cast<uint32_t>(integers[e] + shift); };
  if (type == DType::q5_0) {
    uint32_t fifth = 0;
    for (uint64_t e = 0; e < kBlock; ++e) fifth |= quant(e) >> 4 << e;
    std::memcpy(out, &fifth, sizeof fifth);
    out += sizeof fifth;
  }
  for (uint64_t e = 0; e < kBlock / 2; ++e)
    out[e] = static_cast<std::byte>((quant(e) & 15) | (quant(e + kBlock / 2) & 15) << 4);
}

}  // namespace

int32_t integer_at(const TensorView& tensor, uint64_t index) {
  int32_t value;
  std::memcpy(&value, &tensor.bytes[index * sizeof value], sizeof value);
  return value;
}

float float_at(const TensorView& tensor, uint64_t index) {
  float value;
  if (tensor.dtype == DType::f32) {
    std::memcpy(&value, &tensor.bytes[index * sizeof value], sizeof value);
    return value;
  }
  uint16_t half;
  std::memcpy(&half, &tensor.bytes[index * sizeof half], sizeof half);
  return tensor.dtype == DType::f16 ? half_to_float(half) : bfloat16_to_float(half);
}

std::vector<uint32_t> read_groups(QuantisedFolder& folder, const std::string& name, const IntegerLayout& layout,
                                  bool needed) {
  if (!needed && !folder.find(name)) return {};
  const TensorView& tensor = folder.need(name, {DType::i32}, {layout.columns});
  std::vector<uint32_t> groups(layout.columns);
  bool in_order = true;
  for (uint64_t column = 0; column < layout.columns; ++column) {
    const int32_t group = integer_at(tensor, column);
    if (group < 0 || static_cast<uint64_t>(group) >= layout.groups())
      folder.refuse(tensor, "puts column " + std::to_string(column) + " into group " + std::to_string(group) + " of " +
                                std::to_string(layout.groups()));
    groups[column] = static_cast<uint32_t>(group);
    in_order &= groups[column] == column / layout.group;
  }
  return in_order ? std::vector<uint32_t>() : groups;
}

uint32_t bits_of(const JsonObject& config) {
  const uint32_t bits = config.integer("bits", 1, 32);
  if (bits != 4 && bits != 8)
    throw Error(Code::unsupported, "not supported: 'bits' is " + std::to_string(bits), config.place(),
                "Weft reads integers of 4 and 8 bits");
  return bits;
}

uint64_t group_of(const JsonObject& config, uint64_t columns) {
  if (const JsonValue* size = config.find("group_size"); size && *size == -1) return columns;
  return std::min<uint64_t>(config.integer("group_size", 1, 1u << 20), columns);
}

DType IntegerRows::check(const QuantisedFolder& folder) {
  const int middle = 1 << (layout_.bits - 1);
  bool symmetric = true;
  for (uint64_t group = 0; group < layout_.groups(); ++group) {
    for (uint64_t row = 0; row < layout_.rows; ++row) {
      const float own = scale(row, group);
      if (!std::isfinite(own))
        folder.refuse(scales(), "has the scale " + std::to_string(own) + " of row " + std::to_string(row) +
                                    " and group " + std::to_string(group));
      symmetric &= zero(row, group) == middle;
      rounded_ |= half_to_float(float_to_half(own)) != own;
    }
  }
  const bool in_blocks = layout_.group_of.empty() && layout_.columns % kBlock == 0 &&
                         (layout_.group % kBlock == 0 || layout_.groups() == 1);
  if (layout_.bits == 4)
    type_ = !in_blocks ? DType::dequantised : symmetric ? DType::q4_0 : DType::q5_0;
  else
    type_ = in_blocks && symmetric ? DType::q8_0 : DType::f32;
  return type_;
}

void IntegerRows::values(uint64_t row, std::span<float> out) const {
  std::vector<uint8_t> own(layout_.columns);
  integers(row, own);
  std::vector<float> scales(layout_.groups());
  std::vector<int> zeros(layout_.groups());
  for (uint64_t group = 0; group < layout_.groups(); ++group) {
    scales[group] = scale(row, group);
    zeros[group] = zero(row, group);
  }
  for (uint64_t column = 0; column < layout_.columns; ++column) {
    const uint64_t group = layout_.group_of.empty() ? column / layout_.group : layout_.group_of[column];
    out[column] = scales[group] * static_cast<float>(own[column] - zeros[group]);
  }
}

bool IntegerRows::has_blocks(DType type) const {
  if (type_ == DType::dequantised || type_ == DType::f32) return false;
  return type == type_ || (type == DType::q4_1 && layout_.bits == 4);
}

void IntegerRows::blocks(uint64_t row, DType type, std::byte* out) const {
  std::vector<uint8_t> own(layout_.columns);
  integers(row, own);
  for (uint64_t column = 0; column < layout_.columns; column += kBlock, out += block_bytes(type)) {
    const uint64_t group = column / layout_.group;
    write_block(type, scale(row, group), zero(row, group), &own[column], out);
  }
}

void put_integers(QuantisedFolder& folder, const TensorView& in_place_of, const std::string& module,
                  const IntegerLayout& layout, std::shared_ptr<IntegerRows> rows) {
  const DType type = rows->check(folder);
  folder.put(in_place_of, module + ".weight", type, {layout.rows, layout.columns}, std::move(rows));
}

}  // namespace weft
