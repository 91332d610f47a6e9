// What the reader and the writer of safetensors files share.
#pragma once

#include <array>
#include <bit>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <tapehead/io.hpp>

namespace tapehead::detail {

// Elements are copied between memory and file as they are.
static_assert(std::endian::native == std::endian::little,
              "safetensors files are little-endian: this machine would need byte swaps");

inline constexpr std::string_view kMetadata = "__metadata__";
inline constexpr std::string_view kChecksum = "checksum";
inline constexpr std::string_view kChecksumPrefix = "fnv1a64:";

// F32 and so on; nothing for a name that Tapehead has no type for.
[[nodiscard]] std::string_view stored_name(DType dtype);
[[nodiscard]] std::optional<DType> stored_dtype(std::string_view name);

[[nodiscard]] std::span<const std::byte> bytes_in(const Tensor& x);

// Over metadata (without the checksum itself) in the order of its keys, then names, types, shapes
// and elements in the order of the data.
[[nodiscard]] std::string checksum(const TensorFile& file);

}  // namespace tapehead::detail
