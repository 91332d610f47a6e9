// A user's first program: a tensor, a tape, a gradient. The product makes sure that every library
// underneath was linked.
#include <cstdio>

#include <tapehead/tapehead.hpp>

namespace th = tapehead;

int main() {
  th::Tape tape;
  const th::Tensor x = tape.watch(th::tensor({{1, 2, 3}}));
  const th::Tensor w = th::tensor({{4}, {5}, {6}});
  const th::Gradients gradients = tape.backward(th::sum(th::matmul(x, w)));
  std::printf("gradient %s\n", th::to_string(gradients[x]).c_str());
  std::printf("products %s\n", th::blas_self_test().empty() ? "exact" : "wrong");
}
