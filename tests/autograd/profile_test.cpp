// Times against a clock that moves one second each time it is read, so that every share can be
// counted by hand.
#include <string>

#include <tapehead/nn.hpp>
#include <tapehead/ops.hpp>
#include <tapehead/tape.hpp>

#include "core/place.hpp"
#include "support/catch.hpp"

using namespace tapehead;

namespace {

double t_seconds = 0;

class CountingClock {
 public:
  CountingClock() : real_(detail::seconds_now) {
    t_seconds = 0;
    detail::seconds_now = [] { return t_seconds++; };
  }
  ~CountingClock() { detail::seconds_now = real_; }
  CountingClock(const CountingClock&) = delete;
  CountingClock& operator=(const CountingClock&) = delete;

 private:
  detail::Clock real_;
};

TapeOptions profiling(bool differentiable = false) {
  TapeOptions options;
  options.differentiable = differentiable;
  options.profile = true;
  return options;
}

}  // namespace

TEST_CASE("every reading of the clock is put down to one op, and all add up") {
  const CountingClock clock;
  Tape tape(profiling());  // 0: the tape begins
  const Tensor x = tape.watch(ones({2, 3}));
  const Tensor y = exp(x);               // 1: begins, 2: recorded
  const Tensor z = mean(y);              // 3: begins, 4: its sum, 5: its scale
  const Gradients g = tape.backward(z);  // 6, 7: bytes are counted, which is no time of the step
                                         // 8: the walk begins, 9: scale, 10: sum, 11: exp, 12: x
  CHECK(t_seconds == 13);
  const Profile profile = tape.profile();
  REQUIRE(profile.entries.size() == 4);
  const auto is = [&](std::size_t i, const char* op, double forward, double backward) {
    CHECK(profile.entries[i].op == op);
    CHECK(profile.entries[i].calls == 1);
    CHECK(profile.entries[i].forward == forward);
    CHECK(profile.entries[i].backward == backward);
  };
  is(0, "watched", 0, 1);
  is(1, "exp", 1, 1);
  is(2, "sum", 1, 1);
  is(3, "scale", 1, 1);
  // 0..12 but for the second between 6 and 7; inside of ops are 7 of the 11.
  CHECK(profile.seconds() == 11);
  CHECK(profile.outside == 4);
  CHECK(profile.tapes == 1);
}

TEST_CASE("what a module does between its ops is outside, and its ops are its own") {
  Params params;
  const Linear layer(params / "layer", 3, 2);
  const CountingClock clock;
  Tape tape(profiling());
  const Tensor x = tape.watch(ones({4, 3}));
  {
    const InModule here("outer");
    (void)sum(layer(x));
  }
  const Profile profile = tape.profile();
  REQUIRE(profile.entries.size() == 2);
  CHECK(profile.entries[0].op == "linear");
  CHECK(profile.entries[0].module == "layer");
  CHECK(profile.entries[0].forward == 1);
  CHECK(profile.entries[0].bytes == 4 * 3 * 4);
  CHECK(profile.entries[1].module == "outer");
  CHECK(profile.entries[1].bytes == 0);
}

TEST_CASE("ops on constants, and without an OpCall, are outside") {
  const CountingClock clock;
  Tape tape(profiling());
  const Tensor x = tape.watch(ones({2}));
  (void)exp(ones({2}));
  const Tensor y = record("own", detach(x)).input(x, [](const Tensor& dy) { return dy; });
  CHECK(y.tape_id() == tape.id());
  const Profile profile = tape.profile();
  REQUIRE(profile.entries.size() == 1);
  CHECK(profile.entries[0].op == "own");
  CHECK(profile.entries[0].seconds() == 0);
}

TEST_CASE("a differentiable tape counts its recorded gradients once, as backward") {
  const CountingClock clock;
  Tape tape(profiling(true));
  const Tensor x = tape.watch(full({2}, 3));
  const Tensor y = sum(x * x * x);  // 5 readings: 0 and two an op less
  const double before = t_seconds;
  const Gradients g = tape.backward(y);
  const double walked = t_seconds - before;
  const Profile profile = tape.profile();
  double forward = 0;
  double backward = 0;
  for (const ProfileEntry& entry : profile.entries) {
    forward += entry.forward;
    backward += entry.backward;
  }
  CHECK(forward == 3);  // mul, mul, sum
  CHECK(walked == 7);   // two around the bytes, one to begin, one a node: sum, mul, mul, x
  CHECK(backward == 4);
}

TEST_CASE("an inner tape stops the outer one's clock, and gives it back") {
  const CountingClock clock;
  Tape outer(profiling());
  const Tensor x = outer.watch(ones({2}));
  {
    Tape inner;
    const Tensor y = inner.watch(ones({2}));
    const double before = t_seconds;
    (void)inner.backward(sum(exp(y)));
    CHECK(t_seconds == before);
  }
  (void)exp(x);
  CHECK(outer.profile().at("exp", "").forward == 1);
}

TEST_CASE("a tape that takes no times never reads the clock") {
  const CountingClock clock;
  Tape tape;
  const Tensor x = tape.watch(ones({2}));
  (void)tape.backward(sum(exp(x)));
  CHECK(t_seconds == 0);
  CHECK_THROWS_WITH(tape.profile(), ContainsSubstring("TapeOptions::profile = true"));
}

TEST_CASE("bytes that several ops keep count for the first, so that they add up") {
  Tape tape(profiling());
  const Tensor x = tape.watch(ones({4, 8}));  // 128 bytes
  const Tensor y = sum(log(x) + x * x);
  const std::int64_t all = tape.kept_bytes();
  CHECK(all == 128);
  (void)tape.backward(y);
  Profile profile = tape.profile();
  CHECK(profile.bytes() == all);
  CHECK(profile.at("log", "").bytes + profile.at("mul", "").bytes == 128);
}

TEST_CASE("profiles add up, and are sorted by time") {
  Profile profile;
  profile.at("exp", "a") = {"exp", "a", 1, 0.25, 0.5, 100};
  profile.at("exp", "b") = {"exp", "b", 2, 1, 1, 10};
  profile.at("sum", "a") = {"sum", "a", 1, 4, 0, 0};
  profile.outside = 3.25;
  profile.tapes = 1;
  profile += profile;
  CHECK(profile.seconds() == 20);
  CHECK(profile.bytes() == 220);
  CHECK(profile.tapes == 2);
  const std::vector<ProfileEntry> ops = by_op(profile);
  REQUIRE(ops.size() == 2);
  CHECK(ops[0].op == "sum");
  CHECK(ops[1].op == "exp");
  CHECK(ops[1].calls == 6);
  CHECK(ops[1].forward == 2.5);
  CHECK(ops[1].backward == 3);
  CHECK(ops[1].bytes == 220);
  const std::vector<ProfileEntry> modules = by_module(profile);
  REQUIRE(modules.size() == 2);
  CHECK(modules[0].module == "a");
  CHECK(modules[0].seconds() == 9.5);
  CHECK(modules[1].seconds() == 4);
  const std::string text = to_string(profile);
  CHECK_THAT(text, ContainsSubstring("\nsum                                         8000.000       "
                                     "0.000   40.0%          2              0\n"));
  CHECK_THAT(text, ContainsSubstring("\nexp                                         2500.000    "
                                     "3000.000   27.5%          6            110\n"));
  CHECK_THAT(text,
             ContainsSubstring("\n2 tapes, 20000.000 ms; 32.5% of it outside of recorded ops\n"));
}
