#include "config_file.h"

#include <algorithm>

#include "../weft/suggest.h"

namespace weft::serve {
namespace {

constexpr std::string_view kConfig = "--config";

// The value of --config, or an empty text without one.
std::string file_of(const std::vector<std::string>& words) {
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words[i] == kConfig && i + 1 < words.size()) return words[i + 1];
    if (words[i].starts_with("--config=")) return words[i].substr(kConfig.size() + 1);
  }
  return {};
}

bool gives(const std::vector<std::string>& words, const CLI::Option& option) {
  return std::ranges::any_of(words, [&](const std::string& word) {
    for (const std::string& name : option.get_lnames())
      if (word == "--" + name || word.starts_with("--" + name + "=")) return true;
    return std::ranges::any_of(option.get_snames(), [&](const std::string& name) {
      return word.starts_with("-" + name) && !word.starts_with("--");
    });
  });
}

}  // namespace

std::vector<std::string> with_config_file(const CLI::App& app, std::vector<std::string> words) {
  if (words.empty() || words[0] != "serve") return words;
  const std::string file = file_of(words);
  if (file.empty()) return words;
  const CLI::App& serve = *app.get_subcommand("serve");
  std::vector<CLI::ConfigItem> items;
  try {
    items = CLI::ConfigTOML().from_file(file);
  } catch (const CLI::Error&) {
    throw cli::UsageError(std::string(kConfig), file + " cannot be read");
  }
  std::vector<std::string> names;
  for (const CLI::Option* option : serve.get_options())
    for (const std::string& name : option->get_lnames()) names.push_back(name);
  std::vector<std::string> more;
  for (const CLI::ConfigItem& item : items) {
    if (item.name == "++" || item.name == "--") throw cli::UsageError(file, "it has a section; options have none");
    const CLI::Option* const option = serve.get_option_no_throw("--" + item.name);
    if (!option || option->get_name() == kConfig || option->get_name() == "--help")
      throw cli::UsageError(file, "there is no option " + item.fullname(),
                            cli::did_you_mean(cli::nearest(item.name, names)));
    if (gives(words, *option)) continue;
    const bool flag = option->get_items_expected_max() == 0;
    if (flag && item.inputs != std::vector<std::string>{"true"} && item.inputs != std::vector<std::string>{"false"})
      throw cli::UsageError(file, item.name + " must be true or false");
    for (const std::string& value : item.inputs) {
      if (!flag) more.push_back("--" + item.name + "=" + value);
      if (flag && value == "true") more.push_back("--" + item.name);
    }
  }
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace weft::serve
