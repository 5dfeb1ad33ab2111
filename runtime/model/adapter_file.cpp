#include "model/adapter_file.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/json_object.h"
#include "format/json.h"
#include "format/safetensors.h"
#include "model/adapter.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

ModelFile open_peft(const fs::path& folder) {
  const MappedFile settings(folder / "adapter_config.json");
  const fs::path weights = folder / "adapter_model.safetensors";
  const std::span<const std::byte> text = settings.bytes();
  ModelFile file;
  file.kind = ModelFile::Kind::huggingface;
  file.path = folder;
  file.metadata = parse_json({reinterpret_cast<const char*>(text.data()), text.size()}, settings.path().string());
  file.files.emplace_back(weights);
  file.tensors = parse_safetensors(file.files[0].bytes(), weights.string());
  for (size_t place = 0; place < file.tensors.size(); ++place) file.index[file.tensors[place].name] = place;
  return file;
}

// False for null, false and what is empty.
bool is_set(const JsonValue* value) {
  if (!value || value->is_null()) return false;
  if (value->is_boolean()) return value->get<bool>();
  return !value->is_structured() || !value->empty();
}

}  // namespace

ModelFile open_adapter(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored) ? open_peft(path) : open_model(path);
}

AdapterFile::AdapterFile(const ModelFile& file, const Config& config) : file_(file), config_(config) {
  if (file.kind == ModelFile::Kind::gguf)
    read_gguf();
  else
    read_peft();
}

void AdapterFile::read_gguf() {
  const std::string place = file_.path.string();
  const JsonObject values(file_.metadata, place);
  if (values.text("general.type", "") != "adapter" || values.text("adapter.type", "") != "lora")
    throw Error(Code::unsupported, "it is not a LoRA adapter", place,
                "llama.cpp's convert_lora_to_gguf.py writes one from a folder of PEFT's");
  const std::string architecture = values.text("general.architecture", "");
  const std::string own(config_.traits->architecture);
  if (architecture != own)
    throw Error(Code::invalid_argument, "the adapter is for '" + architecture + "', the model is of '" + own + "'",
                place, "an adapter belongs to the model that it was trained for");
  if (values.has("adapter.alora.invocation_tokens"))
    throw Error(Code::unsupported, "not supported: 'adapter.alora.invocation_tokens'", place);
  alpha_ = values.number("adapter.lora.alpha", 0, 1e9, 0);
}

// The settings that change what a product is are refused; others are about training.
void AdapterFile::read_peft() {
  const std::string place = (file_.path / "adapter_config.json").string();
  const JsonObject values(file_.metadata, place);
  const auto refuse = [&](const std::string& what) {
    throw Error(Code::unsupported, "not supported: " + what, place, "Weft computes y + scale * B (A x) and no more");
  };
  if (const std::string type = values.text("peft_type", ""); type != "LORA") refuse("peft_type '" + type + "'");
  if (const std::string bias = values.text("bias", "none"); bias != "none") refuse("bias '" + bias + "'");
  for (const char* key : {"use_dora", "use_qalora", "use_bdlora", "lora_bias", "alpha_pattern", "layer_replication",
                          "alora_invocation_tokens", "arrow_config", "kasa_config", "monteclora_config"})
    if (is_set(values.find(key))) refuse("'" + std::string(key) + "'");
  // The others begin from a changed base, which is not the model's.
  const JsonValue* const begin = values.find("init_lora_weights");
  const bool same_base = !begin || !begin->is_string() || begin->text() == "gaussian" || begin->text() == "eva" ||
                         begin->text() == "orthogonal";
  if (!same_base) refuse("init_lora_weights '" + begin->text() + "'");
  alpha_ = values.number("lora_alpha", 1e-9, 1e9);
  by_root_ = values.flag("use_rslora", false);
}

std::pair<std::string, std::string> AdapterFile::names(std::string_view role, int layer) const {
  const std::string base = tensor_name(file_.kind, *config_.traits, role, layer);
  if (file_.kind == ModelFile::Kind::gguf) return {base + ".lora_a", base + ".lora_b"};
  const std::string stem = "base_model.model." + base.substr(0, base.size() - std::string_view("weight").size());
  return {stem + "lora_A.weight", stem + "lora_B.weight"};
}

double AdapterFile::scale(uint64_t rank) const {
  if (alpha_ == 0) return 1;
  const double count = static_cast<double>(rank);
  return alpha_ / (by_root_ ? std::sqrt(count) : count);
}

uint64_t row_in_file(ModelFile::Kind kind, const Config& config, std::string_view role, uint64_t rows, uint64_t row) {
  const Family& family = *config.traits;
  const bool gguf = kind == ModelFile::Kind::gguf;
  if (!gguf && family.qkv_by_head && role == "attn_qkv") {
    const uint64_t heads = config.heads.heads, dim = rows / heads / 3, part = row / dim / heads;
    return (row / dim % heads * 3 + part) * dim + row % dim;
  }
  const ops::Pairs pairs = gguf ? family.gguf_pairs : family.pairs;
  if (pairs == config.pairs || (role != "attn_q" && role != "attn_k")) return row;
  // GGUF files of GLM-4.1V: the converter has reordered the rows that RoPE rotates, and those of GGUF adapters too.
  const bool glm_vision = family.pairs == family.gguf_pairs;
  if (glm_vision && gguf) return row;
  const uint64_t head = config.heads.head_dim, rotated = glm_vision ? 2 * config.ropes[0].frequencies.size() : head;
  const uint64_t half = rotated / 2, within = row % head, first = row - within;
  if (within >= rotated) return row;
  if (config.pairs == ops::Pairs::adjacent) return first + within / 2 + within % 2 * half;
  return first + (within < half ? 2 * within : 2 * (within - half) + 1);
}

}  // namespace weft
