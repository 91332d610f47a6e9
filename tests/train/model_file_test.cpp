#include <limits>

#include <tapehead/io.hpp>
#include <tapehead/runs.hpp>

#include "io/files.hpp"
#include "support/catch.hpp"

using namespace tapehead;

namespace {

struct Square {
  explicit Square(std::uint64_t seed, DType dtype = DType::f32)
      : params(seed, dtype), layer(params / "layer", 2, 2) {}
  Params params;
  Linear layer;
};

}  // namespace

TEST_CASE("a model file gives back every weight and the matrix the right way round") {
  const TemporaryFolder folder;
  Square a(1);
  a.layer.weight.set(tensor({{1, 2}, {3, 4}}));
  a.layer.bias.set(tensor({0, 0}));
  save_model(folder / "m", a.params, {{"task", "reverse"}});
  Square b(2);
  const auto metadata = load_model(folder / "m", b.params);
  CHECK(metadata.at("task") == "reverse");
  CHECK(same_bits(a.params.flat(), b.params.flat()));
  const Tensor y = b.layer(tensor({{1, 0}}));
  CHECK(y.at({0, 0}) == 1);
  CHECK(y.at({0, 1}) == 2);
}

TEST_CASE("a model file of another layout, version or model changes nothing") {
  const TemporaryFolder folder;
  Square a(1);
  save_model(folder / "m", a.params);
  const TensorFile good = read_tensors(folder / "m");
  const auto refused = [&](const TensorFile& file, const char* why) {
    write_tensors(folder / "bad", file);
    Square b(2);
    const Tensor before = b.params.flat();
    CHECK_THROWS_AS(load_model(folder / "bad", b.params), FileError);
    CHECK_THROWS_WITH(load_model(folder / "bad", b.params), ContainsSubstring(why));
    CHECK(same_bits(b.params.flat(), before));
  };
  TensorFile file = good;
  file.metadata["layout"] = "[out,in]";
  refused(file, "its layout is '[out,in]'");
  file = good;
  file.metadata.erase("layout");
  refused(file, "its layout is missing");
  file = good;
  file.metadata["tapehead_format"] = "12";
  refused(file, "its tapehead_format is '12'");
  file = good;
  file.tensors.pop_back();
  refused(file, "not in the file");
  file = good;
  file.tensors.push_back({"layer.extra", zeros({1})});
  refused(file, "layer.extra: in the file, but not in the model");
  file = good;
  for (NamedTensor& named : file.tensors) {
    if (named.name == "layer.weight") named.tensor = zeros({4, 1});
  }
  refused(file, "layer.weight: the file has f32 [4, 1], the model f32 [2, 2]");
  Square wide(1, DType::f64);
  CHECK_THROWS_WITH(load_model(folder / "m", wide.params),
                    ContainsSubstring("the file has f32 [2, 2], the model f64 [2, 2]"));
}

TEST_CASE("a weight that is not finite never replaces a good file") {
  const TemporaryFolder folder;
  Square a(1);
  save_model(folder / "m", a.params);
  const std::string good = read_bytes(folder / "m");
  a.layer.bias.set(tensor({0, std::numeric_limits<double>::infinity()}));
  CHECK_THROWS_WITH(save_model(folder / "m", a.params),
                    ContainsSubstring("layer.bias holds NaN or infinity"));
  CHECK(read_bytes(folder / "m") == good);
}
