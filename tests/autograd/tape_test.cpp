#include <tapehead/ops.hpp>
#include <tapehead/params.hpp>
#include <tapehead/tape.hpp>

#include "support/catch.hpp"

namespace th = tapehead;
using th::DType;
using th::Tensor;

TEST_CASE("an intermediate used twice gets the whole gradient") {
  // c = a + b, d = a b, y = (c + d) + c d at a = 2, b = 3, by hand:
  // dc = 1 + d = 7, dd = 1 + c = 6, da = dc + b dd = 25, db = dc + a dd = 19.
  th::Tape tape;
  const Tensor a = tape.watch(th::tensor(2, DType::f64));
  const Tensor b = tape.watch(th::tensor(3, DType::f64));
  const Tensor c = tape.watch(a + b);
  const Tensor d = tape.watch(a * b);
  const Tensor y = (c + d) + c * d;
  const th::Gradients g = tape.backward(y);
  CHECK(g[a].item() == 25);
  CHECK(g[b].item() == 19);
  CHECK(g[c].item() == 7);
  CHECK(g[d].item() == 6);
}
