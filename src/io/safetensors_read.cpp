#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "core/access.hpp"
#include "core/message.hpp"
#include "io/file.hpp"
#include "io/json.hpp"
#include "io/safetensors.hpp"

namespace tapehead {
namespace {

using detail::Json;

// The format's own limit: a longer header is refused before memory is asked for.
constexpr std::uint64_t kMaxHeader = 100'000'000;

struct Entry {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  std::int64_t begin = 0;  // in bytes from the start of the data
  std::int64_t end = 0;
};

class Reader {
 public:
  explicit Reader(const std::filesystem::path& path)
      : path_(path), file_(detail::open_file(path)) {}

  TensorFile read() {
    const Json header = read_header();
    TensorFile result;
    std::vector<Entry> entries;
    for (const Json::Member& member : *header.get<Json::Object>()) {
      if (member.name == detail::kMetadata) {
        result.metadata = metadata(member.value);
      } else {
        entries.push_back(entry(member));
      }
    }
    std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
      return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
    });
    check_layout(entries);
    for (const Entry& e : entries) result.tensors.push_back({e.name, read_tensor(e)});
    check_checksum(result);
    return result;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    detail::fail<FileError>(fmt::format("cannot read '{}': {}", path_.string(), what));
  }

  Json read_header() {
    if (file_.size < 8) {
      fail(fmt::format("a safetensors file starts with 8 bytes of length, but it has {} bytes",
                       file_.size));
    }
    unsigned char bytes[8];
    detail::read_exactly(file_.handle.get(), path_, bytes, sizeof bytes);
    std::uint64_t length = 0;
    for (int i = 7; i >= 0; --i) length = length << 8 | bytes[i];
    if (length > file_.size - 8 || length > kMaxHeader) {
      fail(fmt::format(
          "its header would be {} bytes long, but {} bytes follow and {} are the limit; it is not "
          "a safetensors file, or it was cut off",
          length, file_.size - 8, kMaxHeader));
    }
    std::string text(length, '\0');
    detail::read_exactly(file_.handle.get(), path_, text.data(), text.size());
    data_bytes_ = static_cast<std::int64_t>(file_.size - 8 - length);
    if (!text.starts_with('{')) fail("its header is not a JSON object");
    Json header;
    try {
      header = detail::parse_json(text);
    } catch (const ValueError& error) {
      fail(fmt::format("the header is wrong: {}", error.what()));
    }
    return header;
  }

  std::map<std::string, std::string> metadata(const Json& value) const {
    const auto* members = value.get<Json::Object>();
    if (members == nullptr) fail("__metadata__ is not a JSON object");
    std::map<std::string, std::string> result;
    for (const Json::Member& member : *members) {
      const auto* text = member.value.get<std::string>();
      if (text == nullptr) fail(fmt::format("metadata '{}' is not text", member.name));
      result.emplace(member.name, *text);
    }
    return result;
  }

  Entry entry(const Json::Member& member) const {
    const auto* fields = member.value.get<Json::Object>();
    const Json* dtype = member.value.find("dtype");
    const Json* shape = member.value.find("shape");
    const Json* offsets = member.value.find("data_offsets");
    if (fields == nullptr || fields->size() != 3 || dtype == nullptr || shape == nullptr ||
        offsets == nullptr) {
      fail(fmt::format("tensor '{}' needs exactly dtype, shape and data_offsets", member.name));
    }
    Entry e;
    e.name = member.name;
    e.dtype = dtype_of(e.name, *dtype);
    e.shape = shape_of(e.name, *shape);
    const auto* pair = offsets->get<Json::Array>();
    const std::int64_t* begin =
        pair != nullptr && pair->size() == 2 ? (*pair)[0].natural() : nullptr;
    const std::int64_t* end = begin != nullptr ? (*pair)[1].natural() : nullptr;
    if (end == nullptr || *begin > *end) {
      fail(
          fmt::format("tensor '{}': data_offsets must be two whole numbers, begin <= end", e.name));
    }
    e.begin = *begin;
    e.end = *end;
    const std::int64_t wanted = byte_count(e);
    if (wanted != e.end - e.begin) {
      fail(
          fmt::format("tensor '{}' of type {} and shape {} takes {} bytes, but its offsets {}..{} "
                      "hold {}",
                      e.name, detail::stored_name(e.dtype), to_string(e.shape), wanted, e.begin,
                      e.end, e.end - e.begin));
    }
    return e;
  }

