// The C API of models and text. Devices are in probe.cpp, sessions in session.cpp, keep-lists in vocab.cpp.
#include "capi/handles.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "gpu/device.h"
#include "gpu/memory_map.h"
#include "gpu/pipeline_cache.h"
#include "gpu/tuning.h"
#include "keep/keep_list.h"
#include "model/footprint.h"
#include "ops/bandwidth.h"
#include "ops/proof.h"
#include "run/hidden_states.h"
#include "weft/descriptor.h"

using namespace weft;
namespace weft::capi {

void need_own(const weft_model& model) {
  if (is_inherited(model))
    throw Error(Code::invalid_argument, "this process was forked from the one that loaded the model", "model",
                "use it in that process, or load it after the fork alone");
}

void release(const weft_model* model) noexcept {
  const NoCancel whole;
  if (!is_inherited(*model) && --model->holders == 0) delete model;
}

void copy_ids(const std::vector<uint32_t>& from, uint32_t* ids, size_t capacity, size_t* count) {
  std::copy_n(from.begin(), std::min(from.size(), capacity), ids);
  *count = from.size();
}

}  // namespace weft::capi

using namespace weft::capi;

#define WEFT_TEXT_OF(number) #number
#define WEFT_VERSION_TEXT(major, minor, patch) WEFT_TEXT_OF(major) "." WEFT_TEXT_OF(minor) "." WEFT_TEXT_OF(patch)

const char* weft_version(void) { return WEFT_VERSION_TEXT(WEFT_VERSION_MAJOR, WEFT_VERSION_MINOR, WEFT_VERSION_PATCH); }

weft_status weft_set_cache_folder(const char* folder, weft_error* error) {
  return guard(error, [&] {
    std::optional<std::filesystem::path> chosen;
    if (folder) chosen = *folder ? std::filesystem::absolute(folder) : std::filesystem::path();
    set_user_cache_folder(std::move(chosen));
  });
}

const char* weft_status_name(weft_status status) {
  static constexpr const char* names[] = {"WEFT_OK",           "WEFT_INVALID_ARGUMENT", "WEFT_NOT_FOUND",
                                          "WEFT_IO",           "WEFT_BAD_FILE",         "WEFT_UNSUPPORTED",
                                          "WEFT_NO_DEVICE",    "WEFT_OUT_OF_MEMORY",    "WEFT_DEVICE_LOST",
                                          "WEFT_CONTEXT_FULL", "WEFT_CANCELLED",        "WEFT_INTERNAL"};
  const size_t index = static_cast<size_t>(status);
  return index < std::size(names) ? names[index] : "unknown weft_status";
}

void weft_string_free(char* text) { std::free(text); }

// ---- models ----

DeviceFormats capi::formats_of(const weft_model_options& options) {
  DeviceFormats formats;
  if (options.type != WEFT_TYPE_FILE) formats = format_of(options.type, "type");
  formats.native_table = options.vocab_type == WEFT_TYPE_NATIVE;
  if (formats.native_table)
    formats.tables.reset();
  else if (options.vocab_type != WEFT_TYPE_FILE)
    formats.tables = format_of(options.vocab_type, "vocab_type");
  require(options.tie == WEFT_TIE_AUTO || options.tie == WEFT_TIE_NEVER, "tie", "it is no weft_tie");
  formats.tie = options.tie == WEFT_TIE_AUTO;
  return formats;
}

static Tokenizer make_tokenizer(const ModelFile& file) {
  const std::string place = file.path.string();
  if (file.kind == ModelFile::Kind::gguf) return Tokenizer::from_gguf(file.metadata, place);
  if (file.tokenizer.is_null())
    throw Error(Code::not_found, "the folder has no tokenizer.json", place, "export the tokenizer as tokenizer.json");
  return Tokenizer::from_hf(file.tokenizer, file.tokenizer_config, file.generation_config, place);
}

// A table may have more rows than the tokenizer has ids, never fewer: the tokenizer's ids must have rows.
void capi::check_sizes(const ModelFile& file, const Tokenizer& tokenizer, const Config& config) {
  if (tokenizer.size() > config.vocab)
    throw Error(Code::bad_file,
                "the tokenizer has " + std::to_string(tokenizer.size()) + " ids, the vocabulary table " +
                    std::to_string(config.vocab) + " rows",
                file.path.string());
}

