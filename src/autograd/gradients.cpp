#include <algorithm>

#include <fmt/format.h>

#include "autograd/recorded.hpp"
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
Gradients::Gradients(const Gradients& other) : state_(std::make_unique<State>(other.seen())) {}
// What was moved from is empty, not broken.
Gradients::Gradients(Gradients&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
const Gradients::State& Gradients::seen() const {
  static const State nothing;
  return state_ != nullptr ? *state_ : nothing;
}

Gradients::State& Gradients::own() {
  if (state_ == nullptr) state_ = std::make_unique<State>();
  return *state_;
}

Gradients& Gradients::operator=(Gradients other) noexcept {
  state_ = std::move(other.state_);
  return *this;
}

namespace {

// The flat gradient of one store. What a differentiable tape kept apart is put together by an
// operation that it records, so that a penalty on the flat gradient has a gradient itself.
Tensor flat_of(const Gradients::State::OfStore* of, const ParamStore& store) {
  if (of != nullptr && of->flat.defined()) return of->flat;
  std::vector<detail::Segment> parts;
  for (std::size_t i = 0; of != nullptr && i < of->recorded.size(); ++i) {
    if (of->recorded[i].defined()) parts.push_back({of->recorded[i], store.entries[i].offset});
  }
  return detail::joined(parts, store.size, store.dtype);
}

// The gradient of parameter i; undefined where not reached.
Tensor part_of(const Gradients::State::OfStore& of, std::size_t i) {
  if (of.reached[i] == 0) return {};
  if (!of.flat.defined()) return of.recorded[i];
  const ParamStore::Entry& entry = of.store->entries[i];
  return detail::TensorAccess::view(of.flat, entry.shape, entry.offset);
}

}  // namespace

Tensor Gradients::operator[](const Param& param) const {
  if (!param.defined()) fail<ValueError>("gradients: this Param handle is empty");
  const auto* of = seen().find(param.store_.get());
  const auto index = static_cast<std::size_t>(param.index_);
  if (of == nullptr || of->reached[index] == 0) return zeros(param.shape(), param.dtype());
  return part_of(*of, index);
}

Tensor Gradients::operator[](const Tensor& watched) const {
  const State::Key key{watched.tape_id(), watched.node()};
  if (const auto found = seen().watched.find(key); found != seen().watched.end())
    return found->second;
  if (const auto asked = seen().asked.find(key); asked != seen().asked.end()) {
    return zeros(asked->second.first, asked->second.second);
  }
  fail<TapeError>(
      "gradients: this tensor was not watched; call tape.watch(x) before backward and use the "
      "handle it returns");
}

bool Gradients::reached(const Param& param) const {
  const auto* of = param.defined() ? seen().find(param.store_.get()) : nullptr;
  return of != nullptr && of->reached[static_cast<std::size_t>(param.index_)] != 0;
}

bool Gradients::reached(const Tensor& watched) const {
  return seen().watched.count({watched.tape_id(), watched.node()}) > 0;
}

Tensor Gradients::flat(const Params& params) const {
  return flat_of(seen().find(params.store_.get()), *params.store_);
}

std::vector<unsigned char> Gradients::reached_mask(const Params& params) const {
  const auto* of = seen().find(params.store_.get());
  return of != nullptr ? of->reached : std::vector<unsigned char>(params.store_->entries.size(), 0);
}

Gradients& Gradients::operator+=(const Gradients& added) {
  // A copy, as `added` may be *this.
  const Gradients other = added;  // NOLINT(performance-unnecessary-copy-initialization)
  for (const State::OfStore& theirs : other.seen().stores) {
    State::OfStore& ours = own().of(theirs.store);
    if (theirs.flat.defined() && (ours.flat.defined() || ours.recorded.empty())) {
      Tensor sum = flat_of(&ours, *ours.store);
      ours.flat = Tensor();
      detail::accumulate(sum, theirs.flat);
      ours.flat = std::move(sum);
    } else {
      std::vector<Tensor> parts(ours.reached.size());
      for (std::size_t i = 0; i < parts.size(); ++i) {
        const Tensor mine = part_of(ours, i);
        const Tensor more = part_of(theirs, i);
        parts[i] = mine.defined() && more.defined() ? detail::recorded_sum(mine, more)
                                                    : (mine.defined() ? mine : more);
      }
      ours.flat = Tensor();
      ours.recorded = std::move(parts);
    }
    for (std::size_t i = 0; i < ours.reached.size(); ++i) ours.reached[i] |= theirs.reached[i];
  }
  for (const auto& [key, gradient] : other.seen().watched) {
    Tensor& ours = own().watched[key];
    ours = ours.defined() ? detail::recorded_sum(ours, gradient) : gradient;
  }
  own().asked.insert(other.seen().asked.begin(), other.seen().asked.end());
  return *this;
}

Gradients& Gradients::operator*=(double factor) {
  const auto scale = [factor](Tensor& x) {
    if (x.defined()) x = detail::recorded_scale(x, factor);
  };
  for (State::OfStore& of : own().stores) {
    scale(of.flat);
    for (Tensor& part : of.recorded) scale(part);
  }
  for (auto& entry : own().watched) scale(entry.second);
  return *this;
}

}  // namespace tapehead
