// The frame of the program: verbs with options, exit statuses, and who gets which output.
//
// A verb is one file with one function `void add_NAME(Cli& cli)`:
//
//   void add_tasks(Cli& cli) {
//     cli.verb("tasks", "List the tasks", [](Output& out) {
//       out.say("reverse\n");
//       out.result().set("tasks", ...);
//       return kDone;
//     });
//   }
//
// Every verb has --json and --help without doing anything for it. An exception that leaves a verb
// becomes one sentence on stderr: status 2 for Misuse, 1 for all others.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "io/json.hpp"

namespace tapehead::cli {

inline constexpr int kDone = 0;
inline constexpr int kFailed = 1;
inline constexpr int kMisused = 2;

// The command line asks for something that cannot be: exit status 2.
struct Misuse : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Runs `check`, where every error but too little memory means that the options were wrong.
void as_misuse(const std::function<void()>& check);

// The parts of "a+b", empty ones included.
[[nodiscard]] std::vector<std::string> split(const std::string& text, char at);

// Where text goes. Data and tables are for stdout, progress is for stderr; with --json stdout holds
// exactly one JSON object, and all that is for people goes to stderr.
class Output {
 public:
  explicit Output(bool json) : json_(json) {}
  [[nodiscard]] bool json() const { return json_; }
  void say(const std::string& text);   // to people, at once
  void note(const std::string& text);  // progress and remarks, at once
  // What the object will hold: printed once, after the verb has returned or thrown.
  [[nodiscard]] detail::Json& result() { return result_; }

 private:
  bool json_;
  detail::Json result_ = detail::Json::object();
};

using Action = std::function<int(Output& out)>;

// The options of one verb. Targets must live as long as the Cli: capture a shared_ptr to them in
// the action. What they hold before is the default that --help shows.
class Verb {
 public:
  // A word without dashes, such as TASK; must be given.
  Verb& argument(const char* name, std::string& target, const std::string& help);
  // Words without dashes, none or more.
  Verb& arguments(const char* name, std::vector<std::string>& target, const std::string& help);
  // An option that is given twice counts as given last. `name` is "--seed" or "-s,--seed"; `unit`
  // stands in the help for the value.
  Verb& option(const char* name, std::int64_t& target, const char* unit, const std::string& help);
  Verb& option(const char* name, std::uint64_t& target, const char* unit, const std::string& help);
  Verb& option(const char* name, int& target, const char* unit, const std::string& help);
  Verb& option(const char* name, double& target, const char* unit, const std::string& help);
  Verb& option(const char* name, std::string& target, const char* unit, const std::string& help);
  // Without a default of its own: nothing when it is not given.
  Verb& option(const char* name, std::optional<std::int64_t>& target, const char* unit,
               const std::string& help);
  Verb& option(const char* name, std::optional<double>& target, const char* unit,
               const std::string& help);
  // One that may be given many times.
  Verb& options(const char* name, std::vector<std::string>& target, const char* unit,
                const std::string& help);
  Verb& flag(const char* name, bool& target, const std::string& help);
  // Whether the command line has the option, which the verb need not know; known once the action
  // runs.
  [[nodiscard]] bool given(const char* name) const;
  // Examples and remarks after the options in --help.
  Verb& footer(const char* text);

 private:
  friend class Cli;
  explicit Verb(void* app) : app_(app) {}
  void* app_;  // CLI::App, which one file alone sees
};

class Cli {
 public:
  Cli();
  ~Cli();
  Cli(const Cli&) = delete;
  Cli& operator=(const Cli&) = delete;

  Verb verb(const char* name, const char* summary, Action action);
  // Parses, runs the verb, prints errors and the JSON object; returns the exit status.
  [[nodiscard]] int run(int argc, char** argv);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

void add_compare(Cli& cli);
void add_report(Cli& cli);
void add_eval(Cli& cli);
void add_generate(Cli& cli);
void add_gradcheck(Cli& cli);
void add_graph(Cli& cli);
void add_inspect(Cli& cli);
void add_ops(Cli& cli);
void add_reproduce(Cli& cli);
void add_resume(Cli& cli);
void add_selftest(Cli& cli);
void add_tasks(Cli& cli);
void add_train(Cli& cli);

}  // namespace tapehead::cli
