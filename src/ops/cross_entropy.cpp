// cross_entropy of logits with class ids, straight from the logits
//   p = softmax(x) of a row of V logits, t its target, s the label smoothing
//   row:  l    = (1 - s) (-ln p_t) + s mean_j (-ln p_j)
//              = ln sum_j e^(x_j - m) + (1 - s) (m - x_t) + s (m - mean_j x_j),   m = max_j x_j
//   sum = sum of l over the rows that count;   mean = sum / count, or 0 when nothing counts
//         dx_j = (p_j - (1 - s) [j = t] - s / V) dsum
// A row counts unless its target is `ignore`; nothing in one that does not, NaN or not, reaches the
// loss, and its gradient is 0. `ignore` skips rows: it takes no class out of the softmax.
// A logit of -inf is a class with p = 0. Where it is the target, or with smoothing > 0, the loss
// truly is +inf; the gradient is still the finite one above. A row that is all -inf has no p: its
// loss is +inf and its gradient 0. NaN and +inf logits give NaN.
// Smoothing as in PyTorch; source: Szegedy et al., "Rethinking the Inception architecture" (2016).
#include <cmath>

#include <fmt/format.h>

#include <tapehead/record.hpp>

#include "core/access.hpp"
#include "core/threads.hpp"
#include "ops/catalog.hpp"
#include "ops/ids.hpp"
#include "ops/rows.hpp"

