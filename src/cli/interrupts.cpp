#include "cli/interrupts.hpp"

#include <unistd.h>

namespace tapehead::cli {
namespace {

std::atomic<int> g_signal{0};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler may touch nothing else");

extern "C" void on_signal(int number) {
  if (g_signal.load() != 0) ::_exit(128 + number);
  g_signal.store(number);
}

}  // namespace

Interrupts::Interrupts() {
  g_signal.store(0);
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;  // a write in progress goes on
  sigemptyset(&action.sa_mask);
  ::sigaction(SIGINT, &action, &previous_int_);
  ::sigaction(SIGTERM, &action, &previous_term_);
}

Interrupts::~Interrupts() {
  ::sigaction(SIGINT, &previous_int_, nullptr);
  ::sigaction(SIGTERM, &previous_term_, nullptr);
}

const std::atomic<int>& Interrupts::flag() { return g_signal; }

}  // namespace tapehead::cli
