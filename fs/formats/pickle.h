// What a pickle of PyTorch says about tensors. The opcodes are read, and nothing is called or built.
// Method: CPython's Lib/pickletools.py; torch/_utils.py (_rebuild_tensor_v2), torch/serialization.py (persistent_id).
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace varve::fs {

/// A storage that the pickle refers to, and the first tensor that is found to be all of it, in C order.
struct PickledStorage {
  std::string key;   ///< "0": the record is data/0
  std::string type;  ///< "FloatStorage"
  uint64_t elements = 0;
  std::vector<uint64_t> shape;  ///< one axis of all elements where there is no such tensor
};

/// Each storage once, in the order of the pickle, which is read up to its end or to the first opcode that protocols 2
/// to 5 do not have or that makes no sense; what was found before counts.
std::vector<PickledStorage> pickled_storages(std::span<const std::byte> pickle);

}  // namespace varve::fs
