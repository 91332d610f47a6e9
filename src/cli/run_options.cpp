#include "cli/run_options.hpp"

#include "train/names.hpp"

namespace tapehead::cli {

void RunOptions::add_to(Verb& verb) {
  verb.option("--data", data, "FILE", "What text, lines, pairs and labels learn from")
      .option("--epochs", epochs, "N", "Passes over the training sequences")
      .option("--steps", steps, "N", "Steps of the run, in place of epochs")
      .option("--batch", batch, "N", "Sequences in a batch")
      .flag("--keep-last", keep_last, "What an epoch leaves over is a smaller batch")
      .option("--accumulate", accumulate, "N", "Batches in a step")
      .option("--lr", lr, "X", "Peak learning rate of Adam")
      .option("--lr-end", lr_end, "X", "Learning rate at the end of cosine and linear")
      .option("--schedule", schedule, "NAME", detail::words_of<Schedule>())
      .option("--warmup", warmup, "N", "Steps of linear warm-up before the schedule")
      .option("--warmup-tokens", warmup_tokens, "N", "Targets of linear warm-up")
      .option("--clip", clip, "X", "Limit of the gradient's global norm, or inf")
      .option("--weight-decay", weight_decay, "X", "Decoupled decay of matrices")
      .flag("--decay-all", decay_all, "Decay of biases and gains, too")
      .option("--beta1", beta1, "X", "Decay of Adam's first moment")
      .option("--beta2", beta2, "X", "Decay of Adam's second moment")
      .option("--label-smoothing", label_smoothing, "X", "Share of a target given to all classes")
      .option("--evaluate-every", evaluate_every, "N", "Steps between evaluations; 0: each epoch")
      .option("--patience", patience, "N", "Evaluations without a better loss before the end")
      .option("--minutes", minutes, "X", "Time budget of the training")
      .option("--train-sequences", train, "N", "Sequences to train on")
      .option("--validation-sequences", validation, "N", "Sequences to evaluate on in between")
      .option("--test-sequences", test, "N", "Sequences to evaluate on at the end");
  add_model_to(verb);
}

void RunOptions::add_model_to(Verb& verb) {
  verb.option("--symbols", symbols, "N", "Different tokens of the task")
      .option("--length", length, "N", "Tokens in a sequence")
      .option("--depth", depth, "N", "Depth of the brackets of dyck")
      .flag("--bytes", bytes, "text: bytes in place of characters")
      .option("--layers", layers, "N", "Layers of each stack")
      .option("--width", width, "N", "Width of the model")
      .option("--heads", heads, "N", "Heads; the width must divide by them")
      .option("--kv-heads", kv_heads, "N", "Heads of keys and values, shared by those of queries")
      .option("--hidden", hidden, "N", "Width inside the feed-forward")
      .option("--activation", activation, "NAME",
              detail::words_of<Activation>() + "; none: attention alone")
      .option("--norm", norm, "NAME", detail::words_of<NormKind>())
      .option("--place", place, "NAME", "Of the norm: " + detail::words_of<NormPlace>())
      .option("--positions", positions, "NAME", detail::words_of<Positions>())
      .option("--init", init, "NAME", "First weights: " + detail::words_of<Initialiser>())
      .option("--dropout", dropout, "X", "In all four places: input, attention, hidden, branches")
      .flag("--tied", tied, "The output's matrix is the input's table")
      .flag("--no-bias", no_bias, "No biases");
}

namespace {

template <class T>
void set(T& to, const std::optional<T>& from) {
  if (from) to = *from;
}

template <class T>
void choose(T& to, const char* option, const std::string& word,
            const std::function<bool(const char*)>& given) {
  if (given(option)) as_misuse([&] { to = detail::choice_of<T>(option, word); });
}

}  // namespace

void RunOptions::apply(RunConfig& config, const std::function<bool(const char*)>& given) const {
  FitOptions& fit = config.fit;
  TransformerOptions& stack = config.model.stack;
  if (given("--data")) config.data = data;
  if (epochs) fit.steps = 0;
  set(fit.epochs, epochs);
  if (steps && *steps < 1) throw Misuse("--steps must be at least 1");
  set(fit.steps, steps);
  set(fit.batch, batch);
  set(fit.accumulate, accumulate);
  set(fit.lr, lr);
  set(fit.lr_end, lr_end);
  choose(fit.schedule, "--schedule", schedule, given);
  set(fit.warmup, warmup);
  set(fit.warmup_tokens, warmup_tokens);
  fit.keep_last = fit.keep_last || keep_last;
  fit.decay_all = fit.decay_all || decay_all;
  set(fit.clip, clip);
  set(fit.weight_decay, weight_decay);
  set(fit.beta1, beta1);
  set(fit.beta2, beta2);
  set(fit.label_smoothing, label_smoothing);
  set(fit.evaluate_every, evaluate_every);
  if (epochs && !evaluate_every) fit.evaluate_every = 0;
  set(fit.patience, patience);
  set(fit.minutes, minutes);
  if (symbols) config.options.symbols = symbols;
  if (length) config.options.length = length;
  if (depth) config.options.depth = depth;
  config.options.bytes = config.options.bytes || bytes;
  set(config.sizes.train, train);
  set(config.sizes.validation, validation);
  set(config.sizes.test, test);
  set(stack.layers, layers);
  // The feed-forward keeps its proportion unless its width is given, too.
  if (width && !hidden && stack.width > 0) stack.hidden = stack.hidden * *width / stack.width;
  set(stack.width, width);
  set(stack.heads, heads);
  set(stack.variant.kv_heads, kv_heads);
  set(stack.hidden, hidden);
  choose(stack.activation, "--activation", activation, given);
  choose(stack.norm, "--norm", norm, given);
  choose(stack.place, "--place", place, given);
  choose(stack.init, "--init", init, given);
  choose(config.model.positions, "--positions", positions, given);
  if (dropout) stack.dropout = {*dropout, *dropout, *dropout, *dropout};
  if (tied) config.model.tied = true;
  if (no_bias) {
    stack.bias = false;
    config.model.output_bias = false;
  }
}

}  // namespace tapehead::cli
