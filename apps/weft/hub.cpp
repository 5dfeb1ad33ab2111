#include "hub.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>

#include "common.h"
#include "models.h"

namespace weft::cli {
namespace {

// GGUF types by how well they usually serve: the first that a repository has is taken.
constexpr const char* kTypes[] = {"Q4_K_M", "MXFP4", "Q4_0", "Q8_0", "Q5_K_M", "Q6_K", "Q4_K_S", "Q4_1", "F16", "BF16"};

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

std::string upper(std::string text) {
  for (char& c : text)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return text;
}

bool plain_name(std::string_view text) {
  const auto good = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '.';
  };
  return !text.empty() && text.front() != '.' && text.size() <= 200 && std::ranges::all_of(text, good);
}

// The token that `hf auth login` keeps is used, too.
Credentials find_credentials() {
  if (const std::string token = variable("HF_TOKEN"); !token.empty()) return {token};
  const std::string home = variable("HF_HOME"), user = variable("HOME");
  if (home.empty() && user.empty()) return {};
  std::ifstream file((home.empty() ? user + "/.cache/huggingface" : home) + "/token");
  std::string token;
  std::getline(file, token);
  return {token};
}

// "Model-Q8_0" of "Q8_0/Model-Q8_0-00001-of-00002.gguf".
std::string stem_of(const std::string& path) {
  std::string stem = std::filesystem::path(path).stem().string();
  const std::size_t of = stem.rfind("-of-");
  if (of != std::string::npos && of >= 6 && stem.size() == of + 9 && stem[of - 6] == '-' &&
      stem.find_first_not_of("0123456789", of + 4) == std::string::npos)
    stem.resize(of - 6);
  return stem;
}

bool has_type(const std::string& stem, const std::string& type) {
  if (stem.size() <= type.size() || !upper(stem).ends_with(upper(type))) return false;
  return std::string_view("-._").find(stem[stem.size() - type.size() - 1]) != std::string_view::npos;
}

using Groups = std::map<std::string, std::vector<RemoteFile>>;  // by stem

// The GGUF file of a type, whole or in parts; the one with the shortest name if there are several.
const Groups::value_type& choose(const Groups& groups, const std::string& wanted, const std::string& source) {
  const auto of_type = [&](const std::string& type) {
    const Groups::value_type* best = nullptr;
    for (const auto& group : groups)
      if (has_type(group.first, type) && (!best || group.first.size() < best->first.size())) best = &group;
    return best;
  };
  if (!wanted.empty()) {
    if (const auto* found = of_type(wanted)) return *found;
  } else {
    for (const char* type : kTypes)
      if (const auto* found = of_type(type)) return *found;
    if (groups.size() == 1) return *groups.begin();
  }
  std::string names;
  for (const auto& group : groups) names += (names.empty() ? "" : ", ") + group.first;
  throw api::Failure(
      WEFT_NOT_FOUND,
      wanted.empty() ? "none of its GGUF files has a usual type" : "it has no GGUF file of type " + wanted, source,
      "its files: " + names + "; append :TYPE, the end of a name");
}

// Files of a folder in Hugging Face's format that Weft reads.
bool belongs_to_folder(const std::string& path) {
  const std::filesystem::path file(path);
  const std::string name = file.filename().string(), extension = file.extension().string();
  const std::string folder = file.parent_path().string();
  if (!folder.empty())  // of sentence encoders: "1_Pooling/config.json", "2_Dense/model.safetensors"
    return folder.find('/') == std::string::npos && folder[0] >= '0' && folder[0] <= '9' && folder.size() > 2 &&
           folder[1] == '_' && (name == "config.json" || name == "model.safetensors");
  if (extension == ".safetensors") return name.starts_with("model");
  return extension == ".json" || extension == ".txt" || extension == ".jinja" || extension == ".model";
}

std::string escaped(const std::string& path) {
  std::string text;
  for (const char c : path)
    text += std::string_view(" %?#\"<>\\^`{|}").find(c) != std::string_view::npos || static_cast<unsigned char>(c) < 32
                ? format("%%%02X", static_cast<unsigned char>(c))
                : std::string(1, c);
  return text;
}

std::string hub_address() {
  std::string hub = variable("HF_ENDPOINT");
  while (hub.ends_with('/')) hub.pop_back();
  return hub.empty() ? "https://huggingface.co" : hub;
}

bool is_of_hub(const std::string& url) {
  return url.starts_with(hub_address() + "/") || url.starts_with("https://huggingface.co/") ||
         url.starts_with("https://hf.co/");
}

// The files of a repository that have names which are safe to use here.
std::vector<RemoteFile> list_files(const Reference& reference, const Credentials& credentials) {
  const std::string hub = hub_address();
  const std::string url = hub + "/api/models/" + reference.repository + "/tree/main?recursive=true";
  const Json list = Json::parse(fetch_text(url, credentials), nullptr, false);
  if (!list.is_array()) throw api::Failure(WEFT_BAD_FILE, "the hub's answer is no list of files", url);
  std::vector<RemoteFile> files;
  for (const Json& item : list) {
    if (!item.is_object() || item.value("type", Json()) != "file" || !item.value("path", Json()).is_string()) continue;
    const auto size = item.value("size", Json());
    const auto digest = [](const Json& object, const char* key, std::size_t digits) -> std::string {
      const Json value = object.value(key, Json());
      return value.is_string() && value.get<std::string>().size() == digits ? value.get<std::string>() : "";
    };
    RemoteFile file;
    file.name = item["path"].get<std::string>();
    const std::filesystem::path path = std::filesystem::path(file.name);
    if (!std::ranges::all_of(path, [](const auto& part) { return plain_name(part.string()); })) continue;
    file.url = hub + "/" + reference.repository + "/resolve/main/" + escaped(file.name);
    if (size.is_number_unsigned()) file.bytes = size.get<std::uint64_t>();
    const Json large = item.value("lfs", Json());
    if (large.is_object())
      file.sha256 = digest(large, "oid", 64);
    else
      file.git_sha1 = digest(item, "oid", 40);
    files.push_back(std::move(file));
  }
  return files;
}

}  // namespace

