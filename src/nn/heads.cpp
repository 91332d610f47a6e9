// What turns an encoded sequence into class scores: at every position, or once for the sequence.
#include <fmt/format.h>

#include "core/access.hpp"
#include "nn/options.hpp"

namespace tapehead {
namespace {

constexpr const char* kClassifier = "classifier_head";

std::int64_t checked_width(const Scope& scope, std::int64_t width, std::int64_t classes) {
  detail::positive(scope, "token_head", "classes", classes);
  return detail::positive(scope, "token_head", "width", width);
}

void check_lengths(const Tensor& x, const std::vector<std::int64_t>& lengths) {
  if (static_cast<std::int64_t>(lengths.size()) != x.dim(0)) {
    detail::fail<ShapeError>(
        fmt::format("{}: {} lengths for a batch of {}", kClassifier, lengths.size(), x.dim(0)));
  }
  for (std::size_t b = 0; b < lengths.size(); ++b) {
    if (lengths[b] < 1 || lengths[b] > x.dim(1)) {
      detail::fail<ValueError>(fmt::format(
          "{}: sample {} has length {}, which is not in 1..{}: there must be a position "
          "to average over",
          kClassifier, b, lengths[b], x.dim(1)));
    }
  }
}

// Mean over the first lengths[b] positions. The others are selected away, not multiplied by 0.
Tensor mean_of_real(const Tensor& x, const std::vector<std::int64_t>& lengths) {
  const std::int64_t batch = x.dim(0);
  const std::int64_t time = x.dim(1);
  Tensor padding = detail::empty({batch, time, 1}, DType::boolean);
  std::vector<double> shares;
  for (std::int64_t b = 0; b < batch; ++b) {
    const std::int64_t length = lengths[static_cast<std::size_t>(b)];
    shares.push_back(1.0 / static_cast<double>(length));
    for (std::int64_t t = 0; t < time; ++t) {
      detail::out<unsigned char>(padding)[b * time + t] = t < length ? 0 : 1;
    }
  }
  const Tensor total = sum(masked_fill(x, padding, 0), 1);  // [B,D]
  return total * cast(tensor(std::span<const double>(shares), {batch, 1}), x.dtype());
}

}  // namespace

TokenHead::TokenHead(const Scope& scope, std::int64_t width, std::int64_t classes)
    : inner(scope / "inner", checked_width(scope, width, classes), width),
      norm(scope / "norm", width),
      output(scope / "output", width, classes),
      path(scope.path()) {}

Tensor TokenHead::operator()(const Tensor& x, CallSite at) const {
  const InModule here(path, at);
  return output(relu(norm(inner(x))));
}

ClassifierHead::ClassifierHead(const Scope& scope, std::int64_t width, std::int64_t classes)
    : output(scope / "output", width, classes), path(scope.path()) {}

Tensor ClassifierHead::operator()(const Tensor& x, const std::vector<std::int64_t>& lengths,
                                  CallSite at) const {
  const InModule here(path, at);
  detail::check_sequence(kClassifier, "x", x, output.weight.shape()[0]);
  if (lengths.empty()) return output(mean(x, 1));
  check_lengths(x, lengths);
  return output(mean_of_real(x, lengths));
}

}  // namespace tapehead
