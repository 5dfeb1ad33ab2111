// weft lens: a model's prediction after each of its layers.
#include "lens.h"

#include <sys/ioctl.h>
#include <unistd.h>
#include <utf8proc.h>

#include <algorithm>
#include <functional>
#include <iostream>

#include "canvas.h"

namespace weft::cli {
namespace {

struct LensArgs {
  ModelArgs model;
  std::string text, plot, colour = "entropy", tuned;
  FitArgs fit;
  bool json = false;
};

constexpr std::size_t kCellColumns = 16, kNameColumns = 6;  // of the table in the terminal

// The text cut or filled up to so many columns of a terminal.
std::string padded(const std::string& text, std::size_t columns) {
  std::string result;
  std::size_t used = 0;
  for (std::size_t at = 0; at < text.size();) {
    utf8proc_int32_t character = 0;
    const utf8proc_ssize_t length = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + at,
                                                     static_cast<utf8proc_ssize_t>(text.size() - at), &character);
    if (length < 1) break;  // a control token's name may be anything
    const std::size_t wide = static_cast<std::size_t>(std::max(utf8proc_charwidth(character), 0));
    if (used + wide > columns) break;
    result.append(text, at, static_cast<std::size_t>(length));
    used += wide;
    at += static_cast<std::size_t>(length);
  }
  return result + std::string(columns - used, ' ');
}

std::size_t terminal_columns() {
  winsize size = {};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 100;
}

std::string layer_name(std::size_t layer) { return layer == 0 ? "embed" : std::to_string(layer); }

// The likeliest token of each cell with its probability, as many tokens side by side as the terminal has room for.
void print_cells(const api::Model& model, const LensText& text) {
  const std::size_t room = std::max<std::size_t>((terminal_columns() - kNameColumns) / kCellColumns, 1);
  for (std::size_t first = 0; first < text.cells.size(); first += room) {
    const std::size_t end = std::min(first + room, text.cells.size());
    for (std::size_t layer = text.cells.front().size(); layer-- > 0;) {
      std::cout << padded(layer_name(layer), kNameColumns);
      for (std::size_t at = first; at < end; ++at) {
        const LensCell::Choice& best = text.cells[at][layer].top.front();
        std::cout << ' ' << padded(shown_token(model, best.id), kCellColumns - 6)
                  << format("%4.0f%%", 100 * best.probability);
      }
      std::cout << '\n';
    }
    std::cout << padded("text", kNameColumns);
    for (std::size_t at = first; at < end; ++at) std::cout << ' ' << padded(text.texts[at], kCellColumns - 1);
    std::cout << "\n\n";
  }
}

// One line for each layer: means over the tokens.
void print_layers(const LensText& text) {
  std::cout << "means over tokens; next: the token that follows in the text\n"
               "layer  entropy  KL to last  best as last  next is best  -ln p(next)\n";
  const auto sum = [&](std::size_t layer, const std::function<double(const LensCell&)>& value) {
    double all = 0;
    for (const auto& cells : text.cells) all += value(cells[layer]);
    return all;
  };
  const auto count = static_cast<double>(text.cells.size()), with_next = static_cast<double>(text.texts.size() - 1);
  for (std::size_t layer = text.cells.front().size(); layer-- > 0;) {
    double same = 0;
    for (const auto& cells : text.cells) same += cells[layer].top.front().id == cells.back().top.front().id ? 1 : 0;
    std::cout << padded(layer_name(layer), kNameColumns)
              << format("%8.2f  %10.2f  %11.0f%%",
                        sum(layer, [](const LensCell& cell) { return cell.entropy; }) / count,
                        sum(layer, [](const LensCell& cell) { return cell.kl; }) / count, 100 * same / count);
    if (with_next > 0)
      std::cout << format(
          "  %11.0f%%  %11.2f",
          100 * sum(layer, [](const LensCell& cell) { return cell.next_rank == 1 ? 1.0 : 0.0; }) / with_next,
          sum(layer, [](const LensCell& cell) { return -cell.next_logprob; }) / with_next);
    std::cout << '\n';
  }
}

Json lens_token_json(const api::Model& model, std::uint32_t id) {
  return {{"id", id}, {"text", model.detokenize({id})}};
}

Json cell_json(const api::Model& model, const LensCell& cell, std::size_t layer) {
  Json result = {{"layer", layer}, {"entropy", cell.entropy}, {"kl", cell.kl}};
  if (cell.next_rank) result.update({{"next_rank", cell.next_rank}, {"next_logprob", cell.next_logprob}});
  for (const LensCell::Choice& one : cell.top) {
    Json token = lens_token_json(model, one.id);
    token["probability"] = one.probability;
    result["top"].push_back(token);
  }
  return result;
}

Json lens_json(const api::Model& model, const LensText& text) {
  Json positions = Json::array();
  for (std::size_t at = 0; at < text.cells.size(); ++at) {
    Json one = lens_token_json(model, text.ids[text.first + at]);
    one["settled_layer"] = text.settled_best(at);
    for (std::size_t layer = 0; layer < text.cells[at].size(); ++layer)
      one["layers"].push_back(cell_json(model, text.cells[at][layer], layer));
    positions.push_back(one);
  }
  return positions;
}

constexpr std::uint32_t kFitContext = 512;  // tokens of a window, unless --ctx says otherwise

// Requires exactly one task: a text, or --fit with a folder.
void check_args(const LensArgs& args) {
  const bool fits = !args.fit.file.empty();
  if (!fits && args.text.empty()) throw UsageError("-p", "the text is empty");
  if (fits && args.fit.out.empty()) throw UsageError("--fit", "it needs a folder for the translators: -o");
  if (!fits && !args.fit.out.empty()) throw UsageError("-o", "it is for --fit");
  if (fits && !(args.text.empty() && args.plot.empty() && args.tuned.empty()))
    throw UsageError("--fit", "it goes without -p, --plot and --tuned");
  if (fits && args.model.ctx != 0 && args.model.ctx < 64) throw UsageError("--ctx", "--fit needs windows of 64 tokens");
}

void run_fit(const LensArgs& args, const api::Model& model) {
  FitArgs fit = args.fit;
  fit.session = session_options(args.model, args.model.ctx ? session_context(args.model, model.info()) : kFitContext);
  fit.base = args.model.model;
  fit.json = args.json;
  fit_lens(model, fit);
}

void run_lens(const LensArgs& args) {
  check_args(args);
  require_utf8("-p", args.text);
  if (!args.plot.empty()) require_writable("--plot", args.plot);
  const api::Model model = load_model(args.model, Load::begin);
  const weft_model_info info = model.info();
  if (info.reads_prompt_apart)
    throw api::Failure(WEFT_UNSUPPORTED, format("the family '%s' writes answers to a text", info.family), "model",
                       "weft generate --lens shows how it settles them");
  if (!args.fit.file.empty()) return run_fit(args, model);
  const std::uint32_t context = session_context(args.model, info);
  api::Session session(model, session_options(args.model, context));
  const std::vector<std::uint32_t> ids = model.tokenize(args.text, true);
  if (ids.size() + 1 > context)
    throw UsageError("-p",
                     format("the text's %zu tokens and one more do not fit into a context of %u", ids.size(), context));
  if (!args.plot.empty() && ids.size() > kMostLensColumns)
    throw UsageError("--plot",
                     format("the text has %zu tokens, a picture shows at most %zu", ids.size(), kMostLensColumns));
  session.set_tuned_lens(args.tuned);
  session.prompt(ids);
  const LensText text = read_lens(model, session, 0, static_cast<std::uint32_t>(ids.size()));
  if (!args.plot.empty())
    write_lens_plot(model, text, args.colour == "kl" ? LensColour::kl : LensColour::entropy,
                    format("%s: %s, %u layers", model_name(args.model.model).c_str(), info.type, info.layers),
                    args.plot);
  if (args.json) {
    print_json(
        {{"positions", lens_json(model, text)}, {"device", info.device}, {"driver", info.driver}, {"type", info.type}});
    return;
  }
  print_cells(model, text);
  print_layers(text);
}

}  // namespace

