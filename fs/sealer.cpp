#include "fs/sealer.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>
#include <mutex>

#include "fs/bytes_stream.h"
#include "fs/formats/chunk_filters.h"
#include "fs/log.h"
#include "fs/tile_changes.h"

namespace varve::fs {

using codec::ArrayCodec;
using codec::Box;
using codec::Bytes;
using codec::element_count;
using codec::element_size;

namespace {

class ContentView : public FileView {
 public:
  ContentView(uint64_t size, const ReadContent& read) : size_(size), read_(read) {}
  uint64_t size() const override { return size_; }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) override {
    if (offset >= size_) {
      return size_t{0};
    }
    const size_t length = std::min<uint64_t>(out.size(), size_ - offset);
    VARVE_TRY(read_(offset, out.first(length)));
    return length;
  }

 private:
  const uint64_t size_;
  const ReadContent& read_;
};

/// The first error of several threads; cheap to ask for.
class Failure {
 public:
  bool happened() const { return happened_.load(std::memory_order_relaxed); }
  void note(const Status& status) {
    if (!status.ok()) {
      const std::lock_guard lock(mutex_);
      if (!happened_.exchange(true)) {
        first_ = status.error();
      }
    }
  }
  Status take() { return first_; }

 private:
  std::atomic<bool> happened_{false};
  std::mutex mutex_;
  Status first_;
};

}  // namespace

/// Small arrays are encoded when they are planned; their records wait in memory, at most so many bytes.
constexpr size_t kMostReadyBytes = size_t{64} << 20;
/// Coarse records that lie in packs are kept twice, where they are one part in so many of their tile.
constexpr size_t kCopiedShare = 20;

/// The state of one seal.
struct Sealer::Work {
  const SealJob& job;
  Layout layout;
  std::vector<ArrayCodec> codecs;
  std::vector<std::optional<uint32_t>> old;  ///< predecessor in the base, for each array
  std::vector<std::vector<TileFate>> fates;  ///< for each array and tile; empty without base
  /// For each array: the records of its tiles, where they were made with its codec; else empty.
  std::vector<std::vector<std::vector<codec::Record>>> ready;
  /// For each array and tile that is not shared: what its level views differ by.
  std::vector<std::vector<codec::LevelErrors>> errors;
  /// For each array: its elements, if it is filtered; else null.
  std::vector<std::unique_ptr<UnfilteredArray>> unfiltered;
  size_t ready_bytes = 0;
  std::unique_ptr<index::ObjectWriter> writer;
  bool lossy = false;
};

namespace {

uint64_t bytes_of(const std::vector<codec::Record>& records) {
  uint64_t bytes = 0;
  for (const codec::Record& record : records) {
    bytes += record.data.size();
  }
  return bytes;
}

uint64_t bytes_of(const std::vector<std::vector<codec::Record>>& tiles) {
  uint64_t bytes = 0;
  for (const auto& records : tiles) {
    bytes += bytes_of(records);
  }
  return bytes;
}

/// Bytes of all chunks, less what the layout needs to give each of them back.
double deflated_bytes(const ArrayRegion& region) {
  constexpr double kNoted = 12;
  double bytes = 0;
  for (const StoredChunk& chunk : region.stored) {
    bytes += static_cast<double>(chunk.length) - kNoted;
  }
  return bytes;
}

/// Stored bytes of a lossless array for each byte of its elements: by `ready`, if it has its records; else by a few
/// tiles.
Result<double> share_stored(const ArrayCodec& codec, const std::vector<std::vector<codec::Record>>& ready,
                            const std::function<Status(const Box&, std::byte*)>& read) {
  constexpr uint64_t kTried = 4;
  uint64_t elements = ready.empty() ? 0 : element_count(codec.shape()) * element_size(codec.dtype());
  uint64_t stored = bytes_of(ready);
  const uint64_t tried = ready.empty() ? std::min(codec.tile_count(), kTried) : 0;
  for (uint64_t i = 0; i < tried; ++i) {
    const uint64_t tile = i * codec.tile_count() / tried;
    const Box box = codec.tile_box(tile);
    Bytes data(element_count(box.shape) * element_size(codec.dtype()));
    VARVE_TRY(read(box, data.data()));
    VARVE_ASSIGN(const auto records, codec.encode_tile(tile, data.data()));
    stored += bytes_of(records);
    elements += data.size();
  }
  return elements == 0 ? 0 : static_cast<double>(stored) / static_cast<double>(elements);
}

/// EINVAL: the file's own bytes of a deflated array take less.
Status check_worth(const ArrayRegion& region, const ArrayCodec& codec,
                   const std::vector<std::vector<codec::Record>>& ready,
                   const std::function<Status(const Box&, std::byte*)>& read) {
  if (!is_deflated(region)) {
    return {};
  }
  VARVE_ASSIGN(const double share, share_stored(codec, ready, read));
  const auto bytes = static_cast<double>(element_count(region.shape) * element_size(region.dtype));
  return share * bytes < deflated_bytes(region) ? Status() : Error{EINVAL, "its file has it deflated to fewer bytes"};
}

/// Cuts the shape along the slowest axis to what the file stores (a dataset is often declared long before it is
/// filled). False: so little of it is stored that it is cheaper kept as bytes.
bool worth_encoding(ArrayRegion& region) {
  constexpr uint64_t kSparse = 4;
  uint64_t stored = 0;
  uint64_t slowest = 0;
  for (const ChunkPlace& place : region.chunks) {
    const ChunkGeometry geometry(region, place.chunk);
    stored += element_count(geometry.valid());
    slowest = region.shape.empty() ? 0 : std::max(slowest, geometry.origin()[0] + geometry.valid()[0]);
  }
  if (!region.shape.empty() && region.chunk_shape != region.shape) {
    region.shape[0] = slowest;
  }
  return stored > 0 && element_count(region.shape) / kSparse <= stored;
}

}  // namespace

