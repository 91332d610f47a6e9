#include <chrono>

#include <fmt/format.h>

#include <tapehead/system.hpp>

#include "cli/cli.hpp"

namespace tapehead::cli {

void add_selftest(Cli& cli) {
  cli.verb("selftest", "Check that the BLAS library multiplies exactly", [](Output& out) {
    const auto start = std::chrono::steady_clock::now();
    const std::string wrong = blas_self_test();
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const BlasInfo blas = blas_info();
    out.result().set("blas", blas.name).set("kernel", blas.kernel).set("flavour", blas.flavour);
    out.result().set("threads", threads()).set("seconds", seconds).set("passed", wrong.empty());
    out.say(fmt::format("{}, kernel {}, {} flavour, {} thread{}\n", blas.name, blas.kernel,
                        blas.flavour, threads(), threads() == 1 ? "" : "s"));
    if (!wrong.empty()) {
      throw std::runtime_error(fmt::format(
          "the BLAS library gives wrong products: {}; install another libopenblas", wrong));
    }
    out.say(fmt::format("products of small integers are exact in f32 and f64 ({:.1f} ms)\n",
                        1e3 * seconds));
    return kDone;
  });
}

}  // namespace tapehead::cli
