// weft embed and weft fill: embeddings and masked words of texts, by an encoder.
#include <algorithm>
#include <cmath>
#include <iostream>

#include "common.h"

namespace weft::cli {
namespace {

struct EmbedArgs {
  ModelArgs model;
  std::string file, pool, prompt;
  std::uint32_t dimensions = 0;
  std::vector<std::string> texts;
  bool json = false;
};

struct FillArgs {
  ModelArgs model;
  std::string text;
  std::uint32_t top = 5;
  bool json = false;
};

weft_pooling parse_pooling(const std::string& pool) {
  return pool == "mean"   ? WEFT_POOL_MEAN
         : pool == "cls"  ? WEFT_POOL_CLS
         : pool == "last" ? WEFT_POOL_LAST
                          : WEFT_POOL_MODEL;
}

void embed(const EmbedArgs& args) {
  if (args.file.empty() == args.texts.empty())
    throw UsageError("-f, TEXT",
                     args.file.empty() ? "give texts, or a file of them" : "give texts or a file, not both");
  const std::vector<std::string> texts = args.file.empty() ? args.texts : split_lines(read_text(args.file));
  for (const std::string& text : texts) require_utf8(args.file.empty() ? "TEXT" : "-f", text);

  const api::Model model = load_model(args.model);
  api::Encoder encoder(model);
  if (args.dimensions > encoder.size())
    throw UsageError("--dimensions", format("the model's embeddings have %u numbers", encoder.size()));
  const std::string prompt = model.prompt(args.prompt);
  Json embeddings = Json::array();
  for (std::size_t text = 0; text < texts.size(); ++text) {
    try {
      encoder.run(model.tokenize(prompt + texts[text], true));
    } catch (const api::Failure& failure) {
      throw api::Failure(failure.status(), failure.sentence(), format("text %zu", text + 1), failure.hint());
    }
    const std::vector<float> embedding = encoder.embedding(parse_pooling(args.pool), args.dimensions);
    if (args.json) {
      embeddings.push_back(embedding);
      continue;
    }
    for (std::size_t i = 0; i < embedding.size(); ++i)
      std::cout << (i ? " " : "") << format("%.7g", static_cast<double>(embedding[i]));
    std::cout << std::endl;
  }
  if (args.json)
    print_json({{"width", args.dimensions ? args.dimensions : encoder.size()}, {"embeddings", embeddings}});
}

struct Guess {
  std::uint32_t id;
  double probability;
};

// The likeliest, best first; of equals the lower id.
std::vector<Guess> best(const std::vector<float>& logits, std::size_t top) {
  const double peak = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  std::vector<Guess> guesses;
  for (std::uint32_t id = 0; id < logits.size(); ++id) {
    guesses.push_back({id, std::exp(static_cast<double>(logits[id]) - peak)});
    sum += guesses.back().probability;
  }
  const auto likelier = [](const Guess& a, const Guess& b) {
    return a.probability != b.probability ? a.probability > b.probability : a.id < b.id;
  };
  const auto end = guesses.begin() + static_cast<std::ptrdiff_t>(std::min(top, guesses.size()));
  std::partial_sort(guesses.begin(), end, guesses.end(), likelier);
  guesses.erase(end, guesses.end());
  for (Guess& guess : guesses) guess.probability /= sum;
  return guesses;
}

void fill(const FillArgs& args) {
  require_utf8("TEXT", args.text);
  const api::Model model = load_model(args.model);
  const std::uint32_t mask = model.info().mask_token;
  if (mask == UINT32_MAX)
    throw UsageError("--model", "this model guesses no masked words",
                     "use a model such as BERT: weft fill -m FOLDER \"The [MASK] sat on the mat.\"");
  const std::vector<std::uint32_t> ids = model.tokenize(args.text, true, true);
  if (std::find(ids.begin(), ids.end(), mask) == ids.end())
    throw UsageError("TEXT", "it has no mask", "write [MASK] where a word is to be guessed");
  api::Encoder encoder(model);
  encoder.run(ids);
  Json masks = Json::array();
  for (std::size_t place = 0; place < ids.size(); ++place) {
    if (ids[place] != mask) continue;
    Json guesses = Json::array();
    for (const Guess& guess : best(encoder.masked_logits(place), args.top)) {
      const std::string text = model.detokenize({guess.id});
      if (!args.json) std::cout << format("%6.2f%%  %s\n", 100 * guess.probability, text.c_str());
      guesses.push_back({{"id", guess.id}, {"text", text}, {"probability", guess.probability}});
    }
    masks.push_back({{"place", place}, {"guesses", guesses}});
    if (!args.json && std::find(ids.begin() + static_cast<std::ptrdiff_t>(place) + 1, ids.end(), mask) != ids.end())
      std::cout << '\n';
  }
  if (args.json) print_json({{"ids", ids}, {"masks", masks}});
}

CLI::Validator pool_name() {
  const auto validate = [](const std::string& text) -> std::string {
    return text == "mean" || text == "cls" || text == "last" ? "" : "must be mean, cls or last, not \"" + text + "\"";
  };
  return CLI::Validator(validate, "", "pool");
}

}  // namespace

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string line = text.substr(at, end - at);
    if (line.ends_with('\r')) line.pop_back();
    lines.push_back(std::move(line));
    at = end + 1;
  }
  return lines;
}

void add_embed(CLI::App& app) {
  auto args = std::make_shared<EmbedArgs>();
  CLI::App* command = app.add_subcommand("embed", "Turn texts into vectors, with a model made for that");
  command->footer(
      "Prints a line of numbers for each text: a vector of length 1. The scalar product of two vectors, -1 to 1, says "
      "how\n"
      "similar their texts are.");
  add_model_options(command, args->model);
  command->add_option("-f,--file", args->file, "file of texts, one on each line")->type_name("FILE");
  command->add_option("TEXT", args->texts, "texts");
  command
      ->add_option("--pool", args->pool,
                   "mean: the mean of all tokens' hidden states; cls: the first token's; last: the last token's "
                   "(default: as the "
                   "model says, else mean)")
      ->type_name("mean|cls|last")
      ->check(pool_name());
  command
      ->add_option("--prompt", args->prompt,
                   "put a prompt of the model's files before each text: query or document, for example")
      ->type_name("NAME");
  command->add_option("--dimensions", args->dimensions, "only the first numbers of each vector, scaled to length 1")
      ->type_name("N")
      ->transform(whole(1));
  add_json_option(command, args->json);
  command->callback([args] { embed(*args); });
}

void add_fill(CLI::App& app) {
  auto args = std::make_shared<FillArgs>();
  CLI::App* command = app.add_subcommand("fill", "Guess the tokens after the [MASK]s of a text, with a BERT model");
  add_model_options(command, args->model);
  command->add_option("TEXT", args->text, "the text, with [MASK] in it")->required();
  command->add_option("-k,--count", args->top, "guesses for each mask")
      ->type_name("N")
      ->capture_default_str()
      ->transform(whole(1));
  add_json_option(command, args->json);
  command->callback([args] { fill(*args); });
}

}  // namespace weft::cli
