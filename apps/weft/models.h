// The user's models: a folder in the cache that `weft pull` and `./run model` fill, and a catalogue of known ones.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace weft::cli {

// A model of the catalogue.
struct KnownModel {
  const char* name;
  const char* source;      // "hf.co/OWNER/REPO[:TYPE]"; "": `./run model NAME` downloads it from PyPI
  const char* parameters;  // "0.6 B"
  const char* licence;     // as its card says
};
std::span<const KnownModel> known_models();
const KnownModel* known_model(const std::string& name);  // null: it is not in the catalogue

// Folder of the user's models; empty: the environment names no place for it.
std::filesystem::path models_folder();

// A model in that folder: NAME.gguf, or a folder NAME with a model in Hugging Face's format or a GGUF file in parts.
struct KeptModel {
  std::string name;
  std::filesystem::path path;  // what is loaded: of parts the first
  std::string source;          // what it was pulled from; "": unknown
  std::uint64_t bytes;         // of its files
};
std::vector<KeptModel> kept_models();  // by name

// How to get a model of the catalogue: a sentence for a hint.
std::string how_to_get(const std::string& name);

// Errors of a name that nothing has: the nearest of the names that there are.
std::string nearest_models(const std::string& name);

}  // namespace weft::cli
