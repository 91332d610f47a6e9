// Keys that no query may see.
#pragma once

#include <cstdint>

#include <tapehead/mask.hpp>
#include <tapehead/tensor.hpp>

namespace tapehead::detail {

// x [B,S,D] with zeros in place of every position that holds a NaN or infinity and that no query of
// any head sees; x itself when there is none. The projection after it would spread such a row: its
// share of the weight's gradient is 0 * NaN. The mask must fit `heads` and `queries`.
[[nodiscard]] Tensor without_unseen(const Tensor& x, const Mask& mask, std::int64_t heads,
                                    std::int64_t queries);

}  // namespace tapehead::detail
