#include "reference/project.h"

#include "reference/matmul.h"

namespace weft::reference {

Rows project(const Rows& table, const Rows& x) { return matmul(table, x); }

}  // namespace weft::reference
