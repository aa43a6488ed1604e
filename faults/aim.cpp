#include "faults/aim.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

namespace varve::faults {
namespace {

class MediumView final : public fs::FileView {
 public:
  MediumView(Medium& file, uint64_t size) : file_(file), size_(size) {}
  uint64_t size() const override { return size_; }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) override { return file_.read(offset, out); }

 private:
  Medium& file_;
  uint64_t size_;
};

std::optional<index::PackHeader> header_in(std::span<const std::byte> data) {
  if (data.size() < index::kPackHeaderSize) {
    return std::nullopt;
  }
  std::string reason;
  return index::parse_pack_header({reinterpret_cast<const char*>(data.data()), index::kPackHeaderSize}, &reason);
}

}  // namespace

std::vector<Aim> aims_of(const Rule& rule, const StructureMap* map, uint64_t begin, uint64_t end) {
  std::vector<ByteRange> ranges;
  for (const auto& [from, to] : rule.target.ranges) {
    if (from < end && to > begin) {
      ranges.emplace_back(std::max(from, begin), std::min(to, end));
    }
  }
  if (rule.target.ranges.empty()) {
    ranges.emplace_back(begin, end);
  }
  std::vector<Aim> aims;
  for (const auto& [from, to] : ranges) {
    if (!rule.needs_structure()) {
      if (rule.target.element && !rule.bits_of(*rule.target.element)) {
        continue;
      }
      aims.push_back({from, to, rule.target.element, rule.target.big_endian, rule.target.element_base});
      continue;
    }
    for (uint64_t at = from; map != nullptr && at < to;) {
      const Segment* segment = map->at(at);
      if (segment == nullptr) {
        break;
      }
      const uint64_t stop = std::min(to, segment->end());
      const bool has_bits = !rule.aims_at_bits() || (segment->element && rule.bits_of(*segment->element));
      if (has_bits && aims_at(rule.target, *segment)) {
        aims.push_back({at, stop, segment->element, segment->big_endian, segment->offset});
      }
      at = stop;
    }
  }
  return aims;
}

std::string where_of(const Rule& rule, const StructureMap* map, const Effect& effect) {
  const bool known = rule.needs_structure() && map != nullptr && !effect.edits.empty();
  const Segment* segment = known ? map->at(effect.edits[0].offset) : nullptr;
  if (segment == nullptr) {
    return "";
  }
  return segment->name.empty() ? segment->structure : fmt::format("{} of {}", segment->structure, segment->name);
}

std::shared_ptr<const StructureMap> map_of(const std::string& path, Medium& file, fs::RecogniserPool& pool) {
  const auto size = file.size();
  MediumView view(file, size.ok() ? *size : 0);
  return StructureMap::of(std::string_view(path).substr(path.rfind('/') + 1), view, pool);
}

std::string process_name(int pid) {
  std::ifstream in(fmt::format("/proc/{}/comm", pid));
  std::string name;
  std::getline(in, name);
  return name;
}

void note_records(FileState& file, const Asked& asked) {
  if (file.kind != FileKind::pack) {
    return;
  }
  constexpr size_t kMostRecords = 1 << 16;
  if (file.records.size() > kMostRecords) {
    file.records.clear();
  }
  if (const auto header = header_in(asked.data)) {
    file.records[asked.offset + index::kPackHeaderSize] = *header;
  }
}

const index::PackHeader* record_at(const FileState& file, uint64_t offset, std::span<const std::byte> data) {
  if (file.kind != FileKind::pack) {
    return nullptr;
  }
  auto record = file.records.find(header_in(data) ? offset + index::kPackHeaderSize : offset);
  return record == file.records.end() ? nullptr : &record->second;
}

std::string rule_of(const Schedule& schedule, Seam seam, Model model) {
  for (const Rule& rule : schedule.rules) {
    if (rule.seam == seam && rule.model == model) {
      return rule.name;
    }
  }
  return "";
}

}  // namespace varve::faults
