// PyTorch's modules, read from a file with PyTorch's names, give PyTorch's outputs and gradients.
#include <tapehead/models.hpp>
#include <tapehead/tape.hpp>
#include <tapehead/torch_names.hpp>

#include "io/files.hpp"
#include "support/catch.hpp"
#include "support/fixture.hpp"

using namespace tapehead;

namespace {

// Everything of the fixture below a prefix, with the prefix cut off, but for what belongs to a
// case.
std::vector<NamedTensor> tensors_of(const Fixture& fixture, const std::string& prefix) {
  std::vector<NamedTensor> tensors;
  for (const std::string& name : fixture.names()) {
    if (name.starts_with(prefix)) tensors.push_back({name.substr(prefix.size()), fixture[name]});
  }
  return tensors;
}

// |a - b| <= tolerance times the largest |b|.
void check_close(const Tensor& found, const Tensor& wanted, double tolerance) {
  const double scale = max(abs(cast(wanted, DType::f64))).item();
  const Comparison same =
      compare(cast(found, DType::f64), cast(wanted, DType::f64), {0, tolerance * scale});
  INFO(same.message);
  CHECK(same.equal);
}

void check_gradients(const Params& params, const Gradients& g, const Fixture& fixture,
                     const std::string& prefix, const TorchNames& names, double tolerance) {
  for (const NamedTensor& wanted :
       from_torch(tensors_of(fixture, prefix + "grad."), names, DType::f64)) {
    INFO(wanted.name);
    const Tensor found = g[params.at(wanted.name)];
    // A key's bias moves all scores of a query alike: its gradient is 0, but for rounding, unless
    // the zero key stands beside them.
    if (wanted.name.ends_with("key.bias") && max(abs(wanted.tensor)).item() < 1e-9) {
      CHECK(max(abs(cast(found, DType::f64))).item() < 1e-5);
      continue;
    }
    check_close(found, wanted.tensor, tolerance);
  }
}

Mask given_masks(const Fixture& fixture, const std::string& name, bool& adds) {
  Mask mask;
  const std::string path = "mask." + name + ".";
  adds = false;
  if (fixture.contains(path + "attn_mask")) {
    const Tensor x = fixture[path + "attn_mask"];
    adds = is_floating(x.dtype());
    if (!adds && x.rank() == 2) mask = mask & Mask::block(x, "query key");
    if (!adds && x.rank() == 3) {
      mask = mask & Mask::block(greater(reshape(cast(x, DType::f32), {2, 2, 3, 4}), 0.5),
                                "batch head query key");
    }
  }
  if (fixture.contains(path + "key_padding_mask"))
    mask = mask & Mask::block(fixture[path + "key_padding_mask"], "batch key");
  return mask;
}

struct Widths {
  std::int64_t key, value;
};

void check_masks(const Fixture& fixture, const std::string& module, const MultiHeadOptions& options,
                 const TorchNames& names, DType dtype) {
  Params params(1, dtype);
  const MultiHeadAttention attention(params, options);
  TemporaryFolder folder;
  write_tensors(folder / "module.safetensors", {tensors_of(fixture, module + "."), {}});
  load_torch(params, folder / "module.safetensors", names);
  int cases = 0;
  for (const char* name : {"none", "blocked", "blocked_each", "added", "added_each", "padded",
                           "blocked_padded", "added_padded"}) {
    const std::string path = module + "." + name + ".";
    if (!fixture.contains(path + "output")) continue;
    INFO(path << " " << name_of(dtype));
    ++cases;
    AttentionRun how;
    bool adds = false;
    how.mask = given_masks(fixture, name, adds);
    if (adds) {
      const Tensor x = fixture.get(std::string("mask.") + name + ".attn_mask", dtype);
      how.bias = reshape(x, x.rank() == 2 ? Shape{1, 1, 3, 4} : Shape{2, 2, 3, 4});
    }
    how.weights = Weights::per_head;
    Tape tape;
    std::vector<Tensor> in;
    for (const char* input : {"query", "key", "value"})
      in.push_back(tape.watch(fixture.get(module + ".input." + input, dtype)));
    const MultiHeadResult found = attention.run(in[0], in[1], in[2], how);
    const double output = dtype == DType::f64 ? 1e-12 : 1e-6;
    const double gradient = dtype == DType::f64 ? 1e-11 : 1e-5;
    check_close(found.output, fixture[path + "output"], output);
    check_close(found.weights, fixture[path + "weights"], output);
    const Gradients g = tape.backward(found.output, fixture.get(module + ".cotangent", dtype));
    check_gradients(params, g, fixture, path, names, gradient);
    for (std::size_t i = 0; i < 3; ++i) {
      const char* inputs[] = {"query", "key", "value"};
      check_close(g[in[i]], fixture[path + "grad.input." + inputs[i]], gradient);
    }
  }
  CHECK(cases == (module == "plain" ? 8 : 2));
}

void check_layer(const Fixture& fixture, const std::string& kind, NormPlace place, DType dtype) {
  const bool decoder = kind == "decoder";
  const std::string path = kind + "." + (place == NormPlace::pre ? "pre." : "post.");
  INFO(path << name_of(dtype));
  Params params(1, dtype);
  const TransformerLayer layer(
      params / "layer",
      {.width = 6,
       .heads = 2,
       .hidden = 5,
       .activation = decoder ? Activation::gelu : Activation::relu,
       .place = place},
      decoder ? TransformerLayer::Cross::yes : TransformerLayer::Cross::no);
  const TorchNames names =
      decoder ? torch_decoder_layer("layer", "") : torch_encoder_layer("layer", "");
  TemporaryFolder folder;
  write_tensors(folder / "layer.safetensors", {tensors_of(fixture, kind + "."), {}});
  load_torch(params, folder / "layer.safetensors", names);
  Tape tape;
  const Tensor source = tape.watch(fixture.get("source", dtype));
  const Tensor target = tape.watch(fixture.get("target", dtype));
  const Mask padding = Mask::lengths({4, 2}, 4);
  const Tensor y =
      decoder ? layer(target, Mask::causal(3) & Mask::lengths({3, 2}, 3), Memory{source, padding})
              : layer(source, padding);
  check_close(y, fixture[path + "output"], dtype == DType::f64 ? 1e-12 : 1e-6);
  const Gradients g = tape.backward(y, fixture.get(kind + ".cotangent", dtype));
  const double tolerance = dtype == DType::f64 ? 1e-11 : 1e-5;
  check_gradients(params, g, fixture, path, names, tolerance);
  check_close(g[source], fixture[path + "grad.source"], tolerance);
  if (decoder) check_close(g[target], fixture[path + "grad.target"], tolerance);
}

}  // namespace

