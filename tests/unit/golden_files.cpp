#include "golden_files.h"

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "support/source_folder.h"

namespace weft::test {

namespace fs = std::filesystem;

std::optional<fs::path> shared_folder() {
  const char* named = std::getenv("WEFT_SHARED");
  const fs::path folder = named != nullptr ? fs::path(named) : source_folder().parent_path() / "shared";
  if (!fs::exists(folder / "tokenizers")) return std::nullopt;
  return folder;
}

fs::path golden_folder(const std::string& library) { return source_folder() / "tests/unit/golden" / library; }

std::string read_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path.string());
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

Json read_json(const fs::path& path) { return Json::parse(read_text(path)); }

}  // namespace weft::test
