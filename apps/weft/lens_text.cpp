// Figures of the logit lens.
#include <utf8proc.h>

#include <algorithm>
#include <cmath>

#include "lens.h"

namespace weft::cli {
namespace {

constexpr std::size_t kTopTokens = 5;  // tokens kept of a cell

// ln of the softmax.
std::vector<double> log_probabilities(const float* logits, std::size_t count) {
  const double most = *std::max_element(logits, logits + count);
  double sum = 0;
  for (std::size_t id = 0; id < count; ++id) sum += std::exp(logits[id] - most);
  std::vector<double> result(count);
  for (std::size_t id = 0; id < count; ++id) result[id] = logits[id] - most - std::log(sum);
  return result;
}

std::vector<LensCell::Choice> likeliest(const std::vector<double>& logprobs) {
  std::vector<LensCell::Choice> top;
  for (std::uint32_t id = 0; id < logprobs.size(); ++id) {
    if (top.size() == kTopTokens && logprobs[id] <= top.back().probability) continue;
    const auto after =
        std::find_if(top.begin(), top.end(), [&](const auto& one) { return one.probability < logprobs[id]; });
    top.insert(after, {id, logprobs[id]});
    if (top.size() > kTopTokens) top.pop_back();
  }
  for (LensCell::Choice& one : top) one.probability = std::exp(one.probability);
  return top;
}

// last: of the last layer. next: the id that follows; WEFT_NO_TOKEN: none.
LensCell make_cell(const std::vector<double>& logprobs, const std::vector<double>& last, std::uint32_t next) {
  LensCell cell;
  cell.top = likeliest(logprobs);
  for (std::size_t id = 0; id < logprobs.size(); ++id) {
    cell.entropy -= std::exp(logprobs[id]) * logprobs[id];
    cell.kl += std::exp(last[id]) * (last[id] - logprobs[id]);
  }
  if (!std::isfinite(cell.entropy + cell.kl))
    throw api::Failure(WEFT_BAD_FILE, "not all logits of the lens are finite numbers", "model",
                       "its weights may be damaged, or too large for f16");
  cell.kl = std::max(cell.kl, 0.0);  // but for rounding it is
  if (next == WEFT_NO_TOKEN) return cell;
  cell.next_logprob = logprobs[next];
  cell.next_rank = 1;
  for (std::uint32_t id = 0; id < logprobs.size(); ++id) {
    if (logprobs[id] > logprobs[next] || (logprobs[id] == logprobs[next] && id < next)) ++cell.next_rank;
  }
  return cell;
}

// The first layer from which on the likeliest token is `id`.
int settled(const std::vector<LensCell>& layers, std::uint32_t id) {
  std::size_t first = layers.size();
  while (first > 0 && layers[first - 1].top.front().id == id) --first;
  return first == layers.size() ? LensText::kNever : static_cast<int>(first);
}

}  // namespace

int LensText::settled_next(std::size_t token) const {
  const std::size_t next = first + token + 1;
  return next < ids.size() ? settled(cells[token], ids[next]) : kNever;
}

int LensText::settled_best(std::size_t token) const {
  return settled(cells[token], cells[token].back().top.front().id);
}

LensText read_lens(const api::Model& model, api::Session& session, std::uint32_t first, std::uint32_t count) {
  const weft_model_info info = model.info();
  LensText text;
  text.ids = session.ids();
  text.first = first;
  text.cells.resize(count);
  for (std::size_t at = first; at < std::min<std::size_t>(first + count + 1, text.ids.size()); ++at)
    text.texts.push_back(shown_token(model, text.ids[at]));
  std::vector<std::uint32_t> layers = {info.layers};  // the last one first: the others are compared with it
  for (std::uint32_t layer = 0; layer < info.layers; ++layer) layers.push_back(layer);
  std::vector<double> last;
  const auto add = [&](const weft_lens_row& row) {
    std::vector<LensCell>& cells = text.cells[row.position - first];
    cells.resize(info.layers + 1);
    const std::vector<double> logprobs = log_probabilities(row.logits, info.vocab_size);
    if (row.layer == info.layers) last = logprobs;
    const std::size_t next = row.position + 1;
    cells[row.layer] = make_cell(logprobs, last, next < text.ids.size() ? text.ids[next] : WEFT_NO_TOKEN);
    return true;
  };
  weft_lens_options options = weft_lens_options_default();
  options.first = first;
  options.count = count;
  options.layers = layers.data();
  options.layer_count = layers.size();
  session.lens(add, options);
  return text;
}

Json settled_json(const api::Model& model, const LensText& text) {
  Json tokens = Json::array();
  for (std::size_t at = 0; at < text.cells.size(); ++at) {
    const int layer = text.settled_next(at);
    const std::uint32_t id = text.ids[text.first + at + 1];
    tokens.push_back({{"id", id},
                      {"text", model.detokenize({id})},
                      {"settled_layer", layer == LensText::kNever ? Json(nullptr) : Json(layer)},
                      {"probability", std::exp(text.cells[at].back().next_logprob)}});
  }
  return tokens;
}

std::string settled_table(const LensText& text) {
  const std::size_t layers = text.cells.front().size() - 1;
  std::string table = "layer  p at the last  token\n";
  double sum = 0;
  int settled = 0;
  for (std::size_t at = 0; at < text.cells.size(); ++at) {
    const int layer = text.settled_next(at);
    if (layer != LensText::kNever) sum += layer, ++settled;
    table += (layer == LensText::kNever ? std::string("    -") : format("%5d", layer)) +
             format("  %12.0f%%  %s\n", 100 * std::exp(text.cells[at].back().next_logprob), text.texts[at + 1].c_str());
  }
  if (settled > 0) table += format("settled at layer %.1f of %zu on average", sum / settled, layers);
  const std::size_t never = text.cells.size() - static_cast<std::size_t>(settled);
  if (never > 0)
    table += format("%s%zu of %zu are not the likeliest after the last layer", settled ? "; " : "", never,
                    text.cells.size());
  return table + "\n";
}

std::string shown_token(const api::Model& model, std::uint32_t id) {
  const TokenBytes token = token_bytes(model, id);
  if (token.control) return token.bytes;
  std::string text = "\"";
  for (std::size_t at = 0; at < token.bytes.size();) {
    const std::string_view rest = std::string_view(token.bytes).substr(at);
    utf8proc_int32_t character = 0;
    const utf8proc_ssize_t length = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(rest.data()),
                                                     static_cast<utf8proc_ssize_t>(rest.size()), &character);
    const std::string_view bytes = rest.substr(0, static_cast<std::size_t>(std::max<utf8proc_ssize_t>(length, 1)));
    at += bytes.size();
    if (length > 0 && utf8proc_category(character) != UTF8PROC_CATEGORY_CC) {
      text += bytes;
      continue;
    }
    for (const char c : bytes)
      text += c == '\n'   ? "\\n"
              : c == '\t' ? "\\t"
                          : format("\\x%02x", static_cast<unsigned>(static_cast<unsigned char>(c)));
  }
  return text + "\"";
}

}  // namespace weft::cli
