// weft-microbench: the shaders one by one over the shapes of real models. Each is verified against the CPU before it is
// timed; times are the device's timestamps where it has them, less an empty dispatch's, else the submission's less an
// empty one's; buffers rotate so that a run does not find its matrix in the cache. Takes Google Benchmark's options,
// --weft_model=SHAPE for one model's set, and WEFT_DEVICE.
#include <algorithm>
#include <cstdio>
#include <optional>

#include "microbench/bench.h"
#include "microbench/shapes.h"

namespace {

using namespace weft;
using namespace weft::microbench;

void read(benchmark::State& state) {
  const uint64_t most = std::min<uint64_t>(64u << 20, bench().device->plan().slice_bytes);
  const uint64_t bytes = most / READ_BYTES * READ_BYTES;
  std::vector<Buffer> data;
  const Buffer sums(bench().device, "sums", bytes / READ_BYTES * 4, Memory::device);
  for (size_t i = 0; i < copies_past_caches(bytes); ++i)
    data.emplace_back(bench().device, "data", bytes, Memory::device);
  run_once(bench().device, "fill", [&](Recorder& r) {
    for (const Buffer& one : data) r.fill(one, 1);
  });
  time_on_device(
      state, [&](Recorder& r, size_t copy) { ops::read_bandwidth(r, data[copy], sums); }, data.size(),
      static_cast<double>(bytes), 0);
}

// Takes the argument out of argv, if it is there.
std::optional<std::string> take_model(int& argc, char** argv) {
  const std::string option = "--weft_model=";
  std::optional<std::string> model;
  int kept = 0;
  for (int i = 0; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.compare(0, option.size(), option) == 0) {
      model = argument.substr(option.size());
    } else {
      argv[kept++] = argv[i];
    }
  }
  argc = kept;
  return model;
}

void print_help() {
  std::printf(
      "weft-microbench [--weft_model=SHAPE] [--benchmark_list_tests] [--benchmark_filter=REGEX]\n"
      "                [--benchmark_min_time=SECONDS] [--benchmark_format=console|json|csv] ...\n"
      "SHAPE:");
  for (const ModelShape& shape : kShapes) std::printf(" %s", shape.name);
  std::printf("; without it: all of them\n");
}

int run(int argc, char** argv) {
  const std::optional<std::string> model = take_model(argc, argv);
  benchmark::Initialize(&argc, argv, print_help);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  std::string known;
  bool found = !model;
  for (const ModelShape& shape : kShapes) {
    known += std::string(known.empty() ? "" : ", ") + shape.name;
    found |= model && *model == shape.name;
  }
  if (!found) {
    std::fprintf(stderr, "weft-microbench: --weft_model: there is no shape \"%s\"\nhint: %s\n", model->c_str(),
                 known.c_str());
    return 2;
  }
  const Bench& b = bench();
  benchmark::AddCustomContext("device", b.device->caps().name);
  benchmark::AddCustomContext("driver", b.device->caps().driver_name + " " + b.device->caps().driver_info);
  benchmark::AddCustomContext("read GB/s", std::to_string(b.read_bandwidth * 1e-9));
  benchmark::AddCustomContext("empty dispatch us", std::to_string(b.empty_dispatch * 1e6));
  benchmark::AddCustomContext("empty submission us", std::to_string(b.empty_submission * 1e6));
  add("read/64MiB", read);
  for (const ModelShape& shape : kShapes) {
    if (model && *model != shape.name) continue;
    register_products(shape);
    register_heads(shape);
    register_attention(shape);
    register_vectors(shape);
    register_choice(shape);
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "weft-microbench: %s\n", e.what());
    return 1;
  }
}
