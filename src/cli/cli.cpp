// The only file that includes CLI11, which is slow to compile.
#include "cli/cli.hpp"

#include <charconv>
#include <cstdio>
#include <cstring>
#include <new>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <tapehead/error.hpp>
#include <tapehead/system.hpp>

#include "core/message.hpp"

namespace tapehead::cli {

void as_misuse(const std::function<void()>& check) {
  try {
    check();
  } catch (const MemoryError&) {
    throw;
  } catch (const Error& error) {
    throw Misuse(error.what());
  }
}

namespace {

void write_now(std::FILE* to, const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), to);
  std::fflush(to);
}

CLI::App& app_of(void* app) { return *static_cast<CLI::App*>(app); }

template <class T>
const char* kind_of() {
  if constexpr (std::is_floating_point_v<T>) return "a number";
  if constexpr (std::is_unsigned_v<T>) return "a whole number from 0";
  return "a whole number";
}

// A whole text as a number: from_chars knows no locale, and takes no spaces and no leading plus.
template <class T>
T number_in(const std::string& name, const std::string& text) {
  T value{};
  const char* end = text.data() + text.size();
  const std::from_chars_result result = std::from_chars(text.data(), end, value);
  if (result.ec != std::errc{} || result.ptr != end) {
    throw Misuse(fmt::format("{}: '{}' is not {}{}", name, text, kind_of<T>(),
                             result.ec == std::errc::result_out_of_range ? " that fits" : ""));
  }
  return value;
}

template <class T, class Target>
void add_number(CLI::App& app, const char* name, Target& target, const char* unit,
                const std::string& help) {
  app.add_option_function<std::string>(
         name,
         [&target, shown = std::string(name)](const std::string& text) {
           target = number_in<T>(shown, text);
         },
         help)
      ->option_text(unit)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
}

template <class T>
Verb& number(Verb& verb, CLI::App& app, const char* name, T& target, const char* unit,
             const std::string& help) {
  add_number<T>(app, name, target, unit, fmt::format("{} (default {})", help, target));
  return verb;
}

std::string misplaced(const std::string& word, const CLI::App* verb) {
  return fmt::format("'{0}' stands before the command; write 'tapehead {1} {0}'", word,
                     verb->get_name());
}

}  // namespace

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts{""};
  for (const char c : text) {
    if (c == at) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

void Output::say(const std::string& text) { write_now(json_ ? stderr : stdout, text); }
void Output::note(const std::string& text) { write_now(stderr, text); }

Verb& Verb::argument(const char* name, std::string& target, const std::string& help) {
  app_of(app_).add_option(name, target, help)->required()->option_text(" ");
  return *this;
}

Verb& Verb::arguments(const char* name, std::vector<std::string>& target, const std::string& help) {
  app_of(app_).add_option(name, target, help)->option_text(" ");
  return *this;
}

Verb& Verb::option(const char* name, std::int64_t& target, const char* unit,
                   const std::string& help) {
  return number(*this, app_of(app_), name, target, unit, help);
}
Verb& Verb::option(const char* name, std::uint64_t& target, const char* unit,
                   const std::string& help) {
  return number(*this, app_of(app_), name, target, unit, help);
}
Verb& Verb::option(const char* name, int& target, const char* unit, const std::string& help) {
  return number(*this, app_of(app_), name, target, unit, help);
}
Verb& Verb::option(const char* name, double& target, const char* unit, const std::string& help) {
  return number(*this, app_of(app_), name, target, unit, help);
}
Verb& Verb::option(const char* name, std::optional<std::int64_t>& target, const char* unit,
                   const std::string& help) {
  add_number<std::int64_t>(app_of(app_), name, target, unit, help);
  return *this;
}
Verb& Verb::option(const char* name, std::optional<double>& target, const char* unit,
                   const std::string& help) {
  add_number<double>(app_of(app_), name, target, unit, help);
  return *this;
}
Verb& Verb::option(const char* name, std::string& target, const char* unit,
                   const std::string& help) {
  app_of(app_)
      .add_option(name, target, help)
      ->option_text(unit)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  return *this;
}

Verb& Verb::options(const char* name, std::vector<std::string>& target, const char* unit,
                    const std::string& help) {
  app_of(app_)
      .add_option(name, target, help)
      ->option_text(unit)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  return *this;
}

Verb& Verb::flag(const char* name, bool& target, const std::string& help) {
  app_of(app_).add_flag(name, target, help)->disable_flag_override();
  return *this;
}

bool Verb::given(const char* name) const {
  const CLI::Option* option = app_of(app_).get_option_no_throw(name);
  return option != nullptr && option->count() > 0;
}

Verb& Verb::footer(const char* text) {
  app_of(app_).footer(text);
  return *this;
}

struct Cli::State {
  struct Entry {
    CLI::App* app;
    Action action;
  };
  CLI::App app{"Tapehead trains, checks and explains toy Transformers on a CPU.", "tapehead"};
  std::vector<Entry> verbs;
  bool json = false;
};

Cli::Cli() : state_(std::make_unique<State>()) {
  CLI::App& app = state_->app;
  app.set_help_flag("-h,--help", "Show this help");
  app.set_version_flag("--version", fmt::format("tapehead {}", version()), "Show the version");
  app.get_formatter()->column_width(34);
  app.require_subcommand(0, 1);  // a second verb's name is a word like any other
  app.footer(
      "Examples:\n"
      "  tapehead train reverse              train an encoder, see what it learnt\n"
      "  tapehead train reverse --seed 1     the same with other data and weights\n"
      "  tapehead train --help               all options of a verb\n"
      "\nExit status: 0 done, 1 failed, 2 misused, 130 or 143 interrupted.\n");
}

Cli::~Cli() = default;

Verb Cli::verb(const char* name, const char* summary, Action action) {
  CLI::App* app = state_->app.add_subcommand(name, summary);
  app->set_help_flag("-h,--help", "Show this help");
  app->add_flag("--json", state_->json,
                "Print exactly one JSON object to stdout, all else to stderr")
      ->disable_flag_override();
  app->footer("");  // not the program's
  app->allow_extras();
  state_->verbs.push_back({app, std::move(action)});
  return Verb(app);
}

namespace {

// "train: no option '--epoch'; did you mean '--epochs'?" for a word that nobody took. `verb` is
// nullptr for the program itself.
std::string unknown_word(const CLI::App& program, const CLI::App* verb, const std::string& word) {
  const bool dashed = word.starts_with('-');
  const std::string name = word.substr(0, word.find('='));
  std::vector<std::string> known;
  if (dashed) {
    for (const CLI::Option* option : (verb != nullptr ? *verb : program).get_options()) {
      for (const std::string& known_name : option->get_lnames()) known.push_back("--" + known_name);
    }
  } else if (verb == nullptr) {
    for (const CLI::App* one : program.get_subcommands({})) known.push_back(one->get_name());
  }
  std::string text = verb != nullptr ? verb->get_name() + ": " : "";
  if (known.empty()) {
    text += fmt::format("'{}' is one word too many", word);
  } else {
    text += fmt::format("no {} '{}'; did you mean '{}'?", dashed ? "option" : "command", name,
                        detail::nearest(name, known));
  }
  return text;
}

// What CLI11 has to say, with the place to look.
std::string parse_error(const CLI::App* verb, const CLI::ParseError& error) {
  const std::string where = verb != nullptr ? verb->get_name() : "";
  std::string what = error.what();
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    // "--epochs: 1 required TEXT missing", or "json was given a disallowed flag override".
    const std::size_t name = what.find_first_not_of('-');
    what =
        fmt::format("--{} {}", what.substr(name, what.find_first_of(": ") - name),
                    what.find("missing") != std::string::npos ? "needs a value" : "takes no value");
  }
  return fmt::format("{}{}{}; see 'tapehead {}{}--help'", where, where.empty() ? "" : ": ", what,
                     where, where.empty() ? "" : " ");
}

bool asks_for_json(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--json") == 0) return true;
  }
  return false;
}

