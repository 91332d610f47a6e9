// Gradients of the biases added to attention scores: dbias_ts = dx_ts, summed over what the bias is
// broadcast along. The sums run in a fixed order, whatever the number of threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "core/access.hpp"
#include "core/threads.hpp"
#include "ops/attention_scores.hpp"

namespace tapehead::detail {

// `rows_of(batch, head, query, rows, scratch)` returns dx of `rows` queries from `query` on, [rows,
// S], 0 where blocked; scratch holds `room` numbers.
template <class T, class RowsOf>
Tensor bias_gradient(const AttentionCall& call, std::int64_t block, std::int64_t room,
                     RowsOf rows_of) {
  const AttentionSizes& n = call.sizes();
  const Shape& shape = call.terms().bias.shape();
  Tensor gradient = zeros(shape, kDTypeOf<T>);
  if (gradient.size() == 0) return gradient;
  T* sums = out<T>(gradient);
  const std::int64_t blocks = (n.queries + block - 1) / block;
  const std::int64_t units = shape[0] * shape[1] * blocks;
  const std::int64_t chunk = few_chunks(units);
  Scratch<T> scratch(true, units, chunk, room);
  parallel_for(units, chunk, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t query = unit % blocks * block;
      const std::int64_t rows = std::min(block, n.queries - query);
      const std::int64_t b = unit / blocks / shape[1];
      const std::int64_t h = unit / blocks % shape[1];
      T* sum = sums + ((b * shape[1] + h) * n.queries + query) * n.keys;
      for (std::int64_t batch = b; batch < (shape[0] == 1 ? n.batch : b + 1); ++batch) {
        for (std::int64_t head = h; head < (shape[1] == 1 ? n.heads : h + 1); ++head) {
          const T* dx = rows_of(batch, head, query, rows, scratch.of(begin));
          for (std::int64_t i = 0; i < rows * n.keys; ++i) sum[i] += dx[i];
        }
      }
    }
  });
  return gradient;
}

// The same for relative biases: sums along diagonals, in f64, for each head of each sample first.
template <class T, class RowsOf>
Tensor relative_gradient(const AttentionCall& call, std::int64_t block, std::int64_t room,
                         RowsOf rows_of) {
  const AttentionSizes& n = call.sizes();
  const Shape& shape = call.terms().relative.shape();
  const std::int64_t width = shape[1];
  const std::int64_t units = n.batch * n.heads;
  Tensor partial = zeros({units, width}, DType::f64);
  double* sums = out<double>(partial);
  const std::int64_t chunk = few_chunks(units);
  Scratch<T> scratch(true, units, chunk, room);
  parallel_for(units, chunk, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t unit = begin; unit < end; ++unit) {
      for (std::int64_t query = 0; query < n.queries; query += block) {
        const std::int64_t rows = std::min(block, n.queries - query);
        const T* dx = rows_of(unit / n.heads, unit % n.heads, query, rows, scratch.of(begin));
        for (std::int64_t i = 0; i < rows; ++i) {
          double* diagonal = sums + unit * width + n.queries - 1 - query - i;
          for (std::int64_t s = 0; s < n.keys; ++s)
            diagonal[s] += static_cast<double>(dx[i * n.keys + s]);
        }
      }
    }
  });
  Tensor gradient = empty(shape, kDTypeOf<T>);
  for (std::int64_t h = 0; h < shape[0]; ++h) {
    for (std::int64_t i = 0; i < width; ++i) {
      double total = 0;
      for (std::int64_t unit = 0; unit < units; ++unit) {
        if (shape[0] == 1 || unit % n.heads == h) total += sums[unit * width + i];
      }
      out<T>(gradient)[h * width + i] = static_cast<T>(total);
    }
  }
  return gradient;
}

}  // namespace tapehead::detail
