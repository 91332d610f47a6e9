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

// What does not fit, one sentence per tensor; "" when all fits.
std::string differences(const TensorFile& file, const Params& params) {
  std::string text;
  const auto add = [&](const std::string& sentence) { text += fmt::format("\n  {}", sentence); };
  for (const Param& param : params.all()) {
    const auto found = std::find_if(file.tensors.begin(), file.tensors.end(),
                                    [&](const auto& named) { return named.name == param.name(); });
    if (found == file.tensors.end()) {
      add(fmt::format("{}: not in the file", param.name()));
    } else if (found->tensor.shape() != param.shape() || found->tensor.dtype() != param.dtype()) {
      add(fmt::format("{}: the file has {} {}, the model {} {}", param.name(),
                      name_of(found->tensor.dtype()), to_string(found->tensor.shape()),
                      name_of(param.dtype()), to_string(param.shape())));
    }
  }
  for (const NamedTensor& named : file.tensors) {
    const std::vector<Param> all = params.all();
    if (std::none_of(all.begin(), all.end(),
                     [&](const Param& param) { return param.name() == named.name; })) {
      add(fmt::format("{}: in the file, but not in the model", named.name));
    }
  }
  return text;
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
  const std::string different = differences(file, params);
  if (!different.empty()) {
    fail<FileError>(
        fmt::format("cannot load '{}': it is not of this model:{}", path.string(), different));
  }
  detail::with_float("load_model", params.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const std::function<void(std::span<T>)> fill = [&](std::span<T> flat) {
      for (const NamedTensor& named : file.tensors) {
        const auto values = named.tensor.data<T>();
        const std::int64_t offset = params.offset(params.at(named.name).index());
        std::copy(values.begin(), values.end(), flat.begin() + offset);
      }
    };
    params.write("load_model", fill);
  });
  return std::move(file.metadata);
}

}  // namespace tapehead
