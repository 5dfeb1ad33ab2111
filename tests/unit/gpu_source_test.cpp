// Vulkan stays in runtime/gpu: no other source of the runtime and the apps names it.
#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "support/source_folder.h"

namespace weft {
namespace {

// Names of Vulkan's API: VkBuffer, vkCreateBuffer, VK_SUCCESS, PFN_vkVoidFunction, volkInitialize.
bool names_vulkan(std::string_view word) {
  const auto upper_at = [&](size_t i) { return i < word.size() && std::isupper(static_cast<unsigned char>(word[i])); };
  return ((word.starts_with("Vk") || word.starts_with("vk")) && upper_at(2)) || word.starts_with("VK_") ||
         word.starts_with("PFN_vk") || (word.starts_with("volk") && upper_at(4));
}

// Returns the first such name in a text; empty if it has none.
std::string find_vulkan(const std::string& text) {
  size_t start = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && (std::isalnum(static_cast<unsigned char>(text[i])) || text[i] == '_')) continue;
    const std::string word = text.substr(start, i - start);
    if (names_vulkan(word)) return word;
    start = i + 1;
  }
  return "";
}

TEST(Source, RecognisesVulkansNames) {
  for (const char* text :
       {"VkBuffer b;", "x = vkCreateBuffer(", "VK_SUCCESS", "PFN_vkVoidFunction", "volkInitialize()"})
    EXPECT_NE(find_vulkan(text), "") << text;
  for (const char* text : {"Vulkan", "vk", "a_VkBuffer", "vkern", "MoltenVK", "VK"})
    EXPECT_EQ(find_vulkan(text), "") << text;
}

TEST(Source, OnlyRuntimeGpuNamesVulkan) {
  const std::filesystem::path root = source_folder();
  int files = 0;
  for (const char* folder : {"runtime", "apps"})
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / folder)) {
      const std::string path = std::filesystem::relative(entry.path(), root).generic_string();
      const std::string kind = entry.path().extension().string();
      // The one example that draws is an application with a Vulkan device of its own.
      if (!entry.is_regular_file() || path.starts_with("runtime/gpu/") || path == "apps/examples/frames.cpp") continue;
      if (kind != ".h" && kind != ".hpp" && kind != ".cpp" && kind != ".c") continue;
      std::stringstream text;
      text << std::ifstream(entry.path()).rdbuf();
      EXPECT_EQ(find_vulkan(text.str()), "") << path << " names Vulkan: only runtime/gpu may";
      ++files;
    }
  EXPECT_GT(files, 30);
}

}  // namespace
}  // namespace weft
