// Folders whose matrices a tool has quantised: "quantization_config" of config.json says how.
#pragma once

#include "format/model_file.h"

namespace weft {

// Makes one tensor NAME.weight of all tensors that a quantised matrix is stored in. The files' tensors and metadata are
// read, the index is not. The made tensors refer to the files' bytes. Throws Error(bad_file) and Error(unsupported),
// naming file and tensor, or config.json and its key.
void read_quantised(ModelFile& model);

}  // namespace weft
