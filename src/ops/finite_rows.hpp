// Products over positions in which NaN and infinity stay where they are visible.
//
// In y_i = sum_j c_ij x_j a blocked pair has c_ij = 0, but 0 * NaN is NaN: what stands at a
// position that i may not see would reach y_i through the gemm. So rows of x that are not finite
// are zeroed for the gemm, and their share is added afterwards for the pairs whose weight is not 0.
// When all rows are finite, which one pass over x finds out, nothing is copied and nothing is
// added.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include <tapehead/tensor.hpp>

#include "core/access.hpp"
#include "core/threads.hpp"

namespace tapehead::detail {

template <class T>
class FiniteRows {
 public:
  // x [.., rows, width]. Unless `check` is set, x is taken as it is.
  FiniteRows(const Tensor& x, bool check) : original_(x), clean_(x), width_(x.dim(-1)) {
    if (!check || x.size() == 0) return;
    const std::int64_t rows = x.size() / width_;
    Tensor flags = empty({rows}, DType::boolean);
    auto* bad = out<unsigned char>(flags);
    const T* from = in<T>(x);
    parallel_for(rows, rows_per_chunk(width_), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        constexpr T kLargest = std::numeric_limits<T>::max();
        int count = 0;
        for (std::int64_t i = row * width_; i < (row + 1) * width_; ++i)
          count += !(std::abs(from[i]) <= kLargest);
        bad[row] = count > 0;
      }
    });
    if (std::all_of(bad, bad + rows, [](unsigned char b) { return b == 0; })) return;
    bad_ = flags;
    clean_ = empty(x.shape(), x.dtype());
    T* to = out<T>(clean_);
    for (std::int64_t row = 0; row < rows; ++row) {
      T* line = to + row * width_;
      std::fill_n(line, width_, T{0});
      if (bad[row] == 0) std::copy_n(from + row * width_, width_, line);
    }
  }

  // All rows, those that are not finite zeroed.
  [[nodiscard]] const T* clean() const { return in<T>(clean_); }

  // c_ij and the weights that say which pairs take part, at i * stride_i + j * stride_j.
  struct Pairs {
    const T* c;
    const T* weights;
    std::int64_t stride_i;
    std::int64_t stride_j;
  };
  // y_i += c_ij x_j for i < m and the rows j < n counted from first_row that were zeroed.
  void add_zeroed(std::int64_t first_row, std::int64_t m, std::int64_t n, const Pairs& pairs,
                  T* y) const {
    if (!bad_.defined()) return;
    for (std::int64_t j = 0; j < n; ++j) {
      if (in<unsigned char>(bad_)[first_row + j] == 0) continue;
      const T* x = in<T>(original_) + (first_row + j) * width_;
      for (std::int64_t i = 0; i < m; ++i) {
        const std::int64_t at = i * pairs.stride_i + j * pairs.stride_j;
        if (pairs.weights[at] == 0) continue;
        for (std::int64_t l = 0; l < width_; ++l) y[i * width_ + l] += pairs.c[at] * x[l];
      }
    }
  }

 private:
  Tensor original_;
  Tensor clean_;
  Tensor bad_;  // per row; undefined when all are finite
  std::int64_t width_;
};

}  // namespace tapehead::detail
