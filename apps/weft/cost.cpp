#include "cost.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>

#include "canvas.h"

namespace weft::cli {
namespace {

// Published models: rows, width, layers, parameters with a shared table counted once, tied.
constexpr struct {
  const char* name;
  std::uint64_t rows, width, layers, parameters;
  bool tied;
} kPublished[] = {
    {"gpt2", 50257, 768, 12, 124439808, true},
    {"gpt2-xl", 50257, 1600, 48, 1557611200, true},
    {"smollm2-135m", 49152, 576, 30, 134515008, true},
    {"gemma3-270m", 262144, 640, 18, 268098176, true},
    {"qwen2.5-0.5b", 151936, 896, 24, 494032768, true},
    {"llama3.2-1b", 128256, 2048, 16, 1235814400, true},
    {"llama2-7b", 32000, 4096, 32, 6738415616, false},
    {"llama3-8b", 128256, 4096, 32, 8030261248, false},
    {"llama3-70b", 128256, 8192, 80, 70553706496, false},
};

// The devices of apps/bench/roofline.py: GB/s, 1e9 instructions of a lane a second, instructions for each weight of q8
// and q4. A test compares the two lists.
constexpr struct {
  const char* name;
  double bandwidth, rate, q8, q4;
} kDevices[] = {
    {"Adreno 750", 76.8, 1387.008, 6.2, 6.6},
    {"Adreno 830", 85.3, 1689.6, 6.3, 6.8},
    {"Mali-G720", 76.8, 1996.8, 7, 8},
    {"Raspberry Pi 5", 17.1, 46.08, 9, 10},
    {"Steam Deck", 88, 819.2, 3.0, 4.2},
    {"Orin Nano", 68, 640, 4.9, 6.0},
    {"RTX 3060", 360, 6379.52, 4.9, 6.0},
    {"RTX 4060", 272, 7557.12, 4.9, 6.0},
    {"RX 7800 XT", 624, 9331.2, 3.0, 4.2},
    {"Arc A770", 560, 8601.6, 5, 6},
    {"Apple M2", 100, 1792, 5, 6},
    {"H100", 3350, 33454.08, 4.9, 6.0},
};

constexpr struct {
  const char* name;
  double bytes;  // of a weight, as files store it
} kTypes[] = {{"bf16", 2}, {"f16", 2}, {"q8", 34.0 / 32}, {"q4", 18.0 / 32}};

constexpr int kCostWidth = 880, kCostLeft = 190, kCostBar = 560, kCostTop = 190, kCostStep = 32;  // pixels
constexpr Colour kTableColour = {214, 39, 40}, kLayersColour = {31, 119, 180}, kCostRule = {225, 225, 225};

std::string millions(double count) {
  return count < 1e9 ? format("%.1f M", count / 1e6) : format("%.2f billion", count / 1e9);
}

std::string decimal_bytes(double bytes) {
  return bytes < 1e6   ? format("%.1f kB", bytes / 1e3)
         : bytes < 1e9 ? format("%.1f MB", bytes / 1e6)
                       : format("%.2f GB", bytes / 1e9);
}

std::string duration(double microseconds) {
  return microseconds < 1000 ? format("%.1f us", microseconds) : format("%.2f ms", microseconds / 1000);
}

Json cost_json(const ModelShape& shape, const TableCost& cost, std::uint64_t tokens) {
  Json devices = Json::array();
  for (const DeviceCost& one : device_costs(shape))
    devices.push_back({{"name", one.name},
                       {"microseconds", one.microseconds},
                       {"bound", one.bound_by_bytes ? "bytes" : "instructions"},
                       {"tokens_until_instructions", one.tokens}});
  Json json = {{"model", shape.name},
               {"rows", shape.rows},
               {"width", shape.width},
               {"type", shape.type},
               {"table_parameters", cost.parameters},
               {"table_bytes", shape.table_bytes},
               {"multiplications", cost.parameters},
               {"intensity", cost.intensity},
               {"logits_bytes", cost.token_logits},
               {"tokens", tokens},
               {"tokens_logits_bytes", cost.token_logits * static_cast<double>(tokens)},
               {"devices", devices}};
  if (shape.parameters != 0)
    json.update({{"parameters", shape.parameters},
                 {"layers", shape.layers},
                 {"tied", shape.tied},
                 {"share", cost.share},
                 {"layers_equal", cost.layers_equal}});
  return json;
}

// One bar of the parameters: tables, then the rest.
void draw_shares(Canvas& canvas, const ModelShape& shape, const TableCost& cost) {
  const double tables = cost.share * (shape.tied ? 1 : 2);
  const int split = static_cast<int>(std::lround(tables * kCostBar));
  canvas.text(kCostLeft, 60,
              drawable(format("%s parameters", millions(static_cast<double>(shape.parameters)).c_str()), 60), kBlack);
  canvas.fill({kCostLeft, 84, split, 28}, kTableColour);
  canvas.fill({kCostLeft + split, 84, kCostBar - split, 28}, kLayersColour);
  canvas.text(kCostLeft, 120,
              drawable(format("%s %.1f%%, %llu layers %.1f%%", shape.tied ? "one table" : "two tables", 100 * tables,
                              static_cast<unsigned long long>(shape.layers), 100 * (1 - tables)),
                       60),
              kBlack);
}

}  // namespace

std::string shape_names() {
  std::string names;
  for (const auto& one : kPublished) names += (names.empty() ? "" : ", ") + std::string(one.name);
  return names;
}

ModelShape shape_of(const std::string& name, const std::string& type) {
  ModelShape shape = {name, 0, 0, 0, 0, true, type, 0};
  for (const auto& one : kPublished)
    if (name == one.name) shape = {name, one.rows, one.width, one.layers, one.parameters, one.tied, type, 0};
  if (shape.rows == 0) {
    unsigned long long rows = 0, width = 0;
    int end = -1;
    if (name.find_first_not_of("0123456789x") != name.npos || name.size() > 20 ||
        std::sscanf(name.c_str(), "%llux%llu%n", &rows, &width, &end) != 2 || end != static_cast<int>(name.size()) ||
        rows == 0 || width == 0)
      throw UsageError("--shape", "\"" + name + "\" is neither ROWSxWIDTH nor one of " + shape_names());
    shape.rows = rows, shape.width = width;
  }
  for (const auto& one : kTypes)
    if (type == one.name)
      shape.table_bytes = one.bytes * static_cast<double>(shape.rows) * static_cast<double>(shape.width);
  return shape;
}

TableCost cost_of(const ModelShape& shape) {
  TableCost cost = {shape.rows * shape.width, 0, 0, 0, 4.0 * static_cast<double>(shape.rows)};
  const auto parameters = static_cast<double>(cost.parameters);
  cost.intensity = parameters / shape.table_bytes;
  if (shape.parameters == 0) return cost;
  cost.share = parameters / static_cast<double>(shape.parameters);
  const double others = static_cast<double>(shape.parameters) - parameters * (shape.tied ? 1 : 2);
  cost.layers_equal = parameters / (others / static_cast<double>(shape.layers));
  return cost;
}

std::vector<DeviceCost> device_costs(const ModelShape& shape) {
  std::vector<DeviceCost> costs;
  const double weights = static_cast<double>(shape.rows) * static_cast<double>(shape.width);
  for (const auto& device : kDevices) {
    const double bytes = shape.table_bytes / device.bandwidth / 1e3;
    const double instructions = weights * (shape.type == "q4" ? device.q4 : device.q8) / device.rate / 1e3;
    costs.push_back({device.name, std::max(bytes, instructions), bytes >= instructions, bytes / instructions});
  }
  return costs;
}

void print_cost(const ModelShape& shape, std::uint64_t tokens, bool json) {
  const TableCost cost = cost_of(shape);
  if (json) return print_json(cost_json(shape, cost, tokens));
  const auto parameters = static_cast<double>(cost.parameters);
  std::cout << format("table       %llu rows of %llu: %s parameters", static_cast<unsigned long long>(shape.rows),
                      static_cast<unsigned long long>(shape.width), millions(parameters).c_str());
  if (shape.parameters != 0)
    std::cout << format(", %.1f%% of %s\n", 100 * cost.share, millions(static_cast<double>(shape.parameters)).c_str())
              << format("tying       %s %s parameters: embedding and output %s\n", shape.tied ? "saves" : "would save",
                        millions(parameters).c_str(), shape.tied ? "share the table" : "have a table each")
              << format("layers      the table has as many parameters as %.1f of %llu layers", cost.layers_equal,
                        static_cast<unsigned long long>(shape.layers));
  std::cout << format("\nprojection  reads %s (%s) and multiplies %s times for a token: %.2f multiplications a byte\n",
                      decimal_bytes(shape.table_bytes).c_str(), shape.type.c_str(), millions(parameters).c_str(),
                      cost.intensity)
            << format("logits      %s a token, %s for %llu scored tokens at once\n\n",
                      decimal_bytes(cost.token_logits).c_str(),
                      decimal_bytes(cost.token_logits * static_cast<double>(tokens)).c_str(),
                      static_cast<unsigned long long>(tokens))
            << format("%-16s %12s  %-12s  %s\n", "device", "a token", "bound by", "tokens that may share a reading");
  for (const DeviceCost& one : device_costs(shape))
    std::cout << format("%-16s %12s  %-12s  %.1f\n", one.name.c_str(), duration(one.microseconds).c_str(),
                        one.bound_by_bytes ? "bytes" : "instructions", one.tokens);
}

void write_cost_plot(const ModelShape& shape, const std::string& path) {
  const std::vector<DeviceCost> costs = device_costs(shape);
  Canvas canvas(kCostWidth, kCostTop + static_cast<int>(costs.size()) * kCostStep + 60);
  canvas.text(kCostLeft, 20, drawable(format("%s: the vocabulary table's cost", shape.name.c_str()), 70), kBlack);
  if (shape.parameters != 0) draw_shares(canvas, shape, cost_of(shape));
  canvas.text(kCostLeft, kCostTop - 30, "time of a token's projection, by bytes and instructions", kBlack);
  // Decades around the times.
  double least = costs.front().microseconds, most = least;
  for (const DeviceCost& one : costs) {
    least = std::min(least, one.microseconds);
    most = std::max(most, one.microseconds);
  }
  const double first = std::floor(std::log10(least) - 0.05), last = std::max(first + 1, std::ceil(std::log10(most)));
  const auto column = [&](double exponent) {
    return kCostLeft + static_cast<int>(std::lround((exponent - first) / (last - first) * kCostBar));
  };
  const int bottom = kCostTop + static_cast<int>(costs.size()) * kCostStep;
  for (double exponent = first; exponent <= last; ++exponent) {
    const std::string label = duration(std::pow(10, exponent));
    canvas.fill({column(exponent), kCostTop - 6, 1, bottom - kCostTop + 6}, kCostRule);
    canvas.text(column(exponent) - width_of(label) / 2, bottom + 10, label, kBlack);
  }
  for (std::size_t i = 0; i < costs.size(); ++i) {
    const int top = kCostTop + static_cast<int>(i) * kCostStep;
    canvas.text(kCostLeft - 12 - width_of(costs[i].name), top + 4, costs[i].name, kBlack);
    canvas.fill({kCostLeft, top, std::max(1, column(std::log10(costs[i].microseconds)) - kCostLeft), kCostStep - 10},
                costs[i].bound_by_bytes ? kLayersColour : kTableColour);
  }
  canvas.write(path);
}

}  // namespace weft::cli
