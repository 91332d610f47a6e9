#include "cli/progress.hpp"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include <sys/ioctl.h>
#include <unistd.h>

#include "report/progress_line.hpp"

namespace tapehead::cli {
namespace {

bool can_rewrite() {
  const char* term = std::getenv("TERM");
  return ::isatty(STDERR_FILENO) == 1 && (term == nullptr || std::string_view(term) != "dumb");
}

// Columns of the terminal now: it may have been resized.
std::size_t columns() {
  winsize size = {};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 80;
}

constexpr auto kRedraw = std::chrono::milliseconds(100);

}  // namespace

Progress::Progress(Output& out, std::int64_t epochs, std::int64_t every, bool by_epoch)
    : out_(out), epochs_(epochs), every_(every), by_epoch_(by_epoch), live_(can_rewrite()) {}

Progress::~Progress() { finish(); }

void Progress::step(const StepReport& report) {
  if (live_) {
    const auto now = std::chrono::steady_clock::now();
    // The last column stays free: some terminals wrap once it is written.
    if (now - last_ >= kRedraw || report.step == report.steps) {
      last_ = now;
      draw(report::progress_line(report, epochs_, columns() - 1));
    }
  } else if (report.step % every_ == 0 || report.step == 1 || report.step == report.steps) {
    out_.note(report::progress_line(report, epochs_, 200) + "\n");
  }
  if (report.validation != nullptr) {
    draw("");
    out_.note((by_epoch_ ? report::epoch_line(*report.validation, report.epoch, epochs_)
                         : report::evaluation_line(report)) +
              "\n");
    drawn_ = 0;
  }
}

void Progress::finish() {
  if (drawn_ > 0) out_.note("\n");
  drawn_ = 0;
}

// Spaces rub out what a longer line left behind: no escape sequences are needed.
void Progress::draw(const std::string& line) {
  if (!live_) return;
  std::string text = "\r" + line;
  if (line.size() < drawn_) text += std::string(drawn_ - line.size(), ' ') + "\r" + line;
  drawn_ = line.size();
  out_.note(text);
}

}  // namespace tapehead::cli
