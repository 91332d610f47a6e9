// Affine map of the last axis: one product over all rows, which starts from the bias.
//   y = x W + b:   dx = dy W^T     dW = x^T dy     db = sum over rows of dy
// x [.., in] is one matrix [rows, in] in memory, whatever its rank. dW is a long sum over few
// outputs, which the product cuts along the rows.
#include <fmt/format.h>

#include <tapehead/record.hpp>

#include "core/access.hpp"
#include "core/gemm.hpp"
#include "ops/catalog.hpp"

namespace tapehead {
namespace {

std::string described_x(const Shape& shape) {
  if (shape.rank() == 3) return detail::named(shape, {"batch", "time", "in"});
  return shape.rank() == 2 ? detail::named(shape, {"batch", "in"}) : detail::named(shape, {"in"});
}

// The last axis as columns, all others as rows; the size alone cannot say when it is 0.
Shape matrix(const Shape& shape) {
  std::int64_t rows = 1;
  for (int axis = 0; axis + 1 < shape.rank(); ++axis) rows *= shape[axis];
  return {rows, shape[-1]};
}

void check(const Tensor& x, const Tensor& weight, const Tensor* bias) {
  detail::check_floating("linear", x);
  detail::check_floating("linear", weight, "weight");
  detail::check_same_dtype("linear", x, weight);
  if (x.rank() < 1 || weight.rank() != 2) {
    detail::fail<ShapeError>(
        fmt::format("linear: needs x [.., in] and weight [in, out], got x {} and weight {}",
                    to_string(x.shape()), to_string(weight.shape())));
  }
  if (x.dim(-1) != weight.dim(0)) {
    detail::fail<ShapeError>(fmt::format(
        "linear: inner sizes differ: x {} times weight {}: {} is not {}", described_x(x.shape()),
        detail::named(weight.shape(), {"in", "out"}), x.dim(-1), weight.dim(0)));
  }
  if (bias == nullptr) return;
  detail::check_floating("linear", *bias, "bias");
  detail::check_same_dtype("linear", weight, *bias);
  if (bias->rank() != 1 || bias->dim(0) != weight.dim(1)) {
    detail::fail<ShapeError>(fmt::format(
        "linear: bias {} does not fit weight {}: it must be [{}], one for each output",
        to_string(bias->shape()), detail::named(weight.shape(), {"in", "out"}), weight.dim(1)));
  }
}

Tensor affine(const Tensor& x, const Tensor& weight, const Tensor* bias) {
  check(x, weight, bias);
  const Shape rows = matrix(x.shape());
  const std::int64_t outputs = weight.dim(1);
  detail::check_gemm_sizes("linear", rows[0], outputs, rows[1]);
  Tensor y = detail::with_float("linear", x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    Tensor product = detail::empty(x.shape().with(-1, outputs), x.dtype());
    detail::GemmArgs<T> args;
    args.m = rows[0];
    args.n = outputs;
    args.k = rows[1];
    args.a = detail::in<T>(x);
    args.b = detail::in<T>(weight);
    args.c = detail::out<T>(product);
    args.bias = bias == nullptr ? nullptr : detail::in<T>(*bias);
    detail::gemm(args);
    return product;
  });
  Recorder recorder = record("linear", y);
  recorder.turns_signs()
      .input(x,
             [weight, shape = x.shape()](const Tensor& dy) {
               return reshape(matmul(reshape(dy, matrix(dy.shape())), weight,
                                     {.transpose_a = false, .transpose_b = true}),
                              shape);
             })
      .input(weight, [x](const Tensor& dy) {
        return matmul(reshape(x, matrix(x.shape())), reshape(dy, matrix(dy.shape())),
                      {.transpose_a = true, .transpose_b = false});
      });
  if (bias != nullptr) {
    recorder.input(*bias, [](const Tensor& dy) { return sum(reshape(dy, matrix(dy.shape())), 0); });
  }
  return recorder;
}

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, CallSite at) {
  const OpCall call(at);
  return affine(x, weight, nullptr);
}
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias, CallSite at) {
  const OpCall call(at);
  return affine(x, weight, &bias);
}

namespace detail {
namespace {

// The same in plain ops.
std::vector<Tensor> linear_composition(const std::vector<Tensor>& in) {
  const Tensor product = matmul(reshape(in[0], matrix(in[0].shape())), in[1]);
  const Shape shape = in[0].shape().with(-1, in[1].dim(1));
  if (in.size() == 2) return {reshape(product, shape)};
  return {reshape(product + broadcast_to(in[2], product.shape()), shape)};
}

}  // namespace

OpEntry linear_entry() {
  return {
      "linear",
      "products",
      "y = x W + b",
      "dx = dy W^T; dW = x^T dy; db = sum over rows of dy",
      true,
      true,
      [](DType dtype) {
        struct Case {
          Shape x;
          std::int64_t outputs;
          bool with_bias;
        };
        std::vector<OpSample> samples;
        for (const Case& c : std::vector<Case>{{{1}, 1, true},
                                               {{17}, 3, true},
                                               {{3, 5, 17}, 7, true},
                                               {{3, 5, 17}, 7, false},
                                               {{67, 3}, 2, true},
                                               {{2, 3}, 67, true},
                                               {{2, 1, 3, 2}, 1, true},
                                               {{0, 3}, 2, true},
                                               {{2, 0}, 3, true},
                                               {{2, 3}, 0, true},
                                               {{2, 1, 3, 1, 1, 2, 1, 2}, 3, true}}) {
          OpSample sample{
              fmt::format("{} to {}{}", to_string(c.x), c.outputs, c.with_bias ? "" : ", no bias"),
              {sample_values(c.x, dtype, 1), sample_values({c.x[-1], c.outputs}, dtype, 2)}};
          if (c.with_bias) sample.inputs.push_back(sample_values({c.outputs}, dtype, 3));
          sample.call = [](const std::vector<Tensor>& x) {
            return std::vector<Tensor>{x.size() == 2 ? linear(x[0], x[1])
                                                     : linear(x[0], x[1], x[2])};
          };
          sample.composition = linear_composition;
          samples.push_back(std::move(sample));
        }
        return samples;
      }};
}

}  // namespace detail
}  // namespace tapehead
