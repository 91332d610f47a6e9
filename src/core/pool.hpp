// The memory pool: every tensor's block comes from here and returns here.
//
// A training step repeats the same allocations, so a free list per size class makes a warm step
// call the system allocator not at all (first touch of a fresh 4 KiB page costs about 2 us). Each
// thread has its own lists; a block released on another thread joins that thread's lists. Under
// AddressSanitizer blocks go straight to the system, so that it sees every overrun and leak.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tapehead::detail {

inline constexpr std::size_t kAlignment = 64;  // a cache line, and the widest vector register

struct alignas(kAlignment) Block {
  std::atomic<std::int64_t> references;
  std::int64_t capacity;  // usable bytes behind this header
  std::int64_t used;      // bytes that were asked for
  int size_class;
  Block* next_free;

  [[nodiscard]] std::byte* bytes() { return reinterpret_cast<std::byte*>(this) + sizeof(Block); }
};
static_assert(sizeof(Block) == kAlignment);

// While one lives, it lists the blocks whose handles are copied on this thread. Copying a closure
// under it tells what the closure keeps alive.
class CopiedBlocks {
 public:
  CopiedBlocks();
  ~CopiedBlocks();
  CopiedBlocks(const CopiedBlocks&) = delete;
  CopiedBlocks& operator=(const CopiedBlocks&) = delete;

  std::vector<const Block*> list;  // one entry a copy

 private:
  CopiedBlocks* outer_;
};

// A block of at least `bytes` (0 is allowed) with one reference. std::bad_alloc when out of memory.
[[nodiscard]] Block* allocate_block(std::int64_t bytes);
void release_block(Block* block) noexcept;  // the last reference is gone

inline void retain(Block* block) { block->references.fetch_add(1, std::memory_order_relaxed); }
inline void drop(Block* block) noexcept {
  if (block->references.fetch_sub(1, std::memory_order_acq_rel) == 1) release_block(block);
}

// Class i holds blocks of class_bytes(i): multiples of 64 bytes, 8 classes per doubling, so a block
// is at most an eighth larger than asked for.
[[nodiscard]] int size_class_of(std::int64_t bytes);
[[nodiscard]] std::int64_t class_bytes(int size_class);

}  // namespace tapehead::detail
