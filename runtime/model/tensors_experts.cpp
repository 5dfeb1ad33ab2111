// Experts' matrices and biases, of which files have five forms: a tensor for each expert's, one tensor for all experts'
// of a kind, the same with gates and what they gate as one, and gpt-oss's two, in which these two alternate.
#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "model/tensors.h"

namespace weft {
namespace {

std::string with_number(std::string name, uint32_t number) {
  const size_t at = name.find('#');
  return at == name.npos ? name : name.replace(at, 1, std::to_string(number));
}

}  // namespace

// gpt-oss's folders, without blocks: (experts, columns, rows).
bool Tensors::stores_transposed_experts() const {
  return file_.kind == ModelFile::Kind::huggingface && config_.layer_kind.expert_bias;
}

std::vector<Part> Tensors::expert_gate_up(int layer, uint64_t ffn) {
  if (stores_transposed_experts()) return {{"ffn_gate_up_exps", ffn, 2, 0}, {"ffn_gate_up_exps", ffn, 2, 1}};
  for (const char* what : {"weight", ""})
    if (find("ffn_gate_up_exps", layer, what)) return {{"ffn_gate_up_exps", 2 * ffn}};
  return {{"ffn_gate_exps", ffn}, {"ffn_up_exps", ffn}};
}

const TensorView& Tensors::expert(const Part& part, int layer, uint32_t number, uint32_t count, uint64_t cols,
                                  bool as_stored) {
  if (stores_transposed_experts()) return made_expert(part, layer, number, count, cols, as_stored);
  std::string name = tensor_name(file_.kind, *config_.traits, part.role, layer);
  const std::string bare = name.substr(0, name.rfind('.'));
  if (file_.kind == ModelFile::Kind::gguf && !file_.find(name)) {
    // llama.cpp's first files have each expert's matrices apart: "ffn_up_exps" is "ffn_up.0", "ffn_up.1", ...
    if (const size_t at = name.find("_exps."); file_.find(std::string(name).replace(at, 5, ".0")))
      name.replace(at, 5, ".#");
  } else if (const size_t at = name.find("#."); at != name.npos && !look_up(with_number(name, 0))) {
    // Folders of a family may have all experts' matrices in one tensor.
    if (const std::string whole = std::string(bare).erase(at, 2); look_up(whole)) name = whole;
  } else if (!look_up(name) && look_up(bare)) {
    name = bare;
  }
  if (name.find('#') != name.npos) return need_named(with_number(name, number), {part.rows, cols});
  const TensorView& all = need_named(name, {count, part.rows, cols});
  if (all.rows)
    throw Error(Code::unsupported, "not supported: experts in the quantised tensor '" + name + "'", file_.path.string(),
                "Weft reads such tensors of gpt-oss only");
  Made& made = made_.emplace_back();
  made.view = rows_of(all, number, 1);
  made.view.name += "[" + std::to_string(number) + "]";
  made.view.shape = {part.rows, cols};
  made.view.first_row = 0;
  return made.view;
}

const TensorView& Tensors::made_expert(const Part& part, int layer, uint32_t number, uint32_t count, uint64_t cols,
                                       bool as_stored) {
  const std::string base = tensor_name(file_.kind, *config_.traits, part.role, layer, "");
  const std::string name = base + "[" + std::to_string(number) + "]";
  const uint64_t rows = part.rows * part.of;  // of the tensor
  // A quantised one is not transposed.
  if (const TensorView* const quantised = look_up(base); quantised && quantised->rows) {
    const TensorView& all = need_named(base, {count, rows, cols});
    const uint64_t first = number * rows;
    // The parts' rows alternate. Each part reports its share of the stored bytes, so that all are released.
    in_order(all, part.rows, first + part.number * part.rows,
             [first, of = part.of, which = part.number](uint64_t row) { return first + row * of + which; });
    made_.back().view.name = name;
    return made_.back().view;
  }
  const TensorView& all = need_named(base, {count, cols, rows});
  const uint64_t bytes = all.bytes.size() / count;
  const TensorView own = {name, all.dtype, {bytes}, all.bytes.subspan(number * bytes, bytes)};
  Made& made = made_.emplace_back();
  made.view = {name, all.dtype, {part.rows, cols}, own.bytes.first(bytes / part.of)};
  if (as_stored) return made.view;
  std::vector<std::byte> read;
  const std::span<const std::byte> stored = file_.read(own, read).bytes;
  const uint64_t size = bytes / (rows * cols);
  made.bytes.resize(bytes / part.of);
  constexpr uint64_t kAtOnce = 32;  // columns whose cache lines stay in the cache for the next rows
  for (uint64_t first = 0; first < cols; first += kAtOnce)
    for (uint64_t row = 0; row < part.rows; ++row)
      for (uint64_t col = first; col < std::min(first + kAtOnce, cols); ++col)
        std::memcpy(&made.bytes[(row * cols + col) * size], &stored[(col * rows + row * part.of + part.number) * size],
                    size);
  made.view.bytes = made.bytes;
  return made.view;
}

const TensorView& Tensors::expert_bias(const Part& part, int layer, uint32_t number, uint32_t count) {
  const uint64_t rows = part.rows * part.of;
  const TensorView& all =
      stores_transposed_experts()
          ? need_named(tensor_name(file_.kind, *config_.traits, part.role, layer, "") + "_bias", {count, rows})
          : need(part.role, layer, {count, rows}, "bias");
  const size_t bytes = all.bytes.size() / count;
  const TensorView own = {
      all.name + "[" + std::to_string(number) + "]", all.dtype, {rows}, all.bytes.subspan(number * bytes, bytes)};
  if (is_quantised(all.dtype) && part.of > 1)
    throw Error(Code::unsupported,
                "not supported: " + std::string(weft::name(all.dtype)) + " in tensor '" + all.name + "'",
                file_.path.string());
  if (part.of == 1) {
    made_.emplace_back().view = own;
    return made_.back().view;
  }
  const size_t size = bytes / rows;
  std::vector<std::byte> read, sorted(part.rows * size);
  const std::span<const std::byte> stored = file_.read(own, read).bytes;
  for (uint64_t row = 0; row < part.rows; ++row)
    std::memcpy(&sorted[row * size], &stored[(row * part.of + part.number) * size], size);
  return in_place(own, {part.rows}, std::move(sorted));
}

}  // namespace weft