int report_error(Output& out, int status, const std::string& message) {
  out.note(fmt::format("tapehead: {}\n", message));
  out.result().set("status", status == kMisused ? "misused" : "failed").set("error", message);
  return status;
}

// stdout may be a full disk or a closed pipe: what could not be printed is a failure.
int finish(Output& out, int status) {
  if (out.json()) write_now(stdout, to_string(out.result()) + "\n");
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    out.note("tapehead: cannot write to the standard output\n");
    return status == kDone ? kFailed : status;
  }
  return status;
}

int run_action(Output& out, const Action& action) {
  try {
    return action(out);
  } catch (const Misuse& error) {
    return report_error(out, kMisused, error.what());
  } catch (const std::bad_alloc&) {
    return report_error(out, kFailed, "out of memory; try smaller sizes");
  } catch (const std::exception& error) {
    return report_error(out, kFailed, error.what());
  }
}

}  // namespace

int Cli::run(int argc, char** argv) {
  CLI::App& app = state_->app;
  Output early(asks_for_json(argc, argv));
  app.allow_extras();
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    const std::vector<CLI::App*> chosen = app.get_subcommands();
    early.say(chosen.empty() ? app.help() : chosen.front()->help("tapehead"));
    return finish(early, kDone);
  } catch (const CLI::CallForVersion& text) {
    early.say(fmt::format("{}\n", text.what()));
    early.result().set("version", version());
    return finish(early, kDone);
  } catch (const CLI::ParseError& error) {
    const std::vector<CLI::App*> chosen = app.get_subcommands();
    const CLI::App* verb = chosen.empty() ? nullptr : chosen.front();
    const std::vector<std::string> before = app.remaining();
    if (verb != nullptr && !before.empty())
      return finish(early, report_error(early, kMisused, misplaced(before.front(), verb)));
    const std::vector<std::string> rest = (verb != nullptr ? *verb : app).remaining();
    return finish(early, report_error(early, kMisused,
                                      rest.empty() ? parse_error(verb, error)
                                                   : unknown_word(app, verb, rest.front())));
  } catch (const Misuse& error) {
    return finish(early, report_error(early, kMisused, error.what()));
  }

  for (const State::Entry& entry : state_->verbs) {
    if (!entry.app->parsed()) continue;
    if (const std::vector<std::string> before = app.remaining(); !before.empty()) {
      return finish(early, report_error(early, kMisused, misplaced(before.front(), entry.app)));
    }
    const std::vector<std::string> rest = entry.app->remaining();
    Output out(state_->json);
    if (!rest.empty()) {
      return finish(out, report_error(out, kMisused, unknown_word(app, entry.app, rest.front())));
    }
    return finish(out, run_action(out, entry.action));
  }
  const std::vector<std::string> rest = app.remaining();
  if (!rest.empty()) {
    return finish(early, report_error(early, kMisused, unknown_word(app, nullptr, rest.front())));
  }
  write_now(stderr, app.help());
  return kMisused;
}

}  // namespace tapehead::cli
