#include "cli/cli.hpp"

int main(int argc, char** argv) {
  tapehead::cli::Cli cli;
  tapehead::cli::add_train(cli);
  tapehead::cli::add_resume(cli);
  tapehead::cli::add_eval(cli);
  tapehead::cli::add_generate(cli);
  tapehead::cli::add_compare(cli);
  tapehead::cli::add_inspect(cli);
  tapehead::cli::add_graph(cli);
  tapehead::cli::add_report(cli);
  tapehead::cli::add_reproduce(cli);
  tapehead::cli::add_tasks(cli);
  tapehead::cli::add_ops(cli);
  tapehead::cli::add_gradcheck(cli);
  tapehead::cli::add_selftest(cli);
  return cli.run(argc, argv);
}
