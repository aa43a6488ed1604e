// Where in an operation a rule may act, and who asked.
#pragma once

#include "faults/armed.h"

namespace varve::faults {

/// The parts of [begin, end) that a rule aims at. `map`: null unless the rule needs it.
std::vector<Aim> aims_of(const Rule& rule, const StructureMap* map, uint64_t begin, uint64_t end);
/// What the first changed byte belongs to: "object_header.datatype of /density"; "" if the rule does not aim at
/// structures.
std::string where_of(const Rule& rule, const StructureMap* map, const Effect& effect);
std::shared_ptr<const StructureMap> map_of(const std::string& path, Medium& file, fs::RecogniserPool& pool);

/// The command name of a process; "" if it is gone.
std::string process_name(int pid);

/// Packs: remembers which record stands where, from headers that pass by.
void note_records(FileState& file, const Asked& asked);
/// The record that an operation at `offset` reads or writes; nullptr if it is not known.
const index::PackHeader* record_at(const FileState& file, uint64_t offset, std::span<const std::byte> data);

/// The name of a seam's first rule of a model.
std::string rule_of(const Schedule& schedule, Seam seam, Model model);

/// For operations that have no file.
class NoMedium final : public Medium {
 public:
  Result<size_t> read(uint64_t, std::span<std::byte>) override { return size_t{0}; }
  Status write(uint64_t, std::span<const std::byte>) override { return {}; }
  Result<uint64_t> size() override { return uint64_t{0}; }
  Status truncate(uint64_t) override { return {}; }
};

}  // namespace varve::faults