TEST_CASE("every kind of mask of nn.MultiheadAttention gives PyTorch's numbers") {
  const Fixture fixture("multihead_masks");
  const MultiHeadOptions plain{.width = 4, .heads = 2};
  MultiHeadOptions unbiased = plain, zero_key = plain, widths = plain;
  unbiased.bias = false;
  zero_key.variant.sinks = Sinks::zero;
  widths.key_width = 3;
  widths.value_width = 5;
  for (const DType dtype : {DType::f64, DType::f32}) {
    check_masks(fixture, "plain", plain, torch_attention("", ""), dtype);
    check_masks(fixture, "unbiased", unbiased, torch_attention("", "", TorchBias::no), dtype);
    check_masks(fixture, "zero_key", zero_key, torch_attention("", ""), dtype);
    check_masks(fixture, "widths", widths,
                torch_attention("", "", TorchBias::yes, TorchPacking::apart), dtype);
  }
}

TEST_CASE("PyTorch's layers, read from a file by PyTorch's names, give PyTorch's numbers") {
  const Fixture fixture("torch_layers");
  for (const DType dtype : {DType::f64, DType::f32}) {
    for (const char* kind : {"encoder", "decoder"}) {
      for (const NormPlace place : {NormPlace::post, NormPlace::pre})
        check_layer(fixture, kind, place, dtype);
    }
  }
}

TEST_CASE("names that are missing or do not fit are refused before anything is written") {
  Params params(1);
  const Linear linear(params / "a", 2, 3);
  const Tensor before = params.flat();
  const std::vector<NamedTensor> tensors{{"b.weight", ones({3, 2})}, {"b.bias", ones({3})}};
  CHECK(from_torch(tensors, torch_linear("a", "b"), DType::f32)[0].tensor.shape() == Shape{2, 3});
  CHECK_THROWS_WITH(
      from_torch(tensors, torch_linear("a", "c"), DType::f32),
      ContainsSubstring("'c.weight' for a.weight is missing") && ContainsSubstring("'b.weight'"));
  CHECK_THROWS_WITH(from_torch(tensors, {{"x", "b.bias", true}}, DType::f32),
                    ContainsSubstring("no matrix"));
  CHECK_THROWS_WITH(from_torch(tensors, {{"x", "b.bias", false, 0, 2}}, DType::f32),
                    ContainsSubstring("2 equal parts"));
  TemporaryFolder folder;
  write_tensors(folder / "x", {tensors, {}});
  CHECK_THROWS_WITH(load_torch(params, folder / "x", torch_linear("a", "b", TorchBias::no)),
                    ContainsSubstring("a.bias: not in the file"));
  CHECK(same_bits(params.flat(), before));
  load_torch(params, folder / "x", torch_linear("a", "b"));
  CHECK(same_bits(params.flat(), ones({9})));
}