  DType dtype_of(const std::string& name, const Json& value) const {
    const auto* text = value.get<std::string>();
    if (text == nullptr) fail(fmt::format("tensor '{}': dtype is not text", name));
    const std::optional<DType> dtype = detail::stored_dtype(*text);
    if (!dtype) {
      fail(
          fmt::format("tensor '{}' has type {}; F32, F64, I64 and BOOL can be read, and nothing is "
                      "converted: store it as one of these",
                      name, *text));
    }
    return *dtype;
  }

  // Shape itself refuses a product beyond 63 bits.
  Shape shape_of(const std::string& name, const Json& value) const {
    std::vector<std::int64_t> sizes;
    const auto* items = value.get<Json::Array>();
    if (items != nullptr) {
      for (const Json& item : *items) {
        if (const std::int64_t* size = item.natural()) sizes.push_back(*size);
      }
    }
    if (items == nullptr || sizes.size() != items->size()) {
      fail(fmt::format("tensor '{}': shape must be a list of whole numbers", name));
    }
    try {
      return Shape(std::span<const std::int64_t>(sizes));
    } catch (const ShapeError& error) {
      fail(fmt::format("tensor '{}': {}", name, error.what()));
    }
  }

  std::int64_t byte_count(const Entry& e) const {
    const std::int64_t width = bytes_of(e.dtype);
    if (e.shape.size() > std::numeric_limits<std::int64_t>::max() / width) {
      fail(fmt::format("tensor '{}': shape {} is too large", e.name, to_string(e.shape)));
    }
    return e.shape.size() * width;
  }

  // Tensors lie one after the other and fill the data exactly.
  void check_layout(const std::vector<Entry>& entries) const {
    std::int64_t position = 0;
    for (const Entry& e : entries) {
      if (e.begin != position) {
        fail(
            fmt::format("tensor '{}' starts at byte {} of the data, but the one before ends at {}: "
                        "{}",
                        e.name, e.begin, position, e.begin < position ? "they overlap" : "a gap"));
      }
      if (e.end > data_bytes_) {
        fail(
            fmt::format("tensor '{}' needs {} bytes of data, but {} are left: the file was cut off",
                        e.name, e.end - e.begin, data_bytes_ - e.begin));
      }
      position = e.end;
    }
    if (position != data_bytes_) {
      fail(fmt::format("{} bytes follow the last tensor", data_bytes_ - position));
    }
  }

  Tensor read_tensor(const Entry& e) {
    Tensor x = detail::empty(e.shape, e.dtype);
    detail::with_any(e.dtype, [&](auto zero) {
      detail::read_exactly(file_.handle.get(), path_, detail::out<decltype(zero)>(x),
                           static_cast<std::size_t>(e.end - e.begin));
    });
    if (e.dtype == DType::boolean) {
      const auto values = x.data<unsigned char>();
      if (std::any_of(values.begin(), values.end(), [](unsigned char v) { return v > 1; })) {
        fail(fmt::format("tensor '{}' is BOOL, but holds bytes other than 0 and 1", e.name));
      }
    }
    return x;
  }

  void check_checksum(TensorFile& result) const {
    const auto found = result.metadata.find(std::string(detail::kChecksum));
    if (found == result.metadata.end()) return;
    if (found->second.starts_with(detail::kChecksumPrefix) &&
        found->second != detail::checksum(result)) {
      fail(fmt::format("its checksum is {}, but its contents give {}: it was damaged",
                       found->second, detail::checksum(result)));
    }
    result.metadata.erase(found);
  }

  const std::filesystem::path& path_;
  detail::OpenedFile file_;
  std::int64_t data_bytes_ = 0;
};

}  // namespace

TensorFile read_tensors(const std::filesystem::path& path) { return Reader(path).read(); }

}  // namespace tapehead
