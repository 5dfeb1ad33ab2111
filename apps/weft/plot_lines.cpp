// weft plot: a picture of points and the lines through them, from a JSON file, as apps/bench/growth.py makes it.
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
  write_plot(plot, args.out);
}

}  // namespace

void add_plot(CLI::App& app) {
  auto args = std::make_shared<PlotArgs>();
  CLI::App* command = app.add_subcommand("plot", "Draw the points and lines of a JSON file as PNG, SVG or PDF");
  command
      ->add_option("-f,--file", args->data,
                   "JSON: {title, x, y, series: [{label, points: [[x, y], ...], line: [intercept, slope]}]}")
      ->type_name("FILE")
      ->required();
  command->add_option("-o,--output", args->out, "the picture: PNG, SVG or PDF")->type_name("PICTURE")->required();
  command->callback([args] { run(*args); });
}

}  // namespace weft::cli
