// Find where a NaN comes from, see what a tape holds, and look at who influences whom.
#include <cstdio>
#include <string>

#include <tapehead/tapehead.hpp>

namespace th = tapehead;
using th::Tensor;

// A layer norm as one writes it in a hurry: nothing keeps the variance away from 0.
struct HastyNorm {
  HastyNorm(const th::Scope& scope, std::int64_t width)
      : gain(scope.param("gain", {width}, th::init::constant(1))), path(scope.path()) {}

  Tensor operator()(const Tensor& x) const {
    const th::InModule here(path);
    const Tensor centred = x - th::mean(x, -1, th::keep);
    const Tensor variance = th::mean(centred * centred, -1, th::keep);
    const Tensor normal = centred / th::sqrt(variance);
    return normal * th::broadcast_to(gain, x.shape());
  }

  th::Param gain;
  const char* path;
};

int main() {
  th::Params params(/*seed=*/1);
  const HastyNorm norm(params / "norm", 3);
  const Tensor good = th::tensor({{1, 2, 3}, {4, 0, 2}});
  const Tensor flat = th::tensor({{1, 2, 3}, {4, 4, 4}});  // no variance in its second row

  {
    th::Tape tape;
    const Tensor loss = th::sum(norm(tape.watch(good)));
    std::printf("What the tape holds:\n%s\n", to_string(tape).c_str());
    (void)tape.backward(loss);
  }

  try {
    th::TapeOptions options;
    options.check_finite = true;
    th::Tape tape(options);
    (void)norm(tape.watch(flat));
  } catch (const th::NonFiniteError& error) {
    std::printf("The first fault:\n%s\n\n", error.what());
  }

  // Row i of the matrix: which output positions does input position i reach? 0 means: not at all.
  const auto reach = [&](const char* name, const th::UnaryFunction& f) {
    const Tensor m = th::influence(f, good, /*x_axis=*/1, /*y_axis=*/1);
    std::printf("%s\n", name);
    for (std::int64_t i = 0; i < m.dim(0); ++i) {
      for (std::int64_t j = 0; j < m.dim(1); ++j) std::printf(" %c", m.at({i, j}) == 0 ? '.' : '#');
      std::printf("\n");
    }
  };
  reach("positions that reach one another through the norm:", norm);
  const Tensor triangle = th::tensor({{1, 1, 1}, {0, 1, 1}, {0, 0, 1}});
  reach("and through a sum of what came before:",
        [&](const Tensor& x) { return th::matmul(x, triangle); });
}
