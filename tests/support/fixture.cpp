#include "support/fixture.hpp"

#include <fstream>
#include <sstream>
#include <stdexcept>

#include <fmt/format.h>
#include <fmt/ranges.h>

using namespace tapehead;

namespace {

// Reads `count` numbers as text converted by T's own parser, so that i64 values stay exact.
template <class T>
std::vector<T> read_values(std::istream& file, std::int64_t count, const std::string& where) {
  std::vector<T> values(static_cast<std::size_t>(count));
  for (T& value : values) {
    if (!(file >> value)) throw std::runtime_error(where + ": too few values, or not a number");
  }
  return values;
}

Tensor read_tensor(std::istream& file, const std::string& dtype, const Shape& shape,
                   const std::string& where) {
  if (dtype == "f64") {
    const auto values = read_values<double>(file, shape.size(), where);
    return tensor(std::span<const double>(values), shape);
  }
  if (dtype != "i64" && dtype != "bool") throw std::runtime_error(where + ": dtype " + dtype);
  const auto values = read_values<std::int64_t>(file, shape.size(), where);
  const Tensor integers = tensor(std::span<const std::int64_t>(values), shape);
  return dtype == "i64" ? integers : cast(integers, DType::boolean);
}

}  // namespace

Fixture::Fixture(const std::string& name)
    : path_(std::string(TAPEHEAD_SOURCE_DIR) + "/tests/fixtures/" + name + ".txt") {
  std::ifstream file(path_);
  if (!file) throw std::runtime_error("fixture " + path_ + " cannot be opened");
  std::string comment;
  while (file >> std::ws && file.peek() == '#') std::getline(file, comment);
  std::string word;
  while (file >> word) {
    std::string title;
    std::string dtype;
    int rank = 0;
    if (word != "tensor" || !(file >> title >> dtype >> rank) || rank < 0 ||
        rank > Shape::kMaxRank) {
      throw std::runtime_error(
          fmt::format("fixture {}: expected 'tensor <name> <dtype> <rank> <dims>', found '{} {}'",
                      path_, word, title));
    }
    const std::string where = fmt::format("fixture {}: tensor {}", path_, title);
    const auto sizes = read_values<std::int64_t>(file, rank, where);
    tensors_.emplace_back(
        title, read_tensor(file, dtype, Shape(std::span<const std::int64_t>(sizes)), where));
  }
}

const Tensor& Fixture::operator[](const std::string& name) const {
  for (const auto& entry : tensors_) {
    if (entry.first == name) return entry.second;
  }
  throw std::runtime_error(fmt::format("fixture {} has no tensor '{}'; it has {}", path_, name,
                                       fmt::join(names(), ", ")));
}

Tensor Fixture::get(const std::string& name, DType dtype) const {
  return cast((*this)[name], dtype);
}

bool Fixture::contains(const std::string& name) const {
  for (const auto& entry : tensors_) {
    if (entry.first == name) return true;
  }
  return false;
}

std::vector<std::string> Fixture::names() const {
  std::vector<std::string> result;
  for (const auto& entry : tensors_) result.push_back(entry.first);
  return result;
}
