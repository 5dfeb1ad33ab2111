#include "dispatches.h"

#include <array>
#include <map>
#include <variant>

#include "base/error.h"
#include "gpu/device.h"
#include "run/schedule.h"
#include "survey.h"

namespace weft::compilers {
namespace {

using Json = nlohmann::json;

DeviceKind kind_called(const std::string& wanted) {
  for (const DeviceKind kind :
       {DeviceKind::discrete, DeviceKind::integrated, DeviceKind::virtual_gpu, DeviceKind::cpu, DeviceKind::other})
    if (wanted == name(kind)) return kind;
  throw Error(Code::invalid_argument, "there is no kind of device '" + wanted + "'", "--caps");
}

// Threads of a workgroup, from the SPIR-V: a constant of three parts, each of which may be specialised.
uint32_t workgroup_threads(const KernelSpec& spec) {
  constexpr uint32_t kConstant = 43, kSpecConstant = 50, kComposite = 44, kSpecComposite = 51, kDecorate = 71,
                     kExecutionMode = 16, kLocalSize = 17, kSpecId = 1, kBuiltIn = 11, kWorkgroupSize = 25;
  const std::vector<uint32_t> words = unpack_spirv(spec.shader.code);
  std::map<uint32_t, uint32_t> values, spec_ids;
  std::map<uint32_t, std::array<uint32_t, 3>> composites;
  std::array<uint32_t, 3> fixed = {1, 1, 1};
  uint32_t size_id = 0;
  for (size_t at = 5; at < words.size(); at += words[at] >> 16) {
    const uint32_t* const w = &words[at];
    const uint32_t opcode = *w & 0xffff;
    if (opcode == kExecutionMode && w[2] == kLocalSize) fixed = {w[3], w[4], w[5]};
    if (opcode == kDecorate && w[2] == kSpecId) spec_ids[w[1]] = w[3];
    if (opcode == kDecorate && w[2] == kBuiltIn && w[3] == kWorkgroupSize) size_id = w[1];
    if (opcode == kConstant || opcode == kSpecConstant) values[w[2]] = w[3];
    if ((opcode == kComposite || opcode == kSpecComposite) && *w >> 16 == 6) composites[w[2]] = {w[3], w[4], w[5]};
  }
  if (!size_id) return fixed[0] * fixed[1] * fixed[2];
  uint32_t threads = 1;
  for (const uint32_t id : composites.at(size_id)) {
    const auto found = spec_ids.find(id);
    const bool specialised = found != spec_ids.end() && found->second < spec.constants.size();
    threads *= specialised ? spec.constants[found->second] : values.at(id);
  }
  return threads;
}

}  // namespace

void describe_as(Caps& caps, const Json& description) {
  const std::map<std::string, std::variant<bool Caps::*, uint32_t Caps::*, uint64_t Caps::*>> members = {
      {"driver_id", &Caps::driver_id},
      {"max_threads", &Caps::max_threads},
      {"max_shared", &Caps::max_shared},
      {"max_range", &Caps::max_range},
      {"subgroup_size", &Caps::subgroup_size},
      {"subgroup", &Caps::subgroup},
      {"shuffle", &Caps::shuffle},
      {"fp16", &Caps::fp16},
      {"full_subgroups", &Caps::full_subgroups},
      {"matrix_side", &Caps::matrix_side},
      {"matrices", &Caps::matrices}};
  for (const auto& [key, value] : description.items()) {
    if (key == "kind") {
      caps.kind = kind_called(value.get<std::string>());
      continue;
    }
    const auto member = members.find(key);
    if (member == members.end()) throw Error(Code::invalid_argument, "caps have no '" + key + "'", "--caps");
    const Json& number = value;
    std::visit([&](const auto field) { caps.*field = number.get<std::remove_reference_t<decltype(caps.*field)>>(); },
               member->second);
  }
}

Json list_dispatches(const std::shared_ptr<Device>& device, const std::filesystem::path& folder, Format format,
                     uint32_t context) {
  DeviceFormats formats = info(format).rounded;
  if (formats.matrices == Format::q4) formats.tables = Format::q8;  // as for a file of q4 weights
  const std::unique_ptr<Model> model = load(device, folder, formats);
  if (is_native(format)) change_format(*model, folder, info(format).rounded, format);
  const ActivationBuffers activations(*model, 1);
  const StepBuffers step(*model, context, context);
  const ContextState cache(*model, context, 1, Format::f16);
  const Pass pass = {*model, activations, step, cache, 1};
  Json list = Json::array();
  const auto record = [&](const std::string& part, const auto& commands) {
    std::vector<Dispatch> dispatches;
    Recorder recorder(*device, dispatches);
    commands(recorder);
    for (const Dispatch& one : dispatches)
      list.push_back({{"part", part},
                      {"name", one.kernel.shader.name},
                      {"variant", one.kernel.shader.variant},
                      {"constants", one.kernel.constants},
                      {"groups", {one.groups.x, one.groups.y, one.groups.z}},
                      {"threads", workgroup_threads(one.kernel)},
                      {"bytes", one.bytes}});
  };
  record("embed", [&](Recorder& r) { record_embed(r, pass); });
  for (uint32_t layer = 0; layer < model->config.layers; ++layer)
    record("layer " + std::to_string(layer), [&](Recorder& r) { record_layer(r, pass, layer); });
  Tail tail = {Tail::Kind::greedy};
  const auto end = [&](const std::string& part) {
    record(part, [&](Recorder& r) { record_tail(r, pass, {&tail, 1}); });
  };
  end("end");
  tail.kind = Tail::Kind::sampled;
  end("sampled");
  tail.logprobs = true;
  end("logprobs");
  tail.timestamps = 1024;  // as for a model that hears
  end("timestamps");
  // The softmaxes of a mixture, or of an adaptive one.
  constexpr uint32_t kSoftmaxes = 4;
  const Buffer logits(device, "logits", uint64_t{kSoftmaxes} * stride_of(model->config.vocab) * 4, Memory::device);
  const Buffer bounds(device, "bounds", kSoftmaxes * 8, Memory::device),
      sums(device, "sums", ops::log_sum_bytes(model->config.vocab, kSoftmaxes), Memory::device);
  record("softmaxes", [&](Recorder& r) { ops::log_sum(r, logits, bounds, sums, model->config.vocab, 0, kSoftmaxes); });
  return list;
}

}  // namespace weft::compilers
