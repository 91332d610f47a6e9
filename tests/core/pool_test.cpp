#include "core/pool.hpp"

#include <thread>
#include <vector>

#include <tapehead/system.hpp>
#include <tapehead/tensor.hpp>

#include "support/catch.hpp"

namespace th = tapehead;
using th::detail::class_bytes;
using th::detail::size_class_of;

TEST_CASE("a size class holds what it was chosen for and wastes at most an eighth") {
  for (std::int64_t bytes = 0; bytes < 5000; ++bytes) {
    const std::int64_t room = class_bytes(size_class_of(bytes));
    REQUIRE(room >= bytes);
    REQUIRE(room <= bytes + bytes / 8 + 64);
  }
  for (int shift = 12; shift < 50; ++shift) {
    for (std::int64_t offset : {-1, 0, 1}) {
      const std::int64_t bytes = (std::int64_t{1} << shift) + offset;
      const int size_class = size_class_of(bytes);
      REQUIRE(class_bytes(size_class) >= bytes);
      REQUIRE(class_bytes(size_class) <= bytes + bytes / 8 + 1);
      REQUIRE(class_bytes(size_class - 1) < bytes);  // the next smaller class would not do
      REQUIRE(class_bytes(size_class) % 64 == 0);
    }
  }
}

#if !defined(__SANITIZE_ADDRESS__)
TEST_CASE("a block comes back from the pool, not from the system") {
  { const th::Tensor warm = th::zeros({1000}); }
  const std::int64_t before = th::memory_info().system_allocations;
  for (int i = 0; i < 100; ++i) {
    const th::Tensor again = th::zeros({1000});
  }
  CHECK(th::memory_info().system_allocations == before);
}
#endif

TEST_CASE("live bytes return to where they were") {
  const std::int64_t before = th::memory_info().live_bytes;
  {
    const th::Tensor x = th::zeros({300, 7});
    const th::Tensor shared = x;
    CHECK(th::memory_info().live_bytes >= before + 300 * 7 * 4);
    CHECK(th::memory_info().live_bytes <= before + 300 * 7 * 4 * 9 / 8 + 64);
  }
  CHECK(th::memory_info().live_bytes == before);
}

TEST_CASE("tensors may die on another thread than they were made on") {
  std::vector<th::Tensor> made;
  std::thread maker([&] {
    for (int i = 0; i < 50; ++i) made.push_back(th::full({i}, i));
  });
  maker.join();
  for (int i = 0; i < 50; ++i) CHECK(made[static_cast<std::size_t>(i)].size() == i);
  made.clear();
}

TEST_CASE("shapes that never come back do not pile up") {
  th::release_cached_memory();
  for (std::int64_t i = 1; i < 200; ++i) {
    const th::Tensor once = th::zeros({i * 50000});  // 200 KB ... 40 MB, each seen once
  }
  // At most a quarter more than was ever live at once, and 64 MiB.
  const th::MemoryInfo info = th::memory_info();
  CHECK(info.cached_bytes <= info.peak_bytes + info.peak_bytes / 4 + (std::int64_t{64} << 20));
  th::release_cached_memory();
  CHECK(th::memory_info().cached_bytes == 0);
}
