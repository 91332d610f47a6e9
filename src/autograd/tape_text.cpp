// What a tape tells about itself: nodes, what they keep in memory, and all of it as text.
#include <algorithm>
#include <functional>

#include <fmt/format.h>

#include "autograd/tape_state.hpp"
#include "core/access.hpp"
#include "core/message.hpp"
#include "core/pool.hpp"

namespace tapehead {

using State = Tape::State;

namespace {
void check_node(int index, int size) {
  if (index < 0 || index >= size)
    detail::fail<IndexError>(fmt::format("tape: node {} of {}", index, size));
}
}  // namespace

NodeInfo Tape::node(int index) const {
  check_node(index, size());
  const State::Node& node = state_->nodes[static_cast<std::size_t>(index)];
  NodeInfo info{node.op,
                node.shape,
                node.dtype,
                {},
                node.module == nullptr ? "" : node.module,
                node.saved >= 0,
                {},
                node.call.file() == nullptr ? "" : node.call.file(),
                node.call.line()};
  if (node.param_store >= 0) {
    const State::Store& store = state_->stores[static_cast<std::size_t>(node.param_store)];
    info.name = store.store->entries[static_cast<std::size_t>(node.param_index)].name;
  }
  for (std::int32_t f = 0; f < node.function_count; ++f) {
    const State::Function& function =
        state_->functions[static_cast<std::size_t>(node.first_function + f)];
    for (std::int32_t e = 0; e < function.edge_count; ++e) {
      const std::int32_t input = state_->edges[static_cast<std::size_t>(function.first_edge + e)];
      if (input >= 0) info.inputs.push_back(input);
    }
  }
  return info;
}

// A closure is copied where every copied handle is listed, and the copy dropped.
std::vector<const detail::Block*> State::kept(std::size_t first, std::size_t last) const {
  const auto by_address = std::less<const detail::Block*>();
  std::vector<const detail::Block*> blocks;
  {
    detail::CopiedBlocks copied;
    for (std::size_t n = first; n < last; ++n) {
      const Node& node = nodes[n];
      for (std::int32_t f = 0; f < node.function_count; ++f) {
        const detail::Closure& closure =
            functions[static_cast<std::size_t>(node.first_function + f)].closure;
        if (closure.target != nullptr && closure.copy != nullptr) closure.copy(closure.target);
      }
      if (node.saved >= 0) const Tensor copy = saved[static_cast<std::size_t>(node.saved)];
    }
    blocks = std::move(copied.list);
  }
  std::vector<const detail::Block*> parameters;
  {
    detail::CopiedBlocks copied;
    for (const Store& seen : stores) const Tensor copy = seen.store->flat;
    parameters = std::move(copied.list);
  }
  std::sort(blocks.begin(), blocks.end(), by_address);
  blocks.erase(std::unique(blocks.begin(), blocks.end()), blocks.end());
  std::erase_if(blocks, [&](const detail::Block* block) {
    return std::find(parameters.begin(), parameters.end(), block) != parameters.end();
  });
  return blocks;
}

namespace {
std::int64_t bytes_in(const std::vector<const detail::Block*>& blocks) {
  std::int64_t bytes = 0;
  for (const detail::Block* block : blocks) bytes += block->used;
  return bytes;
}
}  // namespace

std::int64_t Tape::kept_bytes(int index) const {
  check_node(index, size());
  const auto at = static_cast<std::size_t>(index);
  return bytes_in(state_->kept(at, at + 1));
}

std::int64_t Tape::kept_bytes() const { return bytes_in(state_->kept(0, state_->nodes.size())); }

std::string to_string(const Tape& tape) {
  std::string text = fmt::format("{:>5}  {:<18} {:<22} {:<14} {:>12}  {}\n", "node", "op", "output",
                                 "inputs", "bytes kept", "module (call)");
  for (int i = 0; i < tape.size(); ++i) {
    const NodeInfo node = tape.node(i);
    text += fmt::format("{:5}  {:<18} {:<22} {:<14} {:>12}", i, node.op,
                        fmt::format("{}{}", name_of(node.dtype), to_string(node.shape)),
                        fmt::format("({})", fmt::join(node.inputs, ", ")), tape.kept_bytes(i));
    const std::string_view place = node.name.empty() ? node.module : node.name;
    if (!place.empty()) text += fmt::format("  {}", place);
    if (node.line > 0)
      text += fmt::format("  ({})", detail::to_string(CallSite::at(node.file, node.line)));
    text += '\n';
  }
  text += tape.spent() ? std::string("spent: backward has consumed what was kept\n")
                       : fmt::format("{} bytes kept in all\n", tape.kept_bytes());
  return text;
}

}  // namespace tapehead
