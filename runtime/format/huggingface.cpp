#include "format/huggingface.h"

#include <algorithm>
#include <set>

#include "base/error.h"
#include "base/quote.h"
#include "format/json.h"
#include "format/quantised.h"
#include "format/safetensors.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
constexpr size_t kMaxTemplateBytes = size_t{1} << 20;

bool there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

JsonValue read_object(const fs::path& path) {
  const MappedFile file(path);
  JsonValue document = parse_json(file.text(), path.string());
  if (!document.is_object()) throw Error(Code::bad_file, "the document is no JSON object", path.string());
  return document;
}

JsonValue read_object_if_there(const fs::path& path) { return there(path) ? read_object(path) : JsonValue(); }

// Newer models keep the chat template in a file of its own; Transformers prefers it.
void merge_chat_template(const fs::path& path, JsonValue& tokenizer_config) {
  if (!there(path)) return;
  const MappedFile file(path);
  if (file.text().size() > kMaxTemplateBytes) {
    throw Error(Code::bad_file,
                "the chat template has " + std::to_string(file.text().size()) + " bytes; Weft reads at most " +
                    std::to_string(kMaxTemplateBytes),
                path.string());
  }
  if (tokenizer_config.is_null()) tokenizer_config = JsonValue::object();
  tokenizer_config["chat_template"] = std::string(file.text());
}

bool is_quantised(const ModelFile& model) {
  const JsonValue* how = model.metadata.find("quantization_config");
  return how != nullptr && !how->is_null();
}

void add_file(ModelFile& model, const fs::path& path) {
  MappedFile file(path);
  auto tensors = parse_safetensors(file.bytes(), path.string(), is_quantised(model));
  std::move(tensors.begin(), tensors.end(), std::back_inserter(model.tensors));
  model.files.push_back(std::move(file));
}

void add_shards(ModelFile& model, const fs::path& index_path) {
  const std::string place = index_path.string();
  const auto shard_of = parse_shard_index(read_object(index_path), place);
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : shard_of) shards.insert(shard);
  for (const std::string& shard : shards) {
    const size_t first = model.tensors.size();
    add_file(model, model.path / shard);
    for (size_t i = first; i < model.tensors.size(); ++i) {
      const auto listed = shard_of.find(model.tensors[i].name);
      if (listed != shard_of.end() && listed->second == shard) continue;
      throw Error(Code::bad_file,
                  "tensor " + printable(model.tensors[i].name) + " is in " + printable(shard) + ", but the index " +
                      (listed == shard_of.end() ? "does not list it" : "says it is in " + printable(listed->second)),
                  place);
    }
  }
  std::set<std::string_view> present;
  for (const TensorView& tensor : model.tensors) present.insert(tensor.name);
  for (const auto& [tensor, shard] : shard_of) {
    if (present.contains(tensor) || may_be_no_weights(tensor)) continue;
    throw Error(Code::bad_file,
                "the index says that tensor " + printable(tensor) + " is in " + printable(shard) + ", but it is not",
                place);
  }
}

bool reads_images(const JsonValue& config) {
  const JsonValue* type = config.find("model_type");
  return type != nullptr && (*type == "idefics3" || *type == "smolvlm" || *type == "gemma3" || *type == "qwen3_vl");
}

bool is_type(const JsonValue& config, const char* name) {
  const JsonValue* type = config.find("model_type");
  return type != nullptr && *type == name;
}
bool is_gemma3(const JsonValue& config) { return is_type(config, "gemma3"); }
bool is_qwen3_vl(const JsonValue& config) { return is_type(config, "qwen3_vl"); }

// A model of texts and pictures, of which Weft runs the text model alone.
bool has_text_part(const JsonValue& config) {
  const JsonValue* type = config.find("model_type");
  return type != nullptr && (*type == "qwen3_5" || *type == "qwen3_5_moe" || *type == "gemma4" || *type == "mistral3" ||
                             *type == "embedding_gemma2");
}

// A name that cannot leave its folder.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
}

SentenceModule read_dense_module(ModelFile& model, const fs::path& folder) {
  SentenceModule dense = {(folder / "config.json").string(), read_object(folder / "config.json"), {}};
  const fs::path weights = folder / "model.safetensors";
  if (!there(weights))
    throw Error(Code::not_found, "the module's folder has no model.safetensors", folder.string(),
                "convert other weights to safetensors first");
  MappedFile file(weights);
  dense.tensors = parse_safetensors(file.bytes(), weights.string());
  model.files.push_back(std::move(file));
  return dense;
}