Described capi::describe(ModelFile file) {
  Config config = read_config(file);
  Tokenizer tokenizer = make_tokenizer(file);
  file.forget_tokenizer();
  return {std::make_shared<const ModelFile>(std::move(file)), std::move(config), std::move(tokenizer)};
}

Plan capi::plan_for(const Caps& caps, const weft_model_options& options) {
  Plan plan = tuned_plan(caps).plan;
  if (options.memory_budget) plan.memory_budget = options.memory_budget;
  if (options.int8_inputs) round_inputs(plan, caps);
  return plan;
}

// At the first load of a model: measures the states of a text, with a vocabulary of its tokens alone, and then loads
// the whole table in a basis for them. Later loads find what was measured in the file.
static std::vector<uint32_t> text_of_states(const Tokenizer& tokenizer, const Config& config) {
  std::vector<uint32_t> ids = tokenizer.encode(kStateText, Tokenizer::Special::plain);
  if (tokenizer.add_bos() && tokenizer.bos()) ids.insert(ids.begin(), *tokenizer.bos());
  ids.resize(std::min<size_t>(ids.size(), config.context - 1));
  return ids;
}

static void measure_states(Model& model, std::vector<uint32_t> ids, const ModelFile& file, DeviceFormats& formats,
                           const std::filesystem::path& path, const std::function<void(float)>& progress) {
  for (uint32_t& id : ids)
    id = static_cast<uint32_t>(std::ranges::lower_bound(formats.rows, id) - formats.rows.begin());
  model.weights.wait();
  const auto states = statistics_of(hidden_states(model, ids), model.config.width);
  try {
    if (states) {
      write_statistics(path, *states);
      formats.states = std::make_shared<const StateStatistics>(*states);
    }
  } catch (const Error&) {
    // They stay unknown: the next load would find another basis, and its tokens might differ.
  }
  formats.rows.clear();
  reload_vocabulary(model.device, file, model.config, formats, model.weights, progress);
}

DeviceFits capi::fits_model(const ModelFile& file, const Config& config, const weft_model_options& options,
                            const SessionSettings& session, uint64_t more) {
  return [=, &file](size_t, const Caps& caps, const std::vector<uint64_t>& room) {
    try {
      Config own = config;
      const Footprint print =
          footprint(file, own, formats_of(options), plan_for(caps, options), session.context, session.cache);
      return fits(print.pieces, print.session_bytes + more, room);
    } catch (const Error&) {  // a load on the best device says why
      return false;
    }
  };
}

std::shared_ptr<Device> weft::capi::LoadedFrom::open() const {
  return open_proven(devices.names.front(), [&](const Caps& caps) { return plan_for(caps, options); });
}

