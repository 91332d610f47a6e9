// FNV-1a, 64 bits: h <- (h xor byte) * 0x100000001b3.
// Source: Fowler, Noll, Vo; constants as in RFC 9923. It finds accidents, not forgeries.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace tapehead::detail {

class Fnv1a {
 public:
  void add(const void* bytes, std::size_t count) {
    const auto* p = static_cast<const unsigned char*>(bytes);
    for (std::size_t i = 0; i < count; ++i) hash_ = (hash_ ^ p[i]) * 0x100000001b3u;
  }
  // The length too, so that ("ab", "c") and ("a", "bc") differ.
  void add(std::string_view text) {
    add(std::uint64_t{text.size()});
    add(text.data(), text.size());
  }
  void add(std::uint64_t number) { add(&number, sizeof number); }
  template <class T>
  void add(std::span<const T> numbers) {
    add(numbers.data(), numbers.size_bytes());
  }
  [[nodiscard]] std::uint64_t value() const { return hash_; }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325u;
};

}  // namespace tapehead::detail
