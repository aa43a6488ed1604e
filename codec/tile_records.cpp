// What becomes of a tile's encoded records: their bytes, or what they would cost.
#include "codec/tile_encode.h"

namespace varve::codec {

namespace {

/// Finishes records one by one.
class FinishingSink : public RecordSink {
 public:
  FinishingSink(const Settings& settings, WorkErrors* errors)
      : settings_(settings), size_(element_size(settings.dtype)), errors_(errors) {}
  bool tokens(RecordId id, Emitter& emitter, size_t points) override {
    Bytes record = emitter.finish(settings_.tables, size_);
    if (record.size() > points * size_ + 1) {
      return false;
    }
    elements(id, std::move(record));
    return true;
  }
  void elements(RecordId id, Bytes record) override { by_level_.at(id.level).push_back({id, std::move(record)}); }
  WorkErrors* errors() override { return errors_; }
  /// In key order.
  std::vector<Record> take() {
    std::vector<Record> records;
    for (size_t level = by_level_.size(); level-- > 0;) {
      std::move(by_level_.at(level).begin(), by_level_.at(level).end(), std::back_inserter(records));
    }
    return records;
  }

 private:
  const Settings& settings_;
  size_t size_;
  WorkErrors* errors_;
  std::array<std::vector<Record>, kCoarseLevel + 1> by_level_;
};

class TallySink : public RecordSink {
 public:
  explicit TallySink(Tally& tally) : tally_(tally) {}
  bool tokens(RecordId /*id*/, Emitter& emitter, size_t points) override {
    emitter.count_into(tally_.histogram);
    tally_.side_bits += emitter.side_bits();
    tally_.points += points;
    tally_.nonzero += emitter.nonzero();
    return true;
  }
  void elements(RecordId /*id*/, Bytes record) override { tally_.element_bytes += record.size(); }
  uint64_t* changed() override { return tally_.count_changes ? &tally_.changed : nullptr; }

 private:
  Tally& tally_;
};

}  // namespace

Result<std::vector<Record>> encode_tile(const Settings& settings, uint64_t tile, const std::byte* data, bool exact,
                                        WorkErrors* errors) {
  FinishingSink sink(settings, errors);
  encode_records(settings, tile, data, exact, {}, sink);
  return sink.take();
}

void tally_tile(const Settings& settings, uint64_t tile, const std::byte* data, size_t brick_step, Tally& tally) {
  TallySink sink(tally);
  encode_records(settings, tile, data, false, {brick_step}, sink);
}

unsigned Tally::mean_code_bits() const {
  uint64_t sum = 0;
  uint64_t seen = 0;
  for (unsigned context = 0; context < kContexts; ++context) {
    if (context % kClassContexts == kFlagContext) {
      continue;
    }
    for (unsigned token = kTokenZero; token < kTokens; ++token) {
      const unsigned bits = token < kFirstWideToken ? static_cast<unsigned>(std::bit_width(token - kTokenZero))
                                                    : extra_bits_of(token) + 2;
      sum += uint64_t{histogram.counts[context][token]} * bits;
      seen += histogram.counts[context][token];
    }
  }
  return static_cast<unsigned>(sum / std::max<uint64_t>(seen, 1));
}

size_t elements_size(const Settings& settings, uint64_t tile, const std::byte* data) {
  Tally tally;
  TallySink sink(tally);
  encode_records(settings, tile, data, true, {}, sink);
  return tally.element_bytes;
}

}  // namespace varve::codec
