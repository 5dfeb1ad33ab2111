// Figures of a vocabulary table, for `weft geometry`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common.h"

namespace weft::cli {

struct TableFigures {
  std::vector<float> norms;  // Euclidean, by id
  double mean_cosine = 0;    // over all pairs of rows that are not zero
  // Eigenvalues of the covariance of `sampled` evenly spaced rows, as shares of its trace, the largest first.
  std::size_t sampled = 0;
  std::vector<double> spectrum;
  double isotropy = 0;          // as Mu and Viswanath define it: 1 if all directions look alike, near 0 if not
  double participation = 0;     // trace(C)^2 / trace(C^2): so many directions, if all had the same share
  double rank_correlation = 0;  // Spearman's, of norms and ids
  std::vector<std::uint32_t> equal_rows;  // ids of rows that have the bits of another one
  std::vector<std::uint32_t> by_norm;     // ids, the shortest row first
  std::size_t short_rows = 0;             // far below the other norms (short_bound)
  double short_bound = 0;
};
TableFigures read_table(const api::Model& model);

// Number of evenly spaced rows, and how many of them (`best`) have their largest product with themselves.
struct SelfFigures {
  std::size_t rows = 0, best = 0;
  double median_rank = 0;  // of the row itself, from 1
};
SelfFigures read_self(const api::Model& model);

// Figures of the states of a text's tokens after the final norm, without the first few tokens.
struct StateFigures {
  std::size_t tokens = 0;
  std::vector<double> energy;                                 // shares of the mean square, the largest first
  std::vector<std::uint32_t> coordinates;                     // of these shares
  double mean_cosine = 0, least_cosine = 0, most_cosine = 0;  // of a state and the row of its largest product
};
StateFigures read_states(const api::Model& model, const std::vector<std::uint32_t>& ids,
                         const std::vector<float>& norms);

struct Neighbours {
  struct One {
    std::uint32_t id;
    double value;
  };
  std::uint32_t id;
  std::size_t own_rank;                    // of the row itself among the products, from 1
  std::vector<One> dot, cosine, distance;  // the nearest first, without the row itself; distance: Euclidean
};
Neighbours read_neighbours(const api::Model& model, std::uint32_t id, std::size_t count,
                           const std::vector<float>& norms);

// Largest items that together have this share of a sum of 1; shares: the largest first.
std::size_t count_for(const std::vector<double>& shares, double share);
// Means of as many consecutive values to a bar; the last one may have fewer.
std::vector<double> bars_of(const std::vector<float>& values, std::size_t bars);

// Three panels of bars: norms by id, the spectrum and the states' energy, both summed up. Throws api::Failure.
void write_geometry_plot(const TableFigures& table, const StateFigures* states, const std::string& title,
                         const std::string& path);

}  // namespace weft::cli