Result<Layout> Sealer::recognise(const SealJob& job, bool require_arrays) {
  Layout layout;
  layout.size = job.size;
  layout.format = "bytes";
  layout.holes = job.holes;
  ContentView view(job.size, job.look ? job.look : job.read);
  if (job.size == 0 || !worth_recognising(job.name, view, job.policy.raw)) {
    return require_arrays ? Result<Layout>(Error{EAGAIN, "no array to be expected"}) : Result<Layout>(layout);
  }
  auto found = recognisers_.recognise(job.name, view, job.policy.raw);
  if (!found.ok()) {
    if (require_arrays) {
      return Error{EAGAIN, found.error().text};
    }
    layout.note = found.error().text;
    log_line(LogLevel::warning, fmt::format("{}: stored as plain bytes: {}", job.name, found.error().text));
    return layout;
  }
  if (!found->has_value()) {
    return require_arrays ? Result<Layout>(Error{EAGAIN, "no array recognised yet"}) : Result<Layout>(layout);
  }
  layout.format = (*found)->format;
  for (ArrayRegion& region : (*found)->arrays) {
    if (worth_encoding(region)) {
      layout.arrays.push_back({.region = std::move(region), .bound = {}, .why = {}, .codec = {}, .errors = {}});
    }
  }
  return layout;
}

/// Takes chunks whose filters cannot be redone out of `region`. Null: it has no filters.
Result<std::unique_ptr<UnfilteredArray>> Sealer::unfilter(const Work& work, ArrayRegion& region) {
  if (region.filters.empty()) {
    return std::unique_ptr<UnfilteredArray>();
  }
  const SealJob& job = work.job;
  const auto old = job.base ? find_predecessor(*job.base, region) : std::nullopt;
  const auto known = [&](size_t index) {
    return old ? unchanged_chunk(job.base->layout.arrays[*old].region, region, index, job.dirty) : nullptr;
  };
  auto unfiltered = std::make_unique<UnfilteredArray>(region, job.read, make_scratch_());
  Status kept = unfiltered->keep_exact_chunks(pool_, known, region);
  if (!kept.ok() && (kept.error().code == ENOSPC || kept.error().code == EDQUOT)) {
    return Error{EINVAL, fmt::format("no room for its elements without their filters: {}", kept.error().text)};
  }
  VARVE_TRY(kept);
  return unfiltered;
}

