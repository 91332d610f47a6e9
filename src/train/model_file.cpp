// The weights of a model as a file. io knows tensors and text; what they mean is written down here:
// the version of this arrangement, and that a weight matrix is [in, out] (PyTorch's nn.Linear keeps
// [out, in], and a square one would load transposed without a word).
#include <tapehead/runs.hpp>

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <tapehead/io.hpp>

#include "core/access.hpp"
#include "core/message.hpp"
#include "train/weights.hpp"

namespace tapehead {

using detail::fail;

namespace {

constexpr const char* kVersionKey = "tapehead_format";
constexpr const char* kVersion = "1";
constexpr const char* kLayoutKey = "layout";
constexpr const char* kLayout = "[in,out]";

void check_metadata(const std::filesystem::path& path,
                    const std::map<std::string, std::string>& metadata, const char* key,
                    const char* wanted) {
  const auto found = metadata.find(key);
  if (found == metadata.end() || found->second != wanted) {
    fail<FileError>(fmt::format(
        "cannot load '{}': its {} is {}, and this version reads '{}' alone", path.string(), key,
        found == metadata.end() ? "missing" : fmt::format("'{}'", found->second), wanted));
  }
}

}  // namespace

void save_model(const std::filesystem::path& path, const Params& params,
                std::map<std::string, std::string> metadata) {
  TensorFile file;
  for (const Param& param : params.all()) {
    const Tensor value = param.value();
    detail::with_float("save_model", value.dtype(), [&](auto zero) {
      const auto values = value.data<decltype(zero)>();
      if (!std::all_of(values.begin(), values.end(), [](auto v) { return std::isfinite(v); })) {
        fail<NonFiniteError>(
            fmt::format("save_model: {} holds NaN or infinity, so '{}' was not "
                        "written; an earlier file there is untouched",
                        param.name(), path.string()));
      }
    });
    file.tensors.push_back({param.name(), value});
  }
  file.metadata = std::move(metadata);
  file.metadata.insert_or_assign(kVersionKey, std::string(kVersion));
  file.metadata.insert_or_assign(kLayoutKey, std::string(kLayout));
  write_tensors(path, file);
}

std::map<std::string, std::string> load_model(const std::filesystem::path& path, Params& params) {
  TensorFile file = read_tensors(path);
  check_metadata(path, file.metadata, kVersionKey, kVersion);
  check_metadata(path, file.metadata, kLayoutKey, kLayout);
  detail::fill_weights("load_model", path, file.tensors, params);
  return std::move(file.metadata);
}

}  // namespace tapehead
