// Linear regression: find the line behind noisy points with gradient descent.
#include <cstdio>

#include <tapehead/tapehead.hpp>

namespace th = tapehead;
using th::Tensor;

int main() {
  // 100 points on y = 3 x - 2, with a little noise. Every draw is a function of the seed alone.
  th::Rng rng(/*seed=*/1);
  const Tensor x = th::uniform({100, 1}, rng, -1, 1);   // [N, 1]
  const Tensor noise = 0.1 * th::randn({100, 1}, rng);  // [N, 1]
  const Tensor y = 3.0 * x - 2.0 + noise;

  th::Params params(/*seed=*/1);                 // owns every weight, by name
  const th::Linear line(params / "line", 1, 1);  // line.weight [1, 1], line.bias [1]
  th::Sgd sgd(params, {.lr = 0.2});

  for (int step = 1; step <= 100; ++step) {
    th::Tape tape;                            // records until the end of the step
    const Tensor loss = th::mse(line(x), y);  // shapes must be equal, or it says so
    sgd.step(tape.backward(loss));
    if (step == 1 || step % 25 == 0) std::printf("step %3d  loss %.4f\n", step, loss.item());
  }

  std::printf("y = %.2f x %+.2f\n", line.weight.value().item(), line.bias.value().item());
}
