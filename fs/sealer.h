// Staged content -> a sealed object: recognise, choose bounds, encode, store. What of the sealed content below was not
// touched is shared, not encoded again, so that it reads as it read before.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "fs/formats/worker.h"
#include "fs/gather.h"
#include "fs/policy.h"
#include "fs/reader.h"
#include "fs/unfiltered_array.h"

namespace varve::fs {

/// A file to seal; its content must not change meanwhile (or the outcome is thrown away).
struct SealJob {
  std::string name;  ///< the last component of its path, for formats told by name
  FilePolicy policy;
  uint64_t size = 0;
  ReadContent read;
  ReadContent look;   ///< for recognisers, which store nothing: damaged elements may be interpolated. Empty: `read`
  IntervalSet holes;  ///< ranges known never to have been written

  std::shared_ptr<const Sealed> base;  ///< what was sealed before, if any
  IntervalSet dirty;                   ///< ranges that differ from base; meaningless without base
};

struct SealOutcome {
  std::unique_ptr<index::ObjectWriter> writer;  ///< filled and finished
  std::shared_ptr<const Sealed> sealed;
  uint64_t stored = 0;  ///< bytes of all its records, shared ones included
  bool lossy = false;   ///< some element may now read differently than before
};

/// Thread-safe.
class Sealer {
 public:
  /// `device`: null, or what encodes the tiles that it can. `make_scratch`: for elements of filtered arrays.
  Sealer(index::Index& index, ThreadPool& pool, RecogniserPool& recognisers, codec::cuda::SharedDevice* device,
         std::function<std::unique_ptr<Staging>()> make_scratch)
      : index_(index),
        pool_(pool),
        recognisers_(recognisers),
        device_(device),
        make_scratch_(std::move(make_scratch)) {}

  /// Errors (ENOSPC, EIO, ...) leave no trace. A recogniser that fails is no error: the file is sealed as bytes and the
  /// layout's note says why. `require_arrays`: EAGAIN instead, when no arrays are found.
  Result<SealOutcome> seal(const SealJob& job, bool require_arrays);

 private:
  struct Work;
  Result<Layout> recognise(const SealJob& job, bool require_arrays);
  Result<std::unique_ptr<UnfilteredArray>> unfilter(const Work& work, ArrayRegion& region);
  Status plan_array(Work& work, ArrayEntry entry);
  Status plan_arrays(Work& work);
  Status finish_layout(Work& work);
  Status encode_arrays(Work& work);
  Status encode_tile(Work& work, size_t array, uint64_t tile);
  static std::optional<double> error_before(const Work& work, size_t array);
  static void note_errors(Work& work);
  Status encode_stream(Work& work);
  Status encode_patches(Work& work);

  index::Index& index_;
  ThreadPool& pool_;
  RecogniserPool& recognisers_;
  codec::cuda::SharedDevice* device_;
  std::function<std::unique_ptr<Staging>()> make_scratch_;
};

}  // namespace varve::fs
