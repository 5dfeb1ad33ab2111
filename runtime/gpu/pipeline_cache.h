// The driver's pipeline cache on disk: one file per device and driver version under $WEFT_CACHE_DIR, else
// $XDG_CACHE_HOME/weft, else ~/.cache/weft. WEFT_CACHE_DIR="" turns it off. The application may name another folder.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "gpu/caps.h"

namespace weft {

// The folder of Weft's own files. Nothing if no place is known, or if it is "".
std::optional<std::filesystem::path> user_cache_folder();
// Sets the folder for the whole process, from any thread. "": no folder; nullopt: as the environment says.
void set_user_cache_folder(std::optional<std::filesystem::path> folder);
// The same, but nothing if another user could have put files there: drivers read them and trust them.
std::optional<std::filesystem::path> private_cache_folder();
// Path of a device's cache; nothing without a private folder.
std::optional<std::filesystem::path> pipeline_cache_path(const Caps& caps);

// Our envelope around the driver's data: magic, version, size and a checksum, because drivers crash on torn caches.
std::vector<std::byte> seal_pipeline_cache(std::span<const std::byte> data);
// The data inside an envelope that was made for this device, else nothing: a torn, foreign or outdated file is no
// error.
std::optional<std::vector<std::byte>> open_pipeline_cache(std::span<const std::byte> file, const Caps& caps);

}  // namespace weft
