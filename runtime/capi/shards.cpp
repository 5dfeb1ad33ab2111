// The C API: a vocabulary table whose rows are spread over several devices.
#include <algorithm>

#include "base/number.h"
#include "capi/handles.h"
#include "ops/bandwidth.h"
#include "ops/proof.h"

using namespace weft;
namespace weft::capi {
namespace {

// The share at the end of "NAME:SHARE"; nothing if there is no number after a colon.
std::optional<double> share_of(std::string_view& part) {
  const size_t colon = part.rfind(':');
  if (colon == part.npos) return std::nullopt;
  const std::optional<double> share = parse_double(std::string(part.substr(colon + 1)));
  if (!share) return std::nullopt;
  require(*share > 0 && *share < 1e12, "device", "a device's share is above 0");
  part = part.substr(0, colon);
  return share;
}

}  // namespace

DeviceList parse_devices(std::string_view text) {
  DeviceList list;
  if (text.find(';') == text.npos) return {{std::string(text)}, {}};
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(';', begin), text.size());
    std::string_view part = text.substr(begin, end - begin);
    if (const std::optional<double> share = share_of(part)) list.shares.push_back(*share);
    require(!part.empty(), "device", "one of several devices has no name");
    list.names.emplace_back(part);
    begin = end + 1;
  }
  require(list.shares.empty() || list.shares.size() == list.names.size(), "device",
          "some devices have a share and some have none");
  return list;
}

std::shared_ptr<const TableSplit> LoadedFrom::split(const std::shared_ptr<Device>& first) {
  if (devices.names.size() < 2) return nullptr;
  TableSplit split;
  for (size_t i = 1; i < devices.names.size(); ++i)
    split.others.push_back(open_proven(devices.names[i], [&](const Caps& caps) { return plan_for(caps, options); }));
  if (devices.shares.empty()) {
    devices.measured = true;
    devices.shares.push_back(measure_read_bandwidth(first));
    for (const std::shared_ptr<Device>& device : split.others) devices.shares.push_back(measure_read_bandwidth(device));
  }
  split.shares = devices.shares;
  return std::make_shared<const TableSplit>(std::move(split));
}

JsonValue shards_json(const Model& model, const DeviceList& devices) {
  JsonValue list = JsonValue::array();
  const auto add = [&](const Device& device, uint32_t first, uint32_t rows, uint64_t bytes) {
    const double share = devices.shares[list.size()];
    JsonValue entry = {{"device", device.caps().name}, {"first_row", first}, {"rows", rows}, {"bytes", bytes}};
    if (devices.measured)
      entry["gigabytes_per_second"] = share * 1e-9;
    else
      entry["share"] = share;
    list.push_back(std::move(entry));
  };
  const Weights& weights = model.weights;
  add(*model.device, 0, weights.embedding->rows(), weights.vocab_bytes());
  for (const TableShard& shard : weights.shards) add(*shard.device, shard.first_row, shard.rows(), shard.bytes());
  return list;
}

}  // namespace weft::capi
