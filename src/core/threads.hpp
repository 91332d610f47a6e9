// The one threading layer. Work is cut into chunks of a fixed size, never by the number of threads,
// so a run gives the same bits on 1, 2 or 16 threads; the threads only share out the chunks.
#pragma once

#include <cstdint>
#include <type_traits>

namespace tapehead::detail {

// A borrowed callable: no allocation, one indirect call.
template <class Signature>
class FunctionRef;
template <class... Args>
class FunctionRef<void(Args...)> {
 public:
  template <class F>
  FunctionRef(F& f)  // implicit, for lambdas at the call
      : object_(const_cast<void*>(static_cast<const void*>(&f))),
        call_([](void* object, Args... args) { (*static_cast<F*>(object))(args...); }) {}
  void operator()(Args... args) const { call_(object_, args...); }

 private:
  void* object_;
  void (*call_)(void*, Args...);
};

// Elements of cheap work per chunk: below one chunk everything stays on the calling thread, as
// starting a team costs about 0.7 us.
inline constexpr std::int64_t kElementChunk = 16384;

// body(begin, end) for [0, chunk), [chunk, 2 chunk), ... up to count. The body must not throw and
// must not record; inside another parallel_for everything is serial.
void parallel_chunks(std::int64_t count, std::int64_t chunk,
                     FunctionRef<void(std::int64_t, std::int64_t)> body);

template <class F>
void parallel_for(std::int64_t count, std::int64_t chunk, F&& body) {
  if (count <= 0) return;
  if (count <= chunk) {
    body(std::int64_t{0}, count);
  } else {
    parallel_chunks(count, chunk, FunctionRef<void(std::int64_t, std::int64_t)>(body));
  }
}

// Rows of `width` elements per chunk, so that a chunk is about kElementChunk elements of work.
inline std::int64_t rows_per_chunk(std::int64_t width) {
  return width >= kElementChunk ? 1 : kElementChunk / (width < 1 ? 1 : width);
}

// Whether the caller runs inside parallel_for.
[[nodiscard]] bool inside_parallel();

// Marks a helper thread for its life: whatever it runs is inside a parallel_for.
class AsHelper {
 public:
  AsHelper();
  ~AsHelper();
  AsHelper(const AsHelper&) = delete;
  AsHelper& operator=(const AsHelper&) = delete;

 private:
  bool previous_;
};

}  // namespace tapehead::detail
