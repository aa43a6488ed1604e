// What a Batch gathers until Index::commit applies it.
#pragma once

#include <string>
#include <vector>

#include "index/index.h"
#include "index/tree.h"

namespace varve::index {

struct BatchStep {
  enum class Kind : uint8_t { put, erase, erase_inode, publish, reference, release };
  Kind kind = Kind::put;
  Family family = Family::meta;  ///< of put and erase
  uint64_t number = 0;           ///< inode or object
  std::string key;
  std::string value;  ///< publish: the layout
};

struct Batch::Changes {
  std::vector<BatchStep> steps;
  bool frees = false;
};

}  // namespace varve::index