/// Finds or makes the codec of one array and adds both to the work.
Status Sealer::plan_array(Work& work, ArrayEntry entry) {
  const ArrayRegion& region = entry.region;
  const SealJob& job = work.job;
  VARVE_ASSIGN(std::unique_ptr<UnfilteredArray> unfiltered, unfilter(work, entry.region));
  entry.bound = job.policy.bound_for(region, &entry.why);
  std::optional<uint32_t> old;
  std::vector<TileFate> fates;
  std::optional<ArrayCodec> codec;
  std::vector<std::vector<codec::Record>> ready;
  std::vector<codec::LevelErrors> errors;
  if (job.base) {
    old = find_predecessor(*job.base, region);
    if (old) {
      codec = job.base->codecs[*old].resized(region.shape);
      if (!codec) {
        old.reset();
      }
    }
    if (codec) {
      fates = tile_fates(region, *codec, *job.base, old, job.dirty);
      const bool all_fresh =
          std::all_of(fates.begin(), fates.end(), [](TileFate fate) { return fate == TileFate::fresh; });
      if (all_fresh) {
        codec.reset();  // nothing old is left: choose bound and tables anew
        old.reset();
      } else {
        entry.bound = job.base->layout.arrays[*old].bound;
        entry.why = job.base->layout.arrays[*old].why;
        entry.least = job.base->layout.arrays[*old].least;
        entry.greatest = job.base->layout.arrays[*old].greatest;
      }
    }
  }
  if (!codec) {
    codec::ArraySpec spec{region.dtype, region.shape, entry.bound, region.fill_values};
    spec.measure = true;
    spec.parallel = [&](size_t count, const std::function<void(size_t)>& part) { pool_.parallel_for(count, part); };
    const auto read = [&](const Box& box, std::byte* out) {
      return gather_box(region, unfiltered.get(), job.read, box, out);
    };
    if (!job.base && element_count(region.shape) <= ArrayCodec::kEncodeWhole && work.ready_bytes < kMostReadyBytes) {
      VARVE_ASSIGN(codec::EncodedArray encoded, ArrayCodec::encode_array(spec, read));
      codec = std::move(encoded.codec);
      ready = std::move(encoded.tiles);
      errors = std::move(encoded.errors);
    } else {
      VARVE_ASSIGN(codec, ArrayCodec::plan(spec, read));
    }
    VARVE_TRY(check_worth(region, *codec, ready, read));
    if (job.base) {
      fates = tile_fates(region, *codec, *job.base, old, job.dirty);
    }
    const codec::CodecInfo info = codec->info();
    entry.least = info.min;
    entry.greatest = info.max;
    if (!info.why.empty()) {
      entry.why += fmt::format("; {}{}", info.absolute_bound > 0 ? "" : "stored losslessly: ", info.why);
    }
    if (info.bound_exceeds_range) {
      log_line(LogLevel::warning, fmt::format("{}: array {}: the bound {} is larger than the whole range of the data",
                                              job.name, region.name, codec::to_string(entry.bound)));
    }
  }
  work.lossy = work.lossy || codec->info().absolute_bound > 0;
  const Bytes header = codec->header();
  entry.codec.assign(reinterpret_cast<const char*>(header.data()), header.size());
  work.layout.arrays.push_back(std::move(entry));
  work.codecs.push_back(*std::move(codec));
  work.old.push_back(old);
  work.fates.push_back(std::move(fates));
  work.ready_bytes += bytes_of(ready);
  work.ready.push_back(std::move(ready));
  errors.resize(work.codecs.back().tile_count());
  work.errors.push_back(std::move(errors));
  work.unfiltered.push_back(std::move(unfiltered));
  return {};
}

Status Sealer::plan_arrays(Work& work) {
  std::vector<ArrayEntry> candidates = std::move(work.layout.arrays);
  work.layout.arrays.clear();
  for (ArrayEntry& candidate : candidates) {
    const std::string name = candidate.region.name;
    // Filtered by others than us: that is common, and nothing is lost.
    const LogLevel level = candidate.region.filters.empty() ? LogLevel::warning : LogLevel::info;
    Status planned = plan_array(work, std::move(candidate));
    if (planned.ok()) {
      continue;
    }
    if (planned.error().code != EINVAL) {
      return planned;
    }
    work.layout.note = fmt::format("array {} is kept as bytes: {}", name, planned.error().text);
    log_line(level, fmt::format("{}: {}", work.job.name, work.layout.note));
  }
  return {};
}

