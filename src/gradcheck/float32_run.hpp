// One walk forward and back over a function, with everything that passed along its tape.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <tapehead/gradcheck.hpp>

namespace tapehead::detail {

// The same function in one dtype.
struct Float32Side {
  TensorFunction function;
  std::vector<Tensor> inputs;
  Params* params = nullptr;
};

// What the tape recorded. Edges are numbered through; `to` is -1 for a constant.
struct Float32Graph {
  struct Node {
    std::string op;
    std::string name;  // "encoder.layers.0.norm1 layer_norm", "input0", a parameter's name
    Shape shape;
    std::vector<int> inputs;  // nodes; -1 for constants
    bool leaf = false;
  };
  std::vector<Node> nodes;
  std::vector<int> outputs;  // node of each floating output, or -1

  // "" or where the two part.
  [[nodiscard]] std::string difference(const Float32Graph& other) const;
};

// Numbers along the tape. `seen` stands for what an op itself came to, before anything was
// replaced.
struct Float32Run {
  std::vector<Tensor> outputs;                // of the function, floating ones
  std::vector<Tensor> forward;                // [node]
  std::vector<std::vector<Tensor>> backward;  // [node][input]
  std::vector<Tensor> arrived;  // [node]: sum of what reached it, where it was visited
  std::vector<Tensor> leaves;   // gradients by inputs, then by parameters
  std::vector<std::string> leaf_names;
};

// Numbers to put in place of those that ops come to, in f64: those of an f32 run, each multiplied
// by 1 + 2^-24 or 1 - 2^-24 when `draw` is above 0.
struct Float32Forced {
  const Float32Run* run = nullptr;
  std::uint64_t draw = 0;
};

[[nodiscard]] Float32Run walk(const Float32Side& side, const std::vector<Tensor>& cotangents,
                              const std::vector<std::string>& input_names, Float32Graph* graph,
                              const Float32Forced& forced = {});

// Puts the values of an f32 store into one of f64. "" or why the two do not match.
[[nodiscard]] std::string copy_values(const Params& single, Params& full);

// x (1 + 2^-24) or x (1 - 2^-24), element by element at random; x itself for draw 0.
[[nodiscard]] Tensor rounded_again(const Tensor& x, std::uint64_t draw, std::uint64_t place);

}  // namespace tapehead::detail
