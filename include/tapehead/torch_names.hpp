// Weights of PyTorch's own modules, by PyTorch's names: what save_file(module.state_dict(), path)
// of the safetensors package wrote, into the parameters of ours.
//
//   th::Params params;
//   th::TransformerLayer layer(params / "layer", {.width = 6, .heads = 2, .hidden = 5});
//   th::load_torch(params, "encoder_layer.safetensors", th::torch_encoder_layer("layer", ""));
//
// The map is a list of pairs, so a model of one's own gets one by joining lists. What differs:
//   PyTorch                                ours
//   <linear>.weight [out, in]              <linear>.weight [in, out]
//   <norm>.weight                          <norm>.gain
//   <attention>.in_proj_weight [3D, D]     query.weight, key.weight, value.weight: its thirds
//   <attention>.q_proj_weight, k_, v_      the same, where keys or values have other widths
//   <attention>.in_proj_bias [3D]          query.bias, key.bias, value.bias
//   <attention>.out_proj                   output
//   encoder layer: self_attn, linear1, linear2, norm1, norm2
//                                          attention, ffn.up, ffn.down, norm1, norm2
//   decoder layer: the same, multihead_attn, and norm1, norm2, norm3
//                                          the same, cross, and norm1, cross_norm, norm2
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <tapehead/io.hpp>
#include <tapehead/params.hpp>

namespace tapehead {

struct TorchName {
  std::string ours;
  std::string theirs;
  bool transposed = false;
  std::int64_t part = 0;  // of `parts` equal parts of theirs along its first axis
  std::int64_t parts = 1;
};
using TorchNames = std::vector<TorchName>;

enum class TorchBias { no, yes };
enum class TorchPacking { packed, apart };  // in_proj_weight, or one weight for each of the three

// `ours` and `theirs` are the paths of the two modules; "" for the root.
[[nodiscard]] TorchNames torch_linear(std::string_view ours, std::string_view theirs,
                                      TorchBias bias = TorchBias::yes);
[[nodiscard]] TorchNames torch_norm(std::string_view ours, std::string_view theirs);
[[nodiscard]] TorchNames torch_attention(std::string_view ours, std::string_view theirs,
                                         TorchBias bias = TorchBias::yes,
                                         TorchPacking packing = TorchPacking::packed);
[[nodiscard]] TorchNames torch_encoder_layer(std::string_view ours, std::string_view theirs);
[[nodiscard]] TorchNames torch_decoder_layer(std::string_view ours, std::string_view theirs);
[[nodiscard]] TorchNames joined(std::initializer_list<TorchNames> lists);

// The tensors under our names and in our layout, converted to dtype. ValueError for a name of
// theirs that is missing, ShapeError for one that cannot be cut or transposed; tensors that no name
// asks for are left out.
[[nodiscard]] std::vector<NamedTensor> from_torch(const std::vector<NamedTensor>& tensors,
                                                  const TorchNames& names, DType dtype);
// Reads a file into all parameters: FileError, naming each, when one is missing or does not fit.
void load_torch(Params& params, const std::filesystem::path& path, const TorchNames& names);

}  // namespace tapehead
