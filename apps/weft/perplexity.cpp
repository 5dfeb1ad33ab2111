// weft perplexity: how well a model predicts a text.
#include <algorithm>
#include <cmath>
#include <functional>
#include <iostream>
#include <numbers>

#include "common.h"
#include "progress_bar.h"

namespace weft::cli {
namespace {

struct PerplexityArgs {
  ModelArgs model;
  std::string file, split, keep;
  bool json = false;
};

struct Score {
  std::uint64_t parts = 0, tokens = 0, bytes = 0;
  double nll = 0;  // sum over the tokens, nats
};

// The text's tokens, those outside a keep-list spelled with tokens of it: the longest that fit, from the front. So a
// text's bits are what writing it with the list alone would take.
class Speller {
 public:
  Speller(const api::Model& model, const std::string& keep) : model_(model) {
    if (keep.empty()) return;
    kept_.resize(model.info().vocab_size);
    for (const std::uint32_t id : model.keep(keep)) kept_[id] = true;
  }
  std::vector<std::uint32_t> tokens(std::string_view text) {
    std::vector<std::uint32_t> ids = model_.tokenize(text, false);
    if (kept_.empty()) return ids;
    std::vector<std::uint32_t> spelled;
    for (const std::uint32_t id : ids) {
      if (kept_[id]) {
        spelled.push_back(id);
        continue;
      }
      ++respelled_;
      spell(id, spelled);
    }
    return spelled;
  }
  std::uint64_t respelled() const { return respelled_; }

 private:
  void spell(std::uint32_t id, std::vector<std::uint32_t>& spelled) const {
    const std::string text = model_.detokenize({id});
    for (std::size_t at = 0; at < text.size();) {
      std::size_t length = text.size() - at;
      std::vector<std::uint32_t> piece;
      for (; length > 0; --length) {
        piece = model_.tokenize(std::string_view(text).substr(at, length), false);
        if (std::all_of(piece.begin(), piece.end(), [&](std::uint32_t part) { return kept_[part]; }) &&
            model_.detokenize(piece) == std::string_view(text).substr(at, length))
          break;
      }
      if (length == 0)
        throw api::Failure(WEFT_BAD_FILE, "the list has no tokens to spell \"" + text + "\" with", "--head");
      spelled.insert(spelled.end(), piece.begin(), piece.end());
      at += length;
    }
  }

  const api::Model& model_;
  std::vector<bool> kept_;  // by id; empty: every token may be used
  std::uint64_t respelled_ = 0;
};

std::vector<std::string_view> split_text(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = separator.empty() ? std::string_view::npos : text.find(separator);
    if (const std::string_view part = text.substr(0, end); !part.empty()) parts.push_back(part);
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + separator.size());
  }
}

// Windows of `context` tokens, begin-of-text first in each, every one half a window further than the one before. Each
// token counts once: in the first window that holds it, so that it has half a window before it (but at a part's start).
// progress: called with the share of the part, 0..1.
void score_part(const api::Model& model, Speller& speller, api::Session& session, std::uint32_t context,
                std::string_view part, Score& score, const std::function<void(double done)>& progress) {
  const std::vector<std::uint32_t> bos = model.tokenize({}, true);
  const std::vector<std::uint32_t> body = speller.tokens(part);
  const std::size_t room = context - bos.size();
  std::size_t counted =
      bos.empty() ? 1 : 0;  // body tokens counted, or (the first without begin-of-text) never predicted
  for (std::size_t start = 0; counted < body.size(); start += std::max<std::size_t>(room / 2, 1)) {
    const std::size_t end = std::min(start + room, body.size());
    std::vector<std::uint32_t> window = bos;
    window.insert(window.end(), body.begin() + static_cast<std::ptrdiff_t>(start),
                  body.begin() + static_cast<std::ptrdiff_t>(end));
    const std::vector<float> nll = session.score(window);  // nll[i] is of window[i + 1]
    for (std::size_t i = counted; i < end; ++i) score.nll += nll[bos.size() + (i - start) - 1];
    score.tokens += end - counted;
    counted = end;
    progress(static_cast<double>(counted) / static_cast<double>(body.size()));
  }
  score.parts += 1;
  score.bytes += part.size();
}