namespace tapehead {
namespace {

using detail::Rows;

// Checks everything; returns the number of rows that count.
std::int64_t checked_count(const Tensor& logits, const Tensor& targets,
                           const CrossEntropyOptions& options) {
  detail::check_floating("cross_entropy", logits, "logits");
  detail::check_dtype("cross_entropy", targets, DType::i64, "targets");
  if (logits.rank() == 0 || targets.shape() != logits.shape().without(-1)) {
    detail::fail<ShapeError>(fmt::format(
        "cross_entropy: logits {} need one target for each of their rows, but targets are {}; "
        "nothing is broadcast",
        detail::named(logits.shape(), {"classes"}), to_string(targets.shape())));
  }
  if (!(options.label_smoothing >= 0 && options.label_smoothing < 1)) {
    detail::fail<ValueError>(
        fmt::format("cross_entropy: label smoothing must be at least 0 and below 1, got {}",
                    options.label_smoothing));
  }
  const std::int64_t classes = logits.dim(-1);
  const auto* ids = detail::in<std::int64_t>(targets);
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < targets.size(); ++i) {
    if (options.ignore == ids[i]) continue;
    if (ids[i] < 0 || ids[i] >= classes) {
      const std::string range = classes == 0
                                    ? std::string("every range: the logits have no classes")
                                    : fmt::format("0..{} (V = {} classes)", classes - 1, classes);
      detail::fail<IndexError>(fmt::format(
          "cross_entropy: target {} at {} is outside {}{}", ids[i],
          detail::position(targets.shape(), i), range,
          options.ignore ? fmt::format(" and is not the ignored value {}", *options.ignore)
                         : "; to leave rows out, name their target value as `ignore`"));
    }
    ++count;
  }
  return count;
}

// sum, a scalar, and per row what p is made of: p_j = e^(x_j - shift) * factor, as [rows, 2]. The
// factor of a row that is all -inf is 0.
struct Forward {
  Tensor sum;
  Tensor scales;
};

template <class T>
double row_loss(const T* x, std::int64_t width, std::int64_t target, double smoothing, T shift,
                double total) {
  if (total == 0) return std::numeric_limits<double>::infinity();
  const auto m = static_cast<double>(shift);
  double loss = std::log(total) + (1 - smoothing) * (m - static_cast<double>(x[target]));
  if (smoothing > 0) {
    loss += smoothing *
            detail::lane_sum(width, [=](std::int64_t j) { return m - static_cast<double>(x[j]); }) /
            static_cast<double>(width);
  }
  return loss;
}

template <class T>
Forward cross_entropy_rows(const Tensor& logits, const Tensor& targets,
                           const CrossEntropyOptions& options) {
  const Rows rows = detail::rows_of(logits);
  Forward forward{detail::empty({}, logits.dtype()),
                  detail::empty({rows.count, 2}, logits.dtype())};
  Tensor losses = detail::empty({rows.count}, DType::f64);
  const T* x = detail::in<T>(logits);
  const auto* ids = detail::in<std::int64_t>(targets);
  T* scales = detail::out<T>(forward.scales);
  double* each = detail::out<double>(losses);
  detail::for_row_blocks(rows, [&](std::int64_t first, std::int64_t count) {
    double total[detail::kRowBlock] = {};
    const std::int64_t end = first + count;
    for (std::int64_t row = first; row < end; ++row) {
      scales[2 * row] = detail::exp_shift(x + row * rows.width, rows.width);
    }
    for (std::int64_t row = first; row < end; ++row) {
      total[row - first] = detail::exp_sum(x + row * rows.width, rows.width, scales[2 * row]);
    }
    for (std::int64_t row = first; row < end; ++row) {
      const double sum = total[row - first];
      scales[2 * row + 1] = sum == 0 ? T{0} : static_cast<T>(1 / sum);
      each[row] = options.ignore == ids[row]
                      ? 0
                      : row_loss(x + row * rows.width, rows.width, ids[row],
                                 options.label_smoothing, scales[2 * row], sum);
    }
  });
  *detail::out<T>(forward.sum) =
      static_cast<T>(detail::lane_sum(rows.count, [=](std::int64_t row) { return each[row]; }));
  return forward;
}

template <class T>
Tensor cross_entropy_gradient(const Tensor& logits, const Tensor& targets, const Tensor& scales,
                              const CrossEntropyOptions& options, const Tensor& dsum) {
  const Rows rows = detail::rows_of(logits);
  Tensor result = detail::empty_like(logits);
  const T* x = detail::in<T>(logits);
  const auto* ids = detail::in<std::int64_t>(targets);
  const T* scale = detail::in<T>(scales);
  T* dx = detail::out<T>(result);
  const T dy = *detail::in<T>(dsum);
  const auto even = static_cast<T>(options.label_smoothing /
                                   static_cast<double>(std::max<std::int64_t>(1, rows.width)));
  const auto sure = static_cast<T>(1 - options.label_smoothing);
  detail::parallel_for(rows.count, detail::rows_per_chunk(rows.width),
                       [&](std::int64_t begin, std::int64_t end) {
                         for (std::int64_t row = begin; row < end; ++row) {
                           const T* from = x + row * rows.width;
                           T* to = dx + row * rows.width;
                           if (options.ignore == ids[row] || scale[2 * row + 1] == 0) {
                             std::fill_n(to, rows.width, T{0});
                             continue;
                           }
                           const T shift = scale[2 * row];
                           const T factor = scale[2 * row + 1];
                           for (std::int64_t j = 0; j < rows.width; ++j) {
                             to[j] = (detail::vector_exp(from[j] - shift) * factor - even) * dy;
                           }
                           const T p = detail::vector_exp(from[ids[row]] - shift) * factor;
                           to[ids[row]] = ((p - sure) - even) * dy;
                         }
                       });
  return result;
}

// What the composition reads: which rows do not count, and ids that all name a class.
struct PlainTargets {
  Tensor skipped;  // boolean, like the targets
  Tensor ids;      // 0 where skipped
};

PlainTargets plain_targets(const Tensor& targets, const std::optional<std::int64_t>& ignore) {
  PlainTargets plain{detail::empty(targets.shape(), DType::boolean), detail::empty_like(targets)};
  const auto* from = detail::in<std::int64_t>(targets);
  auto* skipped = detail::out<unsigned char>(plain.skipped);
  auto* ids = detail::out<std::int64_t>(plain.ids);
  for (std::int64_t i = 0; i < targets.size(); ++i) {
    skipped[i] = ignore == from[i] ? 1 : 0;
    ids[i] = skipped[i] != 0 ? 0 : from[i];
  }
  return plain;
}

// The sum in plain ops. Rows that do not count are replaced by zeros first, so that nothing in them
// reaches the sum or a gradient.
Tensor cross_entropy_composition(const Tensor& logits, const Tensor& targets,
                                 const CrossEntropyOptions& options) {
  const PlainTargets plain = plain_targets(targets, options.ignore);
  const Shape column = targets.shape().appended(1);
  const Tensor skipped = reshape(plain.skipped, column);
  const Tensor x = masked_fill(logits, broadcast_to(skipped, logits.shape()), 0);
  if (logits.size() == 0) return sum(x);
  const Tensor logs = log_softmax(x);
  const double s = options.label_smoothing;
  Tensor loss = -gather(logs, -1, reshape(plain.ids, column));
  if (s > 0) loss = (1 - s) * loss - s * mean(logs, -1, keep);
  return sum(masked_fill(loss, skipped, 0));
}

Tensor fused_sum(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options) {
  return detail::with_float("cross_entropy", logits.dtype(), [&](auto zero) -> Tensor {
    using T = decltype(zero);
    const Forward forward = cross_entropy_rows<T>(logits, targets, options);
    return record("cross_entropy", forward.sum)
        .input(logits, [logits, targets, scales = forward.scales, options](const Tensor& dsum) {
          return cross_entropy_gradient<T>(logits, targets, scales, options, dsum);
        });
  });
}

CrossEntropy with_mean(const Tensor& sum, std::int64_t count) {
  return {scale(sum, 1 / static_cast<double>(std::max<std::int64_t>(1, count))), sum, count};
}

}  // namespace

