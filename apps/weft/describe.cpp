#include "describe.h"

#include <algorithm>
#include <sstream>
#include <vector>

#include "common.h"

namespace weft::cli {
namespace {

std::string quoted(std::string text, char quote, std::string_view escape) {
  std::string result;
  for (const char c : text) {
    if (c == quote)
      result += escape;
    else
      result += c == '\n' ? ' ' : c;
  }
  return result;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

// The words after which options follow: "chat", "vocab build".
struct Node {
  const CLI::App* app;
  std::string words;  // empty: the program
};
std::vector<Node> nodes(const CLI::App& app, const std::string& words = {}) {
  std::vector<Node> all = {{&app, words}};
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (sub->get_group().empty()) continue;  // hidden
    const std::vector<Node> below = nodes(*sub, words + (words.empty() ? "" : " ") + sub->get_name());
    all.insert(all.end(), below.begin(), below.end());
  }
  return all;
}

std::vector<const CLI::Option*> options(const CLI::App& app) {
  return app.get_options(
      [](const CLI::Option* option) { return option->nonpositional() && !option->get_group().empty(); });
}
std::vector<std::string> names(const CLI::Option& option) {
  std::vector<std::string> all;
  for (const std::string& name : option.get_snames()) all.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) all.push_back("--" + name);
  return all;
}
bool takes_value(const CLI::Option& option) {
  return option.get_expected_max() > 0 && option.get_items_expected_max() > 0;
}
// "f16|q8|q4": the values; else none.
std::vector<std::string> values(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const bool listed = takes_value(option) && type.find('|') != std::string::npos &&
                      std::ranges::none_of(type, [](char c) { return c >= 'A' && c <= 'Z'; });
  return listed ? split(type, '|') : std::vector<std::string>{};
}

bool takes_file(const CLI::Option& option) {
  static constexpr std::string_view kFiles[] = {"FILE", "PATH", "FOLDER", "MODEL", "LIST", "PICTURE"};
  const std::string type = option.get_type_name();
  return std::ranges::any_of(kFiles, [&](std::string_view one) { return type.find(one) != std::string::npos; });
}

// ---- man ----

std::string roff(const std::string& text) {
  std::string result;
  for (const char c : text) {
    const bool first = result.empty() || result.back() == '\n';
    if (first && (c == '.' || c == '\'')) result += "\\&";
    if (c == '\\')
      result += "\\e";
    else if (c == '-')
      result += "\\-";
    else
      result += c;
  }
  return result;
}

std::string man_option(const CLI::Option& option, const std::string& title) {
  std::string text = ".TP\n" + title;
  if (takes_value(option) && !option.get_type_name().empty()) text += " \\fI" + roff(option.get_type_name()) + "\\fR";
  text += "\n" + roff(quoted(option.get_description(), '\n', " "));
  if (!option.get_default_str().empty()) text += roff(" (default: " + option.get_default_str() + ")");
  return text + "\n";
}

std::string man_command(const Node& node) {
  std::string text = (node.words.empty() ? ".SH OPTIONS\n"
                                         : ".SS weft " + node.words + "\n" + roff(node.app->get_description()) + "\n");
  for (const CLI::Option* option : node.app->get_options([](const CLI::Option* one) { return one->get_positional(); }))
    text += man_option(*option, "\\fI" + roff(option->get_name(true)) + "\\fR");
  for (const CLI::Option* option : options(*node.app)) {
    std::string title;
    for (const std::string& name : names(*option)) title += (title.empty() ? "\\fB" : ", \\fB") + roff(name) + "\\fR";
    text += man_option(*option, title);
  }
  if (!node.words.empty() && !node.app->get_footer().empty())
    text += ".PP\n.nf\n" + roff(node.app->get_footer()) + "\n.fi\n";
  return text;
}

std::string man(const CLI::App& app) {
  std::string text = ".TH WEFT 1 \"\" \"weft " + api::version() +
                     "\" \"User Commands\"\n.SH NAME\nweft \\- run small language models on any Vulkan GPU\n"
                     ".SH SYNOPSIS\n.B weft\n.I SUBCOMMAND\n.RI [ OPTIONS ]\n.SH DESCRIPTION\n" +
                     roff(app.get_description()) + "\n";
  const std::vector<Node> all = nodes(app);
  text += man_command(all.front()) + ".SH SUBCOMMANDS\n";
  for (std::size_t i = 1; i < all.size(); ++i) text += man_command(all[i]);
  return text +
         ".SH ENVIRONMENT\n.TP\n.B WEFT_DEVICE\nThe device, as \\fB\\-\\-device\\fR.\n.TP\n.B WEFT_CACHE_DIR\nThe "
         "folder of downloaded models and of compiled kernels.\n"
         ".SH EXIT STATUS\n0: done. 1: it failed. 2: the command line is wrong.\n";
}

// ---- shells ----

std::string first_sentence(const std::string& text) { return text.substr(0, text.find('\n')); }

std::vector<std::string> subcommands(const CLI::App& app) {
  std::vector<std::string> all;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; }))
    if (!sub->get_group().empty()) all.push_back(sub->get_name());
  return all;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

