// A session in a file: a JSON header with the settings, the ids of the context, and the bytes of each layer's state
// that are in use. Numbers are little-endian; every part is padded to a multiple of 8 bytes.
//
//   "weft-kv1" | header's bytes (u64) | header | ids (u32 each) | by layer: its state (KeptContext::parts) |
//   checksum (u64: a Fingerprint of everything before)
//
// For an encoder-decoder, the ids of the input follow those of the context. restore() reads the input again. The rows
// of soft tokens (floats) follow the ids.
// "pictures" has the pictures with a grid: [begin, height, width].
#include <algorithm>
#include <cstring>
#include <fstream>

#include "base/error.h"
#include "base/file.h"
#include "format/json.h"
#include "model/fingerprint.h"
#include "session/session.h"

namespace weft {
namespace {

constexpr std::string_view kMagic = "weft-kv1";
constexpr uint64_t kPart = 8;  // bytes that parts are multiples of

std::span<const std::byte> bytes_of(const uint64_t& word) { return std::as_bytes(std::span(&word, 1)); }

std::string hex(uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

JsonValue to_json(const Sampling& s) {
  return {{"temperature", s.temperature},
          {"top_k", s.top_k},
          {"top_p", s.top_p},
          {"min_p", s.min_p},
          {"seed", s.seed},
          {"repeat_penalty", s.repeat_penalty},
          {"presence_penalty", s.presence_penalty},
          {"frequency_penalty", s.frequency_penalty},
          {"typical_p", s.typical_p}};
}

JsonValue to_json(const std::vector<PlacedPicture>& pictures) {
  JsonValue list = JsonValue::array();
  for (const auto& [begin, grid] : pictures) list.push_back({begin, grid.height, grid.width});
  return list;
}

// A header that need not be what save wrote.
class Header {
 public:
  Header(const JsonValue& document, const std::string& place) : document_(document), place_(place) {
    if (!document.is_object()) fail("the header");
  }

  uint64_t integer(const char* key, uint64_t most) const {
    const JsonValue& value = need(key, &JsonValue::is_number_unsigned);
    if (value.get<uint64_t>() > most) fail(key);
    return value.get<uint64_t>();
  }
  float real(const char* key) const { return need(key, &JsonValue::is_number).get<float>(); }
  std::string text(const char* key) const { return need(key, &JsonValue::is_string).text(); }
  // Tokens and their biases, as an array of [id, bias].
  std::pair<std::vector<uint32_t>, std::vector<float>> biases(const char* key) const {
    std::pair<std::vector<uint32_t>, std::vector<float>> result;
    for (const JsonValue& item : need(key, &JsonValue::is_array).items()) {
      const bool good = item.is_array() && item.size() == 2 && item[0].is_number_unsigned() && item[1].is_number();
      if (!good || item[0].get<uint64_t>() > UINT32_MAX) fail(key);
      result.first.push_back(item[0].get<uint32_t>());
      result.second.push_back(item[1].get<float>());
    }
    return result;
  }
  std::vector<PlacedPicture> pictures(const char* key) const {
    std::vector<PlacedPicture> result;
    for (const JsonValue& item : need(key, &JsonValue::is_array).items()) {
      if (!item.is_array() || item.size() != 3) fail(key);
      for (size_t i = 0; i < 3; ++i)
        if (!item[i].is_number_unsigned() || item[i].get<uint64_t>() > UINT32_MAX) fail(key);
      result.push_back({item[0].get<uint32_t>(), {item[1].get<uint32_t>(), item[2].get<uint32_t>()}});
    }
    return result;
  }
  Header object(const char* key) const { return Header(need(key, &JsonValue::is_object), place_); }

 private:
  [[noreturn]] void fail(const char* what) const {
    throw Error(Code::bad_file, std::string(what) + " is missing or wrong in the saved session", place_);
  }
  const JsonValue& need(const char* key, bool (JsonValue::*is_right)() const) const {
    const JsonValue* found = document_.find(key);
    if (found == nullptr || !((*found).*is_right)()) fail(key);
    return *found;
  }
  const JsonValue& document_;
  const std::string& place_;
};

Sampling sampling_from(const Header& h) {
  Sampling s;
  s.temperature = h.real("temperature");
  s.top_k = static_cast<uint32_t>(h.integer("top_k", UINT32_MAX));
  s.top_p = h.real("top_p");
  s.min_p = h.real("min_p");
  s.repeat_penalty = h.real("repeat_penalty");
  s.seed = h.integer("seed", UINT64_MAX);
  s.presence_penalty = h.real("presence_penalty");
  s.frequency_penalty = h.real("frequency_penalty");
  s.typical_p = h.real("typical_p");
  return s;
}

JsonValue to_json(const std::vector<std::pair<uint32_t, float>>& biases) {
  JsonValue list = JsonValue::array();
  for (const auto& [id, bias] : biases) list.push_back({id, bias});
  return list;
}

// The parts of a saved session, once its checksum is right.
struct SavedParts {
  std::string_view header;
  std::span<const std::byte> rest;  // ids and cache
};

SavedParts take_apart(std::span<const std::byte> file, const std::string& place) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (!text.starts_with(kMagic)) throw Error(Code::bad_file, "it is no session that this Weft saved", place);
  const auto word = [&](size_t at) {
    uint64_t value;
    std::memcpy(&value, &file[at], 8);
    return value;
  };
  const size_t fixed = kMagic.size() + 8 + 8;
  bool whole = file.size() >= fixed && file.size() % kPart == 0;
  if (whole) {
    Fingerprint sum;
    sum.add(file.first(file.size() - 8));
    whole = sum.value() == word(file.size() - 8) && word(kMagic.size()) <= file.size() - fixed;
  }
  if (!whole) throw Error(Code::bad_file, "its checksum does not fit: the file was cut or damaged", place);
  const size_t header = word(kMagic.size());
  return {text.substr(kMagic.size() + 8, header),
          file.subspan(kMagic.size() + 8 + header).first(file.size() - fixed - header)};
}

}  // namespace

// Version of the cache's layout. 1 (the default: older files lack the key) has the scales of each q8 slot after its
// values; 2 has them after the values of a tile.
static uint64_t cache_layout(const ops::CacheFormat& format) {
  return format.keys == Format::q8 || format.values == Format::q8 ? 2 : 1;
}

static std::string tied_text(const Weights& weights) { return weights.tied() ? "tied" : "untied"; }

// A name that was mistyped must not cost the user a file.
static void refuse_other_file(const std::filesystem::path& path) {
  std::error_code none;
  if (!std::filesystem::is_regular_file(path, none) || std::filesystem::file_size(path, none) == 0) return;
  std::string begin(kMagic.size(), '\0');
  std::ifstream(path, std::ios::binary).read(begin.data(), static_cast<std::streamsize>(begin.size()));
  if (begin != kMagic)
    throw Error(Code::invalid_argument, "it exists and is not a saved session", path.string(),
                "choose another name, or remove the file");
}

void Session::save(const std::filesystem::path& path, std::string_view note) const {
  refuse_other_file(path);
  std::optional<AtomicFile> file;  // once there is something to write
  const auto store = [&](std::span<const std::byte> bytes) {
    if (!file) file.emplace(path, Rights::owner);
    file->write(bytes);
  };
  save(store, note);
  file->commit();
}

void Session::save(const std::function<void(std::span<const std::byte>)>& store, std::string_view note) const {
  if (model_.config.hears())
    throw Error(Code::unsupported, "the family '" + model_.config.family + "' hears sound, which is not saved", "save");
  if (ids_.empty()) throw Error(Code::invalid_argument, "the session has no prompt", "save");
  const KeptContext& kept = on_device().kept;  // first: without a device there are no weights either
  const KeptContext::Extent extent = kept.extent_to_save();
  JsonValue header = {{"model", hex(model_.config.fingerprint)},
                      {"weights", model_.weights.type()},
                      {"table", name(model_.weights.output_table().matrix().format)},
                      {"tied", tied_text(model_.weights)},
                      {"cache", name(cache_format_)},
                      {"cache_layout", cache_layout(cache_format_)},
                      {"context", context_},
                      {"cache_bytes", kept.state().bytes()},
                      {"ids", ids_.size()},
                      {"input", input_.size()},
                      {"cached", extent.tokens},
                      {"written", extent.written},
                      {"recurrent_written", extent.recurrent_written},
                      {"prompt", prompt_end_},
                      {"note", note},
                      {"sampling", to_json(sampling())},
                      {"biases", to_json(sampling_.biases())}};
  if (adapter_) header["adapter"] = hex(adapter_->fingerprint());
  if (!soft_.empty()) header["soft"] = soft_.size() / soft_width();
  if (!pictures_.empty()) header["pictures"] = to_json(pictures_);
  std::string text = header.dump();
  text.resize(align_up(text.size(), kPart), ' ');
  std::vector<uint32_t> ids = ids_;
  ids.insert(ids.end(), input_.begin(), input_.end());
  ids.resize(align_up(ids.size(), kPart / 4));
  Fingerprint sum;
  const auto write = [&](std::span<const std::byte> bytes) {
    store(bytes);
    sum.add(bytes);
  };
  write(std::as_bytes(std::span(kMagic)));
  write(bytes_of(text.size()));
  write(std::as_bytes(std::span(text)));
  write(std::as_bytes(std::span(ids)));
  if (!soft_.empty()) {
    std::vector<float> rows = soft_;
    rows.resize(align_up(rows.size(), kPart / 4));
    write(std::as_bytes(std::span(rows)));
  }
  for (const View& part : kept.parts(extent)) write(download(model_.device, part));
  store(bytes_of(sum.value()));
}

std::string Session::restore(const std::filesystem::path& path) { return restore(read_file(path), path.string()); }

std::string Session::restore(std::span<const std::byte> file, const std::string& place) {
  const OnDevice& device = on_device();
  const SavedParts parts = take_apart(file, place);
  const JsonValue document = parse_json(parts.header, place);
  const Header header(document, place);
  const auto same = [&](const std::string& what, const std::string& saved, const std::string& here, const char* hint) {
    if (saved != here)
      throw Error(Code::unsupported, "it was saved with " + what + " " + saved + ", here it is " + here, place, hint);
  };
  same("a model of fingerprint", header.text("model"), hex(model_.config.fingerprint),
       "load the model it was saved with");
  same("weights of type", header.text("weights"), model_.weights.type(), "load the model with that type");
  if (document.contains("table"))  // files of older versions do not say
    same("a vocabulary table of type", header.text("table"), name(model_.weights.output_table().matrix().format),
         "load the model with that type of table");
  if (document.contains("tied"))
    same("a vocabulary that is", header.text("tied"), tied_text(model_.weights),
         "load the model with the same tie option");
  same("the adapter", document.contains("adapter") ? header.text("adapter") : "none",
       adapter_ ? hex(adapter_->fingerprint()) : "none", "set the adapter that it was saved with");
  const ops::CacheFormat& format = cache_format_;
  same("a cache of type", header.text("cache"), name(format), "create the session with that type");
  const uint64_t layout = document.contains("cache_layout") ? header.integer("cache_layout", UINT32_MAX) : 1;
  same("a cache of layout", std::to_string(layout), std::to_string(cache_layout(format)),
       "another version of Weft saved it: compute its context again");
  same("a context of", std::to_string(header.integer("context", UINT32_MAX)), std::to_string(context_),
       "create the session with that context");
  same("a cache of size", std::to_string(header.integer("cache_bytes", UINT64_MAX)),
       std::to_string(device.kept.state().bytes()), "");
  const uint64_t count = header.integer("ids", context_), cached = header.integer("cached", count),
                 written = header.integer("written", UINT32_MAX);
  // Older files lack this key.
  const uint64_t recurrent =
      document.contains("recurrent_written") ? header.integer("recurrent_written", written) : written;
  const KeptContext::Extent extent = {cached, written, recurrent};
  const Sampling sampling = sampling_from(header.object("sampling"));
  const uint64_t prompt = header.integer("prompt", count);
  const auto [biased, biases] = header.biases("biases");
  std::string note = header.text("note");

  const std::vector<View> views = device.kept.parts(extent);
  const uint64_t input_count = header.integer("input", device.source ? context_ : 0);
  const std::vector<PlacedPicture> pictures =
      document.contains("pictures") ? header.pictures("pictures") : std::vector<PlacedPicture>();
  const uint64_t soft_count = document.contains("soft") ? header.integer("soft", count) : 0;
  const uint64_t id_bytes = align_up((count + input_count) * 4, kPart),
                 row_bytes = align_up(soft_count * soft_width() * 4, kPart);
  uint64_t needed = id_bytes + row_bytes;
  for (const View& view : views) needed += view.bytes;
  if (count == 0 || (device.source && input_count == 0) || std::min(written, recurrent) < cached ||
      parts.rest.size() != needed)
    throw Error(Code::bad_file,
                "it has " + std::to_string(parts.rest.size()) + " bytes of ids and cache, expected are " +
                    std::to_string(needed),
                place);
  std::vector<uint32_t> ids(count), input(input_count);
  std::memcpy(ids.data(), parts.rest.data(), count * 4);
  if (input_count > 0) std::memcpy(input.data(), parts.rest.data() + count * 4, input_count * 4);
  std::vector<float> rows(soft_count * soft_width());
  if (soft_count > 0) std::memcpy(rows.data(), &parts.rest[id_bytes], rows.size() * 4);
  const bool soft_answer = std::any_of(ids.begin() + static_cast<ptrdiff_t>(prompt), ids.end(), is_soft);
  if (!are_numbered(ids, soft_count) || !are_finite(rows) || soft_answer)
    throw Error(Code::bad_file, "its soft tokens are not those of a context", place);
  std::vector<uint32_t> hard;
  std::ranges::copy_if(ids, std::back_inserter(hard), [](uint32_t id) { return !is_soft(id); });
  check_ids(hard, model_.config.vocab, context_);
  check_ids(input, model_.config.vocab, context_);
  try {
    check_pictures(ids);
    check_grids(model_.config, ids, pictures);
  } catch (const Error& error) {
    throw Error(Code::bad_file, error.sentence(), place);
  }
  SamplingSetup settings = sampling_;
  try {
    settings.set(sampling);
    settings.set_biases(biased, biases);
  } catch (const Error& error) {
    throw Error(Code::bad_file, error.sentence(), place);
  }

  if (drafter_ && settings.tail() != sampling_.tail()) on_device().schedule.prepare_checks(settings.tail());
  on_device().kept.forget();  // until all of it is there
  Uploader uploader(model_.device);
  std::span<const std::byte> bytes = parts.rest.subspan(id_bytes + row_bytes);
  for (const View& view : views) {
    uploader.upload(view, bytes.first(view.bytes));
    bytes = bytes.subspan(view.bytes);
  }
  sampling_ = std::move(settings);
  set_soft(rows, pictures);
  ids_ = std::move(ids);
  prompt_end_ = prompt;
  input_ = std::move(input);
  on_device().kept.loaded(extent);
  if (matcher_) matcher_->reset();
  return note;
}

}  // namespace weft
