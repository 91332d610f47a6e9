#include <array>
#include <cmath>

#include <tapehead/ops.hpp>

#include "gradcheck/known_faults.hpp"

namespace tapehead::detail {

namespace {

using Tensors = std::vector<Tensor>;

constexpr std::int64_t kBatch = 2;
constexpr std::int64_t kHeads = 2;
constexpr std::int64_t kTime = 5;
constexpr std::int64_t kWidth = 4;

Tensor sample(std::uint64_t salt) {
  Rng rng = Rng(31, Stream::check).fork(salt);
  return randn({kBatch, kHeads, kTime, kWidth}, rng, DType::f64);
}

Mask mask() { return Mask::causal(kTime) & Mask::lengths({5, 3}, kTime); }

// Scores, weights and their gradients as a hand-written backward pass has them.
struct Backward {
  Tensor q, k, v, dy;
  double scale = 1 / std::sqrt(static_cast<double>(kWidth));

  [[nodiscard]] Tensor scores() const {
    return scale * matmul(q, k, {false, true});  // [B,H,T,S]
  }
  [[nodiscard]] Tensor weights(const Mask& seen) const { return masked_softmax(scores(), seen); }
  [[nodiscard]] Tensor weights_gradient() const { return matmul(dy, v, {false, true}); }

  // [dq, dk, dv] from the gradient of the scores and from weights.
  [[nodiscard]] std::array<Tensor, 3> spread(const Tensor& ds, const Tensor& p) const {
    return {scale * matmul(ds, k), scale * matmul(ds, q, {true, false}),
            matmul(p, dy, {true, false})};
  }
};

// dS = P (dP - sum_j P dP)
Tensor softmax_backward(const Tensor& p, const Tensor& dp, int axis) {
  return p * (dp - sum(p * dp, axis, keep));
}

std::array<Tensor, 3> mask_dropped(const Backward& b) {
  const Tensor p = b.weights(Mask());
  return b.spread(softmax_backward(p, b.weights_gradient(), -1), p);
}

std::array<Tensor, 3> wrong_axis(const Backward& b) {
  const Tensor p = b.weights(mask());
  return b.spread(softmax_backward(p, b.weights_gradient(), -2), p);
}

std::array<Tensor, 3> no_row_sum(const Backward& b) {
  const Tensor p = b.weights(mask());
  return b.spread(p * b.weights_gradient(), p);
}

// Visible keys are right; blocked ones get what they would have got unmasked.
std::array<Tensor, 3> through_blocked_keys(const Backward& b) {
  const Tensor seen = mask().dense(kBatch, kHeads, kTime, kTime);
  const Tensor right = b.weights(mask());
  const Tensor p = where(seen, right, b.weights(Mask()));
  const Tensor ds = where(seen, softmax_backward(right, b.weights_gradient(), -1), p);
  return b.spread(ds, p);
}

}  // namespace

std::vector<KnownFault> attention_faults() {
  const Tensors in{sample(1), sample(2), sample(3)};
  const TensorFunction function = [](const Tensors& x) {
    return Tensors{attention(x[0], x[1], x[2], mask())};
  };
  std::vector<KnownFault> faults;
  const auto plant = [&](const char* name, auto wrong, std::initializer_list<int> inputs) {
    for (const int i : inputs) {
      faults.push_back({"attention", i, name, function, in, [=](const Tensor& dy, const Tensor&) {
                          return wrong({in[0], in[1], in[2], dy})[static_cast<std::size_t>(i)];
                        }});
    }
  };
  for (const int i : {0, 1}) {
    faults.push_back(
        {"attention", i, "missing 1/sqrt(d)", function, in, [](const Tensor&, const Tensor& right) {
           return std::sqrt(static_cast<double>(kWidth)) * right;
         }});
  }
  plant("mask dropped in backward", mask_dropped, {0, 1, 2});
  plant("softmax over the wrong axis", wrong_axis, {0, 1});
  plant("dP not corrected by the row sum", no_row_sum, {0, 1});
  plant("gradient flowing through a blocked key", through_blocked_keys, {0, 1, 2});
  return faults;
}

}  // namespace tapehead::detail
