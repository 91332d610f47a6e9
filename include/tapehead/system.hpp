// What runs underneath: version, BLAS, threads, memory.
#pragma once

#include <cstdint>
#include <string>

namespace tapehead {

[[nodiscard]] const char* version();  // "0.1.0"

struct BlasInfo {
  std::string name;     // "OpenBLAS 0.3.21"
  std::string kernel;   // "Zen", "SkylakeX", ...
  std::string flavour;  // "pthread", "openmp" or "serial"
};
[[nodiscard]] BlasInfo blas_info();
// Products of small integers, exact in f32 and f64, over odd sizes and all transposes, also into
// NaN-filled memory, against a plain loop. "" when all are exactly equal, else what differs.
[[nodiscard]] std::string blas_self_test();

// Threads that kernels may use on the calling thread's work: OMP_NUM_THREADS if set, else the
// smaller of the processor affinity and the container's CPU quota. The count never changes a bit of
// a result.
[[nodiscard]] int threads();

// Another number for this thread until the end of the scope; 0 means the default.
class UseThreads {
 public:
  explicit UseThreads(int count);
  ~UseThreads();
  UseThreads(const UseThreads&) = delete;
  UseThreads& operator=(const UseThreads&) = delete;

 private:
  int previous_;
};

struct MemoryInfo {
  std::int64_t live_bytes = 0;          // in tensors now, of this thread's pool
  std::int64_t cached_bytes = 0;        // kept for reuse
  std::int64_t peak_bytes = 0;          // largest live_bytes so far
  std::int64_t system_allocations = 0;  // times the pool went to the system
};
[[nodiscard]] MemoryInfo memory_info();
void release_cached_memory();  // gives cached blocks of this thread back

}  // namespace tapehead