/// Decides which ranges become patches and fixes the extents.
Status Sealer::finish_layout(Work& work) {
  Layout& layout = work.layout;
  if (work.job.base) {
    IntervalSet replaced = work.job.base->layout.patched;
    for (const auto& [begin, end] : work.job.dirty.intervals()) {
      replaced.add(begin, end);
    }
    for (size_t i = 0; i < layout.arrays.size(); ++i) {
      const ArrayRegion& region = layout.arrays[i].region;
      const auto& fates = work.fates[i];
      if (std::find(fates.begin(), fates.end(), TileFate::share) == fates.end() || !region.filters.empty()) {
        continue;
      }
      for (const ChunkPlace& place : region.chunks) {
        const uint64_t end = place.offset + ChunkGeometry(region, place.chunk).bytes();
        replaced.split(place.offset, end, [&](uint64_t from, uint64_t to, bool inside) {
          if (inside) {
            layout.patched.add(from, to);
          }
          return true;
        });
      }
      for (uint64_t tile = 0; tile < fates.size() && !layout.patched.empty(); ++tile) {
        if (fates[tile] != TileFate::share) {
          for_each_file_range(region, work.codecs[i].tile_box(tile), [&](uint64_t offset, uint64_t length) {
            layout.patched.remove(offset, offset + length);
          });
        }
      }
    }
  }
  const bool deflated = std::any_of(layout.arrays.begin(), layout.arrays.end(),
                                    [](const ArrayEntry& entry) { return is_deflated(entry.region); });
  const std::string now = deflating_library();
  const std::string before = work.job.base ? work.job.base->layout.deflater : "";  // of chunks that did not change
  layout.deflater = !deflated                 ? ""
                    : before.empty()          ? now
                    : before.starts_with(now) ? before
                                              : fmt::format("{} or {}", now, before);
  return layout.build_extents();
}

Status Sealer::encode_tile(Work& work, size_t array, uint64_t tile) {
  const ArrayCodec& codec = work.codecs[array];
  const auto region = static_cast<uint32_t>(array + 1);
  const TileFate fate = work.fates[array].empty() ? TileFate::fresh : work.fates[array][tile];
  if (fate == TileFate::share) {
    const uint32_t old_region = *work.old[array] + 1;
    const auto share = [&](uint8_t level, uint64_t number) -> Status {
      const Status shared =
          work.writer->share(work.job.base->object, {old_region, level, number}, {region, level, number});
      return !shared.ok() && shared.error().code == ENOENT ? Status() : shared;
    };
    VARVE_TRY(share(codec::kCoarseLevel, tile));
    VARVE_TRY(share(kCoarseCopyLevel, tile));
    for (const uint64_t brick : codec.bricks_of(tile)) {
      for (const uint8_t level : {2, 1, 0}) {
        VARVE_TRY(share(level, brick));
      }
    }
    return {};
  }
  std::vector<codec::Record> records;
  if (!work.ready[array].empty()) {
    records = std::move(work.ready[array][tile]);
  } else {
    const Box box = codec.tile_box(tile);
    Bytes data(element_count(box.shape) * element_size(codec.dtype()));
    VARVE_TRY(
        gather_box(work.layout.arrays[array].region, work.unfiltered[array].get(), work.job.read, box, data.data()));
    // Deflated arrays are lossless in any case.
    const bool exact = fate == TileFate::exact && !is_deflated(work.layout.arrays[array].region);
    codec::Measurement measure{work.layout.arrays[array].region.fill_values, {}};
    VARVE_ASSIGN(records, codec.encode_tile(tile, data.data(), exact, &measure, device_));
    work.errors[array][tile] = measure.errors;
  }
  for (const codec::Record& record : records) {
    VARVE_TRY(work.writer->put({region, record.id.level, record.id.brick}, record.data));
  }
  const Bytes& coarse = records.front().data;
  if (records.front().id.level == codec::kCoarseLevel && coarse.size() >= index::kInlineLimit &&
      coarse.size() <= bytes_of(records) / kCopiedShare) {
    VARVE_TRY(work.writer->put({region, kCoarseCopyLevel, tile}, coarse));
  }
  return {};
}

Status Sealer::encode_arrays(Work& work) {
  std::vector<std::pair<size_t, uint64_t>> tiles;
  for (size_t array = 0; array < work.codecs.size(); ++array) {
    for (uint64_t tile = 0; tile < work.codecs[array].tile_count(); ++tile) {
      tiles.emplace_back(array, tile);
    }
  }
  Failure failure;
  pool_.parallel_for(tiles.size(), [&](size_t i) {
    if (!failure.happened()) {
      failure.note(encode_tile(work, tiles[i].first, tiles[i].second));
    }
  });
  return failure.take();
}

/// What elements that a new tile holds exactly as they read before may differ by from what was once written: they were
/// of the array's predecessor or, without one, of any array. Nothing: it is not known.
std::optional<double> Sealer::error_before(const Work& work, size_t array) {
  double most = 0;
  const auto& before = work.job.base->layout.arrays;
  for (uint32_t i = 0; i < before.size(); ++i) {
    if (work.old[array].value_or(i) == i) {
      if (!before[i].errors) {
        return std::nullopt;
      }
      most = std::max(most, before[i].errors->most[0]);
    }
  }
  return most;
}

