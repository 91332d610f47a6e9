// A tape of scalars: the expression of micrograd's README, forward and backward.
#include <cstdio>

#include <tapehead/tapehead.hpp>

namespace th = tapehead;
using th::Tensor;

int main() {
  th::Tape tape;  // records until the end of main

  // Only what depends on a watched tensor (or a parameter) is recorded.
  const Tensor a = tape.watch(th::tensor(-4, th::DType::f64));
  const Tensor b = tape.watch(th::tensor(2, th::DType::f64));

  Tensor c = a + b;
  Tensor d = a * b + th::pow(b, 3);
  c = c + (c + 1);
  c = c + (1 + c + (-a));
  d = d + (d * 2 + th::relu(b + a));
  d = d + (3 * d + th::relu(b - a));
  const Tensor e = c - d;
  const Tensor f = th::pow(e, 2);
  const Tensor g = f / 2.0 + 10.0 / f;

  std::printf("g     = %.4f\n", g.item());

  // Backward consumes the tape and returns the gradients: there is no zero_grad to forget.
  const th::Gradients gradients = tape.backward(g);
  std::printf("dg/da = %.4f\n", gradients[a].item());
  std::printf("dg/db = %.4f\n", gradients[b].item());
  std::printf("the tape has %d nodes; the last one is '%s'\n", tape.size(),
              std::string(tape.node(tape.size() - 1).op).c_str());
}
