// The pipelines that a device's plan selects for models, found by recording every kind of pass without compiling.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "model/forward.h"

namespace weft::compilers {

// A model with matrices and tables of these formats.
std::unique_ptr<Model> load(const std::shared_ptr<Device>& device, const std::filesystem::path& folder,
                            const DeviceFormats& formats);
// Gives layers' matrices of one format another of at most as many bits, if their rows are whole super-blocks. Their
// numbers are wrong then.
void change_format(Model& model, const std::filesystem::path& folder, Format from, Format to);

class Survey {
 public:
  struct Commands {
    size_t dispatches = 0, barriers = 0;
  };
  struct PassCommands {
    Commands first_layer, layer, rest;  // layer: each of the others
  };
  struct Counts {
    uint32_t layers = 0;  // of the model as published
    PassCommands token;   // that is decoded greedily
    PassCommands prompt;  // a chunk of its tokens
  };
  // Loads a model with matrices and tables of the format, and adds the pipelines of its sessions: of decoding, prompts,
  // checks of drafts, batches and scores, with every head, both types of cache, and every way to choose a token; of a
  // model that hears: what hearing a recording takes; and,
  // for the widest model, the same of native formats that are rounded to this one, and of matrices of two formats.
  Counts add(const std::shared_ptr<Device>& device, const std::filesystem::path& folder, Format format);

  const std::map<std::string, KernelSpec>& pipelines() const { return pipelines_; }  // by label

 private:
  std::map<std::string, KernelSpec> pipelines_;
};

}  // namespace weft::compilers