// Files of sentence-transformers, if there are any.
void read_sentence_files(ModelFile& model) {
  model.sentence_transformer = read_object_if_there(model.path / "sentence_bert_config.json");
  model.sentence_prompts = read_object_if_there(model.path / "config_sentence_transformers.json");
  fs::path pooling = model.path / "1_Pooling";
  if (const fs::path path = model.path / "modules.json"; there(path)) {
    const MappedFile file(path);
    model.sentence_modules = parse_json(file.text(), path.string());
    if (!model.sentence_modules.is_array()) throw Error(Code::bad_file, "the document is no JSON array", path.string());
    for (const JsonValue& item : model.sentence_modules.items()) {
      const JsonValue *type = item.find("type"), *folder = item.find("path");
      if (type == nullptr || folder == nullptr || !type->is_string() || !folder->is_string())
        throw Error(Code::bad_file, "a module has no \"type\" and \"path\" that are strings", path.string());
      const bool is_pooling = type->text().ends_with(".Pooling"), is_dense = type->text().ends_with(".Dense");
      const bool is_score = type->text().ends_with(".LogitScore");
      if (!is_pooling && !is_dense && !is_score) continue;
      if (!is_plain_name(folder->text()))
        throw Error(Code::bad_file,
                    "the folder of a module is \"" + printable(folder->text()) + "\", which is not a name in this one",
                    path.string());
      if (is_pooling) pooling = model.path / folder->text();
      if (is_dense) model.dense_modules.push_back(read_dense_module(model, model.path / folder->text()));
      if (is_score) model.logit_score = read_object(model.path / folder->text() / "config.json");
    }
  }
  model.pooling = read_object_if_there(pooling / "config.json");
}

// The text model's description and tensors, under the names that they have in a folder of their own.
void keep_text(ModelFile& model) {
  constexpr std::string_view kOwn = "model.", kHead = "lm_head.";
  // Older files have the text model's own names after "language_model.".
  constexpr std::string_view kWhole = "language_model.", kBody = "language_model.model.";
  for (TensorView& tensor : model.tensors) {
    if (tensor.name.starts_with(kBody)) tensor.name.replace(0, kBody.size(), "model.language_model.");
    if (tensor.name.starts_with("language_model.lm_head.")) tensor.name.erase(0, kWhole.size());
    if (tensor.name.starts_with(kWhole)) tensor.name.insert(0, kOwn);  // a body without an output table
  }
  const bool gemma3 = is_gemma3(model.metadata);
  const bool qwen3_vl = is_qwen3_vl(model.metadata);
  const std::string_view text_name =
      reads_images(model.metadata) && !gemma3 && !qwen3_vl ? "model.text_model." : "model.language_model.";
  const JsonValue* text = model.metadata.find("text_config");
  if (text == nullptr || !text->is_object())
    throw Error(Code::bad_file, "there is no object \"text_config\"", (model.path / "config.json").string());
  JsonValue own = *text;
  if (!own.contains("model_type"))  // as Transformers takes for granted
    own["model_type"] = gemma3                                       ? "gemma3_text"
                        : qwen3_vl                                   ? "qwen3_vl_text"
                        : model.metadata["model_type"] == "mistral3" ? "mistral"
                                                                     : "llama";
  if (const JsonValue* tied = model.metadata.find("tie_word_embeddings")) own["tie_word_embeddings"] = *tied;
  if (gemma3) {
    for (const char* key : {"mm_tokens_per_image", "boi_token_index", "boi_token_id"})
      if (const JsonValue* value = model.metadata.find(key)) own[key] = *value;
    if (!own.contains("mm_tokens_per_image")) own["mm_tokens_per_image"] = 256;  // as Gemma3Config has it
  }
  if (qwen3_vl) {
    const JsonValue* const start = model.metadata.find("vision_start_token_id");
    own["vision_start_token_id"] = start != nullptr ? *start : JsonValue(151652);  // as Qwen3VLConfig has it
    const JsonValue* const vision = model.metadata.find("vision_config");
    const JsonValue* const indexes = vision != nullptr ? vision->find("deepstack_visual_indexes") : nullptr;
    own["deepstack_layers"] = indexes == nullptr ? 3 : indexes->is_array() ? indexes->size() : 0;
  }
  model.metadata = std::move(own);
  std::erase_if(model.tensors, [&](const TensorView& tensor) {
    return !tensor.name.starts_with(text_name) && !tensor.name.starts_with(kHead);
  });
  for (TensorView& tensor : model.tensors)
    if (tensor.name.starts_with(text_name)) tensor.name.replace(0, text_name.size(), kOwn);
  // As the processors of Transformers 4 write it.
  const JsonValue chat = read_object_if_there(model.path / "chat_template.json");
  const JsonValue* const source = chat.find("chat_template");
  if (source == nullptr || there(model.path / "chat_template.jinja")) return;
  if (model.tokenizer_config.is_null()) model.tokenizer_config = JsonValue::object();
  model.tokenizer_config["chat_template"] = *source;
}

