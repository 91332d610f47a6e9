#include <tapehead/torch_names.hpp>

#include <algorithm>

#include <fmt/format.h>

#include <tapehead/ops.hpp>

#include "core/message.hpp"
#include "train/weights.hpp"

namespace tapehead {

using detail::fail;

namespace {

std::string under(std::string_view path, std::string_view name) {
  return path.empty() ? std::string(name) : fmt::format("{}.{}", path, name);
}

const Tensor& found(const std::vector<NamedTensor>& tensors, const TorchName& name) {
  const auto at = std::find_if(tensors.begin(), tensors.end(),
                               [&](const NamedTensor& t) { return t.name == name.theirs; });
  if (at != tensors.end()) return at->tensor;
  std::vector<std::string> names;
  for (const NamedTensor& t : tensors) names.push_back(t.name);
  fail<ValueError>(fmt::format("from_torch: '{}' for {} is missing; the nearest name is '{}'",
                               name.theirs, name.ours, detail::nearest(name.theirs, names)));
}

Tensor converted(const Tensor& theirs, const TorchName& name, DType dtype) {
  Tensor x = theirs;
  const auto refuse = [&](const char* what) {
    fail<ShapeError>(fmt::format("from_torch: {} of {} cannot be {}", to_string(theirs.shape()),
                                 name.theirs, what));
  };
  if (name.parts > 1) {
    if (x.rank() == 0 || x.dim(0) % name.parts != 0)
      refuse(fmt::format("cut into {} equal parts", name.parts).c_str());
    const std::int64_t rows = x.dim(0) / name.parts;
    x = slice(x, 0, name.part * rows, (name.part + 1) * rows);
  }
  if (name.transposed) {
    if (x.rank() != 2) refuse("transposed: it is no matrix");
    x = transpose(x);
  }
  return cast(x, dtype);
}

}  // namespace

TorchNames joined(std::initializer_list<TorchNames> lists) {
  TorchNames all;
  for (const TorchNames& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

TorchNames torch_linear(std::string_view ours, std::string_view theirs, TorchBias bias) {
  TorchNames names{{under(ours, "weight"), under(theirs, "weight"), true}};
  if (bias == TorchBias::yes) names.push_back({under(ours, "bias"), under(theirs, "bias")});
  return names;
}

TorchNames torch_norm(std::string_view ours, std::string_view theirs) {
  return {{under(ours, "gain"), under(theirs, "weight")},
          {under(ours, "bias"), under(theirs, "bias")}};
}

TorchNames torch_attention(std::string_view ours, std::string_view theirs, TorchBias bias,
                           TorchPacking packing) {
  TorchNames names;
  std::int64_t part = 0;
  for (const char* which : {"query", "key", "value"}) {
    if (packing == TorchPacking::packed) {
      names.push_back({under(ours, fmt::format("{}.weight", which)),
                       under(theirs, "in_proj_weight"), true, part, 3});
    } else {
      names.push_back({under(ours, fmt::format("{}.weight", which)),
                       under(theirs, fmt::format("{}_proj_weight", which[0])), true});
    }
    if (bias == TorchBias::yes) {
      names.push_back({under(ours, fmt::format("{}.bias", which)), under(theirs, "in_proj_bias"),
                       false, part, 3});
    }
    ++part;
  }
  return joined({names, torch_linear(under(ours, "output"), under(theirs, "out_proj"), bias)});
}

TorchNames torch_encoder_layer(std::string_view ours, std::string_view theirs) {
  return joined({torch_attention(under(ours, "attention"), under(theirs, "self_attn")),
                 torch_linear(under(ours, "ffn.up"), under(theirs, "linear1")),
                 torch_linear(under(ours, "ffn.down"), under(theirs, "linear2")),
                 torch_norm(under(ours, "norm1"), under(theirs, "norm1")),
                 torch_norm(under(ours, "norm2"), under(theirs, "norm2"))});
}

TorchNames torch_decoder_layer(std::string_view ours, std::string_view theirs) {
  return joined({torch_attention(under(ours, "attention"), under(theirs, "self_attn")),
                 torch_attention(under(ours, "cross"), under(theirs, "multihead_attn")),
                 torch_linear(under(ours, "ffn.up"), under(theirs, "linear1")),
                 torch_linear(under(ours, "ffn.down"), under(theirs, "linear2")),
                 torch_norm(under(ours, "norm1"), under(theirs, "norm1")),
                 torch_norm(under(ours, "cross_norm"), under(theirs, "norm2")),
                 torch_norm(under(ours, "norm2"), under(theirs, "norm3"))});
}

std::vector<NamedTensor> from_torch(const std::vector<NamedTensor>& tensors,
                                    const TorchNames& names, DType dtype) {
  std::vector<NamedTensor> ours;
  for (const TorchName& name : names)
    ours.push_back({name.ours, converted(found(tensors, name), name, dtype)});
  return ours;
}

void load_torch(Params& params, const std::filesystem::path& path, const TorchNames& names) {
  const TensorFile file = read_tensors(path);
  detail::fill_weights("load_torch", path, from_torch(file.tensors, names, params.dtype()), params);
}

}  // namespace tapehead
