// Encoding a tile, record by record.
#pragma once

#include "codec/record.h"
#include "codec/settings.h"
#include "codec/view_error.h"

namespace varve::codec {

/// Takes what an encoder emits.
class RecordSink {
 public:
  virtual ~RecordSink() = default;
  /// The points of a record as tokens. False: they take more than the elements do; the encoder then starts the record
  /// again and calls elements().
  virtual bool tokens(RecordId id, Emitter& emitter, size_t points) = 0;
  virtual void elements(RecordId id, Bytes record) = 0;
  /// Where points that do not decode to what they were are counted, until there are some; null: nobody asks.
  virtual uint64_t* changed() { return nullptr; }
  /// Where errors of the views of what is encoded are added; null: nobody asks.
  virtual WorkErrors* errors() { return nullptr; }
};

/// Which bricks of a tile to encode, beside its coarse points.
struct BrickChoice {
  size_t step = 1;  ///< one brick of so many; 0: none
};

/// `elements`: everything is stored as elements. Closed loop: predictions use what the decoder will have, and every
/// element is checked against exactly what the decoder will produce.
void encode_records(const Settings& settings, uint64_t tile, const std::byte* data, bool elements, BrickChoice choice,
                    RecordSink& sink);

}  // namespace varve::codec
