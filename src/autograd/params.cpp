#include <tapehead/params.hpp>

#include <algorithm>
#include <mutex>
#include <unordered_set>

#include <fmt/format.h>

#include "autograd/tape_state.hpp"
#include "core/access.hpp"
#include "core/message.hpp"

namespace tapehead {

using detail::fail;

namespace {

// Paths are kept for the life of the program, so that modules, tapes and errors can name them by
// pointer.
const char* intern(std::string path) {
  static std::mutex mutex;
  static std::unordered_set<std::string> paths;
  const std::lock_guard<std::mutex> lock(mutex);
  return paths.insert(std::move(path)).first->c_str();
}

std::string joined(const char* path, std::string_view name) {
  if (name.empty() || name.find('.') != std::string_view::npos) {
    fail<ValueError>(
        fmt::format("params: '{}' is not a name: it must not be empty or hold a dot", name));
  }
  return *path == '\0' ? std::string(name) : fmt::format("{}.{}", path, name);
}

}  // namespace

void ParamStore::seal() {
  const std::lock_guard<std::mutex> lock(sealing);
  if (sealed) return;
  Tensor values = zeros({size}, dtype);
  for (const Entry& entry : entries) {
    Rng rng = Rng(seed, Stream::init).fork(entry.name);
    const Tensor first = entry.init(entry.shape, rng, dtype);
    if (!first.defined() || first.shape() != entry.shape || first.dtype() != dtype) {
      fail<ShapeError>(fmt::format("params: the initialiser of {} must return {}{}", entry.name,
                                   name_of(dtype), to_string(entry.shape)));
    }
    detail::with_float("params", dtype, [&](auto zero) {
      using T = decltype(zero);
      std::copy_n(detail::in<T>(first), first.size(), detail::out<T>(values) + entry.offset);
    });
  }
  flat = std::move(values);
  sealed = true;
}

Tensor ParamStore::value(int index) {
  const Entry& entry = entries[static_cast<std::size_t>(index)];
  return detail::TensorAccess::view(values(), entry.shape, entry.offset);
}

template <class T>
void ParamStore::write(const char* writer, const std::function<void(std::span<T>)>& change) {
  if (dtype != detail::kDTypeOf<T>) {
    fail<DTypeError>(fmt::format("params: {} writes {}, but the parameters are {}", writer,
                                 name_of(detail::kDTypeOf<T>), name_of(dtype)));
  }
  seal();
  // Copy on write: whoever holds a tensor of the old values keeps its numbers.
  if (!detail::TensorAccess::unique(flat)) {
    Tensor copy = detail::empty_like(flat);
    std::copy_n(detail::in<T>(flat), flat.size(), detail::out<T>(copy));
    flat = std::move(copy);
  }
  ++version;
  last_writer = writer;
  change({detail::out<T>(flat), static_cast<std::size_t>(flat.size())});
}

Param::operator Tensor() const {
  Tensor x = value();
  Tape::State* tape = recording_tape();
  if (tape == nullptr || frozen()) return x;
  return detail::TensorAccess::placed(x, tape->id, tape->leaf(store_, index_));
}

Tensor Param::value() const {
  if (!defined()) fail<ValueError>("params: this Param handle is empty");
  return store_->value(index_);
}

void Param::set(const Tensor& value) const {
  const Tensor old = this->value();
  detail::check_same_dtype("Param::set", old, value);
  detail::check_same_shape("Param::set", old, value, name(), "the new value");
  const std::int64_t offset = store_->entries[static_cast<std::size_t>(index_)].offset;
  detail::with_float("Param::set", dtype(), [&](auto zero) {
    using T = decltype(zero);
    store_->write<T>("Param::set", [&](std::span<T> flat) {
      std::copy_n(detail::in<T>(value), value.size(), flat.data() + offset);
    });
  });
}

namespace {

const ParamStore::Entry& entry_of(const ParamStore* store, int index) {
  if (store == nullptr) fail<ValueError>("params: this Param handle is empty");
  return store->entries[static_cast<std::size_t>(index)];
}

}  // namespace

const std::string& Param::name() const { return entry_of(store_.get(), index_).name; }
const Shape& Param::shape() const { return entry_of(store_.get(), index_).shape; }
std::uint64_t Param::version() const {
  (void)entry_of(store_.get(), index_);
  return store_->version;
}
DType Param::dtype() const {
  (void)entry_of(store_.get(), index_);
  return store_->dtype;
}
bool Param::frozen() const { return entry_of(store_.get(), index_).frozen; }

Scope::Scope(Params& params) : store_(params.store_), path_("") {}

Scope Scope::operator/(std::string_view name) const {
  return {store_, intern(joined(path_, name))};
}
Scope Scope::operator/(std::int64_t index) const { return *this / fmt::format("{}", index); }
DType Scope::dtype() const { return store_->dtype; }

Param Scope::param(std::string_view name, const Shape& shape, const Init& init, Decay decay) const {
  const std::string full = joined(path_, name);
  if (store_->sealed) {
    fail<TapeError>(fmt::format(
        "params: {} comes too late: the parameters were sealed by their first use; build the "
        "whole model first",
        full));
  }
  if (!init) fail<ValueError>(fmt::format("params: {} has no initialiser", full));
  constexpr std::int64_t kMost = std::int64_t{1} << 59;  // as for the elements of a shape
  if (shape.size() > kMost - store_->size) {
    fail<ShapeError>(
        fmt::format("params: {} {} brings the store beyond 2^59 numbers", full, to_string(shape)));
  }
  const int index = static_cast<int>(store_->entries.size());
  if (!store_->by_name.emplace(full, index).second) {
    fail<ValueError>(fmt::format(
        "params: the name {} is taken; give each module its own scope, or share one module by "
        "copying it",
        full));
  }
  store_->entries.push_back({full, shape, init, decay, store_->size, false});
  store_->size += shape.size();
  return {store_, index};
}

Params::Params(std::uint64_t seed, DType dtype) {
  if (!is_floating(dtype)) detail::fail_not_floating("params", dtype);
  store_ = std::make_shared<ParamStore>(seed, dtype);
}

std::uint64_t Params::seed() const { return store_->seed; }
DType Params::dtype() const { return store_->dtype; }
int Params::count() const { return static_cast<int>(store_->entries.size()); }
std::int64_t Params::size() const { return store_->size; }
std::uint64_t Params::version() const { return store_->version; }

Param Params::operator[](int index) const {
  if (index < 0 || index >= count())
    fail<IndexError>(fmt::format("params: index {} of {} parameters", index, count()));
  return {store_, index};
}

Param Params::at(std::string_view name) const {
  const auto found = store_->by_name.find(std::string(name));
  if (found != store_->by_name.end()) return {store_, found->second};
  if (store_->entries.empty())
    fail<ValueError>(fmt::format("params: no parameter '{}': there are none at all", name));
  std::vector<std::string> names;
  for (const ParamStore::Entry& entry : store_->entries) names.push_back(entry.name);
  fail<ValueError>(fmt::format("params: no parameter '{}'; did you mean {}?", name,
                               detail::nearest(name, names)));
}

std::vector<Param> Params::all() const {
  std::vector<Param> params;
  for (int i = 0; i < count(); ++i) params.push_back((*this)[i]);
  return params;
}

std::int64_t Params::offset(int index) const {
  (void)(*this)[index];
  return store_->entries[static_cast<std::size_t>(index)].offset;
}

Tensor Params::flat() const { return store_->values(); }

namespace {

void set_frozen(ParamStore& store, std::string_view path, bool frozen) {
  bool any = false;
  for (ParamStore::Entry& entry : store.entries) {
    const std::string_view name = entry.name;
    if (path.empty() || name == path ||
        (name.substr(0, path.size()) == path && name[path.size()] == '.')) {
      entry.frozen = frozen;
      any = true;
    }
  }
  if (!any) fail<ValueError>(fmt::format("params: no parameter at or below '{}'", path));
}

}  // namespace

void Params::freeze(std::string_view path) { set_frozen(*store_, path, true); }
void Params::unfreeze(std::string_view path) { set_frozen(*store_, path, false); }

std::vector<ParamRun> Params::runs(const std::vector<unsigned char>& reached) const {
  if (static_cast<int>(reached.size()) != count()) {
    fail<ValueError>(
        fmt::format("params: a mask of {} entries for {} parameters", reached.size(), count()));
  }
  std::vector<ParamRun> runs;
  for (std::size_t i = 0; i < reached.size(); ++i) {
    const ParamStore::Entry& entry = store_->entries[i];
    const std::int64_t end = entry.offset + entry.shape.size();
    if (reached[i] == 0 || entry.frozen) continue;
    if (!runs.empty() && runs.back().end == entry.offset && runs.back().decay == entry.decay) {
      runs.back().end = end;
    } else {
      runs.push_back({entry.offset, end, entry.decay});
    }
  }
  return runs;
}

void Params::write(const char* writer, const std::function<void(std::span<float>)>& change) {
  store_->write<float>(writer, change);
}
void Params::write(const char* writer, const std::function<void(std::span<double>)>& change) {
  store_->write<double>(writer, change);
}

}  // namespace tapehead