// open: gives the file; again: later, too.
static std::unique_ptr<weft_model> load(const std::function<ModelFile()>& open, std::function<ModelFile()> again,
                                        const weft_model_options& options) {
  const auto start = std::chrono::steady_clock::now();
  LoadedFrom from = {std::move(again), parse_devices(options.device ? options.device : ""), options,
                     formats_of(options)};
  from.options.device = nullptr;
  from.options.progress = nullptr;
  // Checks that need no device come before a device is opened.
  auto [file, config, tokenizer] = capi::describe(open());
  const std::string place = file->path.string();
  std::string& selector = from.devices.names.front();  // for a recovery too, whose device the old weights still fill
  selector = selector_for(selector,
                          fits_model(*file, config, options, settings_of(config, weft_session_options_default()), 0));
  std::shared_ptr<Device> device = from.open();
  from.formats.split = from.split(device);  // before the device is filled
  const auto progress = [&](float done) {
    if (options.progress && options.progress(options.user, std::clamp(done, 0.0f, 1.0f)) != 0)
      throw Error(Code::cancelled, "loading was given up", place);
  };
  const bool measured = config.can_measure_states() && !from.formats.native_table;
  const auto states_path = measured ? statistics_path(config.fingerprint) : std::nullopt;
  const auto states = states_path ? read_statistics(*states_path, config.width) : std::nullopt;
  std::vector<uint32_t> text;
  if (states)
    from.formats.states = std::make_shared<const StateStatistics>(*states);
  else if (states_path)
    text = text_of_states(tokenizer, config);
  from.formats.rows = text;
  std::ranges::sort(from.formats.rows);
  from.formats.rows.erase(std::unique(from.formats.rows.begin(), from.formats.rows.end()), from.formats.rows.end());
  const float loaded = text.empty() ? 1.0f : 0.5f;  // a first load reads the vocabulary table later
  const auto first = [&](float done) { progress(done * loaded); };
  // A progress callback makes the load blocking.
  Weights weights = options.progress ? load_weights(device, *file, config, from.formats, first)
                                     : begin_weights(device, file, config, from.formats, {});
  check_sizes(*file, tokenizer, config);
  std::optional<ChatTemplate> chat_template, tool_template;
  std::string problem;
  if (!tokenizer.chat_template().empty()) {
    try {
      chat_template.emplace(tokenizer.chat_template(), tokenizer.named_tokens(), place);
      if (!tokenizer.tool_template().empty())
        tool_template.emplace(tokenizer.tool_template(), tokenizer.named_tokens(), place);
    } catch (const Error& e) {  // the model can still continue texts
      problem = e.what();
    }
  }
  const Caps& caps = device->caps();
  std::string name = caps.name, driver = caps.driver_name + (caps.driver_info.empty() ? "" : " " + caps.driver_info);
  std::string type = weights.type();
  std::unique_ptr<weft_model> model(new weft_model{{std::move(device), config, std::move(weights)},
                                                   std::move(tokenizer),
                                                   std::move(chat_template),
                                                   std::move(tool_template),
                                                   std::move(problem),
                                                   std::move(name),
                                                   std::move(driver),
                                                   std::move(type),
                                                   std::move(from)});
  if (!text.empty())
    measure_states(model->model, std::move(text), *file, model->loaded_from.formats, *states_path,
                   [&](float done) { progress(loaded + (1 - loaded) * done); });
  model->loaded_from.formats.split.reset();
  model->load_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return model;
}

weft_status weft_model_load(const char* path, const weft_model_options* options, weft_model** model,
                            weft_error* error) {
  return guard(error, [&] {
    require(model, "model", "it is NULL");
    const std::filesystem::path chosen = model_path(path);
    const auto open = [](const std::filesystem::path& place) { return [place] { return open_model(place); }; };
    *model = load(open(chosen), open(absolute(chosen)), read_struct(options)).release();
  });
}

weft_status weft_model_load_fd(int descriptor, uint64_t offset, uint64_t length, const weft_model_options* options,
                               weft_model** model, weft_error* error) {
  return guard(error, [&] {
    require(model, "model", "it is NULL");
    const auto open = [&] { return open_model(MappedFile(descriptor, offset, length)); };
    // The caller may close his.
    const std::shared_ptr<const int> own(new int(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0)), [](const int* kept) {
      if (*kept >= 0) ::close(*kept);
      delete kept;
    });
    const auto again = [own, offset, length] { return open_model(MappedFile(*own, offset, length)); };
    *model = load(open, again, read_struct(options)).release();
  });
}

weft_status weft_model_load_memory(const void* bytes, size_t length, const weft_model_options* options,
                                   weft_model** model, weft_error* error) {
  return guard(error, [&] {
    require(model && (bytes || length == 0), "model or bytes", "it is NULL");
    const auto open = [all = std::span(static_cast<const std::byte*>(bytes), length)] {
      return open_model(MappedFile(all));
    };
    *model = load(open, open, read_struct(options)).release();
  });
}

void weft_model_free(weft_model* model) {
  if (model) release(model);
}

static weft_model_info info_of(const weft_model* model) {
  weft_model_info info = {};
  info.family = info.type = info.device = info.driver = "";
  if (!model || is_inherited(*model)) return info;
  const std::lock_guard lock(model->users_mutex);
  const Model& loaded = model->model;
  info.family = loaded.config.family.c_str();
  info.type = model->type.c_str();
  info.device = model->device.c_str();
  info.driver = model->driver.c_str();
  info.vocab_size = loaded.config.vocab;
  info.layers = loaded.config.layers;
  info.width = loaded.config.width;
  info.max_context = loaded.config.context;
  info.has_chat_template = model->chat_template.has_value();
  info.load_seconds = model->load_seconds;
  info.tokenizer_fingerprint = model->tokenizer.fingerprint();
  info.mask_token = model->tokenizer.mask().value_or(UINT32_MAX);
  info.reads_prompt_apart = loaded.config.encoder != nullptr;
  if (!loaded.weights.embedding) return info;
  info.tied = loaded.weights.tied();
  info.parameters = loaded.parameters();
  info.vocab_bytes = loaded.weights.vocab_bytes();
  info.layer_bytes = loaded.weights.device_bytes() - info.vocab_bytes;
  info.streamed_bytes = loaded.weights.streamed_bytes();
  const MemoryUse use = loaded.device->memory_use();
  info.device_bytes = use.device;
  info.most_device_bytes = use.most_device;
  info.bytes_per_token = loaded.bytes_per_token();
  return info;
}

