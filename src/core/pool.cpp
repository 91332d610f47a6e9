#include "core/pool.hpp"

#include <array>
#include <bit>
#include <cstdlib>
#include <limits>
#include <new>
#include <utility>

#include <tapehead/system.hpp>
#include <tapehead/tensor.hpp>

namespace tapehead {
namespace detail {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kPassThrough = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
constexpr bool kPassThrough = true;
#else
constexpr bool kPassThrough = false;
#endif
#else
constexpr bool kPassThrough = false;
#endif

constexpr int kSteps = 8;  // classes per doubling
constexpr std::int64_t kSmallest = 64;
constexpr int kClasses = 1 + kSteps * 57;  // up to 2^63 bytes
constexpr std::int64_t kSlack = std::int64_t{64} << 20;

Block* new_block(std::int64_t bytes, std::int64_t capacity, int size_class) {
  const std::size_t total = sizeof(Block) + static_cast<std::size_t>(capacity);
  void* memory = std::aligned_alloc(kAlignment, (total + kAlignment - 1) / kAlignment * kAlignment);
  if (memory == nullptr) throw std::bad_alloc();
  return new (memory) Block{{1}, capacity, bytes, size_class, nullptr};
}

void delete_block(Block* block) noexcept {
  block->~Block();
  std::free(block);
}

class Pool;
// Trivially destructible, so still readable when static and thread-local objects that hold tensors
// die after the pool of their thread.
thread_local Pool* t_pool = nullptr;
thread_local bool t_pool_gone = false;

thread_local CopiedBlocks* t_copied = nullptr;

class Pool {
 public:
  Pool() { t_pool = this; }
  ~Pool() {
    release_cached();
    t_pool = nullptr;
    t_pool_gone = true;
  }
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  Block* take(std::int64_t bytes) {
    const int size_class = size_class_of(bytes);
    const std::int64_t capacity = class_bytes(size_class);
    Block*& head = free_[static_cast<std::size_t>(size_class)];
    Block* block = head;
    if (block != nullptr) {
      head = block->next_free;
      block->references.store(1, std::memory_order_relaxed);
      block->used = bytes;
      info_.cached_bytes -= capacity;
    } else {
      // Shapes that never come back must not pile up: past a quarter more than was ever live at
      // once, start over with empty lists.
      const std::int64_t wanted = info_.live_bytes + info_.cached_bytes + capacity;
      if (wanted > info_.peak_bytes + info_.peak_bytes / 4 + kSlack) release_cached();
      block = new_block(bytes, capacity, size_class);
      ++info_.system_allocations;
    }
    info_.live_bytes += capacity;
    if (info_.live_bytes > info_.peak_bytes) info_.peak_bytes = info_.live_bytes;
    return block;
  }

  void give_back(Block* block) noexcept {
    info_.live_bytes -= block->capacity;
    if (kPassThrough) {
      delete_block(block);
      return;
    }
    info_.cached_bytes += block->capacity;
    Block*& head = free_[static_cast<std::size_t>(block->size_class)];
    block->next_free = head;
    head = block;
  }

  void release_cached() noexcept {
    for (Block*& head : free_) {
      while (head != nullptr) {
        Block* next = head->next_free;
        delete_block(head);
        head = next;
      }
    }
    info_.cached_bytes = 0;
  }

  [[nodiscard]] const MemoryInfo& info() const { return info_; }

 private:
  std::array<Block*, kClasses> free_{};
  MemoryInfo info_;
};

Pool* pool() {
  if (t_pool == nullptr && !t_pool_gone) {
    thread_local Pool instance;  // registers itself in t_pool
  }
  return t_pool;
}

}  // namespace

int size_class_of(std::int64_t bytes) {
  if (bytes <= kSmallest * kSteps)
    return bytes <= 0 ? 0 : static_cast<int>((bytes - 1) / kSmallest);
  const int exponent = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(bytes - 1))) -
                       1;  // 2^e <= bytes-1
  const std::int64_t step = std::int64_t{1} << (exponent - 3);
  const std::int64_t within = (bytes - 1 - (std::int64_t{1} << exponent)) / step;  // 0..7
  return kSteps * (exponent - 8) + static_cast<int>(within);
}

std::int64_t class_bytes(int size_class) {
  if (size_class < kSteps) return kSmallest * (size_class + 1);
  const int exponent = size_class / kSteps + 8;
  const std::int64_t step = std::int64_t{1} << (exponent - 3);
  return (std::int64_t{1} << exponent) + step * (size_class % kSteps + 1);
}

Block* allocate_block(std::int64_t bytes) {
  if (bytes > std::numeric_limits<std::int64_t>::max() / 2) throw std::bad_alloc();
  if (Pool* p = pool(); p != nullptr) return p->take(bytes);
  const int size_class = size_class_of(bytes);
  return new_block(bytes, class_bytes(size_class), size_class);
}

void release_block(Block* block) noexcept {
  if (Pool* p = pool(); p != nullptr) {
    p->give_back(block);
  } else {
    delete_block(block);
  }
}

CopiedBlocks::CopiedBlocks() : outer_(std::exchange(t_copied, this)) {}
CopiedBlocks::~CopiedBlocks() { t_copied = outer_; }

Buffer::Buffer(const Buffer& other) : block_(other.block_) {
  if (block_ == nullptr) return;
  if (t_copied != nullptr) t_copied->list.push_back(block_);
  retain(block_);
}

Buffer::~Buffer() {
  if (block_ != nullptr) drop(block_);
}

std::byte* Buffer::bytes() const { return block_ == nullptr ? nullptr : block_->bytes(); }

bool Buffer::unique() const {
  return block_ != nullptr && block_->references.load(std::memory_order_acquire) == 1;
}

}  // namespace detail

MemoryInfo memory_info() {
  const detail::Pool* p = detail::pool();
  return p == nullptr ? MemoryInfo{} : p->info();
}

void release_cached_memory() {
  if (detail::Pool* p = detail::pool(); p != nullptr) p->release_cached();
}

}  // namespace tapehead
