#include "gpu/caps.h"

#include <vulkan/vulkan_core.h>

#include "base/error.h"

namespace weft {

const char* name(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::discrete:
      return "discrete";
    case DeviceKind::integrated:
      return "integrated";
    case DeviceKind::virtual_gpu:
      return "virtual";
    case DeviceKind::cpu:
      return "cpu";
    case DeviceKind::other:
      break;
  }
  return "other";
}

uint32_t likely_driver(uint32_t vendor_id) {
  switch (vendor_id) {  // PCI's numbers
    case 0x5143:
      return VK_DRIVER_ID_QUALCOMM_PROPRIETARY;
    case 0x13b5:
      return VK_DRIVER_ID_ARM_PROPRIETARY;
    case 0x1010:
      return VK_DRIVER_ID_IMAGINATION_PROPRIETARY;
    case 0x144d:
      return VK_DRIVER_ID_SAMSUNG_PROPRIETARY;
    case 0x10de:
      return VK_DRIVER_ID_NVIDIA_PROPRIETARY;
    default:
      return 0;
  }
}

void disable(Caps& caps, std::string_view features) {
  struct Feature {
    std::string_view name;
    bool Caps::*flag;
  };
  static constexpr Feature known[] = {{"subgroup", &Caps::subgroup},
                                      {"shuffle", &Caps::shuffle},
                                      {"full_subgroups", &Caps::full_subgroups},
                                      {"timestamps", &Caps::timestamps},
                                      {"memory_budget", &Caps::memory_budget},
                                      {"fp16", &Caps::fp16},
                                      {"int8_dot", &Caps::int8_dot},
                                      {"matrices", &Caps::matrices}};
  while (!features.empty()) {
    const size_t comma = features.find(',');
    const std::string_view wanted = features.substr(0, comma);
    features = comma == std::string_view::npos ? std::string_view{} : features.substr(comma + 1);
    if (wanted.empty()) continue;
    bool found = false;
    std::string names;
    for (const Feature& feature : known) {
      if (feature.name == wanted) caps.*feature.flag = false, found = true;
      names += (names.empty() ? "" : ", ") + std::string(feature.name);
    }
    if (!found)
      throw Error(Code::invalid_argument, "there is no optional feature '" + std::string(wanted) + "'", "WEFT_DISABLE",
                  "known: " + names);
  }
}

}  // namespace weft