void weft_model_get_info(const weft_model* model, weft_model_info* info, size_t size) {
  write_struct(info_of(model), info, size);
}

weft_status weft_model_describe(const weft_model* model, char** out, weft_error* error) {
  return guard(error, [&] {
    require(model && out, "model or json", "it is NULL");
    const auto lock = lock_users(*model);
    need_weights(*model);
    model->model.weights.wait();
    const weft_model_info info = info_of(model);
    const Weights& weights = model->model.weights;
    const Weights* const encoder = weights.encoder ? &weights.encoder->weights : nullptr;
    JsonValue description = {{"family", info.family},
                             {"type", info.type},
                             {"device", info.device},
                             {"driver", info.driver},
                             {"vocab_size", info.vocab_size},
                             {"layers", info.layers},
                             {"width", info.width},
                             {"max_context", info.max_context},
                             {"tied", info.tied != 0},
                             {"has_chat_template", info.has_chat_template != 0},
                             {"parameters", info.parameters},
                             {"vocab_bytes", info.vocab_bytes},
                             {"layer_bytes", info.layer_bytes},
                             {"streamed_bytes", info.streamed_bytes},
                             {"device_bytes", info.device_bytes},
                             {"bytes_per_token", info.bytes_per_token},
                             {"load_seconds", info.load_seconds},
                             {"tokenizer_fingerprint", fingerprint_text(info.tokenizer_fingerprint)}};
    const OutputHead* const head = model->model.config.head.get();
    if (head)
      description["head"] = {
          {"kind", head->kind()}, {"text", head->text()}, {"gives_log_probabilities", head->gives_log_probabilities()}};
    if (!weights.shards.empty()) description["shards"] = shards_json(model->model, model->loaded_from.devices);
    if (model->chat_template) description["chat_template"] = model->tokenizer.chat_template();
    if (model->tool_template) description["tool_template"] = model->tokenizer.tool_template();
    if (!model->chat_template_problem.empty()) description["chat_template_problem"] = model->chat_template_problem;
    if (const auto& tie = weights.tie)
      description["tie"] = {{"kept", tie->kept}, {"left_out", tie->left_out}, {"difference", tie->difference}};
    if (weights.untied_by_tensors) description["untied_by_tensors"] = true;
    JsonValue tensors = JsonValue::array(), buffers = JsonValue::array();
    std::vector<Retyped> retyped;
    for (const TensorReport& tensor : weights.tensors) {
      retyped.push_back({tensor.file_type, tensor.device_type, tensor.rounding});
      tensors.push_back({{"name", tensor.name},
                         {"shape", tensor.shape},
                         {"file_type", tensor.file_type},
                         {"device_type", tensor.device_type},
                         {"device_bytes", tensor.device_bytes},
                         {"buffer", tensor.buffer},
                         {"exact", tensor.rounding.largest_error == 0},
                         {"largest_error", tensor.rounding.largest_error},
                         {"relative_error", tensor.rounding.relative()}});
    }
    const auto add_buffer = [&](const Buffer& buffer, std::vector<std::string> users) {
      buffers.push_back({{"name", buffer.name()},
                         {"bytes", buffer.bytes()},
                         {"users", std::move(users)},
                         {"memory", buffer.data() ? "host" : "device"}});
    };
    add_buffer(weights.embedding->buffer(),
               weights.tied() ? std::vector<std::string>{"gather", "project"} : std::vector<std::string>{"gather"});
    if (!weights.tied()) add_buffer(weights.separate_output->buffer(), {"project"});
    for (const Weights* half : {encoder, &weights}) {
      if (!half) continue;
      const std::vector<std::string> users = {"norm", "matmul"};
      for (const Layer& layer : half->layers)
        add_buffer(layer.buffer, half->stream ? std::vector<std::string>{"layer buffer"} : users);
      if (half->stream)
        for (const Buffer& buffer : half->stream->buffers) add_buffer(buffer, users);
      add_buffer(half->attention_norms, users);
      add_buffer(half->final_norm, {"norm"});
      if (half->embedding_norm) add_buffer(half->embedding_norm, {"norm"});
      if (half->positions) add_buffer(half->positions, {"add_positions"});
      if (half->score_biases) add_buffer(half->score_biases, {"attend"});
    }
    if (weights.logit_bias) add_buffer(weights.logit_bias, {"add"});
    if (weights.masked_head) add_buffer(weights.masked_head->buffer, {"matmul", "norm", "add"});
    if (head) {
      add_buffer(weights.head->buffer, {"matmul"});
      if (weights.head->constants)
        add_buffer(weights.head->constants, head->constants(model->model.config.vocab).users);
    }
    description["types"] = types_json(retyped, "file_type", "device_type");
    description["tensors"] = std::move(tensors);
    description["buffers"] = std::move(buffers);
    *out = copy_string(description.dump());
  });
}

