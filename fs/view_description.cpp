// What .varve/stat/PATH says of a file, and .varve/counters of the store.
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "fs/core.h"
#include "fs/formats/check.h"

namespace varve::fs {

namespace {

nlohmann::json levels_of(const std::map<uint8_t, uint64_t>& stored) {
  nlohmann::json levels = nlohmann::json::object();
  for (const auto& [level, bytes] : stored) {
    levels[std::to_string(level)] = bytes;
  }
  return levels;
}

double ratio_of(uint64_t size, uint64_t stored) {
  return stored == 0 ? 1.0 : static_cast<double>(size) / static_cast<double>(stored);
}

std::vector<std::string> names_of(const std::vector<ChunkFilter>& filters) {
  std::vector<std::string> names;
  for (const ChunkFilter& filter : filters) {
    names.push_back(filter.kind == ChunkFilter::Kind::shuffle      ? "shuffle"
                    : filter.kind == ChunkFilter::Kind::fletcher32 ? "fletcher32"
                                                                   : fmt::format("deflate {}", filter.parameter));
  }
  return names;
}

nlohmann::json describe_array(const ArrayEntry& entry, const codec::ArrayCodec& codec,
                              const std::map<uint8_t, uint64_t>& levels) {
  const ArrayRegion& region = entry.region;
  const codec::CodecInfo info = codec.info();
  uint64_t stored = 0;
  for (const auto& [level, bytes] : levels) {
    stored += bytes;
  }
  uint64_t size = 0;
  uint64_t in_file = 0;
  for (const ChunkPlace& place : region.chunks) {
    const ChunkGeometry geometry(region, place.chunk);
    size += geometry.bytes() - geometry.padding_bytes();
    in_file += stored_bytes(region, place);
  }
  const auto finite = [](double value) -> nlohmann::json {
    return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json();
  };
  nlohmann::json errors = nlohmann::json::array();
  for (const double error : entry.errors.value_or(codec::LevelErrors()).most) {
    errors.push_back(finite(error));
  }
  return {{"name", region.name},
          {"dtype", codec::name_of(region.dtype)},
          {"byte_order", region.big_endian ? "big" : "little"},
          {"fortran_order", region.fortran_order},
          {"shape", region.shape},
          {"chunk_shape", region.chunk_shape},
          {"filters", names_of(region.filters)},
          {"in_file", in_file},
          {"fill_values", region.fill_values},
          {"brick_shape", codec.brick_count() > 0 ? codec.brick_box(0).shape : codec::Extents()},
          {"bound", codec::to_string(entry.bound)},
          {"absolute_bound", info.absolute_bound},
          {"max_error", entry.errors ? errors : nlohmann::json()},
          {"why", entry.why},
          {"mapping", info.mapping},
          {"method", info.method},
          {"min", finite(info.min)},
          {"max", finite(info.max)},
          {"warning", info.bound_exceeds_range ? "the bound is larger than the range of the data" : ""},
          {"size", size},
          {"stored", stored},
          {"ratio", ratio_of(size, stored)},
          {"levels", levels_of(levels)}};
}

}  // namespace

/// See `varve stat --help` for what the fields mean.
Result<std::string> Core::describe(InodeNumber real) {
  VARVE_ASSIGN(const NodePointer node, nodes_.get(real));
  VARVE_ASSIGN(const std::string path, path_of(real));
  VARVE_ASSIGN(const std::string state, varve_attribute(node, "user.varve.state"));
  VARVE_ASSIGN(const std::string bound, varve_attribute(node, "user.varve.bound"));
  VARVE_ASSIGN(const FilePolicy policy, policy_of(real));
  std::shared_ptr<const Sealed> sealed;
  nlohmann::json out;
  {
    const NodeLock lock(node->mutex);
    VARVE_TRY(open_sealed(*node));
    sealed = node->inode.object != 0 ? node->sealed : nullptr;
    const uint64_t stored = node->staging ? attributes_of(*node).blocks * 512 : node->inode.stored;
    out = {{"path", path},
           {"inode", real},
           {"size", node->inode.size},
           {"stored", stored},
           {"state", state},
           {"bound", bound},
           {"policy", policy.serialise()},
           {"ratio", ratio_of(node->inode.size, stored)}};
  }
  std::map<uint32_t, std::map<uint8_t, uint64_t>> stored;
  if (sealed) {
    VARVE_TRY(index_->records(sealed->object, [&](const index::RecordInfo& info) {
      stored[info.key.region][info.key.level] += info.length;
      return true;
    }));
  }
  const auto total = [&](uint32_t region) {
    uint64_t sum = 0;
    for (const auto& [level, bytes] : stored[region]) {
      sum += bytes;
    }
    return sum;
  };
  const Layout empty;
  const Layout& layout = sealed ? sealed->layout : empty;
  out["format"] = layout.format;
  out["note"] = layout.note;
  out["bytes"] = {{"size", layout.stream_size}, {"stored", total(index::kBytesRegion)}};
  out["patches"] = {{"size", layout.patch_size}, {"stored", total(index::kPatchRegion)}};
  out["arrays"] = nlohmann::json::array();
  for (size_t i = 0; i < layout.arrays.size(); ++i) {
    out["arrays"].push_back(describe_array(layout.arrays[i], sealed->codecs[i], stored[static_cast<uint32_t>(i + 1)]));
  }
  return out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

/// Records that were read from the store since the mount began, by level; streams are what lies outside arrays.
std::string Core::describe_reads() const {
  nlohmann::json levels = nlohmann::json::object();
  for (uint8_t kind = 0; kind < kReadKinds; ++kind) {
    const auto& [records, bytes] = reader_.reads().at(kind);
    levels[kind <= codec::kCoarseLevel ? std::to_string(kind) : "stream"] = {{"records", records.load()},
                                                                             {"bytes", bytes.load()}};
  }
  return nlohmann::json({{"records_read", levels}}).dump(2) + "\n";
}

}  // namespace varve::fs
