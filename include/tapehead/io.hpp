// Named tensors in a file, in the safetensors format: what PyTorch, JAX and others read directly.
//
//   8 bytes   length of the header, little-endian
//   header    JSON: {"name": {"dtype": "F32", "shape": [32, 10], "data_offsets": [0, 1280]}, ...,
//             "__metadata__": {"key": "text", ...}}, padded with spaces to a multiple of 8 bytes
//   data      the elements, row-major, little-endian, without gaps
//
// The format holds data alone: reading a file cannot run anything. A file is untrusted input, so
// every length and offset is checked against the file's size before memory is asked for.
// Format: https://github.com/huggingface/safetensors#format
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <tapehead/tensor.hpp>

namespace tapehead {

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

struct TensorFile {
  std::vector<NamedTensor> tensors;             // read: in the order of their data
  std::map<std::string, std::string> metadata;  // any text by name, such as one JSON text
};

// Replaces `path` in one step (a temporary file beside it, then a rename): whatever goes wrong, the
// file that was there stays whole. The metadata also gets "checksum", which covers names, types,
// shapes, elements and the other metadata. ValueError for a name that is given twice, is empty or
// is reserved; FileError when the disk refuses.
void write_tensors(const std::filesystem::path& path, const TensorFile& file);

// FileError naming the file, the tensor and what is wrong: a length or an offset that does not fit
// the file, overlaps and gaps, an element type other than F32, F64, I64 and BOOL, a checksum that
// does not match. A file without a checksum, from another program, is read too.
[[nodiscard]] TensorFile read_tensors(const std::filesystem::path& path);

}  // namespace tapehead
