// The weights of a file into those of a model: what model.safetensors and checkpoints share.
#pragma once

#include <filesystem>
#include <vector>

#include <tapehead/io.hpp>
#include <tapehead/params.hpp>

namespace tapehead::detail {

// Every weight of `params` by its name, or none: a FileError that lists each weight that is
// missing, has another shape or dtype, or is not in the model. `op` is for messages.
void fill_weights(const char* op, const std::filesystem::path& path,
                  const std::vector<NamedTensor>& weights, Params& params);

}  // namespace tapehead::detail
