// Memory for gradient closures: bump allocation in chunks that are kept from tape to tape.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace tapehead::detail {

class Arena {
 public:
  void* allocate(std::size_t bytes, std::size_t alignment) {
    std::size_t at = (used_ + alignment - 1) / alignment * alignment;
    if (current_ >= chunks_.size() || at + bytes > chunks_[current_].size) {
      next_chunk(bytes + alignment);
      at = 0;
    }
    used_ = at + bytes;
    return chunks_[current_].memory.get() + at;  // chunks are aligned for any fundamental type
  }

  // Everything allocated is forgotten (destructors are the caller's business); the chunks stay.
  void clear() {
    current_ = 0;
    used_ = 0;
  }

 private:
  struct Chunk {
    std::unique_ptr<std::byte[]> memory;
    std::size_t size;
  };
  static constexpr std::size_t kChunk = std::size_t{1} << 16;

  void next_chunk(std::size_t at_least) {
    const std::size_t next = chunks_.empty() || (current_ == 0 && used_ == 0) ? 0 : current_ + 1;
    if (next >= chunks_.size() || chunks_[next].size < at_least) {
      const std::size_t size = at_least > kChunk ? at_least : kChunk;
      chunks_.insert(chunks_.begin() + static_cast<std::ptrdiff_t>(next),
                     Chunk{std::make_unique<std::byte[]>(size), size});
    }
    current_ = next;
    used_ = 0;
  }

  std::vector<Chunk> chunks_;
  std::size_t current_ = 0;
  std::size_t used_ = 0;
};

}  // namespace tapehead::detail
