// Keeping an answer to a grammar: --grammar, --json-schema and --regex.
#include <fstream>
#include <iterator>

#include "common.h"

namespace weft::cli {
namespace {

constexpr std::size_t kMostBytes = 1 << 20;  // what the library takes

std::string read_file(const std::string& option, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kMostBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  if (!file.eof() && text.size() <= kMostBytes) throw UsageError(option, path + " cannot be read");
  if (text.size() > kMostBytes) throw UsageError(option, path + " is larger than 1 MiB");
  if (const std::size_t zero = text.find('\0'); zero != text.npos)
    throw UsageError(option, format("%s has a zero byte at byte %zu", path.c_str(), zero));
  return text;
}

}  // namespace

void add_grammar_options(CLI::App* command, GrammarArgs& args) {
  CLI::Option* gbnf =
      command->add_option("--grammar", args.gbnf, "restrict the answer to the grammar of a file in GBNF");
  CLI::Option* schema =
      command->add_option("--json-schema", args.schema, "restrict the answer to JSON that a schema, a file, allows");
  CLI::Option* regex = command->add_option("--regex", args.regex, "restrict the answer to texts that match as a whole");
  gbnf->type_name("FILE")->excludes(schema, regex)->group("Structured output");
  schema->type_name("FILE")->excludes(regex)->group("Structured output");
  regex->type_name("PATTERN")->group("Structured output");
}

void set_grammar(api::Session& session, const GrammarArgs& args) {
  const char* option = args.gbnf ? "--grammar" : args.schema ? "--json-schema" : "--regex";
  try {
    if (args.gbnf) session.set_grammar(WEFT_GRAMMAR_GBNF, read_file(option, *args.gbnf), *args.gbnf);
    if (args.schema) session.set_grammar(WEFT_GRAMMAR_JSON_SCHEMA, read_file(option, *args.schema), *args.schema);
    if (args.regex) {
      require_utf8(option, *args.regex);
      session.set_grammar(WEFT_GRAMMAR_REGEX, *args.regex, option);
    }
  } catch (const api::Failure& error) {
    if (error.status() == WEFT_OUT_OF_MEMORY || error.status() == WEFT_INTERNAL) throw;
    throw UsageError(option, error.place() == option ? error.sentence() : error.what(), error.hint());
  }
}

}  // namespace weft::cli
