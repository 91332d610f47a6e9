// Times and memory of a tape, put together per op and module.
#include <tapehead/profile.hpp>

#include <algorithm>
#include <functional>
#include <unordered_set>

#include <fmt/format.h>

#include "autograd/tape_state.hpp"
#include "core/message.hpp"
#include "core/pool.hpp"

namespace tapehead {

using State = Tape::State;

double Profile::seconds() const {
  double total = outside;
  for (const ProfileEntry& entry : entries) total += entry.seconds();
  return total;
}

std::int64_t Profile::bytes() const {
  std::int64_t total = 0;
  for (const ProfileEntry& entry : entries) total += entry.bytes;
  return total;
}

ProfileEntry& Profile::at(std::string_view op, std::string_view module) {
  const auto found = std::find_if(entries.begin(), entries.end(), [&](const ProfileEntry& entry) {
    return entry.op == op && entry.module == module;
  });
  if (found != entries.end()) return *found;
  ProfileEntry entry;
  entry.op = op;
  entry.module = module;
  return entries.emplace_back(std::move(entry));
}

namespace {

void add(ProfileEntry& to, const ProfileEntry& from) {
  to.calls += from.calls;
  to.forward += from.forward;
  to.backward += from.backward;
  to.bytes += from.bytes;
}

std::vector<ProfileEntry> sorted(Profile grouped) {
  std::stable_sort(
      grouped.entries.begin(), grouped.entries.end(),
      [](const ProfileEntry& a, const ProfileEntry& b) { return a.seconds() > b.seconds(); });
  return std::move(grouped.entries);
}

double time_at(const std::vector<double>& times, std::size_t node) {
  return node < times.size() ? times[node] : 0;
}

}  // namespace

Profile& Profile::operator+=(const Profile& other) {
  if (&other == this) return *this += Profile(other);
  for (const ProfileEntry& entry : other.entries) add(at(entry.op, entry.module), entry);
  outside += other.outside;
  tapes += other.tapes;
  return *this;
}

std::vector<ProfileEntry> by_op(const Profile& profile) {
  Profile grouped;
  for (const ProfileEntry& entry : profile.entries) add(grouped.at(entry.op, ""), entry);
  return sorted(std::move(grouped));
}

std::vector<ProfileEntry> by_module(const Profile& profile) {
  Profile grouped;
  for (const ProfileEntry& entry : profile.entries) add(grouped.at("", entry.module), entry);
  return sorted(std::move(grouped));
}

void State::take_time(std::int32_t node) {
  detail::OpClock* clock = &times->clock;
  if (detail::place().clock != clock || clock->depth == 0) return;
  const double now = detail::seconds_now();
  times->forward.resize(std::max(times->forward.size(), static_cast<std::size_t>(node) + 1));
  times->forward[static_cast<std::size_t>(node)] += now - clock->since;
  times->ended = clock->since = now;
}

void State::count_bytes() {
  std::unordered_set<const detail::Block*> counted;
  times->bytes.assign(nodes.size(), 0);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (const detail::Block* block : kept(i, i + 1)) {
      if (counted.insert(block).second) times->bytes[i] += block->used;
    }
  }
}

Profile Tape::profile() const {
  if (!state_->times) {
    detail::fail<TapeError>(
        "profile: this tape takes no times; open it with TapeOptions::profile = true");
  }
  if (!state_->spent) state_->count_bytes();
  const State::Times& times = *state_->times;
  Profile profile;
  profile.tapes = 1;
  profile.outside = times.ended - times.begun;
  for (std::size_t i = 0; i < state_->nodes.size(); ++i) {
    const State::Node& node = state_->nodes[i];
    ProfileEntry entry;
    entry.calls = 1;
    entry.forward = time_at(times.forward, i);
    entry.backward = time_at(times.backward, i);
    entry.bytes = i < times.bytes.size() ? times.bytes[i] : 0;
    if (node.function_count == 0 && entry.seconds() == 0) continue;  // a leaf
    add(profile.at(node.op, node.module == nullptr ? "" : node.module), entry);
    profile.outside -= entry.seconds();
  }
  return profile;
}

namespace {

std::string thousands(std::int64_t n) {
  const std::string digits = fmt::format("{}", n);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string row(const std::string& name, double forward, double backward, double total,
                std::int64_t calls, std::int64_t bytes) {
  const double share = total > 0 ? 100 * (forward + backward) / total : 0;
  return fmt::format("{:<40} {:>11.3f} {:>11.3f} {:>6.1f}% {:>10} {:>14}\n", name, 1e3 * forward,
                     1e3 * backward, share, thousands(calls), thousands(bytes));
}

std::string table(const Profile& profile, const char* title,
                  const std::vector<ProfileEntry>& entries,
                  const std::function<std::string(const ProfileEntry&)>& name) {
  const double total = profile.seconds();
  const std::int64_t tapes = std::max<std::int64_t>(1, profile.tapes);
  std::string text = fmt::format("{:<40} {:>11} {:>11} {:>7} {:>10} {:>14}\n", title, "forward ms",
                                 "backward ms", "share", "calls", "bytes a tape");
  for (const ProfileEntry& entry : entries) {
    text +=
        row(name(entry), entry.forward, entry.backward, total, entry.calls, entry.bytes / tapes);
  }
  return text;
}

}  // namespace

std::string to_string(const Profile& profile) {
  double forward = 0;
  double backward = 0;
  std::int64_t calls = 0;
  for (const ProfileEntry& entry : profile.entries) {
    forward += entry.forward;
    backward += entry.backward;
    calls += entry.calls;
  }
  const std::int64_t tapes = std::max<std::int64_t>(1, profile.tapes);
  const double total = profile.seconds();
  std::string text =
      table(profile, "op", by_op(profile), [](const ProfileEntry& entry) { return entry.op; });
  text += row("all ops", forward, backward, total, calls, profile.bytes() / tapes);
  text += '\n';
  text += table(profile, "module", by_module(profile), [](const ProfileEntry& entry) {
    return entry.module.empty() ? std::string("(no module)") : entry.module;
  });
  text += fmt::format("\n{} tape{}, {:.3f} ms; {:.1f}% of it outside of recorded ops\n",
                      thousands(profile.tapes), profile.tapes == 1 ? "" : "s", 1e3 * total,
                      total > 0 ? 100 * profile.outside / total : 0);
  return text;
}

}  // namespace tapehead
