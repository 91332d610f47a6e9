// Reference numbers from PyTorch: the named tensors of tests/fixtures/<name>.txt, whose format is
// described in scripts/fixtures/README.md.
//
//   Fixture fixture("gelu");
//   Tensor y = fixture["gelu.output"];                  // in its own dtype
//   Tensor x = fixture.get("input", DType::f32);        // converted
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <tapehead/ops.hpp>

class Fixture {
 public:
  // std::runtime_error with the path for a file that is missing or not of the format.
  explicit Fixture(const std::string& name);

  // std::runtime_error with the names that exist when there is no such tensor.
  [[nodiscard]] const tapehead::Tensor& operator[](const std::string& name) const;
  [[nodiscard]] tapehead::Tensor get(const std::string& name, tapehead::DType dtype) const;
  [[nodiscard]] bool contains(const std::string& name) const;
  [[nodiscard]] std::vector<std::string> names() const;  // in the order of the file

 private:
  std::string path_;
  std::vector<std::pair<std::string, tapehead::Tensor>> tensors_;
};