// Gemma 3's names differ between versions of Transformers: "model." first or not, "vision_model." or not. Gives its
// tensors the names of Idefics3.
void name_gemma3_image(ModelFile& model) {
  for (TensorView& tensor : model.tensors) {
    std::string& name = tensor.name;
    const auto replace = [&](std::string_view old, std::string_view by) {
      if (name.starts_with(old)) name.replace(0, old.size(), by);
    };
    replace("vision_tower.", "model.vision_tower.");
    replace("multi_modal_projector.", "model.multi_modal_projector.");
    replace("model.vision_tower.vision_model.", "model.vision_model.");
    replace("model.vision_tower.", "model.vision_model.");
    replace("model.multi_modal_projector.mm_input_projection_weight", "model.connector.mm_input_projection.weight");
    replace("model.multi_modal_projector.", "model.connector.");
  }
}

// Names of the encoder's tensors begin so.
std::vector<std::string_view> image_prefixes(const JsonValue& config) {
  if (is_qwen3_vl(config)) return {"model.visual."};
  return {"model.vision_model.", "model.connector."};
}

void keep_image(ModelFile& model) {
  if (!reads_images(model.metadata))
    throw Error(Code::unsupported, "the model has no encoder of pictures that Weft can run", model.path.string(),
                "Weft runs those of Idefics3, SmolVLM, Gemma 3 and Qwen3-VL");
  if (is_gemma3(model.metadata)) name_gemma3_image(model);
  const std::vector<std::string_view> prefixes = image_prefixes(model.metadata);
  std::erase_if(model.tensors, [&](const TensorView& tensor) {
    return std::ranges::none_of(prefixes, [&](std::string_view prefix) { return tensor.name.starts_with(prefix); });
  });
  model.preprocessor = read_object_if_there(model.path / "preprocessor_config.json");
  if (!model.preprocessor.is_null()) return;
  const JsonValue processor = read_object_if_there(model.path / "processor_config.json");
  if (const JsonValue* own = processor.find("image_processor")) model.preprocessor = *own;
}

}  // namespace

std::unordered_map<std::string, std::string> parse_shard_index(const JsonValue& document, const std::string& place) {
  const JsonValue* map = document.find("weight_map");
  if (map == nullptr || !map->is_object()) {
    throw Error(Code::bad_file, "the index has no object \"weight_map\"", place);
  }
  std::unordered_map<std::string, std::string> result;
  for (const auto& [tensor, value] : map->members()) {
    if (!value.is_string())
      throw Error(Code::bad_file, "the shard of tensor " + printable(tensor) + " is no string", place);
    const std::string& shard = value.text();
    if (!is_plain_name(shard)) {
      throw Error(Code::bad_file,
                  "the shard of tensor " + printable(tensor) + " is \"" + printable(shard) +
                      "\", which is not a file name in this folder",
                  place);
    }
    result.emplace(tensor, shard);
  }
  return result;
}

ModelFile open_huggingface(const fs::path& folder, Half half) {
  ModelFile model;
  model.kind = ModelFile::Kind::huggingface;
  model.path = folder;
  model.metadata = read_object(folder / "config.json");
  model.tokenizer = read_object_if_there(folder / "tokenizer.json");
  model.tokenizer_config = read_object_if_there(folder / "tokenizer_config.json");
  model.generation_config = read_object_if_there(folder / "generation_config.json");
  read_sentence_files(model);
  merge_chat_template(folder / "chat_template.jinja", model.tokenizer_config);
  const fs::path index = folder / "model.safetensors.index.json";
  if (there(folder / "model.safetensors")) {
    add_file(model, folder / "model.safetensors");
  } else if (there(index)) {
    add_shards(model, index);
  } else {
    throw Error(Code::not_found, "the folder has neither model.safetensors nor model.safetensors.index.json",
                folder.string(), "convert other weights to safetensors first");
  }
  if (is_quantised(model)) read_quantised(model);
  if (half == Half::image)
    keep_image(model);
  else if (reads_images(model.metadata) || has_text_part(model.metadata))
    keep_text(model);
  return model;
}

std::string place_of(const ModelFile& model, const char* name) {
  const bool is_file =
      model.kind == ModelFile::Kind::gguf || (!model.files.empty() && model.files.front().path() == model.path);
  return (is_file ? model.path : model.path / name).string();
}

}  // namespace weft
