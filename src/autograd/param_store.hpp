// What Params and its handles share.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include <tapehead/params.hpp>

namespace tapehead {

class ParamStore {
 public:
  struct Entry {
    std::string name;
    Shape shape;
    Init init;
    Decay decay;
    std::int64_t offset;
    bool frozen;
  };

  ParamStore(std::uint64_t seed_value, DType dtype_value) : seed(seed_value), dtype(dtype_value) {}

  // Draws the initial values and lays them out; nothing can be added afterwards. Idempotent.
  void seal();
  // The flat values of a sealed store.
  const Tensor& values() {
    if (!sealed) seal();
    return flat;
  }
  [[nodiscard]] Tensor value(int index);  // a view, not recorded

  template <class T>
  void write(const char* writer, const std::function<void(std::span<T>)>& change);

  std::uint64_t seed;
  DType dtype;
  std::vector<Entry> entries;
  std::unordered_map<std::string, int> by_name;
  std::int64_t size = 0;
  std::mutex sealing;  // several threads may use a model first
  std::atomic<bool> sealed{false};
  Tensor flat;  // [size]
  std::uint64_t version = 0;
  const char* last_writer = "the initialiser";
};

}  // namespace tapehead
