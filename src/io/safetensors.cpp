#include "io/safetensors.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "core/access.hpp"
#include "core/message.hpp"
#include "io/file.hpp"
#include "io/hash.hpp"
#include "io/json.hpp"

namespace tapehead {
namespace detail {

std::string_view stored_name(DType dtype) {
  switch (dtype) {
    case DType::f32: return "F32";
    case DType::f64: return "F64";
    case DType::i64: return "I64";
    case DType::boolean: break;
  }
  return "BOOL";
}

std::optional<DType> stored_dtype(std::string_view name) {
  for (const DType dtype : {DType::f32, DType::f64, DType::i64, DType::boolean}) {
    if (stored_name(dtype) == name) return dtype;
  }
  return std::nullopt;
}

std::span<const std::byte> bytes_in(const Tensor& x) {
  return with_any(x.dtype(), [&](auto zero) {
    return std::as_bytes(std::span(in<decltype(zero)>(x), static_cast<std::size_t>(x.size())));
  });
}

std::string checksum(const TensorFile& file) {
  Fnv1a hash;
  for (const auto& entry : file.metadata) {
    if (entry.first == kChecksum) continue;
    hash.add(entry.first);
    hash.add(entry.second);
  }
  for (const NamedTensor& named : file.tensors) {
    hash.add(named.name);
    hash.add(stored_name(named.tensor.dtype()));
    hash.add(named.tensor.shape().sizes());
    hash.add(bytes_in(named.tensor));
  }
  return fmt::format("{}{:016x}", kChecksumPrefix, hash.value());
}

}  // namespace detail

namespace {

// JSON holds UTF-8 alone: other bytes would come back changed.
void check_text(std::string_view what, const std::string& text) {
  const detail::Json read = detail::parse_json(to_string(detail::Json(text)));
  const std::string* back = read.get<std::string>();
  if (back == nullptr || *back != text)
    detail::fail<ValueError>(fmt::format("write_tensors: {} is not UTF-8 text", what));
}

void check_names(const TensorFile& file) {
  for (const NamedTensor& named : file.tensors) check_text("the name of a tensor", named.name);
  for (const auto& entry : file.metadata) {
    check_text("a metadata key", entry.first);
    check_text(fmt::format("the metadata of '{}'", entry.first), entry.second);
  }
  std::set<std::string_view> seen;
  for (const NamedTensor& named : file.tensors) {
    detail::check_defined("write_tensors", named.tensor, named.name);
    if (named.name.empty() || named.name == detail::kMetadata) {
      detail::fail<ValueError>(fmt::format(
          "write_tensors: '{}' cannot be the name of a tensor; choose another", named.name));
    }
    if (!seen.insert(named.name).second) {
      detail::fail<ValueError>(
          fmt::format("write_tensors: two tensors are called '{}'", named.name));
    }
  }
  if (file.metadata.contains(std::string(detail::kChecksum))) {
    detail::fail<ValueError>(
        "write_tensors: the metadata key 'checksum' is reserved for the file's own");
  }
}

std::string length_bytes(std::uint64_t length) {
  std::string bytes(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) bytes[i] = static_cast<char>((length >> (8 * i)) & 0xff);
  return bytes;
}

}  // namespace

void write_tensors(const std::filesystem::path& path, const TensorFile& file) {
  check_names(file);
  // Wide types first keeps every tensor aligned to its own size, which readers that map the file
  // rely on.
  TensorFile sorted = file;
  std::stable_sort(sorted.tensors.begin(), sorted.tensors.end(),
                   [](const NamedTensor& a, const NamedTensor& b) {
                     return bytes_of(a.tensor.dtype()) > bytes_of(b.tensor.dtype());
                   });

  detail::Json metadata = detail::Json::object();
  for (const auto& entry : file.metadata) metadata.set(entry.first, entry.second);
  metadata.set(detail::kChecksum, detail::checksum(sorted));
  detail::Json::Object members;
  members.push_back({std::string(detail::kMetadata), std::move(metadata)});

  std::vector<std::string_view> pieces(2);
  std::int64_t offset = 0;
  for (const NamedTensor& named : sorted.tensors) {
    const std::span<const std::byte> bytes = detail::bytes_in(named.tensor);
    const std::int64_t end = offset + static_cast<std::int64_t>(bytes.size());
    detail::Json shape = detail::Json::array();
    for (const std::int64_t size : named.tensor.shape().sizes()) shape.push(size);
    detail::Json entry;
    entry.set("dtype", detail::stored_name(named.tensor.dtype()));
    entry.set("shape", std::move(shape));
    entry.set("data_offsets", detail::Json(detail::Json::Array{offset, end}));
    members.push_back({named.name, std::move(entry)});
    pieces.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    offset = end;
  }

  std::string header = to_string(detail::Json(std::move(members)));
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const std::string length = length_bytes(header.size());
  pieces[0] = length;
  pieces[1] = header;
  detail::replace_file(path, pieces);
}

}  // namespace tapehead