/// The errors of whole arrays, once all tiles are encoded. Those of shared tiles are part of what was stated before.
void Sealer::note_errors(Work& work) {
  for (size_t array = 0; array < work.codecs.size(); ++array) {
    const auto& fates = work.fates[array];
    const auto has = [&](TileFate fate) { return std::find(fates.begin(), fates.end(), fate) != fates.end(); };
    std::optional<codec::LevelErrors> errors = codec::LevelErrors();
    if (has(TileFate::share)) {
      errors = work.job.base->layout.arrays[*work.old[array]].errors;
    }
    const std::optional<double> before = has(TileFate::exact) ? error_before(work, array) : 0;
    if (!before) {
      errors.reset();
    }
    for (size_t tile = 0; tile < work.errors[array].size() && errors; ++tile) {
      codec::LevelErrors of_tile = work.errors[array][tile];
      for (double& error : of_tile.most) {
        const bool mixed = !fates.empty() && fates[tile] == TileFate::exact && *before > 0;
        error = mixed ? std::nextafter(error + *before, std::numeric_limits<double>::infinity()) : error;
      }
      errors->merge(of_tile);
    }
    work.layout.arrays[array].errors = errors;
  }
}

Status Sealer::encode_stream(Work& work) {
  const Layout& layout = work.layout;
  const uint64_t chunks = (layout.stream_size + kStreamChunk - 1) / kStreamChunk;
  Failure failure;
  pool_.parallel_for(chunks, [&](size_t chunk) {
    if (failure.happened()) {
      return;
    }
    const index::RecordKey key{index::kBytesRegion, 0, chunk};
    if (work.job.base && stream_chunk_unchanged(work.job.base->layout, layout, work.job.dirty, chunk)) {
      failure.note(work.writer->share(work.job.base->object, key, key));
      return;
    }
    Bytes data(std::min(kStreamChunk, layout.stream_size - chunk * kStreamChunk));
    failure.note(read_stream_chunk(layout, work.unfiltered, chunk, work.job.read, data));
    if (!failure.happened()) {
      failure.note(work.writer->put(key, codec::encode_bytes(data)));
    }
  });
  return failure.take();
}

Status Sealer::encode_patches(Work& work) {
  const Layout& layout = work.layout;
  Bytes data;
  auto patch = layout.patches.begin();
  uint64_t done = 0;  // of *patch
  for (uint64_t chunk = 0; chunk * kStreamChunk < layout.patch_size; ++chunk) {
    data.resize(std::min(kStreamChunk, layout.patch_size - chunk * kStreamChunk));
    for (uint64_t at = 0; at < data.size();) {
      const uint64_t length = std::min(patch->length - done, data.size() - at);
      VARVE_TRY(work.job.read(patch->offset + done, {data.data() + at, length}));
      at += length;
      done += length;
      if (done == patch->length) {
        ++patch;
        done = 0;
      }
    }
    VARVE_TRY(work.writer->put({index::kPatchRegion, 0, chunk}, codec::encode_bytes(data)));
  }
  return {};
}

Result<SealOutcome> Sealer::seal(const SealJob& job, bool require_arrays) {
  VARVE_ASSIGN(Layout recognised, recognise(job, require_arrays));
  Work work{.job = job,
            .layout = std::move(recognised),
            .codecs = {},
            .old = {},
            .fates = {},
            .ready = {},
            .errors = {},
            .unfiltered = {},
            .writer = {}};
  VARVE_TRY(plan_arrays(work));
  VARVE_TRY(finish_layout(work));
  // What was only made shorter needs less than it had.
  const bool shrinks = job.base && job.dirty.empty() && job.size <= job.base->layout.size;
  VARVE_ASSIGN(work.writer, index_.begin_object(shrinks));
  VARVE_TRY(encode_arrays(work));
  note_errors(work);
  VARVE_TRY(encode_stream(work));
  VARVE_TRY(encode_patches(work));
  VARVE_TRY(work.writer->finish());
  SealOutcome outcome;
  outcome.stored = work.writer->stored();
  outcome.lossy = work.lossy;
  auto sealed = std::make_shared<Sealed>();
  sealed->object = work.writer->object();
  sealed->layout = std::move(work.layout);
  sealed->codecs = std::move(work.codecs);
  outcome.sealed = std::move(sealed);
  outcome.writer = std::move(work.writer);
  return outcome;
}

}  // namespace varve::fs
