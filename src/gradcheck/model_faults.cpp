#include <tapehead/ops.hpp>

#include "gradcheck/known_faults.hpp"

namespace tapehead::detail {

namespace {

using Tensors = std::vector<Tensor>;

Tensor sample(const Shape& shape, std::uint64_t salt) {
  Rng rng = Rng(41, Stream::check).fork(salt);
  return randn(shape, rng, DType::f64);
}

Tensor ids(std::initializer_list<std::int64_t> values) {
  const std::vector<std::int64_t> list(values);
  return tensor(std::span<const std::int64_t>(list), {static_cast<std::int64_t>(list.size())});
}

Tensor no_gradient(const Tensor&, const Tensor& right) { return right * 0.0; }

}  // namespace

// d mean / d logits = (softmax - target) / count, for the rows that count.
std::vector<KnownFault> loss_faults() {
  constexpr std::int64_t kClasses = 5;
  constexpr std::int64_t kIgnored = -1;
  const Tensor targets = ids({0, 3, kIgnored, 4, 1, 3});
  const Tensor named = ids({0, 3, 0, 4, 1, 3});
  CrossEntropyOptions options;
  options.ignore = kIgnored;
  options.label_smoothing = 0.1;
  const Tensors in{sample({6, kClasses}, 1)};
  const TensorFunction function = [=](const Tensors& x) {
    return Tensors{cross_entropy_sums(x[0], targets, options).sum};
  };
  const Tensor p = softmax(in[0]);
  const Tensor hot = one_hot(named, kClasses, DType::f64);
  const Tensor smooth = 0.9 * hot + 0.1 / static_cast<double>(kClasses);
  const Tensor counts = tensor({{1.0}, {1.0}, {0.0}, {1.0}, {1.0}, {1.0}}, DType::f64);
  const auto spread = [](const Tensor& dy, const Tensor& g) {
    return broadcast_to(reshape(dy, {1, 1}), g.shape()) * g;
  };
  std::vector<KnownFault> faults;
  faults.push_back(
      {"cross_entropy", 0, "smoothing without its gradient", function, in,
       [=](const Tensor& dy, const Tensor&) { return spread(dy, (p - hot) * counts); }});
  faults.push_back({"cross_entropy", 0, "ignored rows count", function, in,
                    [=](const Tensor& dy, const Tensor&) { return spread(dy, p - smooth); }});
  faults.push_back({"cross_entropy", 0, "target not subtracted", function, in,
                    [=](const Tensor& dy, const Tensor&) { return spread(dy, p * counts); }});
  faults.push_back({"cross_entropy", 0, "mean over all rows", function, in,
                    [](const Tensor&, const Tensor& right) { return right * (5.0 / 6.0); }});
  return faults;
}

std::vector<KnownFault> other_faults() {
  std::vector<KnownFault> faults;
  {
    const Tensor looked_up = ids({2, 0, 2, 2, 3});
    const Tensors in{sample({4, 3}, 2)};
    faults.push_back({"embedding", 0, "repeated ids overwrite",
                      [=](const Tensors& x) { return Tensors{embedding(x[0], looked_up)}; }, in,
                      [](const Tensor& dy, const Tensor& right) {
                        // Row 2 keeps the last of its three gradients.
                        const Tensor last = slice(dy, 0, 3, 4);
                        return concat({slice(right, 0, 0, 2), last, slice(right, 0, 3, 4)}, 0);
                      }});
  }
  {
    const Tensors in{sample({4, 6}, 3)};
    faults.push_back({"dropout", 0, "1/(1-p) missing in backward",
                      [](const Tensors& x) {
                        Rng rng(5, Stream::dropout);
                        return Tensors{dropout(x[0], 0.25, rng)};
                      },
                      in, [](const Tensor&, const Tensor& right) { return right * 0.75; }});
    faults.push_back({"dropout", 0, "mask forgotten in backward",
                      [](const Tensors& x) {
                        Rng rng(5, Stream::dropout);
                        return Tensors{dropout(x[0], 0.25, rng)};
                      },
                      in, [](const Tensor& dy, const Tensor&) { return dy / 0.75; }});
    const Tensor blocked = greater(sample({4, 6}, 4), zeros({4, 6}, DType::f64));
    faults.push_back({"masked_fill", 0, "mask dropped in backward",
                      [=](const Tensors& x) { return Tensors{masked_fill(x[0], blocked, -1e9)}; },
                      in, [](const Tensor& dy, const Tensor&) { return dy; }});
  }
  {
    constexpr double kHeads = 4;
    const Tensors in{sample({2, 3, 8}, 5), sample({8, 8}, 6), sample({8}, 7)};
    faults.push_back({"linear", 2, "bias gradient counted per head",
                      [](const Tensors& x) {
                        const Tensor q = split_heads(linear(x[0], x[1], x[2]), 4);
                        return Tensors{attention(q, q, q)};
                      },
                      in, [](const Tensor&, const Tensor& right) { return right * kHeads; }});
  }
  {
    // One table that both reads tokens in and scores them at the end.
    const Tensor tokens = ids({1, 4, 0, 2});
    const Tensors in{sample({5, 6}, 8)};
    const TensorFunction tied = [=](const Tensors& x) {
      return Tensors{matmul(tanh(embedding(x[0], tokens)), x[0], {false, true})};
    };
    faults.push_back({"embedding", 0, "tied weight counted once", tied, in, no_gradient});
    faults.push_back({"matmul", 1, "tied weight counted once", tied, in, no_gradient});
  }
  return faults;
}

}  // namespace tapehead::detail
