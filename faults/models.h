// The models: one operation and one rule -> what happens to it. Sources of each are in docs/FAULTS.md.
#pragma once

#include "faults/random.h"
#include "faults/state.h"

namespace varve::faults {

/// Bytes of the operation that a rule may touch, and what elements they are of.
struct Aim {
  uint64_t begin = 0, end = 0;
  std::optional<codec::DType> element;
  bool big_endian = false;
  uint64_t element_base = 0;  ///< an element starts here
};

/// One operation that a rule was triggered by.
struct Scene {
  const Rule& rule;
  size_t rule_number;
  RuleState& rule_state;
  FileState& file;
  Medium& medium;
  Op op;
  uint64_t offset, length;          ///< of the operation; a close: of all the file
  std::span<const std::byte> data;  ///< written, or read; a close: empty
  std::vector<Aim> aims;            ///< ascending, inside the operation, not empty where content is changed
  Draw draw;
  uint64_t seed;
  UnsyncedLog& unsynced;

  std::byte byte_at(uint64_t at);
};

/// Nothing: this operation is left alone after all (nothing to change here). Errors: of the file below.
Result<Effect> effect_of(Scene& scene);

// models_content.cpp
Effect flip_bits(Scene& scene);
Effect corrupt_bytes(Scene& scene);
Result<Effect> zero_block(Scene& scene);
Result<Effect> shear_write(Scene& scene);
Result<Effect> tear_write(Scene& scene);
Effect misdirect(Scene& scene, uint64_t file_size);

// models_state.cpp
Result<Effect> stick_page(Scene& scene);
Effect spoil_sector(Scene& scene);
Effect wear_read(Scene& scene);
Result<Effect> cut_power(Scene& scene);

/// Drawn by weight from the rule's codes, or from those that such a call fails with on a failing disk.
int draw_errno(const Parameters& parameters, Op op, Draw& draw);
/// Microseconds.
uint64_t draw_delay(const Parameters& parameters, Draw& draw);

}  // namespace varve::faults
