// Profile: where the time of a step goes and what memory it keeps, per op and module.
//
//   th::Profile profile;
//   for (...) {
//     th::Tape tape({.profile = true});
//     ...
//     adam.step(tape.backward(loss));
//     profile += tape.profile();
//   }
//   std::puts(to_string(profile).c_str());
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tapehead {

struct ProfileEntry {
  std::string op;
  std::string module;  // path, or "" outside of all
  std::int64_t calls = 0;
  double forward = 0;      // seconds
  double backward = 0;     // seconds
  std::int64_t bytes = 0;  // kept for backward; what several nodes keep counts for the first
  [[nodiscard]] double seconds() const { return forward + backward; }
};

// The seconds of all entries and `outside` add up to the lives of the tapes, from the first line to
// the end of backward.
struct Profile {
  std::vector<ProfileEntry> entries;  // one for each op and module, in the order of recording
  double outside = 0;  // seconds in no recorded op: data, ops on constants, the caller's own code
  std::int64_t tapes = 0;  // that were added up

  [[nodiscard]] double seconds() const;
  [[nodiscard]] std::int64_t bytes() const;
  // The entry of this op and module, made when it is new.
  ProfileEntry& at(std::string_view op, std::string_view module);
  Profile& operator+=(const Profile& other);
};

// Sums over modules, one entry for each op; and over ops, one for each module. By time, longest
// first.
[[nodiscard]] std::vector<ProfileEntry> by_op(const Profile& profile);
[[nodiscard]] std::vector<ProfileEntry> by_module(const Profile& profile);
// Both as tables, with shares of the whole and bytes a tape.
[[nodiscard]] std::string to_string(const Profile& profile);

}  // namespace tapehead
