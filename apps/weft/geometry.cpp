// weft geometry: figures of a model's vocabulary table.
#include "geometry.h"

#include <cmath>
#include <iostream>

#include "canvas.h"
#include "lens.h"

namespace weft::cli {
namespace {

struct GeometryArgs {
  ModelArgs model;
  std::vector<std::string> tokens;
  std::string text, plot;
  std::uint32_t count = 10;
  bool json = false;
};

// Default text of the states: prose, talk, a list and code. Written for Weft.
constexpr char kSampleText[] =
    "The harbour was quiet in the morning. Two boats came in with the tide, and the women on the pier counted the "
    "crates as they were lifted out: forty of herring, three of crab. \"You are late,\" said one of them. \"The wind "
    "turned at four,\" the captain answered, \"and we had to row.\" Nobody believed him.\n\n"
    "To bake a loaf you need 500 g of flour, 350 ml of water, salt and time. Mix everything, let it rest overnight, "
    "then bake it at 240 degrees for 45 minutes.\n\n"
    "def mean(values):\n    total = 0\n    for value in values:\n        total += value\n    return total / "
    "len(values)\n";
constexpr std::size_t kShown = 10;  // short rows and coordinates

std::uint32_t token_of(const api::Model& model, const std::string& text) {
  const std::vector<std::uint32_t> ids = model.tokenize(text, false, true);
  if (ids.size() != 1)
    throw UsageError("-t", format("\"%s\" is %zu tokens, expected one", text.c_str(), ids.size()),
                     "a word usually begins with a space: -t \" word\"");
  return ids.front();
}

Json geometry_token(const api::Model& model, std::uint32_t id) {
  return {{"id", id}, {"text", shown_token(model, id)}};
}

double quantile(const TableFigures& table, double share) {
  return table.norms[table.by_norm[static_cast<std::size_t>(share * static_cast<double>(table.norms.size() - 1))]];
}

Json table_json(const api::Model& model, const TableFigures& table) {
  Json shortest = Json::array(), equal = Json::array();
  for (std::size_t i = 0; i < std::min(kShown, table.by_norm.size()); ++i) {
    shortest.push_back(geometry_token(model, table.by_norm[i]));
    shortest.back()["norm"] = table.norms[table.by_norm[i]];
  }
  for (const std::uint32_t id : table.equal_rows) equal.push_back(geometry_token(model, id));
  return {{"norms",
           {{"least", quantile(table, 0)},
            {"p05", quantile(table, 0.05)},
            {"median", quantile(table, 0.5)},
            {"p95", quantile(table, 0.95)},
            {"most", quantile(table, 1)},
            {"rank_correlation", table.rank_correlation},
            {"by_id", bars_of(table.norms, 64)}}},
          {"isotropy",
           {{"mean_cosine", table.mean_cosine},
            {"rows", table.sampled},
            {"participation_ratio", table.participation},
            {"partition_ratio", table.isotropy},
            {"spectrum", table.spectrum}}},
          {"untrained",
           {{"equal_rows", equal},
            {"short_rows", table.short_rows},
            {"short_bound", table.short_bound},
            {"shortest", shortest}}}};
}

Json states_json(const StateFigures& states) {
  return {
      {"tokens", states.tokens},
      {"energy", states.energy},
      {"coordinates", states.coordinates},
      {"winner_cosine", {{"mean", states.mean_cosine}, {"least", states.least_cosine}, {"most", states.most_cosine}}}};
}

Json neighbours_json(const api::Model& model, const Neighbours& neighbours, float norm) {
  Json result = geometry_token(model, neighbours.id);
  result["norm"] = norm;
  result["own_rank"] = neighbours.own_rank;
  for (const auto& [name, list] : {std::pair("dot", &neighbours.dot), std::pair("cosine", &neighbours.cosine),
                                   std::pair("distance", &neighbours.distance)}) {
    result[name] = Json::array();
    for (const Neighbours::One& one : *list) {
      Json item = geometry_token(model, one.id);
      item["value"] = one.value;
      result[name].push_back(item);
    }
  }
  return result;
}

void print_table(const api::Model& model, const TableFigures& table) {
  const std::size_t width = table.spectrum.size();
  std::cout << format("rows        %zu of %zu\n", table.norms.size(), width)
            << format("norms       %.3g median, %.3g to %.3g for 90%%, %.3g to %.3g for all\n", quantile(table, 0.5),
                      quantile(table, 0.05), quantile(table, 0.95), quantile(table, 0), quantile(table, 1))
            << format("            %+.2f rank correlation with the id\n", table.rank_correlation)
            << format("cosines     %.3f mean of all pairs\n", table.mean_cosine)
            << format("isotropy    %.3g (the least by the greatest sum of exp(c.v) along principal directions)\n",
                      table.isotropy)
            << format("directions  %.1f participation ratio; %zu hold half of the variance, %zu 90%% (of %zu rows)\n",
                      table.participation, count_for(table.spectrum, 0.5), count_for(table.spectrum, 0.9),
                      table.sampled)
            << format("untrained?  %zu rows equal another", table.equal_rows.size());
  for (std::size_t i = 0; i < std::min(kShown, table.equal_rows.size()); ++i)
    std::cout << (i == 0 ? ": " : " ") << shown_token(model, table.equal_rows[i]);
  std::cout << format("\n            %zu are shorter than %.3g; the shortest:", table.short_rows, table.short_bound);
  for (std::size_t i = 0; i < std::min(kShown, table.by_norm.size()); ++i)
    std::cout << ' ' << shown_token(model, table.by_norm[i]);
  std::cout << '\n';
}

void print_states(const StateFigures& states) {
  std::cout << format("states      of %zu tokens: %zu coordinates hold half of the energy, %zu 90%%; the largest:",
                      states.tokens, count_for(states.energy, 0.5), count_for(states.energy, 0.9));
  for (std::size_t i = 0; i < std::min(kShown, states.energy.size()); ++i)
    std::cout << format(" %u (%.1f%%)", states.coordinates[i], 100 * states.energy[i]);
  std::cout << format("\nwinners     %.3f mean cosine of a state and the likeliest token's row, %.3f to %.3f\n",
                      states.mean_cosine, states.least_cosine, states.most_cosine);
}

void print_neighbours(const api::Model& model, const Neighbours& neighbours, float norm) {
  std::cout << format("\n%s  id %u, norm %.3g, rank of its own row by dot: %zu\n",
                      shown_token(model, neighbours.id).c_str(), neighbours.id, static_cast<double>(norm),
                      neighbours.own_rank)
            << "  by dot                          by cosine                       by distance\n";
  for (std::size_t i = 0; i < neighbours.dot.size(); ++i) {
    const auto& dot = neighbours.dot[i];
    const auto& cosine = neighbours.cosine[i];
    const auto& distance = neighbours.distance[i];
    std::string line = format("  %8.3f  %s", dot.value, shown_token(model, dot.id).c_str());
    line.resize(std::max<std::size_t>(line.size(), 34), ' ');
    line += format("%6.3f  %s", cosine.value, shown_token(model, cosine.id).c_str());
    line.resize(std::max<std::size_t>(line.size(), 66), ' ');
    std::cout << line << format("%7.3f  %s\n", distance.value, shown_token(model, distance.id).c_str());
  }
}

void run_geometry(const GeometryArgs& args) {
  if (!args.text.empty()) require_utf8("-p", args.text);
  if (!args.plot.empty()) require_writable("--plot", args.plot);
  const api::Model model = load_model(args.model);
  const weft_model_info info = model.info();
  std::vector<std::uint32_t> wanted;
  for (const std::string& token : args.tokens) {
    require_utf8("-t", token);
    wanted.push_back(token_of(model, token));
  }
  std::vector<std::uint32_t> ids = model.tokenize(args.text.empty() ? kSampleText : args.text, true);
  if (ids.size() >= info.max_context) {
    if (!args.text.empty())
      throw UsageError("-p", format("the text has %zu tokens, the model takes %u", ids.size(), info.max_context - 1));
    ids.resize(info.max_context - 1);
  }
  const TableFigures table = read_table(model);
  const SelfFigures self = read_self(model);
  std::optional<StateFigures> states;
  if (!info.reads_prompt_apart) states = read_states(model, ids, table.norms);
  std::vector<Neighbours> neighbours;
  for (const std::uint32_t id : wanted) neighbours.push_back(read_neighbours(model, id, args.count, table.norms));
  if (!args.plot.empty())
    write_geometry_plot(
        table, states ? &*states : nullptr,
        format("%s: %s, %u rows of %u", model_name(args.model.model).c_str(), info.type, info.vocab_size, info.width),
        args.plot);
  if (args.json) {
    Json result = {{"vocab_size", info.vocab_size}, {"width", info.width}, {"tied", info.tied != 0}};
    result.update(table_json(model, table));
    result["self"] = {{"rows", self.rows}, {"best", self.best}, {"median_rank", self.median_rank}};
    result["states"] = states ? states_json(*states) : Json();
    result["neighbours"] = Json::array();
    for (const Neighbours& one : neighbours)
      result["neighbours"].push_back(neighbours_json(model, one, table.norms[one.id]));
    result.update({{"device", info.device}, {"driver", info.driver}, {"type", info.type}});
    return print_json(result);
  }
  print_table(model, table);
  std::cout << format("itself      the best match of %zu of %zu rows, median rank %.0f\n", self.best, self.rows,
                      self.median_rank);
  if (states) print_states(*states);
  for (const Neighbours& one : neighbours) print_neighbours(model, one, table.norms[one.id]);
}

}  // namespace

void add_geometry(CLI::App& app) {
  auto args = std::make_shared<GeometryArgs>();
  CLI::App* command = app.add_subcommand("geometry", "Show what the vocabulary table looks like");
  command->footer(
      "Norms, cosines and directions of the rows that logits are products with, rows that look never trained, and\n"
      "the states of a text that the table is multiplied with.");
  add_model_options(command, args->model);
  command->add_option("-t,--token", args->tokens, "show the rows nearest to this token's; may be repeated")
      ->type_name("TOKEN");
  command->add_option("-n,--count", args->count, "how many")->capture_default_str()->check(whole(1, 1000));
  command
      ->add_option("-p,--prompt", args->text,
                   "the text whose states are measured; default: a short one of several kinds")
      ->type_name("TEXT");
  command->add_option("--plot", args->plot, "draw norms, variance and energy as PNG, SVG or PDF")->type_name("PICTURE");
  add_json_option(command, args->json);
  command->callback([args] { run_geometry(*args); });
}

}  // namespace weft::cli
