// weft lens --fit: translators for a tuned lens, by least squares on a text.
#include <algorithm>
#include <atomic>
#include <exception>
#include <iostream>
#include <thread>

#include "lens.h"
#include "progress_bar.h"
#include "translators.h"

namespace weft::cli {
namespace {

constexpr std::size_t kBlock = 64;         // pairs of states that are added at once, and kept or left out together
constexpr std::size_t kEveryNth = 8;       // block is left out, to choose the ridge by
constexpr std::size_t kMostHeldOut = 256;  // tokens at the text's end
constexpr double kRidges[] = {0.01, 0.03, 0.1, 0.3, 1};

// Runs work(layer) for each layer, on all cores.
template <class Work>
void for_layers(std::size_t layers, const Work& work) {
  std::atomic<std::size_t> next = 0;
  std::vector<std::exception_ptr> thrown(std::max(std::thread::hardware_concurrency(), 1U));
  std::vector<std::thread> threads;
  for (std::exception_ptr& mine : thrown)
    threads.emplace_back([&] {
      try {
        for (std::size_t layer; (layer = next++) < layers;) work(layer);
      } catch (...) {
        mine = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& one : thrown)
    if (one) std::rethrow_exception(one);
}

// Collects the states of a text, layer by layer.
class Collector {
 public:
  Collector(std::size_t layers, std::size_t width)
      : layers_(layers), width_(width), kept_(layers, Moments(width)), left_out_(layers, Moments(width)) {
    states_.resize((layers + 1) * kBlock * width);
  }
  void add(const weft_lens_row& row) {
    std::copy_n(row.hidden, width_, &states_[(row.layer * kBlock + filled_) * width_]);
    if (row.layer == layers_ && ++filled_ == kBlock) flush();
  }
  void flush() {
    std::vector<Moments>& to = blocks_++ % kEveryNth == kEveryNth - 1 ? left_out_ : kept_;
    for_layers(layers_, [&](std::size_t layer) {
      to[layer].add(&states_[layer * kBlock * width_], &states_[layers_ * kBlock * width_], filled_);
    });
    filled_ = 0;
  }
  // The ridge is the one whose translator of the kept blocks is best on those left out; then all are used.
  Translator fit(std::size_t layer, double& ridge) {
    double least = 0;
    ridge = 0;
    for (const double one : kRidges) {
      const double error = left_out_[layer].error(kept_[layer].solve(one));
      if (ridge == 0 || error < least) ridge = one, least = error;
    }
    kept_[layer].add(left_out_[layer]);
    return kept_[layer].solve(ridge);
  }

 private:
  std::size_t layers_, width_;
  std::size_t filled_ = 0, blocks_ = 0;
  std::vector<float> states_;  // (layers + 1, kBlock, width)
  std::vector<Moments> kept_, left_out_;
};

// Windows as long as the context, each after the begin-of-text token if the model uses one.
void collect(const api::Model& model, api::Session& session, std::uint32_t context,
             const std::vector<std::uint32_t>& ids, Collector& collector) {
  const std::vector<std::uint32_t> bos = model.tokenize({}, true);
  const std::size_t room = context - bos.size() - 1;
  ProgressBar progress("reading the text", {static_cast<double>(ids.size()), "tokens"});
  for (std::size_t start = 0; start < ids.size(); start += room) {
    std::vector<std::uint32_t> window = bos;
    const auto first = ids.begin() + static_cast<std::ptrdiff_t>(start);
    window.insert(window.end(), first, first + static_cast<std::ptrdiff_t>(std::min(room, ids.size() - start)));
    session.prompt(window);
    weft_lens_options options = weft_lens_options_default();
    options.first = static_cast<std::uint32_t>(bos.size());
    options.without_logits = 1;
    session.lens(
        [&](const weft_lens_row& row) {
          collector.add(row);
          return true;
        },
        options);
    progress.update(static_cast<double>(start) / static_cast<double>(ids.size()));
  }
  collector.flush();
}

// Means over the held-out tokens: by layer, of the divergence from the last layer.
std::vector<double> divergences(const api::Model& model, api::Session& session, std::uint32_t first,
                                std::uint32_t count) {
  const LensText text = read_lens(model, session, first, count);
  std::vector<double> means(model.info().layers);
  for (const auto& cells : text.cells)
    for (std::size_t layer = 0; layer < means.size(); ++layer) means[layer] += cells[layer].kl / count;
  return means;
}

}  // namespace

void fit_lens(const api::Model& model, const FitArgs& args) {
  const weft_model_info info = model.info();
  weft_session_options options = args.session;
  const std::uint32_t context = options.context = std::min(options.context, info.max_context);
  std::vector<std::uint32_t> ids = model.tokenize(read_text(args.file), false);
  if (ids.size() < (kEveryNth + 2) * kBlock)
    throw api::Failure(WEFT_BAD_FILE,
                       format("the text has %zu tokens, at least %zu are needed", ids.size(), (kEveryNth + 2) * kBlock),
                       "--fit " + args.file);
  const std::size_t held_out = std::min<std::size_t>({ids.size() / 5, kMostHeldOut, context / 2});
  std::vector<std::uint32_t> tail = model.tokenize({}, true);
  const auto first = static_cast<std::uint32_t>(tail.size());
  tail.insert(tail.end(), ids.end() - static_cast<std::ptrdiff_t>(held_out), ids.end());
  ids.resize(ids.size() - held_out);

  api::Session session(model, options);
  Collector collector(info.layers, info.width);
  collect(model, session, context, ids, collector);
  std::vector<Translator> translators(info.layers);
  std::vector<double> ridges(info.layers);
  for_layers(info.layers, [&](std::size_t layer) { translators[layer] = collector.fit(layer, ridges[layer]); });
  write_translators(args.out, translators, args.base);

  const auto count = static_cast<std::uint32_t>(held_out);
  session.prompt(tail);
  const std::vector<double> logit = divergences(model, session, first, count);
  session.set_tuned_lens(args.out);
  const std::vector<double> tuned = divergences(model, session, first, count);
  Json layers = Json::array();
  for (std::size_t layer = 0; layer < translators.size(); ++layer)
    layers.push_back(
        {{"layer", layer}, {"ridge", ridges[layer]}, {"logit_kl", logit[layer]}, {"tuned_kl", tuned[layer]}});
  if (args.json) {
    print_json({{"tokens", ids.size()},
                {"held_out_tokens", held_out},
                {"layers", layers},
                {"device", info.device},
                {"driver", info.driver},
                {"type", info.type}});
    return;
  }
  std::cout << format(
      "%zu tokens, and %zu held out: of these, the mean KL to the last layer, in nats\n"
      "layer   ridge  logit lens  tuned lens\n",
      ids.size(), held_out);
  for (std::size_t layer = translators.size(); layer-- > 0;)
    std::cout << format("%-6s %6g  %10.3f  %10.3f\n", layer == 0 ? "embed" : std::to_string(layer).c_str(),
                        ridges[layer], logit[layer], tuned[layer]);
}

}  // namespace weft::cli
