// weft vocab: keep-lists, made from a corpus and looked at.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <numeric>

#include "common.h"
#include "progress_bar.h"

namespace weft::cli {
namespace {

struct VocabArgs {
  ModelArgs model;
  std::vector<std::string> corpus;
  double coverage = 0.9999;  // of the corpus's tokens
  std::uint32_t rows = 0;    // at most; 0: as many as it takes
  std::string out;           // of build
  std::string list;          // of show; its corpus may be empty
  bool json = false;
};

constexpr std::size_t kPieceBytes = 1 << 20;
constexpr std::size_t kShownTexts = 12;

struct Counts {
  std::vector<std::uint64_t> tokens;  // by id
  std::uint64_t total = 0;
};

void count_text(const api::Model& model, std::string_view text, Counts& counts) {
  const std::vector<std::uint32_t> ids = model.tokenize(text, false, true);
  for (const std::uint32_t id : ids) counts.tokens.at(id) += 1;
  counts.total += ids.size();
}

// Where a piece of a text may end so that few tokens are cut: after its last line end, else before the character its
// last bytes begin.
std::size_t last_border(std::string_view piece) {
  if (const std::size_t line = piece.rfind('\n'); line != std::string_view::npos) return line + 1;
  std::size_t at = piece.size() - 1;
  const std::size_t least = piece.size() - std::min<std::size_t>(piece.size() - 1, 4);
  while (at > least && (static_cast<unsigned char>(piece[at]) & 0xC0u) == 0x80u) --at;
  return at;
}

void count_file(const api::Model& model, const std::string& path, Counts& counts) {
  const std::string place = "-f " + path;
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) throw api::Failure(errno == ENOENT ? WEFT_NOT_FOUND : WEFT_IO, std::strerror(errno), place);
  std::error_code unknown;  // of a pipe: no bar
  const auto bytes = static_cast<double>(std::filesystem::file_size(path, unknown));
  ProgressBar bar("counting " + path, {unknown ? 0 : bytes, "bytes"});
  double done = 0;
  std::string buffer;
  for (bool more = true; more;) {
    const std::size_t kept = buffer.size();
    buffer.resize(kPieceBytes);
    file.read(buffer.data() + kept, static_cast<std::streamsize>(kPieceBytes - kept));
    buffer.resize(kept + static_cast<std::size_t>(file.gcount()));
    more = buffer.size() == kPieceBytes;
    if (file.bad() || (!more && !file.eof())) throw api::Failure(WEFT_IO, "the file could not be read", place);
    const std::size_t end = more ? last_border(buffer) : buffer.size();
    count_text(model, std::string_view(buffer).substr(0, end), counts);
    buffer.erase(0, end);
    done += static_cast<double>(end);
    if (!unknown && bytes > 0) bar.update(done / bytes);
  }
}

struct Chosen {
  std::vector<std::uint32_t> ids;
  std::uint64_t covered = 0;  // occurrences
};

// The tokens that are kept anyway, then the most frequent ones (the lowest id among equals) until they cover the share.
Chosen choose(const Counts& counts, std::vector<std::uint32_t> always, double coverage, std::uint32_t rows) {
  Chosen chosen;
  std::vector<std::uint64_t> left = counts.tokens;
  for (const std::uint32_t id : always) chosen.covered += std::exchange(left[id], 0);
  chosen.ids = std::move(always);
  std::vector<std::uint32_t> order(left.size());
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return left[a] > left[b]; });
  const double wanted = coverage * static_cast<double>(counts.total);
  for (const std::uint32_t id : order) {
    if (left[id] == 0 || static_cast<double>(chosen.covered) >= wanted) break;
    if (rows != 0 && chosen.ids.size() >= rows) break;
    chosen.ids.push_back(id);
    chosen.covered += left[id];
  }
  return chosen;
}

void build(const VocabArgs& args) {
  // Counting may take long, so errors of the output are reported before.
  if (std::error_code ignored; std::filesystem::is_directory(args.out, ignored))
    throw UsageError("-o", "\"" + args.out + "\" is a folder");
  const api::Model model = load_model(args.model);
  Counts counts;
  const weft_model_info info = model.info();
  counts.tokens.resize(info.vocab_size);
  for (const std::string& path : args.corpus) count_file(model, path, counts);
  if (counts.total == 0) throw api::Failure(WEFT_BAD_FILE, "the corpus is empty", "-f " + args.corpus.front());
  const std::vector<std::uint32_t> always = model.always_kept();
  if (args.rows != 0 && args.rows <= always.size())
    throw UsageError("--rows",
                     format("%u rows are not more than the %zu control and byte tokens", args.rows, always.size()));
  const Chosen chosen = choose(counts, always, args.coverage, args.rows);
  model.save_keep_list(chosen.ids, args.out);

  const auto seen = static_cast<std::size_t>(
      std::count_if(counts.tokens.begin(), counts.tokens.end(), [](std::uint64_t n) { return n > 0; }));
  const double share = static_cast<double>(chosen.ids.size()) / info.vocab_size;
  const double covered = static_cast<double>(chosen.covered) / static_cast<double>(counts.total);
  if (args.json) {
    print_json({{"corpus_tokens", counts.total},
                {"different_tokens", seen},
                {"kept", chosen.ids.size()},
                {"always_kept", always.size()},
                {"rows", info.vocab_size},
                {"share", share},
                {"coverage", covered},
                {"list", args.out}});
    return;
  }
  std::cout << format("%llu tokens seen, %zu different\n", static_cast<unsigned long long>(counts.total), seen)
            << format("%zu of %u rows kept (%.2f%%), %zu of them control and byte tokens\n", chosen.ids.size(),
                      info.vocab_size, 100 * share, always.size())
            << format("%.4f%% of the corpus covered\n", 100 * covered);
}

