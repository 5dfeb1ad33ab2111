// weft-fuzz-seeds FOLDER: small valid files for each fuzz target to start from, in FOLDER/NAME.
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "support/gguf_writer.h"
#include "support/model_maker.h"

namespace {

namespace fs = std::filesystem;

void write(const fs::path& path, const std::string& content) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << content;
}

std::string small_gguf(uint32_t version) {
  weft::GgufWriter w(version);
  w.key("general.alignment", uint32_t{32});
  w.key("text", "a\"b");
  w.key("flag", true);
  w.key("rate", 0.5f);
  w.key("words", std::vector<std::string>{"x", "", "yz"});
  w.key("ints", std::vector<int32_t>{1, -2});
  w.key(
      "nested", weft::kGgufArray,
      weft::le<uint32_t>(weft::kGgufArray) + w.length(1) + weft::le<uint32_t>(weft::kGgufUint8) + w.length(2) + "\1\2");
  w.tensor("a", {2, 3}, 0, 24);
  w.tensor("b", {3}, 1, 6);
  w.tensor("c", {4}, 30, 8);
  w.tensor("d", {2, 32}, 8, 68);
  return w.file_of_zeros();
}

std::string small_safetensors() {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
      R"("b":{"dtype":"BF16","shape":[],"data_offsets":[8,10]},"c":{"dtype":"F16","shape":[3],"data_offsets":[10,16]}})";
  return weft::le(uint64_t{header.size()}) + header + std::string(16, '\1');
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: weft-fuzz-seeds FOLDER\n");
    return 2;
  }
  const fs::path folder = argv[1];
  for (uint32_t version = 1; version <= 3; ++version) {
    write(folder / "gguf" / ("version-" + std::to_string(version)), small_gguf(version));
  }
  write(folder / "safetensors" / "three", small_safetensors());
  write(
      folder / "json_config" / "config",
      R"({"model_type": "llama", "hidden_size": 64, "rms_norm_eps": 1e-5, "tie": true, "scaling": null, "ids": [1, -2], "s": "\u00e9"})");
  write(folder / "json_config" / "index",
        R"({"metadata": {}, "weight_map": {"a": "model-00001-of-00002.safetensors", "b": "x"}})");
}
