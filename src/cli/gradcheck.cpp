#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include <tapehead/catalog.hpp>

#include "cli/cli.hpp"
#include "cli/gradcheck_things.hpp"
#include "cli/interrupts.hpp"
#include "core/message.hpp"
#include "gradcheck/float32.hpp"
#include "gradcheck/json.hpp"
#include "gradcheck/suite.hpp"
#include "io/file.hpp"
#include "train/names.hpp"

namespace tapehead::cli {

namespace {

struct Settings {
  std::vector<std::string> names;
  std::function<bool(const char*)> given;  // whether an option is on the command line
  Sizes sizes;
  detail::SuiteOptions suite;
  bool second = false;
  bool self_test = false;
  bool float32 = false;
  double bound = Float32Options().bound;
  bool markdown = false;
  std::string write;
  detail::Progress progress;
};

struct Chosen {
  std::vector<OpEntry> ops;
  std::vector<ModuleEntry> modules;
  detail::Zeros zeros = detail::Zeros::declared;
};

std::vector<std::string> all_names() {
  std::vector<std::string> names = sized_kinds();
  for (const OpEntry& op : op_catalog()) {
    names.push_back(op.name);
    names.push_back(op.family);
  }
  for (const ModuleEntry& module : module_catalog()) names.push_back(module.name);
  return names;
}

Chosen choose(const Settings& s) {
  Chosen chosen;
  std::vector<std::string> names;  // each once
  for (const std::string& name : s.names) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  std::vector<std::string> sizes;
  for (const char* option : size_options()) {
    if (s.given(option)) sizes.emplace_back(option);
  }
  if (!sizes.empty()) {
    if (names.empty())
      throw Misuse(fmt::format("{} needs a name to go with: one of {}", sizes.front(),
                               fmt::join(sized_kinds(), ", ")));
    for (const std::string& name : names)
      chosen.modules.push_back(sized_thing(name, s.sizes, sizes));
    chosen.zeros = detail::Zeros::allowed;
    return chosen;
  }
  if (names.empty()) return {op_catalog(), module_catalog(), detail::Zeros::declared};
  for (const std::string& name : names) {
    const std::size_t before = chosen.ops.size() + chosen.modules.size();
    for (const OpEntry& op : op_catalog()) {
      if (op.name == name || op.family == name) chosen.ops.push_back(op);
    }
    for (const ModuleEntry& module : module_catalog()) {
      // An op and a module may share a plain name: linear and Linear.
      if (module.name == name || (chosen.ops.size() + chosen.modules.size() == before &&
                                  plain(module.name) == plain(name)))
        chosen.modules.push_back(module);
    }
    if (chosen.ops.size() + chosen.modules.size() > before) continue;
    if (std::find(sized_kinds().begin(), sized_kinds().end(), name) != sized_kinds().end()) {
      chosen.modules.push_back(sized_thing(name, s.sizes, {}));
      chosen.zeros = detail::Zeros::allowed;
      continue;
    }
    throw Misuse(
        fmt::format("gradcheck: there is no op, family or module named '{}'; did you mean "
                    "'{}'? `tapehead ops` lists the ops",
                    name, detail::nearest(name, all_names())));
  }
  return chosen;
}

constexpr const char* kBegin = "<!-- gradcheck: begin -->";
constexpr const char* kEnd = "<!-- gradcheck: end -->";

// A text file with a place for the table between two markers, looked at before the long check runs.
class Marked {
 public:
  explicit Marked(std::string path) : path_(std::move(path)) {
    as_misuse([&] { old_ = detail::read_file(path_); });
    begin_ = old_.find(kBegin);
    end_ = old_.find(kEnd);
    if (begin_ == std::string::npos || end_ == std::string::npos || end_ < begin_)
      throw Misuse(fmt::format("--write: {} must hold the lines {} and {}", path_, kBegin, kEnd));
  }

  void write(const std::string& text) const {
    detail::replace_file(
        path_, fmt::format("{}{}\n{}{}", old_.substr(0, begin_), kBegin, text, old_.substr(end_)));
  }