void report(const PerplexityArgs& args, const weft_model_info& info, const weft_stats& stats, const Score& score) {
  const double nll = score.nll / static_cast<double>(score.tokens);
  const double bits_per_byte = score.nll / std::numbers::ln2 / static_cast<double>(score.bytes);
  if (args.json) {
    print_json({{"tokens", score.tokens},
                {"bytes", score.bytes},
                {"parts", score.parts},
                {"nll", nll},
                {"bits_per_byte", bits_per_byte},
                {"device", info.device},
                {"driver", info.driver},
                {"type", info.type},
                {"load_s", info.load_seconds},
                {"device_bytes", device_bytes_json(info, stats)}});
    return;
  }
  std::cout << format("%llu part%s, %llu bytes, %llu tokens predicted\n", static_cast<unsigned long long>(score.parts),
                      score.parts == 1 ? "" : "s", static_cast<unsigned long long>(score.bytes),
                      static_cast<unsigned long long>(score.tokens))
            << format("nll %.4f nats/token, perplexity %.4f, %.4f bits/byte\n", nll, std::exp(nll), bits_per_byte);
}

void perplexity(const PerplexityArgs& args) {
  const std::string text = read_text(args.file);
  const std::vector<std::string_view> parts = split_text(text, args.split);
  if (parts.empty()) throw UsageError("--split", "the text has only separators");
  const api::Model model = load_model(args.model);
  const weft_model_info info = model.info();
  const std::uint32_t context = session_context(args.model, info);
  api::Session session(model, session_options(args.model, context));
  if (!args.keep.empty()) set_head(session, "--keep", "keep:" + args.keep + ",!prompt");
  Speller speller(model, args.keep);
  Score score;
  ProgressBar bar("scoring");
  for (const std::string_view part : parts) {
    score_part(model, speller, session, context, part, score, [&](double done) {
      bar.update((static_cast<double>(score.parts) + done) / static_cast<double>(parts.size()));
    });
  }
  bar.hide();
  if (score.tokens == 0)
    throw api::Failure(WEFT_BAD_FILE, "the text is too short to predict a token of it", "-f " + args.file);
  report(args, info, session.stats(), score);
}

}  // namespace

void add_perplexity(CLI::App& app) {
  auto args = std::make_shared<PerplexityArgs>();
  CLI::App* command = app.add_subcommand("perplexity", "Measure how well the model predicts a text");
  command->footer(
      "Method: the text is cut at every SEPARATOR, which belongs to no part; empty parts are left out. Each part\n"
      "is scored alone, after the begin-of-text token if the model uses one. A part of more than --ctx tokens is\n"
      "scored in windows of --ctx tokens, each after the begin-of-text token. A window starts half a window after\n"
      "the last one; each token counts once, in the first window that has it.\n"
      "nll:             mean of -ln p over the predicted tokens\n"
      "bits_per_byte:   sum of -ln p, divided by ln 2 and by the bytes of all parts");
  add_model_options(command, args->model);
  add_devices_option(command, args->model);
  add_ctx_option(command, args->model);
  add_kv_options(command, args->model);
  add_policy_option(command, args->model);
  command->add_option("-f,--file", args->file, "the text")->type_name("TEXT")->required();
  command->add_option("--split", args->split, "cut the text into parts at this separator, for example '<|endoftext|>'")
      ->type_name("SEPARATOR");
  command
      ->add_option("--keep", args->keep,
                   "predict only the tokens of a keep-list; other tokens of the text are spelled with them")
      ->type_name("LIST");
  add_json_option(command, args->json);
  command->callback([args] { perplexity(*args); });
}

}  // namespace weft::cli
