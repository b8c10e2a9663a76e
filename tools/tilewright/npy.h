// Tensors as .npy files.
#pragma once

#include <string>

#include "tilewright/tilewright.hpp"

namespace command {

// A tensor of the dtype that is expected; bf16 and f8 are read from raw types of their size ("V2", "u2",
// "V1", "u1").
tw::Tensor read_npy(const std::string& path, tw::DType expected);
void write_npy(const std::string& path, const tw::Tensor& tensor);

}  // namespace command
