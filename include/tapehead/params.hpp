// Params: every weight of a model, by name, in one flat buffer.
//
//   th::Params params(/*seed=*/1);
//   th::Linear layer(params / "head", 32, 10);       // names head.weight, head.bias
//
// A module is a plain struct whose constructor takes a Scope; there is nothing to register. Copying
// a module shares its weights; a weight used twice is one parameter with two uses.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <tapehead/tensor.hpp>

namespace tapehead {

class ParamStore;
class Params;

// How a parameter gets its first values. The draw depends on the seed and the parameter's path
// alone, so adding a layer does not change the others. A weight matrix is [fan_in, fan_out].
using Init = std::function<Tensor(const Shape& shape, Rng& rng, DType dtype)>;

namespace init {
[[nodiscard]] Init constant(double value);
[[nodiscard]] Init normal(double deviation, double mean = 0);
[[nodiscard]] Init uniform(double low, double high);
// U(-a, a), a = gain * sqrt(6 / (fan_in + fan_out)).  Glorot & Bengio 2010.
[[nodiscard]] Init xavier_uniform(double gain = 1);
// N(0, s^2), s = gain * sqrt(2 / (fan_in + fan_out)).  Glorot & Bengio 2010.
[[nodiscard]] Init xavier_normal(double gain = 1);
// U(-a, a), a = sqrt(6 / fan_in), for layers before a ReLU.  He et al. 2015.
[[nodiscard]] Init kaiming_uniform();
// N(0, 2 / fan_in), for layers before a ReLU.  He et al. 2015.
[[nodiscard]] Init kaiming_normal();
// U(-a, a), a = 1 / sqrt(fan_in): PyTorch's default for nn.Linear's weight; its bias uses the
// weight's fan_in.
[[nodiscard]] Init fan_in_uniform(std::int64_t fan_in = 0);  // 0: rows of the shape
}  // namespace init

// Weight decay is for matrices; biases and gains of norms are exempt.
enum class Decay : std::uint8_t { yes, no };

// A handle to one parameter. Used as a Tensor it is the parameter's present value, recorded as a
// leaf when a tape is alive.
class Param {
 public:
  Param() = default;  // no parameter: for optional biases

  [[nodiscard]] bool defined() const { return store_ != nullptr; }
  operator Tensor() const;                        // its value; see above
  [[nodiscard]] Tensor value() const;             // its value, never recorded
  void set(const Tensor& value) const;            // same shape and dtype; counts as a write
  [[nodiscard]] const std::string& name() const;  // "encoder.layers.0.attention.query.weight"
  [[nodiscard]] const Shape& shape() const;
  [[nodiscard]] DType dtype() const;
  [[nodiscard]] int index() const { return index_; }
  [[nodiscard]] bool frozen() const;
  [[nodiscard]] std::uint64_t version() const;  // of its store: raised by every write

 private:
  friend class Params;
  friend class Scope;
  friend class Gradients;
  Param(std::shared_ptr<ParamStore> store, int index) : store_(std::move(store)), index_(index) {}
  std::shared_ptr<ParamStore> store_;
  int index_ = -1;
};

// A place in the tree of names: Params plus a path. Cheap to copy.
class Scope {
 public:
  Scope(Params& params);  // the root; implicit, so that a module can be given Params itself

  [[nodiscard]] Scope operator/(std::string_view name) const;  // "layers", no dots or empty names
  [[nodiscard]] Scope operator/(std::int64_t index) const;
  // Registers a parameter of this scope. ValueError for a name that is taken, TapeError after the
  // store was sealed by its first use.
  [[nodiscard]] Param param(std::string_view name, const Shape& shape, const Init& init,
                            Decay decay = Decay::yes) const;
  [[nodiscard]] const char* path() const { return path_; }  // "encoder.layers.0"; lives for ever
  [[nodiscard]] DType dtype() const;

 private:
  Scope(std::shared_ptr<ParamStore> store, const char* path)
      : store_(std::move(store)), path_(path) {}
  std::shared_ptr<ParamStore> store_;
  const char* path_;
};

// A run of neighbouring parameters with equal properties, in elements of the flat buffer.
struct ParamRun {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  Decay decay = Decay::yes;
};

class Params {
 public:
  explicit Params(std::uint64_t seed = 0, DType dtype = DType::f32);  // f32 or f64
  Params(const Params&) = delete;
  Params& operator=(const Params&) = delete;
  // `other` stays usable: the same weights.
  Params(Params&& other) noexcept
      : store_(other.store_) {}  // NOLINT(performance-move-constructor-init)
  Params& operator=(Params&& other) noexcept {
    store_ = other.store_;
    return *this;
  }

  [[nodiscard]] Scope operator/(std::string_view name) { return Scope(*this) / name; }

  [[nodiscard]] std::uint64_t seed() const;
  [[nodiscard]] DType dtype() const;
  [[nodiscard]] int count() const;          // number of parameters
  [[nodiscard]] std::int64_t size() const;  // number of scalars
  [[nodiscard]] Param operator[](int index) const;
  [[nodiscard]] Param at(std::string_view name) const;  // ValueError with the nearest names
  [[nodiscard]] std::vector<Param> all() const;
  [[nodiscard]] std::int64_t offset(int index) const;  // where parameter `index` starts in flat()

  // All values in one tensor [size]. A copy-on-write snapshot: later writes do not change it.
  [[nodiscard]] Tensor flat() const;

  // Parameters whose path is `path` or lies below it take no gradient and are not moved.
  void freeze(std::string_view path);
  void unfreeze(std::string_view path);

  // Maximal runs of parameters that were reached, are not frozen and share a decay group.
  [[nodiscard]] std::vector<ParamRun> runs(const std::vector<unsigned char>& reached) const;

  // The one door for writers (optimisers, loading, checking): calls `write` with the flat values,
  // then raises the version, so that a tape that recorded the old values refuses to go backward.
  // `writer` is named in that error. Values held elsewhere keep their numbers.
  void write(const char* writer, const std::function<void(std::span<float>)>& write);
  void write(const char* writer, const std::function<void(std::span<double>)>& write);
  [[nodiscard]] std::uint64_t version() const;

 private:
  friend class Scope;
  friend class Gradients;
  std::shared_ptr<ParamStore> store_;
};

}  // namespace tapehead