weft_status weft_model_measure_bandwidth(const weft_model* model, double* gigabytes_per_second, weft_error* error) {
  return guard(error, [&] {
    require(model && gigabytes_per_second, "model or gigabytes_per_second", "it is NULL");
    const auto loaded = lock_users(*model);
    model->model.weights.wait();
    const std::lock_guard lock(model->bandwidth_mutex);
    if (model->bandwidth == 0) model->bandwidth = measure_read_bandwidth(model->model.device);
    *gigabytes_per_second = model->bandwidth * 1e-9;
  });
}

// ---- text ----

weft_status weft_tokenize(const weft_model* model, const char* text, size_t length, int parse_special, int add_bos,
                          uint32_t* ids, size_t capacity, size_t* count, weft_error* error) {
  return guard(error, [&] {
    require(model && (text || length == 0) && (ids || capacity == 0) && count, "model, text, ids or count",
            "it is NULL");
    const Tokenizer& tokenizer = model->tokenizer;
    std::vector<uint32_t> all;
    if (add_bos && tokenizer.add_bos() && tokenizer.bos()) all.push_back(*tokenizer.bos());
    const std::vector<uint32_t> encoded =
        tokenizer.encode({text, length}, parse_special ? Tokenizer::Special::parse : Tokenizer::Special::plain);
    all.insert(all.end(), encoded.begin(), encoded.end());
    const Config& config = model->model.config;
    if (add_bos && config.embeds() && tokenizer.input_end()) all.push_back(*tokenizer.input_end());
    copy_ids(all, ids, capacity, count);
  });
}

weft_status weft_detokenize(const weft_model* model, const uint32_t* ids, size_t count, char** text, size_t* length,
                            weft_error* error) {
  return guard(error, [&] {
    require(model && (ids || count == 0) && text, "model, ids or text", "it is NULL");
    const std::string decoded = model->tokenizer.decode({ids, count});
    *text = copy_string(decoded);
    if (length) *length = decoded.size();
  });
}

const ChatTemplate& weft::capi::chat_template_of(const weft_model& model) {
  if (model.chat_template) return *model.chat_template;
  throw Error(Code::unsupported,
              model.chat_template_problem.empty() ? "the model has no chat template" : model.chat_template_problem,
              "chat template", "let it continue a text instead");
}

weft_status weft_apply_chat_template(const weft_model* model, const weft_message* messages, size_t message_count,
                                     uint32_t* ids, size_t capacity, size_t* count, weft_error* error) {
  return guard(error, [&] {
    require(model && (messages || message_count == 0) && (ids || capacity == 0) && count,
            "model, messages, ids or count", "it is NULL");
    const ChatTemplate& chat = chat_template_of(*model);
    std::vector<Message> list;
    for (size_t i = 0; i < message_count; ++i) {
      require(messages[i].role && messages[i].content, "messages", "a role or content is NULL");
      list.push_back({messages[i].role, messages[i].content});
    }
    copy_ids(model->tokenizer.encode(chat.render(list, true)), ids, capacity, count);
  });
}
