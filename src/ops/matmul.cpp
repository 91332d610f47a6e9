// Matrix product over the last two axes; leading axes are a batch and stretch from size 1.
//   y = a b:       da = dy b^T        db = a^T dy
//   y = a^T b:     da = b dy^T        db = a dy
//   y = a b^T:     da = dy b          db = dy^T a
//   y = a^T b^T:   da = b^T dy^T      db = dy^T a^T
// each summed over the batch axes along which its operand was stretched. Transposes are flags of
// the product, never copies. An empty sum (inner size 0) is 0.
//
// One b for many a's is one product: the rows of all a's stand under each other in memory. That
// holds backwards too, where db sums over all those rows at once.
#include <fmt/format.h>

#include <tapehead/record.hpp>

#include "core/gemm.hpp"
#include "ops/catalog.hpp"
#include "ops/elementwise.hpp"

namespace tapehead {
namespace {

struct Sizes {
  Shape batch_a;
  Shape batch_b;
  Shape batch;
  std::int64_t m = 0;
  std::int64_t k = 0;
  std::int64_t n = 0;
};

Shape without_matrix(const Shape& shape) { return shape.without(-1).without(-1); }

std::string described(const Shape& shape, const char* last_but_one, const char* last) {
  if (shape.rank() == 3) return detail::named(shape, {"batch", last_but_one, last});
  return detail::named(shape, {last_but_one, last});
}

std::string described_a(const Tensor& a, bool transposed) {
  return "a " + (transposed ? described(a.shape(), "inner", "rows") + " transposed"
                            : described(a.shape(), "rows", "inner"));
}
std::string described_b(const Tensor& b, bool transposed) {
  return "b " + (transposed ? described(b.shape(), "columns", "inner") + " transposed"
                            : described(b.shape(), "inner", "columns"));
}

Sizes checked(const Tensor& a, const Tensor& b, const MatmulOptions& options) {
  detail::check_floating("matmul", a, "a");
  detail::check_floating("matmul", b, "b");
  detail::check_same_dtype("matmul", a, b);
  if (a.rank() < 2 || b.rank() < 2) {
    detail::fail<ShapeError>(
        fmt::format("matmul: needs matrices, rank 2 or more: a {} times b {}; reshape a vector to "
                    "[1, n] or [n, 1]",
                    to_string(a.shape()), to_string(b.shape())));
  }
  if (a.rank() != b.rank()) {
    detail::fail<ShapeError>(fmt::format(
        "matmul: ranks differ: a {} times b {}: {} is not {}; reshape one to have leading axes of "
        "size 1",
        to_string(a.shape()), to_string(b.shape()), a.rank(), b.rank()));
  }
  Sizes s;
  s.m = a.dim(options.transpose_a ? -1 : -2);
  s.k = a.dim(options.transpose_a ? -2 : -1);
  s.n = b.dim(options.transpose_b ? -2 : -1);
  const std::int64_t inner_b = b.dim(options.transpose_b ? -1 : -2);
  if (s.k != inner_b) {
    detail::fail<ShapeError>(fmt::format("matmul: inner sizes differ: {} times {}: {} is not {}",
                                         described_a(a, options.transpose_a),
                                         described_b(b, options.transpose_b), s.k, inner_b));
  }
  s.batch_a = without_matrix(a.shape());
  s.batch_b = without_matrix(b.shape());
  s.batch = s.batch_a;
  for (int axis = 0; axis < s.batch.rank(); ++axis) {
    if (s.batch_b[axis] == s.batch_a[axis] || s.batch_b[axis] == 1) continue;
    if (s.batch_a[axis] != 1) {
      detail::fail<ShapeError>(
          fmt::format("matmul: batch sizes differ on axis {}: {} times {}: {} is not {}", axis,
                      described_a(a, options.transpose_a), described_b(b, options.transpose_b),
                      s.batch_a[axis], s.batch_b[axis]));
    }
    s.batch = s.batch.with(axis, s.batch_b[axis]);
  }
  return s;
}

// Sizes of the trailing batch axes along which b repeats while a moves: their rows fold into one
// product. 1 when nothing folds.
std::int64_t folded(const Sizes& s, bool transpose_a) {
  std::int64_t count = 1;
  if (transpose_a) return count;
  for (int axis = s.batch.rank() - 1; axis >= 0; --axis) {
    if (s.batch_b[axis] != 1) break;
    count *= s.batch[axis];
  }
  return count;
}

template <class T>
void multiply(const Tensor& a, const Tensor& b, Tensor& y, const Sizes& s,
              const MatmulOptions& options) {
  const detail::BroadcastPlan plan = detail::broadcast_plan(s.batch_a, s.batch_b, s.batch);
  const std::int64_t a_size = s.m * s.k;
  const std::int64_t b_size = s.k * s.n;
  const bool fold = !options.transpose_a && plan.inner_b == 0;
  detail::GemmArgs<T> product;
  product.transpose_a = options.transpose_a;
  product.transpose_b = options.transpose_b;
  product.m = fold ? s.m * plan.inner : s.m;
  product.n = s.n;
  product.k = s.k;
  product.a = detail::in<T>(a);
  product.b = detail::in<T>(b);
  product.c = detail::out<T>(y);
  if (fold && plan.rank == 1) {
    detail::gemm_batch(product, plan.rows, plan.strides_a[0] * a_size, plan.strides_b[0] * b_size,
                       product.m * s.n);
    return;
  }
  detail::for_rows(plan, 0, plan.rows, [&](std::int64_t row, std::int64_t at_a, std::int64_t at_b) {
    detail::GemmArgs<T> args = product;
    args.a += at_a * a_size;
    args.b += at_b * b_size;
    args.c += row * plan.inner * s.m * s.n;
    if (fold || plan.inner == 1) {
      detail::gemm(args);
    } else {
      detail::gemm_batch(args, plan.inner, plan.inner_a * a_size, plan.inner_b * b_size, s.m * s.n);
    }
  });
}

Tensor gradient_a(const Tensor& dy, const Tensor& b, const Shape& shape, MatmulOptions options) {
  const bool tb = options.transpose_b;
  return detail::sum_to(options.transpose_a
                            ? matmul(b, dy, {.transpose_a = tb, .transpose_b = true})
                            : matmul(dy, b, {.transpose_a = false, .transpose_b = !tb}),
                        shape);
}

Tensor gradient_b(const Tensor& dy, const Tensor& a, const Shape& shape, MatmulOptions options) {
  const bool ta = options.transpose_a;
  return detail::sum_to(options.transpose_b
                            ? matmul(dy, a, {.transpose_a = true, .transpose_b = ta})
                            : matmul(a, dy, {.transpose_a = !ta, .transpose_b = false}),
                        shape);
}

// x [l.., t.., rows, columns] with the axes t (the last ones, `count` elements in all) moved into
// the rows: [l.., t * rows, columns].
Tensor with_rows_folded(const Tensor& x, std::int64_t count) {
  Shape shape = x.shape();
  int axis = shape.rank() - 3;
  std::int64_t left = count;
  for (; left > 1; --axis) {
    left /= shape[axis];
    shape = shape.with(axis, 1);
  }
  return reshape(x, shape.with(-2, count * x.dim(-2)));
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b, MatmulOptions options, CallSite at) {
  const OpCall call(at);
  const Sizes s = checked(a, b, options);
  detail::check_gemm_sizes("matmul", s.m, s.n, s.k);
  Tensor y = detail::with_float("matmul", a.dtype(), [&](auto zero) {
    using T = decltype(zero);
    Tensor product = detail::empty(s.batch.appended(s.m).appended(s.n), a.dtype());
    if (product.size() > 0) multiply<T>(a, b, product, s, options);
    return product;
  });
  return record("matmul", y)
      .turns_signs()
      .input(a, [b, shape = a.shape(),
                 options](const Tensor& dy) { return gradient_a(dy, b, shape, options); })
      .input(b, [a, shape = b.shape(), options,
                 count = folded(s, options.transpose_a)](const Tensor& dy) {
        return gradient_b(with_rows_folded(dy, count), with_rows_folded(a, count), shape, options);
      });
}

namespace detail {

OpEntry matmul_entry() {
  return {"matmul",
          "products",
          "y_ij = sum_k a_ik b_kj",
          "da = dy b^T; db = a^T dy",
          true,
          true,
          [](DType dtype) {
            struct Case {
              Shape a;
              Shape b;
              MatmulOptions options;
              const char* note;
            };
            const std::vector<Case> cases{
                {{1, 1}, {1, 1}, {}, ""},
                {{3, 5}, {5, 17}, {}, ""},
                {{5, 3}, {5, 17}, {true, false}, ", a transposed"},
                {{3, 5}, {17, 5}, {false, true}, ", b transposed"},
                {{5, 3}, {17, 5}, {true, true}, ", both transposed"},
                {{67, 2}, {2, 3}, {}, ""},
                {{2, 3, 5, 2}, {2, 3, 2, 7}, {}, ""},
                {{2, 3, 5, 2}, {1, 1, 2, 7}, {}, ", one b for all"},
                {{2, 3, 2, 5}, {1, 1, 7, 2}, {true, true}, ", one b for all, both transposed"},
                {{2, 3, 5, 2}, {2, 1, 2, 7}, {}, ", one b for three"},
                {{1, 3, 5, 2}, {2, 1, 2, 7}, {}, ", both stretched"},
                {{1, 2, 3}, {4, 5, 3}, {false, true}, ", one a for all, b transposed"},
                {{3, 0}, {0, 5}, {}, ", nothing to sum"},
                {{0, 5}, {5, 2}, {}, ""},
                {{0, 2, 3}, {1, 3, 2}, {}, ""},
                {{2, 1, 3, 1, 1, 2, 2, 3}, {2, 1, 1, 1, 1, 2, 3, 2}, {}, ", rank 8"}};
            std::vector<OpSample> samples;
            for (const Case& c : cases) {
              OpSample sample{fmt::format("{} times {}{}", to_string(c.a), to_string(c.b), c.note),
                              {sample_values(c.a, dtype, 1), sample_values(c.b, dtype, 2)}};
              sample.call = [options = c.options](const std::vector<Tensor>& x) {
                return std::vector<Tensor>{matmul(x[0], x[1], options)};
              };
              samples.push_back(std::move(sample));
            }
            return samples;
          }};
}

}  // namespace detail
}  // namespace tapehead
