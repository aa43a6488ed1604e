#include "fs/formats/hdf5.h"

#include <fmt/format.h>

#include "fs/formats/conventions.h"
#include "fs/formats/hdf5_dataset.h"
#include "fs/formats/hdf5_file.h"
#include "fs/formats/hdf5_types.h"

namespace varve::fs {

namespace {

class DatasetAttributes : public VariableAttributes {
 public:
  explicit DatasetAttributes(hid_t dataset) : dataset_(dataset) {}
  bool has(const char* name) const override { return has_attribute(dataset_, name); }
  std::optional<std::string> text(const char* name) const override { return text_attribute(dataset_, name); }

 private:
  hid_t dataset_;
};

/// What the walk over the file gathers.
struct Walk {
  Hdf5Lookups lookups;
  hid_t file = -1;
  std::vector<ArrayRegion> arrays;
  Conventions conventions;
  std::string failure;
};

void look_at_dataset(Walk& walk, const std::string& name) {
  Hdf5Dataset dataset(walk.file, name);
  if (dataset) {
    const bool line = dataset.space && H5Sget_simple_extent_ndims(dataset.space.get()) <= 1;
    walk.conventions.look_at(name, DatasetAttributes(dataset.id.get()), line, false);
    auto array = locate_array(walk.lookups, name, dataset);
    if (array) {
      walk.arrays.push_back(std::move(*array));
    }
  }
  H5Eclear2(H5E_DEFAULT);
}

/// For H5Ovisit: each object once, whatever the number of hard links to it; soft and external links are not followed.
herr_t visit(hid_t /*root*/, const char* name, const H5O_info_t* info, void* data) {
  Walk& walk = *static_cast<Walk*>(data);
  try {
    if (info->type == H5O_TYPE_DATASET) {
      look_at_dataset(walk, fmt::format("/{}", name));
    }
    return 0;
  } catch (const std::exception& problem) {  // must not pass through the C library
    walk.failure = problem.what();
    return -1;
  }
}

}  // namespace

Result<std::optional<Recognised>> recognise_hdf5(FileView& file) {
  VARVE_ASSIGN(const std::unique_ptr<Hdf5File> opened, open_hdf5_file(file));
  if (!opened) {
    return std::optional<Recognised>();
  }
  Walk walk;
  walk.lookups.source = &opened->source;
  walk.file = opened->id->get();
  if (H5Ovisit2(walk.file, H5_INDEX_NAME, H5_ITER_INC, visit, &walk, H5O_INFO_BASIC) < 0) {
    return unreadable_hdf5(walk.failure.empty() ? take_hdf5_error() : walk.failure);
  }
  for (ArrayRegion& array : walk.arrays) {
    if (array.keep_exact.empty()) {
      array.keep_exact = walk.conventions.reason(array.name);
    }
  }
  return std::optional(Recognised{{}, std::move(walk.arrays)});
}

}  // namespace varve::fs
