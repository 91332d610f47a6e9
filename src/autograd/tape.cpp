#include <algorithm>
#include <atomic>

#include <fmt/format.h>

#include "autograd/tape_state.hpp"
#include "core/access.hpp"
#include "core/message.hpp"
#include "core/place.hpp"
#include "core/threads.hpp"

namespace tapehead {

using detail::fail;
using State = Tape::State;

namespace {

thread_local State* t_newest = nullptr;  // innermost tape alive on this thread
thread_local char t_identity = 0;        // its address names the thread

// Storage of ended tapes, for the next one: node vectors and closure chunks are reused from step to
// step.
struct Spares {
  std::vector<std::unique_ptr<State>> list;
};
Spares& spares() {
  thread_local Spares instance;
  return instance;
}

// Unlinks ended tapes of this thread (normally the newest; tapes may end in another order) and
// keeps their storage.
void take_out_ended() noexcept {
  for (State** link = &t_newest; *link != nullptr;) {
    State* tape = *link;
    if (!tape->ended.load(std::memory_order_acquire)) {
      link = &tape->outer;
      continue;
    }
    *link = tape->outer;
    tape->ended.store(false, std::memory_order_relaxed);
    std::unique_ptr<State> state(tape);
    try {
      spares().list.push_back(std::move(state));
    } catch (...) {
      // No room to keep the storage: it is freed instead.
    }
  }
}

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> last{0};
  return ++last;
}

}  // namespace

State* recording_tape() {
  State* tape = t_newest;
  while (tape != nullptr && (tape->spent || tape->ended.load(std::memory_order_acquire)))
    tape = tape->outer;
  return tape;
}

State* exchange_newest(State* tape) { return std::exchange(t_newest, tape); }

void follow_clock() {
  State* tape = recording_tape();
  detail::place().clock = tape != nullptr && tape->times ? &tape->times->clock : nullptr;
}

const void* this_thread() { return &t_identity; }

std::int32_t State::add_node(const char* op, const Shape& shape, DType dtype, CallSite at) {
  if (nodes.size() >= std::size_t{1} << 30)
    fail<TapeError>("tape: more than 2^30 nodes; end the tape more often");
  const detail::Place& place = detail::place();
  nodes.push_back({op, place.module, place.call.file() == nullptr ? at : place.call, shape, dtype,
                   false, 0, 0, -1, -1, -1});
  return static_cast<std::int32_t>(nodes.size()) - 1;
}

std::int32_t State::leaf(const std::shared_ptr<ParamStore>& store, int index) {
  auto found =
      std::find_if(stores.begin(), stores.end(), [&](const Store& s) { return s.store == store; });
  if (found == stores.end()) {
    stores.push_back({store, store->version, {}});
    found = stores.end() - 1;
  }
  found->leaves.resize(store->entries.size(), -1);
  std::int32_t& node = found->leaves[static_cast<std::size_t>(index)];
  if (node < 0) {
    node = add_node("parameter", store->entries[static_cast<std::size_t>(index)].shape,
                    store->dtype, CallSite::at(nullptr, 0));
    nodes.back().param_store = static_cast<std::int32_t>(found - stores.begin());
    nodes.back().param_index = index;
    if (finite) detail::check_leaf(*this, node, store->value(index));
  }
  return node;
}

void State::release(Function& function) noexcept {
  if (function.closure.target == nullptr) return;
  function.closure.destroy(std::exchange(function.closure.target, nullptr));
}

void State::clear() noexcept {
  for (Function& function : functions) release(function);
  functions.clear();
  nodes.clear();
  edges.clear();
  saved.clear();
  stores.clear();
  arena.clear();
  finite.reset();  // `times` stays: this thread's ops may still look at its clock
  options = {};
  spent = false;
}

Tape::Tape(TapeOptions options) {
  auto& list = spares().list;
  std::unique_ptr<State> state;
  if (list.empty()) {
    state = std::make_unique<State>();
  } else {
    state = std::move(list.back());
    list.pop_back();
  }
  state_ = state.release();
  state_->id = next_id();
  state_->options = std::move(options);
  if (state_->options.check_finite) state_->finite = std::make_unique<detail::Finite>();
  state_->thread = this_thread();
  take_out_ended();
  state_->outer = std::exchange(t_newest, state_);
  state_->times.reset();
  if (state_->options.profile) {
    state_->times = std::make_unique<State::Times>();
    state_->times->begun = state_->times->ended = detail::seconds_now();
  }
  follow_clock();
}

Tape::~Tape() {
  if (state_->thread != this_thread()) {
    // The owner's list cannot be touched from here: it skips an ended tape, and the next tape that
    // the owner begins or ends takes it out.
    state_->clear();
    state_->ended.store(true, std::memory_order_release);
    return;
  }
  state_->clear();
  state_->ended.store(true, std::memory_order_relaxed);
  take_out_ended();
  follow_clock();
}

Tensor Tape::watch(const Tensor& x, CallSite at) {
  detail::check_floating("watch", x);
  if (state_->thread != this_thread())
    fail<TapeError>("watch: this tape belongs to another thread");
  if (state_->spent)
    fail<TapeError>("watch: this tape is spent: backward has consumed it; open a new Tape");
  if (x.tape_id() != 0 && x.tape_id() != state_->id) {
    fail<TapeError>(
        "watch: the tensor belongs to another tape (or one that has ended); use detach()");
  }
  Tensor leaf = x;
  if (x.tape_id() == 0) {
    leaf = detail::TensorAccess::placed(x, state_->id,
                                        state_->add_node("watched", x.shape(), x.dtype(), at));
    if (state_->finite) detail::check_leaf(*state_, leaf.node(), leaf);
  }
  state_->nodes[static_cast<std::size_t>(leaf.node())].watched = true;
  return leaf;
}

bool Tape::spent() const { return state_->spent; }
bool Tape::differentiable() const { return state_->options.differentiable; }
std::uint64_t Tape::id() const { return state_->id; }
int Tape::size() const { return static_cast<int>(state_->nodes.size()); }

InModule::InModule(const char* path)
    : previous_(std::exchange(detail::place().module, path)), outer_(detail::place().call) {}
InModule::InModule(const char* path, CallSite at) : InModule(path) {
  if (outer_.file() == nullptr) detail::place().call = at;
}
InModule::~InModule() {
  detail::place().module = previous_;
  detail::place().call = outer_;
}

}  // namespace tapehead
