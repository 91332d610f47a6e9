// An op of your own: forward on plain numbers, the derivative beside it, checked before it is used.
#include <cmath>
#include <cstdio>
#include <vector>

#include <tapehead/tapehead.hpp>

namespace th = tapehead;
using th::Tensor;

// softsign(x) = x / (1 + |x|),   d/dx = 1 / (1 + |x|)^2
//
// record() puts the op on the tape, if one is alive and x stands on it. The gradient function
// receives dy, the cotangent of the output, and returns the cotangent of x; made of public ops, it
// can itself be recorded.
Tensor softsign(const Tensor& x) {
  std::vector<double> y = x.to_vector<double>();
  for (double& v : y) v = v / (1 + std::abs(v));
  return th::record("softsign", th::tensor(std::span<const double>(y), x.shape()))
      .input(x, [x](const Tensor& dy) { return dy / th::pow(1.0 + th::abs(x), 2); });
}

// The same with a slip that is easy to make: the square is missing.
Tensor wrong_softsign(const Tensor& x) {
  return th::record("wrong_softsign", softsign(th::detach(x))).input(x, [x](const Tensor& dy) {
    return dy / (1.0 + th::abs(x));
  });
}

int main() {
  const Tensor x = th::tensor({-2, -0.5, 0.25, 3}, th::DType::f64);

  th::Tape tape;
  const Tensor w = tape.watch(x);
  const th::Gradients gradients = tape.backward(th::sum(softsign(w)));
  std::printf("softsign(x) = %s\n", to_string(softsign(x)).c_str());
  std::printf("derivative  = %s\n", to_string(gradients[w]).c_str());

  std::printf("softsign:       %s\n", th::gradcheck(softsign, x).passed() ? "pass" : "mismatch");
  std::printf("wrong_softsign: %s\n",
              th::gradcheck(wrong_softsign, x).passed() ? "pass" : "mismatch");
}
