// Eigenvalues and eigenvectors of symmetric matrices, for the figures of tables and of logits.
#pragma once

#include <cstddef>
#include <vector>

namespace weft::cli {

// The eigenvalues of a symmetric matrix (n, n) without negative ones, the largest first, each by bisection: right to
// 1e-16 of the trace.
std::vector<double> eigenvalues(const std::vector<double>& matrix, std::size_t n);

// Eigenvectors of length 1 of such a matrix, a row each, in no order; zeros where the eigenvalue is 0. Rotates pairs of
// rows until all are at right angles (Hestenes 1958, "Inversion of matrices by biorthogonalization and related
// results").
std::vector<double> eigenvectors(std::vector<double> matrix, std::size_t n);

}  // namespace weft::cli
