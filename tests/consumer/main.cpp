// A user's first program: a tensor, a tape, a gradient. It also runs a product, so that every
// library underneath must have been linked.
#include <cstdio>

#include <tapehead/record.hpp>
#include <tapehead/system.hpp>
#include <tapehead/tape.hpp>
#include <tapehead/tensor.hpp>

namespace th = tapehead;

int main() {
  th::Tape tape;
  const th::Tensor x = tape.watch(th::tensor({1, 2, 3}));
  const th::Tensor y =
      th::record("pass", th::tensor({1, 2, 3})).input(x, [](const th::Tensor& dy) { return dy; });
  const th::Gradients gradients = tape.backward(y, th::tensor({4, 5, 6}));
  std::printf("gradient %s", th::to_string(gradients[x]).c_str());
  std::printf("\nproducts %s\n", th::blas_self_test().empty() ? "exact" : "wrong");
}
