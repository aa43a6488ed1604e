// Encoding arrays: tables from samples for large ones, all in one pass for small ones.
#include "codec/plan.h"
#include "codec/tile_encode.h"

namespace varve::codec {

namespace {

constexpr uint64_t kSampleElements = uint64_t{1} << 20;
constexpr uint64_t kSampleTiles = 4;

/// Keeps what an encoder emits until there are tables.
class PendingSink : public RecordSink {
 public:
  bool tokens(RecordId id, Emitter& emitter, size_t points) override {
    emitter.count_into(histogram_);
    pending_.push_back({id, points, std::move(emitter), {}});
    emitter = Emitter();
    return true;
  }
  void elements(RecordId id, Bytes record) override { pending_.push_back({id, 0, {}, std::move(record)}); }
  WorkErrors* errors() override { return errors_; }
  /// Where those of the next tile go.
  void measure(WorkErrors* errors) { errors_ = errors; }
  const Histogram& histogram() const { return histogram_; }
  size_t size() const { return pending_.size(); }

  /// The records from number `first` to the one before `last`, in key order; empty: one would be larger than its
  /// elements.
  std::vector<Record> finish(const TableSet& tables, size_t element_size, size_t first, size_t last) {
    std::array<std::vector<Record>, kCoarseLevel + 1> by_level;
    for (size_t i = first; i < last; ++i) {
      Pending& one = pending_[i];
      Bytes record = one.points > 0 ? one.emitter.finish(tables, element_size, true) : std::move(one.record);
      if (one.points > 0 && record.size() > one.points * element_size + 1) {
        return {};
      }
      by_level.at(one.id.level).push_back({one.id, std::move(record)});
    }
    std::vector<Record> records;
    for (size_t level = by_level.size(); level-- > 0;) {
      std::move(by_level.at(level).begin(), by_level.at(level).end(), std::back_inserter(records));
    }
    return records;
  }

 private:
  struct Pending {
    RecordId id;
    size_t points;
    Emitter emitter;
    Bytes record;
  };
  std::vector<Pending> pending_;
  Histogram histogram_;
  WorkErrors* errors_ = nullptr;
};

/// Small arrays: tables cost something, so elements may be smaller.
bool elements_are_smaller(const Plan& plan, const std::byte* array, size_t coded) {
  const Settings& settings = plan.settings;
  const size_t size = element_size(settings.dtype);
  const size_t raw = element_count(settings.geometry.shape) * size;
  if (settings.scheme == Scheme::codes && coded * 2 < raw && raw > 4096) {
    return false;
  }
  Settings plain = settings;
  plain.scheme = Scheme::elements;
  plain.geometry = Geometry::make(plain.geometry.shape, plan.plain_axes);
  plain.tables = TableSet();
  size_t stored = write_header(plain).size();
  Bytes memory;
  for (uint64_t tile = 0; tile < plain.geometry.tile_count(); ++tile) {
    stored += elements_size(plain, tile, tile_elements(plain.geometry, tile, array, size, memory));
  }
  return stored < coded;
}

Result<WholeArray> encode_whole(Plan plan, bool measure) {
  Settings& settings = plan.settings;
  const std::byte* array = plan.elements.data();
  const size_t size = element_size(settings.dtype);
  const uint64_t tiles = settings.geometry.tile_count();
  measure = measure && !settings.lorenzo.has_value();
  WholeArray out;
  Bytes memory;
  out.errors.resize(measure ? tiles : 0);
  if (settings.scheme != Scheme::elements) {
    PendingSink sink;
    std::vector<size_t> ends;
    for (uint64_t tile = 0; tile < tiles; ++tile) {
      sink.measure(measure ? &out.errors[tile] : nullptr);
      encode_records(settings, tile, tile_elements(settings.geometry, tile, array, size, memory), false, {}, sink);
      ends.push_back(sink.size());
    }
    settings.tables = TableSet::build(sink.histogram(), true);
    size_t coded = write_header(settings).size();
    bool good = true;
    for (uint64_t tile = 0; tile < tiles && good; ++tile) {
      auto& records =
          out.tiles.emplace_back(sink.finish(settings.tables, size, tile > 0 ? ends[tile - 1] : 0, ends[tile]));
      good = !records.empty();
      for (const Record& record : records) {
        coded += record.data.size();
      }
    }
    if (good && (!plan.try_elements || !elements_are_smaller(plan, array, coded))) {
      out.settings = std::move(settings);
      return out;
    }
    out.tiles.clear();
    if (good || (settings.scheme != Scheme::codes && !settings.lorenzo.has_value())) {
      settings.make_lossless(Scheme::elements);
      settings.geometry = Geometry::make(settings.geometry.shape, plan.plain_axes);
      settings.tables = TableSet();
    }
  }
  out.errors.assign(measure ? settings.geometry.tile_count() : 0, {});
  for (uint64_t tile = 0; tile < settings.geometry.tile_count(); ++tile) {
    VARVE_ASSIGN(auto records, encode_tile(settings, tile, tile_elements(settings.geometry, tile, array, size, memory),
                                           false, measure ? &out.errors[tile] : nullptr));
    out.tiles.push_back(std::move(records));
  }
  out.settings = std::move(settings);
  return out;
}

/// Tables of a large array from a sample of its tiles and bricks.
Status sample_tables(Settings& settings, const ReadBox& read, std::span<const std::byte> elements) {
  const Geometry& geometry = settings.geometry;
  const uint64_t tiles = geometry.tile_count();
  const uint64_t tile_step = std::max<uint64_t>(1, tiles / kSampleTiles);
  const uint64_t in_sampled_tiles = element_count(geometry.shape) / tile_step;
  const uint64_t brick_step = std::max<uint64_t>(1, in_sampled_tiles / kSampleElements);
  Tally tally;
  Bytes data;
  for (uint64_t tile = tile_step / 2; tile < tiles; tile += tile_step) {
    const size_t size = element_size(settings.dtype);
    if (!elements.empty()) {
      tally_tile(settings, tile, tile_elements(geometry, tile, elements.data(), size, data), brick_step, tally);
      continue;
    }
    const Box box = geometry.tile_box(tile);
    data.resize(element_count(box.shape) * size);
    VARVE_TRY(read(box, data.data()));
    tally_tile(settings, tile, data.data(), brick_step, tally);
  }
  settings.tables = TableSet::build(tally.histogram, false);
  return {};
}

}  // namespace

Result<Settings> make_plan(const ArraySpec& spec, const ReadBox& read) {
  VARVE_ASSIGN(Plan plan, choose_settings(spec, read));
  if (plan.settings.scheme == Scheme::elements) {
    return std::move(plan.settings);
  }
  if (element_count(spec.shape) <= kWholeElements) {
    VARVE_ASSIGN(WholeArray whole, encode_whole(std::move(plan), false));
    return std::move(whole.settings);
  }
  VARVE_TRY(sample_tables(plan.settings, read, plan.elements));
  return std::move(plan.settings);
}

Result<WholeArray> encode_array(const ArraySpec& spec, const ReadBox& read, bool measure) {
  VARVE_ASSIGN(Plan plan, choose_settings(spec, read));
  if (element_count(spec.shape) == 0) {
    return WholeArray{std::move(plan.settings), {}, {}};
  }
  return encode_whole(std::move(plan), measure);
}

}  // namespace varve::codec
