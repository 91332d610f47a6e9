#include <algorithm>

#include <fmt/format.h>

#include "autograd/tape_state.hpp"
#include "core/access.hpp"
#include "core/message.hpp"
#include "core/threads.hpp"

namespace tapehead {

using detail::fail;

namespace detail {

void accumulate(Tensor& x, const Tensor& y) {
  with_float("accumulate", x.dtype(), [&](auto zero) {
    using T = decltype(zero);
    Tensor sum = TensorAccess::unique(x) ? x : empty_like(x);
    const T* a = in<T>(x);
    const T* b = in<T>(y);
    T* c = out<T>(sum);
    parallel_for(x.size(), kElementChunk, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) c[i] = a[i] + b[i];
    });
    x = std::move(sum);
  });
}

}  // namespace detail

Gradients::State::OfStore& Gradients::State::of(const std::shared_ptr<ParamStore>& store) {
  for (OfStore& entry : stores) {
    if (entry.store == store) return entry;
  }
  stores.push_back({store, Tensor(), std::vector<unsigned char>(store->entries.size(), 0), {}});
  return stores.back();
}

const Gradients::State::OfStore* Gradients::State::find(const ParamStore* store) const {
  const auto found = std::find_if(stores.begin(), stores.end(),
                                  [&](const OfStore& s) { return s.store.get() == store; });
  return found == stores.end() ? nullptr : &*found;
}

Gradients::Gradients() : state_(std::make_unique<State>()) {}
Gradients::~Gradients() = default;
Gradients::Gradients(const Gradients& other) : state_(std::make_unique<State>(*other.state_)) {}
Gradients::Gradients(Gradients&&) noexcept = default;
Gradients& Gradients::operator=(Gradients other) noexcept {
  state_ = std::move(other.state_);
  return *this;
}

namespace {

// The flat gradient of one store; put together from the recorded parts of a differentiable tape.
Tensor flat_of(const Gradients::State::OfStore* of, const ParamStore& store) {
  if (of == nullptr) return zeros({store.size}, store.dtype);
  if (of->flat.defined()) return of->flat;
  return detail::with_float("gradients", store.dtype, [&](auto zero) {
    using T = decltype(zero);
    Tensor flat = zeros({store.size}, store.dtype);
    for (std::size_t i = 0; i < of->recorded.size(); ++i) {
      const Tensor& part = of->recorded[i];
      if (part.defined())
        std::copy_n(detail::in<T>(part), part.size(),
                    detail::out<T>(flat) + store.entries[i].offset);
    }
    return flat;
  });
}

}  // namespace

Tensor Gradients::operator[](const Param& param) const {
  if (!param.defined()) fail<ValueError>("gradients: this Param handle is empty");
  const auto* of = state_->find(param.store_.get());
  const auto index = static_cast<std::size_t>(param.index_);
  if (of == nullptr || !of->reached[index]) return zeros(param.shape(), param.dtype());
  if (!of->flat.defined()) return of->recorded[index];
  return detail::TensorAccess::view(of->flat, param.shape(), of->store->entries[index].offset);
}

Tensor Gradients::operator[](const Tensor& watched) const {
  const State::Key key{watched.tape_id(), watched.node()};
  if (const auto found = state_->watched.find(key); found != state_->watched.end())
    return found->second;
  if (const auto asked = state_->asked.find(key); asked != state_->asked.end()) {
    return zeros(asked->second.first, asked->second.second);
  }
  fail<TapeError>(
      "gradients: this tensor was not watched; call tape.watch(x) before backward and use the "
      "handle it returns");
}

bool Gradients::reached(const Param& param) const {
  const auto* of = param.defined() ? state_->find(param.store_.get()) : nullptr;
  return of != nullptr && of->reached[static_cast<std::size_t>(param.index_)] != 0;
}

bool Gradients::reached(const Tensor& watched) const {
  return state_->watched.count({watched.tape_id(), watched.node()}) > 0;
}

Tensor Gradients::flat(const Params& params) const {
  return flat_of(state_->find(params.store_.get()), *params.store_);
}

std::vector<unsigned char> Gradients::reached_mask(const Params& params) const {
  const auto* of = state_->find(params.store_.get());
  return of != nullptr ? of->reached : std::vector<unsigned char>(params.store_->entries.size(), 0);
}

Gradients& Gradients::operator+=(const Gradients& other) {
  for (const State::OfStore& theirs : other.state_->stores) {
    State::OfStore& ours = state_->of(theirs.store);
    Tensor sum = flat_of(&ours, *ours.store);
    ours.flat = Tensor();
    detail::accumulate(sum, flat_of(&theirs, *theirs.store));
    ours.flat = std::move(sum);
    ours.recorded.clear();
    for (std::size_t i = 0; i < ours.reached.size(); ++i) ours.reached[i] |= theirs.reached[i];
  }
  for (const auto& [key, gradient] : other.state_->watched) {
    Tensor& ours = state_->watched[key];
    if (ours.defined()) {
      detail::accumulate(ours, gradient);
    } else {
      ours = gradient;
    }
  }
  state_->asked.insert(other.state_->asked.begin(), other.state_->asked.end());
  return *this;
}

Gradients& Gradients::operator*=(double factor) {
  const auto scaled = [factor](Tensor& x) {
    x = detail::with_float("gradients", x.dtype(), [&](auto zero) {
      using T = decltype(zero);
      Tensor y = detail::TensorAccess::unique(x) ? detail::TensorAccess::placed(x, 0, -1)
                                                 : detail::empty_like(x);
      const T* from = detail::in<T>(x);
      T* to = detail::out<T>(y);
      detail::parallel_for(x.size(), detail::kElementChunk,
                           [&](std::int64_t begin, std::int64_t end) {
                             for (std::int64_t i = begin; i < end; ++i)
                               to[i] = static_cast<T>(factor) * from[i];
                           });
      return y;
    });
  };
  for (State::OfStore& of : state_->stores) {
    if (!of.flat.defined()) of.flat = flat_of(&of, *of.store);
    of.recorded.clear();
    scaled(of.flat);
  }
  for (auto& entry : state_->watched) scaled(entry.second);
  return *this;
}

}  // namespace tapehead