void add_lens(CLI::App& app) {
  auto args = std::make_shared<LensArgs>();
  CLI::App* command = app.add_subcommand("lens", "Show what the model would say after each of its layers");
  command->footer(
      "The final norm and the vocabulary table read the hidden state after the embedding and after every layer (the\n"
      "logit lens), with --tuned after an affine map of each layer's own (the tuned lens). Tables and pictures show "
      "the\n"
      "likeliest next token, --json the five likeliest.");
  add_model_options(command, args->model);
  add_devices_option(command, args->model);
  add_ctx_option(command, args->model);
  add_kv_options(command, args->model);
  add_policy_option(command, args->model);
  command->add_option("-p,--prompt", args->text, "the text; the begin-of-text token is added if the model uses one")
      ->type_name("TEXT");
  command
      ->add_option("--tuned", args->tuned,
                   "translate the states first: a folder with the config.json and params.safetensors of a tuned lens")
      ->type_name("FOLDER");
  command
      ->add_option("--fit", args->fit.file,
                   "make such a folder instead, by least squares on the states of a text, and say what it is worth")
      ->type_name("TEXT_FILE");
  command->add_option("-o,--output", args->fit.out, "the folder that --fit writes")->type_name("FOLDER");
  command->add_option("--plot", args->plot, "draw layers over tokens as PNG, SVG or PDF")->type_name("PICTURE");
  command
      ->add_option("--colour", args->colour,
                   "what the picture's colours are: entropy, or kl, the divergence from the last layer")
      ->type_name("WHAT")
      ->capture_default_str()
      ->check(CLI::IsMember({"entropy", "kl"}));
  add_json_option(command, args->json);
  command->callback([args] { run_lens(*args); });
}

}  // namespace weft::cli