void show(const VocabArgs& args) {
  const api::Model model = load_model(args.model);
  const weft_model_info info = model.info();
  const std::vector<std::uint32_t> ids = model.keep(args.list);
  std::vector<std::uint32_t> others = ids;
  std::erase_if(others, [&](std::uint32_t id) { return token_bytes(model, id).control; });
  Json texts = Json::array();
  for (std::size_t i = 0; i < std::min(others.size(), kShownTexts); ++i) texts.push_back(model.detokenize({others[i]}));
  Counts counts;
  counts.tokens.resize(info.vocab_size);
  for (const std::string& path : args.corpus) count_file(model, path, counts);
  std::uint64_t covered = 0;
  for (const std::uint32_t id : ids) covered += counts.tokens[id];
  const double coverage = static_cast<double>(covered) / static_cast<double>(std::max<std::uint64_t>(counts.total, 1));
  const double share = static_cast<double>(ids.size()) / info.vocab_size;
  if (args.json) {
    Json json = {{"kept", ids.size()},
                 {"control", ids.size() - others.size()},
                 {"rows", info.vocab_size},
                 {"share", share},
                 {"first_texts", texts}};
    if (counts.total > 0) json.update({{"corpus_tokens", counts.total}, {"coverage", coverage}});
    print_json(json);
    return;
  }
  std::cout << format("%zu of %u rows kept (%.2f%%): %zu control tokens, %zu others\n", ids.size(), info.vocab_size,
                      100 * share, ids.size() - others.size(), others.size());
  if (counts.total > 0)
    std::cout << format("%.4f%% of %llu tokens covered\n", 100 * coverage,
                        static_cast<unsigned long long>(counts.total));
  std::cout << "the first other tokens:";
  for (const Json& text : texts) std::cout << ' ' << text.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::cout << '\n';
}

}  // namespace

void add_vocab(CLI::App& app) {
  CLI::App* vocab =
      app.add_subcommand("vocab", "Make and show keep-lists: the part of a vocabulary that tokens are chosen from");
  vocab->require_subcommand(1);

  auto args = std::make_shared<VocabArgs>();
  CLI::App* command = vocab->add_subcommand("build", "Make a keep-list of the most frequent tokens of a corpus");
  add_model_options(command, args->model);
  command->add_option("-f,--file", args->corpus, "text file of the corpus; may be given several times")
      ->type_name("FILE")
      ->required()
      ->allow_extra_args(false);
  command->add_option("--coverage", args->coverage, "share of the corpus's tokens to cover")
      ->type_name("X")
      ->capture_default_str()
      ->transform(real(0, 1, true));
  command->add_option("--rows", args->rows, "most tokens to keep, whatever they cover")
      ->type_name("N")
      ->transform(whole(1));
  command->add_option("-o,--output", args->out, "file of the list, written at the end")->type_name("LIST")->required();
  add_json_option(command, args->json);
  command->footer(
      "The list has the tokens that lists keep anyway (control tokens, and single-byte tokens if any text can be "
      "written\n"
      "with them), and the most frequent other tokens until all of them cover the share of the corpus.");
  command->callback([args] { build(*args); });

  auto shown = std::make_shared<VocabArgs>();
  command = vocab->add_subcommand("show", "Count the tokens of a keep-list");
  add_model_options(command, shown->model);
  command
      ->add_option("LIST", shown->list, "presets and files with commas between them; '!' before one removes its tokens")
      ->required();
  command
      ->add_option("-f,--file", shown->corpus, "tell which share of this text's tokens the list has; may be repeated")
      ->type_name("FILE")
      ->allow_extra_args(false);
  add_json_option(command, shown->json);
  command->footer(
      "Presets: ascii, latin, greek, cyrillic, arabic, hebrew, devanagari, cjk, digits, punctuation. A list of "
      "presets\n"
      "writes their characters only. Lists with a file keep single-byte tokens and the prompt's tokens too, unless "
      "they\n"
      "have !bytes or !prompt; bytes and prompt add them to any list. With !control only control tokens that end a "
      "text\n"
      "are kept.");
  command->callback([shown] { show(*shown); });
}

}  // namespace weft::cli
