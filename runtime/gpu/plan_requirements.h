// Requirements that a device must meet for some choices of a plan.
#pragma once

#include "gpu/caps.h"

namespace weft {

bool has_uniform_parts(const Caps& caps);  // Plan::uniform_parts
bool can_use_matrices(const Caps& caps);   // Plan::matrix_side above 0
bool can_use_texels(const Caps& caps);     // Plan::texel_products

}  // namespace weft
