#include "faults/structure.h"

#include <algorithm>

#include "fs/formats/check.h"
#include "fs/formats/hdf5.h"
#include "fs/intervals.h"
#include "fs/policy.h"

namespace varve::faults {
namespace {

/// Earlier segments win; what nothing covers gets `rest`.
std::vector<Segment> without_overlap(const std::vector<Segment>& claims, uint64_t size, std::string_view rest) {
  std::vector<Segment> placed;
  fs::IntervalSet taken;
  for (const Segment& claim : claims) {
    const uint64_t end = std::min(claim.end(), size);
    if (claim.end() < claim.offset || claim.offset >= end) {
      continue;
    }
    std::vector<ByteRange> free;
    taken.split(claim.offset, end, [&](uint64_t begin, uint64_t stop, bool inside) {
      if (!inside) {
        free.emplace_back(begin, stop);
      }
      return true;
    });
    for (const auto& [begin, stop] : free) {
      Segment part = claim;
      part.offset = begin;
      part.length = stop - begin;
      placed.push_back(std::move(part));
      taken.add(begin, stop);
    }
  }
  taken.split(0, size, [&](uint64_t begin, uint64_t stop, bool inside) {
    if (!inside) {
      Segment part;
      part.offset = begin;
      part.length = stop - begin;
      part.structure = rest;
      placed.push_back(std::move(part));
    }
    return true;
  });
  std::ranges::sort(placed, {}, &Segment::offset);
  return placed;
}

void add_arrays(const fs::Recognised& recognised, std::vector<Segment>& claims) {
  for (const fs::ArrayRegion& array : recognised.arrays) {
    const bool filtered = !array.filters.empty();  // no elements there, but bytes
    for (const fs::ChunkPlace& place : array.chunks) {
      claims.push_back({place.offset, fs::stored_bytes(array, place), "raw_data", array.name,
                        filtered ? codec::DType::u8 : array.dtype, !filtered && array.big_endian});
    }
  }
}

}  // namespace

std::shared_ptr<const StructureMap> StructureMap::of(std::string_view name, fs::FileView& file,
                                                     fs::RecogniserPool& pool) {
  auto map = std::make_shared<StructureMap>();
  std::vector<Segment> claims;
  if (fs::worth_recognising(name, file, std::nullopt)) {
    if (const auto found = pool.recognise(name, file, std::nullopt); found.ok() && *found) {
      add_arrays(**found, claims);
    }
  }
  const bool hdf5 = fs::has_hdf5_signature(file);
  if (hdf5) {
    std::vector<Segment> parts = hdf5_structures(file);
    claims.insert(claims.end(), std::make_move_iterator(parts.begin()), std::make_move_iterator(parts.end()));
  }
  map->segments_ = without_overlap(claims, file.size(), hdf5 ? "unused" : claims.empty() ? "bytes" : "header");
  return map;
}

const Segment* StructureMap::at(uint64_t offset) const {
  auto next = std::ranges::upper_bound(segments_, offset, {}, &Segment::offset);
  if (next == segments_.begin() || std::prev(next)->end() <= offset) {
    return nullptr;
  }
  return &*std::prev(next);
}

bool aims_at(const Target& target, const Segment& segment) {
  if (!target.region.empty() && (target.region == "array") != segment.element.has_value()) {
    return false;
  }
  if (!target.dataset.empty() &&
      (segment.structure != "raw_data" || !fs::dataset_match(target.dataset, segment.name))) {
    return false;
  }
  return target.structure.empty() || fs::glob_match(target.structure, segment.structure);
}

}  // namespace varve::faults
