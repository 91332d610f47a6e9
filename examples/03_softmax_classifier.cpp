// A softmax classifier with one hidden layer on three noisy spirals of points.
#include <cmath>
#include <cstdio>
#include <vector>

#include <tapehead/tapehead.hpp>

namespace th = tapehead;
using th::Tensor;

struct Spirals {
  Tensor points;   // [N, 2]
  Tensor classes;  // [N], i64
};

Spirals spirals(std::int64_t per_class, th::Rng& rng) {
  std::vector<float> points;
  std::vector<std::int64_t> classes;
  for (std::int64_t c = 0; c < 3; ++c) {
    for (std::int64_t i = 0; i < per_class; ++i) {
      const double radius = static_cast<double>(i) / static_cast<double>(per_class);
      const double angle = 4.0 * radius + 2.0 * static_cast<double>(c) + 0.15 * rng.normal();
      points.push_back(static_cast<float>(radius * std::sin(angle)));
      points.push_back(static_cast<float>(radius * std::cos(angle)));
      classes.push_back(c);
    }
  }
  return {th::tensor(std::span<const float>(points), {3 * per_class, 2}),
          th::tensor(std::span<const std::int64_t>(classes), {3 * per_class})};
}

double accuracy(const Tensor& logits, const Tensor& classes) {
  const Tensor right = th::equal(th::argmax(logits), classes);  // boolean [N]
  return th::mean(th::cast(right, th::DType::f32)).item();
}

int main() {
  th::Rng rng(/*seed=*/3);
  const Spirals train = spirals(100, rng);
  const Spirals test = spirals(100, rng);

  th::Params params(/*seed=*/3);
  const th::Linear hidden(params / "hidden", 2, 64);
  const th::Linear output(params / "output", 64, 3);
  const auto model = [&](const Tensor& x) { return output(th::relu(hidden(x))); };  // logits [N, 3]

  th::Adam adam(params, {.lr = 1e-2});
  for (int step = 1; step <= 300; ++step) {
    th::Tape tape;
    const Tensor loss = th::cross_entropy(model(train.points), train.classes);
    adam.step(tape.backward(loss));
    if (step == 1 || step % 100 == 0) std::printf("step %3d  loss %.2f\n", step, loss.item());
  }

  // No tape is alive here: nothing is recorded, and no mode needs to be switched.
  std::printf("test accuracy above 95%%: %s\n",
              accuracy(model(test.points), test.classes) > 0.95 ? "yes" : "no");
}