Reference parse_reference(const std::string& name) {
  const auto wrong = [&](const std::string& sentence) { return UsageError("MODEL", sentence, nearest_models(name)); };
  if (const KnownModel* known = known_model(name)) {
    if (*known->source == '\0')
      throw UsageError("MODEL", name + " is not on a hub: ./run model in Weft's source folder downloads it",
                       how_to_get(name));
    return parse_reference(known->source);
  }
  std::string rest = name;
  for (const std::string_view prefix : {"https://huggingface.co/", "huggingface.co/", "https://hf.co/", "hf.co/"})
    if (rest.starts_with(prefix)) {
      rest.erase(0, prefix.size());
      break;
    }
  const bool url = rest.starts_with("https://") || rest.starts_with("http://");
  const bool file = rest.find("/resolve/") != std::string::npos || rest.find("/blob/") != std::string::npos;
  if (url || (rest != name && file)) {
    const std::string path = name.substr(0, name.find_first_of("?#"));
    if (!path.ends_with(".gguf") || !plain_name(std::filesystem::path(path).filename().string()))
      throw wrong("the URL is not that of a GGUF file");
    std::string source = name.starts_with("http") ? name : "https://" + name;
    constexpr std::string_view kPage = "/blob/";  // the address of the page about a file
    if (const std::size_t page = source.find(kPage); is_of_hub(source) && page != std::string::npos)
      source.replace(page, kPage.size(), "/resolve/");
    return {source, "", ""};
  }
  Reference reference;
  const std::size_t colon = rest.find(':'), slash = rest.find('/');
  if (colon != std::string::npos) reference.type = rest.substr(colon + 1);
  reference.repository = rest.substr(0, colon);
  if (slash == std::string::npos || slash > colon) throw wrong("there is no model " + name);
  if (!plain_name(reference.repository.substr(0, slash)) || !plain_name(reference.repository.substr(slash + 1)) ||
      (colon != std::string::npos && !plain_name(reference.type)))
    throw wrong("must be a name, hf.co/OWNER/REPO[:TYPE] or the URL of a GGUF file");
  reference.source = "hf.co/" + rest;
  return reference;
}

RemoteModel find_remote(const Reference& reference) {
  if (reference.repository.empty()) {
    const std::string file =
        std::filesystem::path(reference.source.substr(0, reference.source.find_first_of("?#"))).filename().string();
    RemoteFile one;
    one.url = reference.source, one.name = file;
    return {std::filesystem::path(file).stem().string(),
            {one},
            is_of_hub(reference.source) ? find_credentials() : Credentials()};
  }
  const Credentials credentials = find_credentials();
  const std::vector<RemoteFile> files = list_files(reference, credentials);
  Groups groups;
  for (RemoteFile file : files) {
    const std::string last = std::filesystem::path(file.name).filename().string();
    if (!last.ends_with(".gguf") || last.starts_with("mmproj")) continue;
    std::vector<RemoteFile>& group = groups[stem_of(file.name)];
    file.name = last;
    group.push_back(std::move(file));
  }
  if (!groups.empty()) {
    const auto& [stem, parts] = choose(groups, reference.type, reference.source);
    return {stem, parts, credentials};
  }
  RemoteModel model = {reference.repository.substr(reference.repository.find('/') + 1), {}, credentials};
  bool weights = false;
  for (const RemoteFile& file : files) {
    if (!belongs_to_folder(file.name)) continue;
    weights |= file.name.ends_with(".safetensors");
    model.files.push_back(file);
  }
  if (!reference.type.empty() || !weights)
    throw api::Failure(WEFT_NOT_FOUND,
                       std::string("the repository has no GGUF file") + (weights ? "" : " and no model.safetensors"),
                       reference.source, weights ? "without :TYPE its safetensors are taken" : "");
  return model;
}

}  // namespace weft::cli
