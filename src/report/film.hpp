// What a model attends to over the course of a run: frames of every head's map for a few probe
// sequences, with scores of the heads and norms of the layers. Kept within a budget by dropping
// every second frame and the positions beyond a limit.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <tapehead/runs.hpp>

#include "io/json.hpp"

namespace tapehead::report {

class Film {
 public:
  // The probes are the first sequences of the split.
  Film(const Task& task, const Sequences& split);
  // Goes on with the frames that an earlier film of this run has up to `step`. Text that is no film
  // of such a model is passed over: the run goes on without its early frames.
  void restore(std::string_view json, std::int64_t step);
  // A frame after `step`. `norms` are those of the parameters in order, none when not known.
  void add(std::int64_t step, const Model& model, const Params& params,
           std::span<const ParamNorms> norms);
  // {"every": 2, "positions": 16, "of": 16, "probes": [{"rows": [...], "columns": [...]}],
  //  "maps": [{"name", "probe", "cross", "rows", "columns"}], "heads": [...], "groups": [...],
  //  "frames": [{"index", "step", "maps": [base64 of a byte 0..255 a cell], "scores", "norms"}]}
  [[nodiscard]] std::string json() const;

 private:
  struct Frame {
    std::int64_t index = 0;  // counted from the first evaluation
    detail::Json content;
  };
  void describe(const StackResult& inside);
  void keep(Frame frame);

  Task task_;
  Batch probes_;
  Batch scored_;
  std::int64_t shown_ = 0;      // probes
  std::int64_t positions_ = 0;  // of each, at most
  detail::Json maps_;
  detail::Json earlier_maps_;  // of a film that was restored
  detail::Json heads_;
  std::int64_t bytes_ = 0;  // of a frame's maps
  std::int64_t next_ = 0;
  std::int64_t every_ = 1;
  std::vector<Frame> frames_;
};

// Scores of one head over the queries of weights [B,H,T,S]; NaN where there is nothing to count.
struct HeadScores {
  double entropy = 0;    // mean of -sum p ln p, in nats
  double previous = 0;   // mean weight on the position before the query's
  double first = 0;      // mean weight on position 0
  double induction = 0;  // mean weight on what followed the query's token where it last occurred
};
// `ids` [B,T] are the tokens of queries and keys; undefined for cross-attention, whose previous and
// induction scores are NaN. lengths[b] queries count in row b, all when empty.
[[nodiscard]] HeadScores head_scores(const Tensor& weights, std::int64_t head, const Tensor& ids,
                                     const std::vector<std::int64_t>& lengths);

// The module whose norms are drawn as one line: "encoder.layers.0.attention" for everything below
// it, the first name of the path elsewhere.
[[nodiscard]] std::string group_of(std::string_view parameter);

[[nodiscard]] std::string base64(std::string_view bytes);

}  // namespace tapehead::report
