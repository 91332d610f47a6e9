#include "gradcheck/faults.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "core/access.hpp"

namespace tapehead::detail {

namespace {

constexpr double kEqual = 1e-12;

template <class F>
Tensor mapped(const Tensor& x, F f) {
  Tensor y = empty(x.shape(), x.dtype());
  const double* from = in<double>(x);
  double* to = out<double>(y);
  for (std::int64_t i = 0; i < x.size(); ++i) to[i] = f(i, from[i]);
  return y;
}

Tensor scaled(const Tensor& x, double factor) {
  return mapped(x, [factor](std::int64_t, double v) { return factor * v; });
}

double largest(const Tensor& x) {
  double most = 0;
  for (const double v : x.data<double>()) most = std::max(most, std::abs(v));
  return most;
}

Tensor without_largest(const Tensor& x) {
  const std::span<const double> values = x.data<double>();
  const auto found = std::max_element(values.begin(), values.end(),
                                      [](double a, double b) { return std::abs(a) < std::abs(b); });
  const std::int64_t at = found - values.begin();
  return mapped(x, [at](std::int64_t i, double v) { return i == at ? 0.0 : v; });
}

// [.., M, N] read as if it were [.., N, M].
Tensor transposed(const Tensor& x) {
  const std::int64_t rows = x.dim(-2);
  const std::int64_t columns = x.dim(-1);
  const double* from = in<double>(x);
  return mapped(x, [=](std::int64_t i, double) {
    const std::int64_t matrix = i / (rows * columns);
    const std::int64_t within = i % (rows * columns);
    const std::int64_t row = within % rows;
    const std::int64_t column = within / rows;
    return from[matrix * rows * columns + row * columns + column];
  });
}

// How many output elements share one input element, or the reverse; 1 when neither.
double summed_terms(const Edge& edge) {
  const auto inputs = static_cast<double>(edge.input_shape.size());
  const auto outputs = static_cast<double>(edge.output_shape.size());
  if (inputs == 0 || outputs == 0) return 1;
  return std::max(inputs, outputs) / std::min(inputs, outputs);
}

// The output's axes along which the input, aligned at the last axis, was stretched. An op that puts
// its input at one place of a larger output has looks of it, but sums nothing.
std::vector<int> stretched_axes(const Edge& edge) {
  if (edge.op == "concat" || edge.op == "pad") return {};
  const int missing = edge.output_shape.rank() - edge.input_shape.rank();
  std::vector<int> axes;
  if (missing < 0) return axes;
  for (int a = 0; a < edge.output_shape.rank(); ++a) {
    const std::int64_t size = a < missing ? 1 : edge.input_shape[a - missing];
    if (size == 1 && edge.output_shape[a] > 1) {
      axes.push_back(a);
    } else if (a >= missing && size != edge.output_shape[a]) {
      return {};  // no broadcast: another kind of op
    }
  }
  return axes;
}

// 0 wherever the index along one of `axes` is not 0.
Tensor first_slice(const Tensor& x, const std::vector<int>& axes) {
  return mapped(x, [&](std::int64_t i, double v) {
    for (int a = x.rank() - 1; a >= 0; --a) {
      const std::int64_t index = i % x.dim(a);
      i /= x.dim(a);
      if (index != 0 && std::find(axes.begin(), axes.end(), a) != axes.end()) return 0.0;
    }
    return v;
  });
}

bool equal_sides(const TapeSide& a, const TapeSide& b) {
  for (std::size_t k = 0; k < a.gradients.size(); ++k) {
    for (std::size_t v = 0; v < a.gradients[k].size(); ++v) {
      const double scale = largest(a.gradients[k][v]);
      const std::span<const double> x = a.gradients[k][v].data<double>();
      const std::span<const double> y = b.gradients[k][v].data<double>();
      for (std::size_t i = 0; i < x.size(); ++i) {
        if (!(std::abs(x[i] - y[i]) <= kEqual * scale)) return false;
      }
    }
  }
  return true;
}

}  // namespace

const std::vector<Fault>& all_faults() {
  static const std::vector<Fault> faults{
      Fault::zero,       Fault::sign,         Fault::tenth,     Fault::millionth, Fault::dropped,
      Fault::transposed, Fault::mean_for_sum, Fault::unreduced, Fault::previous,
  };
  return faults;
}

const char* name_of(Fault fault) {
  switch (fault) {
    case Fault::zero: return "zero";
    case Fault::sign: return "sign";
    case Fault::tenth: return "times 1.1";
    case Fault::millionth: return "times 1+1e-6";
    case Fault::dropped: return "one element dropped";
    case Fault::transposed: return "transposed";
    case Fault::mean_for_sum: return "mean for sum";
    case Fault::unreduced: return "broadcast not summed";
    case Fault::previous: break;
  }
  return "previous cotangent";
}

std::vector<Edge> edges_of(const Checker& checker) {
  std::map<std::pair<int, int>, Edge> edges;
  (void)checker.subject().tape_side([&](const GradientCall& call) {
    Edge& edge = edges[{call.node, call.input}];
    edge.op = call.op;
    edge.node = call.node;
    edge.input = call.input;
    edge.output_shape = call.output_gradient.shape();
    edge.input_shape = call.input_gradient.shape();
    edge.gradients.push_back(call.input_gradient);
    edge.output_gradients.push_back(call.output_gradient);
    return call.input_gradient;
  });
  std::vector<Edge> list;
  for (auto& item : edges) {
    if (item.second.gradients.size() == checker.tape().gradients.size() &&
        item.second.gradients.front().dtype() == DType::f64)
      list.push_back(std::move(item.second));
  }
  return list;
}

GradientHook plant(const Edge& edge, std::vector<Tensor> gradients) {
  const auto calls = std::make_shared<std::size_t>(0);
  return [calls, gradients = std::move(gradients), node = edge.node,
          input = edge.input](const GradientCall& call) {
    if (call.node != node || call.input != input) return call.input_gradient;
    return gradients[(*calls)++ % gradients.size()];
  };
}

std::vector<Tensor> faulty(Fault fault, const Edge& edge, const Checker& checker) {
  std::vector<Tensor> result;
  const auto each = [&](const auto& f) {
    for (const Tensor& g : edge.gradients) result.push_back(f(g));
    return result;
  };
  switch (fault) {
    case Fault::zero: return each([](const Tensor& g) { return scaled(g, 0); });
    case Fault::sign: return each([](const Tensor& g) { return scaled(g, -1); });
    case Fault::tenth: return each([](const Tensor& g) { return scaled(g, 1.1); });
    case Fault::millionth: return each([](const Tensor& g) { return scaled(g, 1 + 1e-6); });
    case Fault::dropped:
      if (edge.input_shape.size() < 2) return {};
      return each(without_largest);
    case Fault::transposed:
      if (edge.input_shape.rank() < 2 || edge.input_shape[-1] < 2 || edge.input_shape[-2] < 2)
        return {};
      return each(transposed);
    case Fault::mean_for_sum: {
      const double terms = summed_terms(edge);
      if (terms == 1) return {};
      return each([terms](const Tensor& g) { return scaled(g, 1 / terms); });
    }
    case Fault::unreduced: {
      const std::vector<int> axes = stretched_axes(edge);
      if (axes.empty()) return {};
      // Gradient functions are linear in the cotangent: what the first slice alone would give comes
      // from a cotangent that is 0 everywhere else.
      std::size_t k = 0;
      result.assign(edge.gradients.size(), Tensor());
      (void)checker.subject().tape_side(
          [&](const GradientCall& call) {
            if (call.node == edge.node && call.input == edge.input)
              result[k++] = call.input_gradient;
            return call.input_gradient;
          },
          [&](const GradientCall& call) {
            return call.node == edge.node ? first_slice(call.output_gradient, axes)
                                          : call.output_gradient;
          });
      return result;
    }
    case Fault::previous: break;
  }
  result.push_back(edge.gradients.front());
  for (std::size_t k = 1; k < edge.gradients.size(); ++k) result.push_back(edge.gradients[k - 1]);
  return result;
}

Planted try_fault(Checker& checker, const Edge& edge, std::vector<Tensor> gradients) {
  Planted planted;
  planted.zero = std::all_of(edge.gradients.begin(), edge.gradients.end(),
                             [](const Tensor& g) { return largest(g) == 0; });
  const TapeSide side = checker.subject().tape_side(plant(edge, std::move(gradients)));
  if (equal_sides(checker.tape(), side)) {
    planted.outcome = Outcome::equivalent;
    return planted;
  }
  planted.report = checker.judged(side);
  planted.outcome = planted.report.passed() ? Outcome::missed : Outcome::caught;
  return planted;
}

}  // namespace tapehead::detail