CrossEntropy cross_entropy_sums(const Tensor& logits, const Tensor& targets,
                                const CrossEntropyOptions& options, CallSite at) {
  const OpCall call(at);
  const std::int64_t count = checked_count(logits, targets, options);
  return with_mean(recording_differentiable() ? cross_entropy_composition(logits, targets, options)
                                              : fused_sum(logits, targets, options),
                   count);
}

Tensor cross_entropy(const Tensor& logits, const Tensor& targets,
                     const CrossEntropyOptions& options, CallSite at) {
  const OpCall call(at);
  return cross_entropy_sums(logits, targets, options).mean;
}

namespace detail {
namespace {

struct CrossEntropyCase {
  const char* name;
  Shape shape;
  CrossEntropyOptions options;
};

const std::vector<CrossEntropyCase>& cross_entropy_cases() {
  static const std::vector<CrossEntropyCase> cases{
      {"one row, one class", {1}, {}},
      {"[3,5,17]", {3, 5, 17}, {}},
      {"[3,5,17], class 2 ignored, smoothed", {3, 5, 17}, {2, 0.1}},
      {"[67,2]", {67, 2}, {}},
      {"[2,300], smoothed", {2, 300}, {std::nullopt, 0.3}},
      {"rank 8", {1, 2, 1, 1, 2, 1, 1, 5}, {}},
      {"no rows", {0, 3}, {}},
      {"everything ignored", {5, 1}, {0, 0}},
  };
  return cases;
}

// Element i of the targets is class 7 i mod V.
Tensor sample_targets(const Shape& logits) {
  const Shape shape = logits.without(-1);
  std::vector<std::int64_t> ids(static_cast<std::size_t>(shape.size()));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<std::int64_t>(7 * i) % logits[-1];
  }
  return tensor(std::span<const std::int64_t>(ids), shape);
}

using Outputs = std::vector<Tensor> (*)(const CrossEntropy&);

std::vector<OpSample> cross_entropy_samples(DType dtype, Outputs outputs) {
  std::vector<OpSample> samples;
  for (const CrossEntropyCase& c : cross_entropy_cases()) {
    OpSample sample{c.name, {sample_values(c.shape, dtype, 1)}};
    const Tensor targets = sample_targets(c.shape);
    sample.call = [targets, outputs, options = c.options](const std::vector<Tensor>& x) {
      return outputs(cross_entropy_sums(x[0], targets, options));
    };
    sample.composition = [targets, outputs, options = c.options](const std::vector<Tensor>& x) {
      const std::int64_t count = checked_count(x[0], targets, options);
      return outputs(with_mean(cross_entropy_composition(x[0], targets, options), count));
    };
    samples.push_back(std::move(sample));
  }
  return samples;
}

}  // namespace

OpEntry cross_entropy_entry() {
  return {"cross_entropy",
          "loss",
          "y = mean over rows of -ln softmax(x)_t, t smoothed by s",
          "dx_j = (softmax(x)_j - (1 - s) [j = t] - s / V) dy / count",
          true,
          true,
          [](DType dtype) {
            return cross_entropy_samples(
                dtype, [](const CrossEntropy& r) { return std::vector<Tensor>{r.mean}; });
          }};
}
OpEntry cross_entropy_sums_entry() {
  return {"cross_entropy_sums",
          "loss",
          "sum over rows of -ln softmax(x)_t, t smoothed by s; mean = sum / count",
          "dx_j = (softmax(x)_j - (1 - s) [j = t] - s / V) (dsum + dmean / count)",
          true,
          true,
          [](DType dtype) {
            return cross_entropy_samples(dtype, [](const CrossEntropy& r) {
              return std::vector<Tensor>{r.mean, r.sum};
            });
          }};
}

}  // namespace detail
}  // namespace tapehead
