// What lies where in a file: arrays (from the recognisers) and, in HDF5 files, the parts of the metadata.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "faults/schedule.h"
#include "fs/formats/worker.h"

namespace varve::faults {

/// A stretch of a file. `structure` is one of
///   raw_data                                array elements, of an HDF5 dataset or of any other recognised format
///   superblock, b_tree, symbol_node, local_heap, global_heap, fractal_heap, extensible_array, fixed_array,
///   free_space, shared_messages             HDF5
///   object_header, object_header.M          HDF5; M: the message (dataspace, datatype, fill_value, layout, attribute,
///                                           link, symbol_table, continuation, filters, nil, ...)
///   unused                                  an HDF5 file's bytes that belong to nothing above
///   header                                  of other formats with arrays: all that is no array
///   bytes                                   a file without arrays
struct Segment {
  uint64_t offset = 0;
  uint64_t length = 0;
  std::string structure;
  std::string name;  ///< "/group/dataset", where known
  std::optional<codec::DType> element;
  bool big_endian = false;
  uint64_t end() const { return offset + length; }
};

class StructureMap {
 public:
  /// `name`: the file's, for raw formats. Never fails: what cannot be made out is "header".
  static std::shared_ptr<const StructureMap> of(std::string_view name, fs::FileView& file, fs::RecogniserPool& pool);

  /// Sorted, without overlap; covers the file.
  const std::vector<Segment>& segments() const { return segments_; }
  /// nullptr past the end.
  const Segment* at(uint64_t offset) const;

 private:
  std::vector<Segment> segments_;
};

/// All that Segment::structure can be, in alphabetical order.
const std::vector<std::string>& structure_names();

/// Does a rule's aim allow this stretch?
bool aims_at(const Target& target, const Segment& segment);

/// The metadata of an HDF5 file, and its datasets' storage as far as it is found; unsorted, may overlap where the file
/// is broken. Trusts nothing; ends after a bounded number of steps.
std::vector<Segment> hdf5_structures(fs::FileView& file);

}  // namespace varve::faults
