#include <cmath>
#include <cstring>
#include <limits>

#include <tapehead/io.hpp>
#include <tapehead/system.hpp>

#include "io/files.hpp"
#include "support/catch.hpp"

using namespace tapehead;

namespace {

Tensor number(float value) { return tensor(std::span<const float>(&value, 1), {1}); }

const Tensor& named(const TensorFile& file, const std::string& name) {
  for (const NamedTensor& entry : file.tensors) {
    if (entry.name == name) return entry.tensor;
  }
  throw std::runtime_error("no tensor " + name);
}

std::string one_f32(const std::string& shape, const std::string& offsets) {
  return R"({"w":{"dtype":"F32","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
}

}  // namespace

TEST_CASE("a tensor file gives back every bit of every type") {
  const TemporaryFolder folder;
  const float odd[] = {-0.0f, std::nanf("7"), std::numeric_limits<float>::infinity(),
                       std::numeric_limits<float>::denorm_min()};
  // 1A, 0D and 0A are the bytes that text mode would change or stop at.
  const std::int64_t bytes[] = {0x1a0d0a1a0d0a, -1};
  TensorFile file;
  file.tensors = {
      {"flags", tensor(std::vector<bool>{true, false, true}, {3})},
      {"odd", tensor(std::span<const float>(odd), {2, 2})},
      {"ids", tensor(std::span<const std::int64_t>(bytes), {2})},
      {"exact", tensor({{0.1, 0.2}}, DType::f64)},
      {"nothing", zeros({3, 0, 2})},
      {"scalar", tensor(2.5)},
  };
  file.metadata = {{"config", "{\"a\": \"\u00e9 \\\" \n\"}"}, {"empty", ""}};
  write_tensors(folder / "a.safetensors", file);
  const TensorFile back = read_tensors(folder / "a.safetensors");

  REQUIRE(back.tensors.size() == file.tensors.size());
  for (const NamedTensor& entry : file.tensors) {
    INFO(entry.name);
    CHECK(same_bits(named(back, entry.name), entry.tensor));
  }
  CHECK(back.metadata == file.metadata);
}

TEST_CASE("names and metadata that are not UTF-8 are refused before a file is made") {
  const TemporaryFolder folder;
  const std::string latin = "caf\xe9";
  CHECK_THROWS_WITH(write_tensors(folder / "a", {{{latin, number(1.0f)}}, {}}),
                    ContainsSubstring("the name of a tensor is not UTF-8"));
  CHECK_THROWS_WITH(write_tensors(folder / "a", {{}, {{latin, "x"}}}),
                    ContainsSubstring("a metadata key is not UTF-8"));
  CHECK_THROWS_WITH(write_tensors(folder / "a", {{}, {{"author", latin}}}),
                    ContainsSubstring("the metadata of 'author' is not UTF-8"));
  CHECK(!std::filesystem::exists(folder / "a"));
}

TEST_CASE("what is written is the published format, byte for byte") {
  const TemporaryFolder folder;
  write_tensors(folder / "a", {{{"w", number(1.0f)}}, {}});
  const std::string bytes = read_bytes(folder / "a");
  const auto length = static_cast<std::size_t>(static_cast<unsigned char>(bytes[0])) +
                      256 * static_cast<std::size_t>(static_cast<unsigned char>(bytes[1]));
  CHECK(length % 8 == 0);
  REQUIRE(bytes.size() == 8 + length + 4);
  CHECK(bytes.substr(2, 6) == std::string(6, '\0'));
  CHECK_THAT(bytes, ContainsSubstring(R"("w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})"));
  CHECK(bytes.substr(8 + length) == std::string("\x00\x00\x80\x3f", 4));  // 1.0, little-endian
}

TEST_CASE("a file of another program is read") {
  const TemporaryFolder folder;
  const std::string data("\x00\x00\x80\x3f\x00\x00\x00\x00\x00\x00\x00\x40", 12);
  write_bytes(folder / "a",
              safetensors_bytes(R"({"__metadata__":{"format":"pt"},)"
                                R"("b":{"dtype":"F64","shape":[],"data_offsets":[4,12]},)"
                                R"("a":{"dtype":"F32","shape":[1,1],"data_offsets":[0,4]}}   )",
                                data));
  const TensorFile file = read_tensors(folder / "a");
  CHECK(named(file, "a").item() == 1.0);
  CHECK(named(file, "b").item() == 2.0);
  CHECK(file.metadata.at("format") == "pt");
}

TEST_CASE("hostile lengths are refused before memory is asked for") {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& bytes, const char* why) {
    write_bytes(folder / "a", bytes);
    const std::int64_t before = memory_info().peak_bytes;
    CHECK_THROWS_WITH(read_tensors(folder / "a"), ContainsSubstring(why));
    CHECK(memory_info().peak_bytes == before);
  };
  refused("", "has 0 bytes");
  refused("abc", "has 3 bytes");
  refused(std::string("\0\0\0\0\0\0\0\x80", 8), "9223372036854775808 bytes long");
  refused(std::string("\x01\0\0\0\0\0\0\0", 8), "1 bytes long, but 0 bytes follow");
  refused(std::string(8, '\xff'), "18446744073709551615 bytes long");
  refused(std::string(8, '\0'), "not a JSON object");
}

