#include "cli/gradcheck_sized.hpp"

namespace tapehead::cli {

namespace {

using Tensors = std::vector<Tensor>;

struct Nothing {};  // an op has no parameters

template <class Call>
ModuleCase op_case(const Sizes& s, std::vector<Shape> inputs, Call call) {
  return sized_case(
      s, std::move(inputs), [](const Scope&) { return Nothing(); },
      [call](Nothing, const Tensors& x) { return call(x); });
}

ModuleCase softmax_case(const Sizes& s) {
  return op_case(s, {{s.batch, s.time, s.width}}, [](const Tensors& x) { return softmax(x[0]); });
}

ModuleCase layer_norm_case(const Sizes& s) {
  return op_case(s, {{s.batch, s.time, s.width}, {s.width}, {s.width}},
                 [](const Tensors& x) { return layer_norm(x[0], x[1], x[2]); });
}

ModuleCase linear_case(const Sizes& s) {
  return op_case(s, {{s.batch, s.time, s.width}, {s.width, s.hidden}, {s.hidden}},
                 [](const Tensors& x) { return linear(x[0], x[1], x[2]); });
}

ModuleCase cross_entropy_case(const Sizes& s) {
  const Tensor targets = random_ids(s, s.time, 1);
  return op_case(s, {{s.batch, s.time, s.symbols}},
                 [targets](const Tensors& x) { return cross_entropy(x[0], targets); });
}

// q [B,H,T,d], k and v [B,H,S,d]; d is the width of one head.
ModuleCase dot_product_case(const Sizes& s) {
  const std::int64_t keys = s.keys > 0 ? s.keys : s.time;
  const Shape key{s.batch, s.heads, keys, s.width};
  return op_case(
      s, {{s.batch, s.heads, s.time, s.width}, key, key},
      [mask = mask_of(s, keys)](const Tensors& x) { return attention(x[0], x[1], x[2], mask); });
}

}  // namespace

std::vector<Kind> sized_ops() {
  return {{"softmax", softmax_case, {}},
          {"layer_norm", layer_norm_case, {}},
          {"linear", linear_case, {"--hidden"}},
          {"cross_entropy", cross_entropy_case, {"--symbols"}},
          {"dot-product", dot_product_case, {"--keys", "--heads", "--mask"}}};
}

}  // namespace tapehead::cli