// A shell's pattern of the subcommands that have subcommands: "lab|vocab".
std::string group_pattern(const CLI::App& app) {
  std::string text;
  for (const Node& node : nodes(app))
    if (!node.words.empty() && !subcommands(*node.app).empty()) text += (text.empty() ? "" : "|") + node.words;
  return text;
}

std::string bash(const CLI::App& app) {
  std::string cases;
  for (const Node& node : nodes(app)) {
    std::vector<std::string> words = subcommands(*node.app), files;
    std::string fixed;
    for (const CLI::Option* option : options(*node.app)) {
      const std::vector<std::string> known = names(*option);
      words.insert(words.end(), known.begin(), known.end());
      if (!takes_value(*option)) continue;
      std::string pattern;
      for (const std::string& name : known) pattern += (pattern.empty() ? "" : "|") + name;
      const std::vector<std::string> listed = values(*option);
      const std::string words_of = listed.empty() ? "-f" : "-W '" + joined(listed) + "'";
      fixed +=
          "        " + pattern + ") " +
          (listed.empty() && !takes_file(*option) ? "" : "COMPREPLY=($(compgen " + words_of + " -- \"$word\")); ") +
          "return ;;\n";
    }
    cases += "    '" + node.words + "')\n      case $before in\n" + fixed + "        *) ;;\n      esac\n      words='" +
             joined(words) + "' ;;\n";
  }
  return "# bash completion of weft, made from its options\n"
         "_weft() {\n"
         "  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]} words=\n"
         "  [[ $COMP_CWORD -gt 1 ]] || command=\n"
         "  case $command in " +
         group_pattern(app) +
         ") [[ $COMP_CWORD -gt 2 ]] && command+=\" ${COMP_WORDS[2]}\" ;; esac\n"
         "  case $command in\n" +
         cases +
         "  esac\n"
         "  COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
         "  [[ $word == -* || $COMP_CWORD -eq 1 ]] || COMPREPLY+=($(compgen -f -- \"$word\"))\n"
         "}\n"
         "complete -o filenames -F _weft weft\n";
}

std::string zsh(const CLI::App& app) {
  const auto plain = [](const std::string& text) {
    std::string result;
    for (const char c : quoted(first_sentence(text), '\'', "'\\''")) {
      if (c == '[' || c == ']' || c == ':' || c == '\\') result += '\\';
      result += c;
    }
    return result;
  };
  std::string cases;
  for (const Node& node : nodes(app)) {
    const std::string name = node.words.substr(node.words.rfind(' ') + 1);
    cases += "    '" + node.words + "')\n      _arguments -s \\\n";
    for (const CLI::Option* option : options(*node.app)) {
      for (const std::string& one : names(*option)) {
        cases += "        '*" + one + "[" + plain(option->get_description()) + "]";
        const std::vector<std::string> listed = values(*option);
        if (takes_value(*option))
          cases += !listed.empty()       ? ":value:(" + joined(listed) + ")"
                   : takes_file(*option) ? ":value:_files"
                                         : ":value: ";
        cases += "' \\\n";
      }
    }
    const std::vector<std::string> below = subcommands(*node.app);
    cases += below.empty() ? "        '*:file:_files' ;;\n" : "        '1:command:(" + joined(below) + ")' '*::' ;;\n";
  }
  return "#compdef weft\n# zsh completion of weft, made from its options\n"
         "local command=\n"
         "(( CURRENT > 2 )) && command=$words[2]\n"
         "case $command in " +
         group_pattern(app) +
         ") (( CURRENT > 3 )) && command+=\" $words[3]\" ;; esac\n"
         "if [[ -n $command ]]; then\n"
         "  local skip=${#${(z)command}}\n"
         "  shift $skip words\n"
         "  (( CURRENT -= skip ))\n"
         "fi\n"
         "case $command in\n" +
         cases + "esac\n";
}

std::string fish(const CLI::App& app) {
  const auto plain = [](const std::string& text) { return quoted(first_sentence(text), '\'', "\\'"); };
  std::string text = "# fish completion of weft, made from its options\n";
  for (const Node& node : nodes(app)) {
    std::string when = "__fish_use_subcommand";
    if (!node.words.empty()) {
      when.clear();
      for (const std::string& word : split(node.words, ' '))
        when += (when.empty() ? "" : "; and ") + ("__fish_seen_subcommand_from " + word);
    }
    const std::string start = "complete -c weft -n '" + when + "'";
    for (const CLI::App* sub : node.app->get_subcommands([](const CLI::App*) { return true; }))
      if (!sub->get_group().empty())
        text += start + " -f -a " + sub->get_name() + " -d '" + plain(sub->get_description()) + "'\n";
    for (const CLI::Option* option : options(*node.app)) {
      text += start;
      for (const std::string& name : option->get_snames()) text += " -s " + name;
      for (const std::string& name : option->get_lnames()) text += " -l " + name;
      if (takes_value(*option)) text += takes_file(*option) ? " -r" : " -x";
      if (const auto listed = values(*option); !listed.empty()) text += " -f -a '" + joined(listed) + "'";
      text += " -d '" + plain(option->get_description()) + "'\n";
    }
  }
  return text;
}

}  // namespace

std::string describe(const CLI::App& app, std::string_view kind) {
  return kind == "man" ? man(app) : kind == "bash" ? bash(app) : kind == "zsh" ? zsh(app) : fish(app);
}

}  // namespace weft::cli
