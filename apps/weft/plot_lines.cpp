// weft plot: a PNG of points and the lines through them, from a JSON file, as apps/bench/growth.py makes it.
#include <algorithm>
#include <cmath>
#include <fstream>
#include <sstream>

#include "canvas.h"
#include "common.h"
#include "plot.h"

namespace weft::cli {
namespace {

struct PlotArgs {
  std::string data, out;
};

// An axis from 0 to a round number not below `most`, in 4 to 10 steps of 1, 2 or 5 times a power of ten.
Plot::Axis axis_to(const std::string& label, double most) {
  if (!(most > 0) || !std::isfinite(most)) most = 1;
  double tick = std::pow(10, std::floor(std::log10(most)) - 1);
  for (const double factor : {2.0, 2.5, 2.0, 2.0}) {
    if (most / tick <= 10) break;
    tick *= factor;
  }
  return {label, 0, std::ceil(most / tick) * tick, tick, ""};
}

Plot read_plot(const Json& data) {
  Plot plot;
  plot.title = data.at("title");
  double most_x = 0, most_y = 0;
  for (std::size_t series = 0; series < data.at("series").size(); ++series) {
    const Json& one = data["series"][series];
    const Json& points = one.at("points");
    for (std::size_t i = 0; i < points.size(); ++i) {
      const double x = points[i].at(0), y = points[i].at(1);
      most_x = std::max(most_x, x), most_y = std::max(most_y, y);
      plot.points.push_back(
          {i + 1 == points.size() ? one.at("label").get<std::string>() : std::string(), x, y, series});
    }
    if (one.contains("line")) plot.lines.push_back({one["line"].at(0), one["line"].at(1), series});
  }
  plot.x = axis_to(data.at("x"), most_x);
  plot.y = axis_to(data.at("y"), most_y);
  return plot;
}

void run(const PlotArgs& args) {
  require_writable("-o", args.out);
  const std::string text = read_text(args.data);
  Plot plot;
  try {
    plot = read_plot(Json::parse(text));
  } catch (const nlohmann::json::exception& error) {
    throw api::Failure(
        WEFT_BAD_FILE, std::string("it is no plot: ") + error.what(), args.data,
        R"({"title", "x", "y", "series": [{"label", "points": [[x, y], ...], "line": [intercept, slope]}]})");
  }
  write_png(plot, args.out);
}

}  // namespace

void add_plot(CLI::App& app) {
  auto args = std::make_shared<PlotArgs>();
  CLI::App* command = app.add_subcommand("plot", "Draw the points and lines of a JSON file as a PNG");
  command
      ->add_option("-f,--file", args->data,
                   "JSON: {title, x, y, series: [{label, points: [[x, y], ...], line: [intercept, slope]}]}")
      ->type_name("FILE")
      ->required();
  command->add_option("-o,--output", args->out, "the PNG file")->type_name("PNG")->required();
  command->callback([args] { run(*args); });
}

}  // namespace weft::cli