 private:
  std::string path_;
  std::string old_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

void check_numbers(const Settings& s) {
  const GradcheckOptions& o = s.suite.check;
  if (!(o.tolerance >= 0 && std::isfinite(o.tolerance)))
    throw Misuse(fmt::format("--tolerance must be finite and 0 or more, got {}", o.tolerance));
  if (o.cotangents < 2)
    throw Misuse(fmt::format("--cotangents must be at least 2: one alone can be blind, got {}",
                             o.cotangents));
  if (o.worst < 0) throw Misuse(fmt::format("--worst must be 0 or more, got {}", o.worst));
}

// What was asked for by name and compared nothing is no pass.
int nothing_checked(Output& out) {
  out.note("tapehead: gradcheck: nothing was checked: nothing of this has a gradient to compare\n");
  return static_cast<int>(GradcheckStatus::nothing_checked);
}

// An option that the chosen kind of check would ignore is a misunderstanding.
void refuse(const Settings& s, const char* kind, const std::vector<const char*>& options) {
  for (const char* option : options) {
    if (s.given(option)) throw Misuse(fmt::format("{} means nothing to {}", option, kind));
  }
}

// The same with functions that end when the user presses Ctrl-C.
Chosen choose_stoppable(Settings& s) {
  Chosen chosen = choose(s);
  chosen.ops = detail::stoppable(std::move(chosen.ops), Interrupts::flag(), s.progress);
  chosen.modules = detail::stoppable(std::move(chosen.modules), Interrupts::flag(), s.progress);
  return chosen;
}

int float32(Settings& s, Output& out) {
  refuse(s, "--float32",
         {"--self-test", "--fast", "--second", "--tolerance", "--cotangents", "--markdown",
          "--write"});
  if (!(s.bound > 0 && std::isfinite(s.bound)))
    throw Misuse(fmt::format("--bound must be finite and above 0, got {}", s.bound));
  check_numbers(s);
  const Chosen chosen = choose_stoppable(s);
  Float32Options options;
  options.bound = s.bound;
  options.worst = s.suite.check.worst;
  const detail::Float32Suite suite =
      detail::float32_suite(chosen.ops, chosen.modules, options, &s.progress);
  out.result() = detail::to_json(suite);
  const bool one = suite.things.size() == 1 && suite.things.front().samples == 1;
  out.say(one ? to_string(suite.things.front().report) : detail::to_string(suite));
  if (suite.compared() == 0) return nothing_checked(out);
  return static_cast<int>(suite.status());
}

int self_test(Settings& s, Output& out) {
  refuse(s, "--self-test",
         {"--fast", "--second", "--tolerance", "--cotangents", "--worst", "--bound", "--markdown",
          "--write"});
  refuse(s, "--self-test", size_options());
  const Chosen chosen = choose_stoppable(s);
  const detail::SelfTest test = detail::self_test_suite(chosen.ops, &s.progress);
  out.say(detail::to_string(test));
  out.result() = detail::to_json(test);
  if (test.tallies.empty() && test.broken.empty()) return nothing_checked(out);
  return test.passed() ? kDone : static_cast<int>(GradcheckStatus::mismatch);
}

int check(Settings& s, Output& out) {
  refuse(s, "a check of gradients; it belongs to --float32", {"--bound"});
  check_numbers(s);
  std::optional<Marked> marked;
  if (!s.write.empty()) marked.emplace(s.write);
  const Chosen chosen = choose_stoppable(s);
  detail::SuiteOptions options = s.suite;
  options.zeros = chosen.zeros;
  options.progress = &s.progress;
  if (s.second) options.order = detail::Order::second;
  const detail::Suite suite = detail::check_suite(chosen.ops, chosen.modules, options);
  out.result() = detail::to_json(suite);
  const std::string markdown = detail::to_markdown(suite);
  // One thing is shown in full.
  if (s.markdown) {
    out.say(markdown);
  } else if (chosen.ops.empty() && suite.modules.size() == 1) {
    out.say(to_string(suite.modules.front().report));
  } else if (chosen.ops.size() == 1 && suite.modules.empty() && suite.ops.front().differentiable) {
    out.say(detail::to_string(suite));
    if (suite.ops.front().failures.empty())
      out.say(fmt::format("\nThe sample with the worst error:\n{}",
                          to_string(suite.ops.front().worst)));
  } else {
    out.say(detail::to_string(suite));
  }
  if (marked) marked->write(markdown);
  if (suite.status() == GradcheckStatus::pass && suite.compared() == 0) return nothing_checked(out);
  return static_cast<int>(suite.status());
}

int interrupted(const Settings& s, Output& out) {
  const detail::Progress& p = s.progress;
  const char* what = s.self_test ? "faults planted"
                     : s.float32 ? "elements compared"
                                 : "gradients compared";
  out.note(
      fmt::format("tapehead: interrupted after {} evaluations; {} of {} parts done, {} {}, {}\n",
                  p.evaluations.load(), p.done.load(), p.parts.load(), p.compared.load(), what,
                  p.wrong == 0 ? std::string("nothing wrong so far")
                               : fmt::format("something wrong in {} parts", p.wrong.load())));
  out.result() = detail::Json::object();
  out.result().set("status", "interrupted").set("evaluations", p.evaluations.load());
  out.result().set("parts", p.parts.load()).set("parts_done", p.done.load());
  out.result().set("compared", p.compared.load()).set("parts_wrong", p.wrong.load());
  return Interrupts::exit_status();
}

int run(Settings& s, Output& out) {
  const Interrupts interrupts;
  try {
    return s.float32 ? float32(s, out) : s.self_test ? self_test(s, out) : check(s, out);
  } catch (const detail::Stopped&) {
    return interrupted(s, out);
  }
}

}  // namespace

void add_gradcheck(Cli& cli) {
  const auto s = std::make_shared<Settings>();
  Verb verb = cli.verb("gradcheck", "Check gradients against differences with error bars",
                       [s](Output& out) { return run(*s, out); });
  s->given = [verb](const char* name) { return verb.given(name); };
  verb.arguments("WHAT", s->names, "Ops, families or modules; everything when left out");
  verb.flag("--self-test", s->self_test, "Plant faults in the ops and see that each is caught");
  verb.flag("--fast", s->suite.check.fast, "Random directions in place of single elements");
  verb.flag("--second", s->second, "Second derivatives, and fused kernels against compositions");
  verb.flag("--float32", s->float32, "Errors of f32 against f64, op by op, in ulps");
  verb.option("--bound", s->bound, "X",
              "With --float32: own errors allowed, over half an ulp and rounded inputs");
  verb.option("--tolerance", s->suite.check.tolerance, "X",
              "Allowed error over the largest gradient");
  verb.option("--cotangents", s->suite.check.cotangents, "N", "Random cotangents, at least 2");
  verb.option("--worst", s->suite.check.worst, "N", "Elements listed in a report");
  verb.flag("--markdown", s->markdown, "Print a Markdown table");
  verb.option("--write", s->write, "FILE", "Put the Markdown table between the markers of FILE");
  verb.option("--batch", s->sizes.batch, "B", "Samples");
  verb.option("--time", s->sizes.time, "T", "Queries of each sample");
  verb.option("--keys", s->sizes.keys, "S", "Keys of each sample; 0: as many as queries");
  verb.option("--width", s->sizes.width, "D", "Model width");
  verb.option("--heads", s->sizes.heads, "H", "Heads; the width must divide by them");
  verb.option("--hidden", s->sizes.hidden, "F", "Width inside the feed-forward");
  verb.option("--layers", s->sizes.layers, "N", "Layers of each stack");
  verb.option("--symbols", s->sizes.symbols, "V", "Vocabulary of a model");
  verb.option("--norm", s->sizes.norm, "NAME", detail::words_of<NormKind>());
  verb.option("--place", s->sizes.place, "NAME", "Of the norm: " + detail::words_of<NormPlace>());
  verb.option("--activation", s->sizes.activation, "NAME", detail::words_of<Activation>());
  verb.option("--mask", s->sizes.mask, "NAME",
              "none, causal, padding, window, blocked-row; joined by +");
  verb.flag("--no-bias", s->sizes.no_bias, "Projections without biases");
  verb.footer(
      "  tapehead gradcheck                                      everything\n"
      "  tapehead gradcheck softmax layer_norm                   two ops\n"
      "  tapehead gradcheck attention --heads 4 --mask causal    one module in your sizes\n"
      "  tapehead gradcheck --self-test                          is the checker itself any good?\n"
      "  tapehead gradcheck encoder --float32                    which op loses digits?\n"
      "\n"
      "Exit status: 0 pass, 1 mismatch, 2 misused, 3 kink, 4 not repeatable, 5 nothing checked,\n"
      "6 not finite, 130 interrupted.\n"
      "\n"
      "With sizes, WHAT is attention, headwise, encoder-layer, encoder, encoder-model,\n"
      "language-model, encoder-decoder, feed-forward, softmax, layer_norm, linear (to the hidden\n"
      "width), cross_entropy or dot-product (of heads of the full width).\n");
}

}  // namespace tapehead::cli