TEST_CASE("hostile headers are refused with the tensor's name") {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& header, const char* why) {
    INFO(header);
    write_bytes(folder / "a", safetensors_bytes(header, std::string(8, '\0')));
    CHECK_THROWS_AS(read_tensors(folder / "a"), FileError);
    CHECK_THROWS_WITH(read_tensors(folder / "a"), ContainsSubstring(why));
  };
  refused("[1]", "not a JSON object");
  refused("{", "not valid JSON");
  refused("{\"w\xff\":1}", "not valid JSON");
  refused("{\"a\":" + std::string(100, '[') + std::string(100, ']') + "}", "nested deeper");
  refused(R"({"w":1,"w":2})", "given twice");
  refused(R"({"w":1})", "'w' needs exactly dtype, shape and data_offsets");
  refused(R"({"__metadata__":[]})", "__metadata__ is not");
  refused(R"({"__metadata__":{"a":1}})", "metadata 'a' is not text");
  refused(R"({"w":{"dtype":"F16","shape":[4],"data_offsets":[0,8]}})", "'w' has type F16");
  refused(R"({"w":{"dtype":7,"shape":[2],"data_offsets":[0,8]}})", "dtype is not text");
  refused(one_f32("[2]", "[0,4]"), "takes 8 bytes, but its offsets 0..4 hold 4");
  refused(one_f32("[1000,1000]", "[0,4]"), "takes 4000000 bytes");
  refused(one_f32("[2]", "[8,0]"), "begin <= end");
  refused(one_f32("[2]", "[-8,0]"), "two whole numbers");
  refused(one_f32("[2]", "[0.0,8.0]"), "two whole numbers");
  refused(one_f32("[2]", "[0,8,16]"), "two whole numbers");
  refused(one_f32("[2.0]", "[0,8]"), "shape must be a list of whole numbers");
  refused(one_f32("[-2]", "[0,8]"), "shape must be a list of whole numbers");
  refused(one_f32("2", "[0,8]"), "shape must be a list of whole numbers");
  refused(one_f32("[4294967296,4294967296]", "[0,0]"), "'w'");
  refused(one_f32("[2305843009213693952]", "[0,0]"), "'w'");  // 2^61 elements: bytes wrap to 0
  refused(one_f32("[1,1,1,1,1,1,1,1,2]", "[0,8]"), "'w'");
  refused(one_f32("[1]", "[4,8]"), "a gap");
  refused(one_f32("[1]", "[0,4]"), "4 bytes follow the last tensor");
  refused(one_f32("[4]", "[0,16]"), "'w' needs 16 bytes of data, but 8 are left");
  refused(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
          R"("b":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}})",
          "they overlap");
}

TEST_CASE("a boolean tensor holds 0 and 1 alone") {
  const TemporaryFolder folder;
  write_bytes(folder / "a",
              safetensors_bytes(R"({"m":{"dtype":"BOOL","shape":[2],"data_offsets":[0,2]}})",
                                std::string("\x01\x02", 2)));
  CHECK_THROWS_WITH(read_tensors(folder / "a"), ContainsSubstring("'m' is BOOL"));
}

TEST_CASE("every cut and every flipped bit of a file is found") {
  const TemporaryFolder folder;
  TensorFile file;
  file.tensors = {{"weight", tensor({{1, 2}, {3, 4}})}, {"bias", tensor({5, 6})}};
  file.metadata = {{"task", "reverse"}};
  write_tensors(folder / "a", file);
  const std::string whole = read_bytes(folder / "a");

  for (std::size_t size = 0; size < whole.size(); ++size) {
    write_bytes(folder / "b", whole.substr(0, size));
    CHECK_THROWS_AS(read_tensors(folder / "b"), FileError);
  }
  // A flip may go unseen where it changes nothing that is read: one kind of JSON space for another,
  // or the name of the checksum.
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(static_cast<unsigned char>(whole[at]) ^ (1u << bit));
      write_bytes(folder / "b", damaged);
      INFO("byte " << at << " bit " << bit);
      try {
        const TensorFile back = read_tensors(folder / "b");
        CHECK(back.metadata.at("task") == "reverse");
        CHECK(same_bits(named(back, "weight"), file.tensors[0].tensor));
        CHECK(same_bits(named(back, "bias"), file.tensors[1].tensor));
      } catch (const FileError&) {
      }
    }
  }
}

TEST_CASE("writing refuses what could not be read back") {
  const TemporaryFolder folder;
  const Tensor w = number(1);
  CHECK_THROWS_WITH(write_tensors(folder / "a", {{{"w", w}, {"w", w}}, {}}),
                    ContainsSubstring("two tensors are called 'w'"));
  CHECK_THROWS_AS(write_tensors(folder / "a", {{{"", w}}, {}}), ValueError);
  CHECK_THROWS_AS(write_tensors(folder / "a", {{{"__metadata__", w}}, {}}), ValueError);
  CHECK_THROWS_AS(write_tensors(folder / "a", {{{"w", Tensor()}}, {}}), ValueError);
  CHECK_THROWS_WITH(write_tensors(folder / "a", {{{"w", w}}, {{"checksum", "x"}}}),
                    ContainsSubstring("reserved"));
  CHECK_FALSE(std::filesystem::exists(folder / "a"));
}

TEST_CASE("a failed write names the file and leaves the old one and no other") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH(write_tensors(folder / "none/a", {{{"w", number(1)}}, {}}),
                    ContainsSubstring("none/a': No such file or directory"));
  std::filesystem::create_directory(folder / "dir");
  write_bytes(folder / "dir/file", "x");
  // A folder cannot be replaced by a file: the rename fails after the temporary file was written.
  CHECK_THROWS_AS(write_tensors(folder / "dir", {{{"w", number(1)}}, {}}), FileError);
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
  CHECK_THROWS_WITH(read_tensors(folder / "dir"), ContainsSubstring("not a regular file"));
  CHECK_THROWS_WITH(read_tensors(folder / "gone"), ContainsSubstring("No such file"));
}
