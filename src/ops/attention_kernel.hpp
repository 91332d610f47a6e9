// The arithmetic of attention and of its gradient, on plain numbers: nothing here records.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include <tapehead/mask.hpp>
#include <tapehead/tensor.hpp>

namespace tapehead::detail {

struct AttentionSizes {
  std::int64_t batch = 0;        // B
  std::int64_t heads = 0;        // H
  std::int64_t queries = 0;      // T
  std::int64_t keys = 0;         // S
  std::int64_t width = 0;        // d, of a query and of a key
  std::int64_t value_width = 0;  // e
};

// Queries are worked on in blocks. These are the keys that any query of a block sees: what lies
// outside is skipped by every product.
struct KeyRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool mixed = false;  // some of the pairs inside are blocked
  [[nodiscard]] std::int64_t size() const { return end - begin; }
};

// One call of attention, all but its tensors; backward works from the same one.
class AttentionCall {
 public:
  // `mask` must fit the sizes; dropout 0 when `dropout_rng` is nullptr.
  AttentionCall(const AttentionSizes& sizes, const Mask& mask, double scale, double dropout,
                const Rng* dropout_rng);

  // P = softmax(scale q k^T) over the visible keys, [B,H,T,S], and dropout(P) v, [B,H,T,e].
  struct Result {
    Tensor weights;
    Tensor output;
  };
  [[nodiscard]] Result forward(const Tensor& q, const Tensor& k, const Tensor& v) const;

  // {dq, dk, dv} from the cotangent of the output.
  [[nodiscard]] std::array<Tensor, 3> output_gradient(const Tensor& q, const Tensor& k,
                                                      const Tensor& v, const Tensor& weights,
                                                      const Tensor& d_output) const;
  // {dq, dk} from the cotangent of the weights.
  [[nodiscard]] std::array<Tensor, 2> weights_gradient(const Tensor& q, const Tensor& k,
                                                       const Tensor& weights,
                                                       const Tensor& d_weights) const;

 private:
  template <class T>
  struct Kernel;  // the same for one element type

  static constexpr std::int64_t kBlock = 64;  // queries per block
  static constexpr std::int64_t kStep = 16;   // keys at a time when looking for a range's ends

  [[nodiscard]] std::int64_t blocks() const { return (sizes_.queries + kBlock - 1) / kBlock; }
  [[nodiscard]] KeyRange find_range(std::int64_t batch, std::int64_t head, std::int64_t q0,
                                    std::int64_t q1) const;
  [[nodiscard]] const KeyRange& range(std::int64_t batch, std::int64_t head,
                                      std::int64_t block) const;

  AttentionSizes sizes_;
  Mask mask_;
  double scale_;
  double dropout_;
  std::optional<Rng> rng_;        // draw i decides on element i of the weights
  std::vector<KeyRange> ranges_;  // [B or 1, H or 1, blocks]
};

}  // namespace tapehead::detail
