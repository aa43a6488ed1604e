// The coarse image of an HDF5 or NetCDF-4 file: the library makes a file of the same objects with thinned datasets,
// whose elements it gives a place alone; they are slices of the original's.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>

#include "fs/formats/check.h"
#include "fs/formats/hdf5.h"
#include "fs/formats/hdf5_copy.h"
#include "fs/formats/hdf5_dataset.h"
#include "fs/formats/hdf5_file.h"
#include "fs/formats/hdf5_image.h"
#include "fs/formats/hdf5_sink.h"
#include "fs/formats/thinning.h"

namespace varve::fs {

namespace {

constexpr int kDeepestGroup = 64;
constexpr size_t kMostObjects = 200000;

struct Link {
  std::string name;
  H5L_type_t type = H5L_TYPE_ERROR;
  H5T_cset_t names = H5T_CSET_ASCII;
};

herr_t note_link(hid_t /*group*/, const char* name, const H5L_info_t* info, void* data) {
  try {
    static_cast<std::vector<Link>*>(data)->push_back({name, info->type, info->cset});
    return 0;
  } catch (const std::exception&) {  // must not pass through the C library
    return -1;
  }
}

Error refused(std::string_view path) {
  return Error{ENOENT, fmt::format("the HDF5 library cannot copy {}: {}", path, take_hdf5_error())};
}

bool is_characters(hid_t type) {
  return H5Tget_class(type) == H5T_STRING && H5Tis_variable_str(type) <= 0 && H5Tget_size(type) == 1;
}

/// Addresses of the first dimension scale of each axis; 0: none.
std::vector<haddr_t> scales_of(hid_t dataset, size_t rank) {
  std::vector<haddr_t> scales(rank, 0);
  const Hdf5Id attribute(
      H5Aexists(dataset, "DIMENSION_LIST") > 0 ? H5Aopen(dataset, "DIMENSION_LIST", H5P_DEFAULT) : -1, H5Aclose);
  const Hdf5Id type(attribute ? H5Aget_type(attribute.get()) : -1, H5Tclose);
  const Hdf5Id space(attribute ? H5Aget_space(attribute.get()) : -1, H5Sclose);
  const Hdf5Id inner(type && H5Tget_class(type.get()) == H5T_VLEN ? H5Tget_super(type.get()) : -1, H5Tclose);
  if (!space || !inner || H5Tequal(inner.get(), H5T_STD_REF_OBJ) <= 0 ||
      H5Sget_simple_extent_npoints(space.get()) != static_cast<hssize_t>(rank)) {
    return scales;
  }
  Hdf5Values values(type.get(), space.get());
  if (H5Aread(attribute.get(), values.type(), values.data()) >= 0) {
    for (size_t axis = 0; axis < rank; ++axis) {
      hvl_t list{};
      std::memcpy(&list, values.data() + axis * sizeof list, sizeof list);
      if (list.len > 0) {
        std::memcpy(&scales[axis], list.p, sizeof(hobj_ref_t));
      }
    }
  }
  return scales;
}

/// False: its elements are in other files, or need a filter that the library has not.
bool is_readable(const Hdf5Dataset& dataset) {
  const hid_t creation = dataset.creation.get();
  if (H5Pget_layout(creation) == H5D_VIRTUAL || H5Pget_external_count(creation) != 0) {
    return false;
  }
  const int filters = H5Pget_nfilters(creation);
  for (int i = 0; i < filters; ++i) {
    unsigned flags = 0;
    size_t values = 0;
    unsigned config = 0;
    const H5Z_filter_t filter =
        H5Pget_filter2(creation, static_cast<unsigned>(i), &flags, &values, nullptr, 0, nullptr, &config);
    if (H5Zfilter_avail(filter) <= 0) {
      H5Eclear2(H5E_DEFAULT);
      return false;
    }
  }
  return true;
}

class CoarseBuilder {
 public:
  CoarseBuilder(Hdf5File& file, uint8_t shift) : file_(file), shift_(shift), lookups_{&file.source, 0} {
    sink_.most_pages = kMostLiteral / Hdf5Sink::kPage;
  }
  Result<FileImage> build();

 private:
  struct Group {
    hid_t from = -1, to = -1;
    std::string path;  ///< in both files; "" for the root
    int depth = 0;
  };
  /// A dataset whose elements are read and written by the library, once all objects have their places.
  struct Values {
    std::string path;
    std::vector<SliceAxis> axes;
  };

  Status make_objects();
  void find_strings();
  Status copy_group(const Group& group);
  Status copy_link(const Group& group, const Link& link);
  Status copy_object(const Group& group, const Link& link, hid_t links);
  Status copy_dataset(const Group& group, const Link& link, hid_t links, haddr_t address);
  std::vector<SliceAxis> axes_of(const Hdf5Dataset& dataset, haddr_t address, const codec::Extents& shape) const;
  Hdf5Id creation_of(const Hdf5Dataset& dataset, const std::vector<hsize_t>& counts, bool unlimited, bool slice) const;
  Status place_slice(hid_t copy, ImageSource source, const std::vector<SliceAxis>& axes);
  Status copy_values(const Values& values);
  void add_written();

  Hdf5File& file_;
  const uint8_t shift_;
  Hdf5Lookups lookups_;
  Hdf5Sink sink_;
  Hdf5Twins twins_;
  std::set<haddr_t> strings_;  ///< dimension scales of lengths of strings, which stay
  std::vector<std::string> objects_;
  std::vector<Values> values_;
  FileImage image_;
};

Result<FileImage> CoarseBuilder::build() {
  twins_.from = file_.id->get();
  find_strings();
  if (const Status made = make_objects(); !made.ok()) {
    return sink_.full
               ? Error{ENOENT, fmt::format("what is no plain array takes more than {} MiB in it", kMostLiteral >> 20)}
               : made.error();
  }
  image_.size = sink_.end;
  add_written();
  return std::move(image_);
}

Status CoarseBuilder::make_objects() {
  const Hdf5Id root(H5Gopen2(twins_.from, "/", H5P_DEFAULT), H5Gclose);
  const Hdf5Id root_creation(root ? H5Gget_create_plist(root.get()) : -1, H5Pclose);
  const Hdf5Id creation(H5Pcreate(H5P_FILE_CREATE), H5Pclose);
  unsigned links = 0;
  unsigned attributes = 0;
  if (!root_creation || !creation || H5Pget_link_creation_order(root_creation.get(), &links) < 0 ||
      H5Pget_attr_creation_order(root_creation.get(), &attributes) < 0 ||
      H5Pset_link_creation_order(creation.get(), links) < 0 ||
      H5Pset_attr_creation_order(creation.get(), attributes) < 0) {
    return refused("the root group");
  }
  VARVE_ASSIGN(const hid_t made, create_hdf5(sink_, creation.get()));
  const Hdf5Id file(made, H5Fclose);
  twins_.to = file.get();
  const Hdf5Id to(H5Gopen2(twins_.to, "/", H5P_DEFAULT), H5Gclose);
  H5O_info_t info{};
  if (!to || H5Oget_info2(root.get(), &info, H5O_INFO_BASIC) < 0) {
    return refused("the root group");
  }
  twins_.paths.emplace(info.addr, "/");
  objects_.emplace_back("/");
  VARVE_TRY(copy_group({root.get(), to.get(), "", 0}));
  for (const std::string& path : objects_) {
    const Hdf5Id from_object(H5Oopen(twins_.from, path.c_str(), H5P_DEFAULT), H5Oclose);
    const Hdf5Id to_object(H5Oopen(twins_.to, path.c_str(), H5P_DEFAULT), H5Oclose);
    if (!from_object || !to_object) {
      return refused(path);
    }
    VARVE_TRY(copy_attributes(twins_, from_object.get(), to_object.get()));
  }
  for (const Values& values : values_) {
    VARVE_TRY(copy_values(values));
  }
  return H5Fflush(twins_.to, H5F_SCOPE_LOCAL) < 0 ? Status(refused("the file")) : Status();
}

/// For H5Ovisit: notes what the last axes of datasets of characters are.
void CoarseBuilder::find_strings() {
  const auto visit = [](hid_t root, const char* name, const H5O_info_t* info, void* data) -> herr_t {
    try {
      if (info->type != H5O_TYPE_DATASET) {
        return 0;
      }
      const Hdf5Dataset dataset(root, name);
      const auto shape = dataset ? shape_of(dataset.space.get()) : std::nullopt;
      if (shape && !shape->empty() && is_characters(dataset.type.get())) {
        static_cast<std::set<haddr_t>*>(data)->insert(scales_of(dataset.id.get(), shape->size()).back());
      }
      return 0;
    } catch (const std::exception&) {  // must not pass through the C library
      return -1;
    }
  };
  H5Ovisit2(twins_.from, H5_INDEX_NAME, H5_ITER_INC, visit, &strings_, H5O_INFO_BASIC);
  strings_.erase(0);
  H5Eclear2(H5E_DEFAULT);
}

Status CoarseBuilder::copy_group(const Group& group) {  // NOLINT(misc-no-recursion): as deep as the limit says
  if (group.depth > kDeepestGroup || objects_.size() > kMostObjects) {
    return Error{ENOENT, fmt::format("its groups are nested over {} deep, or have over {} objects", kDeepestGroup,
                                     kMostObjects)};
  }
  const Hdf5Id creation(H5Gget_create_plist(group.from), H5Pclose);
  unsigned order = 0;
  const bool ordered = creation && H5Pget_link_creation_order(creation.get(), &order) >= 0 &&
                       (order & static_cast<unsigned>(H5P_CRT_ORDER_TRACKED)) != 0;
  std::vector<Link> links;
  if (H5Literate(group.from, ordered ? H5_INDEX_CRT_ORDER : H5_INDEX_NAME, H5_ITER_INC, nullptr, note_link, &links) <
      0) {
    return refused(group.path);
  }
  for (const Link& link : links) {
    VARVE_TRY(copy_link(group, link));
  }
  return {};
}

Status CoarseBuilder::copy_link(const Group& group, const Link& link) {  // NOLINT(misc-no-recursion): see copy_group
  const Hdf5Id links(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
  H5Pset_char_encoding(links.get(), link.names);
  if (link.type == H5L_TYPE_HARD) {
    return copy_object(group, link, links.get());
  }
  H5L_info_t info{};
  if (H5Lget_info(group.from, link.name.c_str(), &info, H5P_DEFAULT) < 0) {
    return refused(link.name);
  }
  std::vector<char> value(info.u.val_size + 1, '\0');
  if (H5Lget_val(group.from, link.name.c_str(), value.data(), info.u.val_size, H5P_DEFAULT) < 0) {
    return refused(link.name);
  }
  herr_t made = 0;
  if (link.type == H5L_TYPE_SOFT) {
    made = H5Lcreate_soft(value.data(), group.to, link.name.c_str(), links.get(), H5P_DEFAULT);
  } else if (link.type == H5L_TYPE_EXTERNAL) {
    unsigned flags = 0;
    const char* file = nullptr;
    const char* object = nullptr;
    made = H5Lunpack_elink_val(value.data(), info.u.val_size, &flags, &file, &object) < 0
               ? -1
               : H5Lcreate_external(file, object, group.to, link.name.c_str(), links.get(), H5P_DEFAULT);
  }
  return made < 0 ? Status(refused(link.name)) : Status();
}

// NOLINTNEXTLINE(misc-no-recursion): see copy_group
Status CoarseBuilder::copy_object(const Group& group, const Link& link, hid_t links) {
  const std::string path = fmt::format("{}/{}", group.path, link.name);
  H5O_info_t info{};
  if (H5Oget_info_by_name2(group.from, link.name.c_str(), &info, H5O_INFO_BASIC, H5P_DEFAULT) < 0) {
    return refused(path);
  }
  if (const auto twin = twins_.paths.find(info.addr); twin != twins_.paths.end()) {
    const herr_t made =
        H5Lcreate_hard(twins_.to, twin->second.c_str(), group.to, link.name.c_str(), links, H5P_DEFAULT);
    return made < 0 ? Status(refused(path)) : Status();
  }
  if (info.type == H5O_TYPE_DATASET) {
    return copy_dataset(group, link, links, info.addr);
  }
  if (info.type == H5O_TYPE_NAMED_DATATYPE) {
    twins_.paths[info.addr] = path;
    const herr_t made = H5Ocopy(group.from, link.name.c_str(), group.to, link.name.c_str(), H5P_DEFAULT, links);
    return made < 0 ? Status(refused(path)) : Status();
  }
  const Hdf5Id from(H5Gopen2(group.from, link.name.c_str(), H5P_DEFAULT), H5Gclose);
  const Hdf5Id creation(from ? H5Gget_create_plist(from.get()) : -1, H5Pclose);
  const Hdf5Id to(creation ? H5Gcreate2(group.to, link.name.c_str(), links, creation.get(), H5P_DEFAULT) : -1,
                  H5Gclose);
  if (!to) {
    return refused(path);
  }
  twins_.paths[info.addr] = path;
  objects_.push_back(path);
  return copy_group({from.get(), to.get(), path, group.depth + 1});
}

std::vector<SliceAxis> CoarseBuilder::axes_of(const Hdf5Dataset& dataset, haddr_t address,
                                              const codec::Extents& shape) const {
  const std::vector<haddr_t> scales = scales_of(dataset.id.get(), shape.size());
  std::vector<SliceAxis> axes;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    const bool whole = strings_.contains(scales[axis]) || strings_.contains(address) ||
                       (axis + 1 == shape.size() && is_characters(dataset.type.get()));
    axes.push_back(whole ? SliceAxis{0, 1, shape[axis]} : thinned(shape[axis], shift_));
  }
  return axes;
}

/// `slice`: the elements get their place at once, and nothing is written there.
Hdf5Id CoarseBuilder::creation_of(const Hdf5Dataset& dataset, const std::vector<hsize_t>& counts, bool unlimited,
                                  bool slice) const {
  const hid_t creation = H5Pcreate(H5P_DATASET_CREATE);
  unsigned attributes = 0;
  if (H5Pget_attr_creation_order(dataset.creation.get(), &attributes) >= 0) {
    H5Pset_attr_creation_order(creation, attributes);
  }
  H5D_fill_value_t state = H5D_FILL_VALUE_ERROR;
  const bool plain = H5Tdetect_class(dataset.type.get(), H5T_VLEN) <= 0 && H5Tis_variable_str(dataset.type.get()) <= 0;
  if (plain && H5Pfill_value_defined(dataset.creation.get(), &state) >= 0 && state == H5D_FILL_VALUE_USER_DEFINED) {
    const Hdf5Id type(H5Tcopy(dataset.type.get()), H5Tclose);
    std::vector<std::byte> fill(H5Tget_size(type.get()));
    if (H5Pget_fill_value(dataset.creation.get(), type.get(), fill.data()) >= 0) {
      H5Pset_fill_value(creation, type.get(), fill.data());
    }
  }
  if (unlimited) {  // such datasets must have chunks: one, of all elements
    std::vector<hsize_t> chunk = counts;
    std::replace(chunk.begin(), chunk.end(), hsize_t{0}, hsize_t{1});
    H5Pset_chunk(creation, static_cast<int>(chunk.size()), chunk.data());
  }
  if (slice) {
    H5Pset_alloc_time(creation, H5D_ALLOC_TIME_EARLY);
    H5Pset_fill_time(creation, H5D_FILL_TIME_NEVER);
  }
  return {creation, H5Pclose};
}

Status CoarseBuilder::copy_dataset(const Group& group, const Link& link, hid_t links, haddr_t address) {
  const std::string path = fmt::format("{}/{}", group.path, link.name);
  const Hdf5Dataset dataset(group.from, link.name);
  if (!dataset) {
    return refused(path);
  }
  if (!is_readable(dataset)) {
    return {};
  }
  const auto shape = shape_of(dataset.space.get());
  const bool scalar = !shape || shape->empty();
  const std::vector<SliceAxis> axes = axes_of(dataset, address, shape.value_or(codec::Extents()));
  std::vector<hsize_t> counts;
  std::vector<hsize_t> most(axes.size());
  if (!scalar) {
    H5Sget_simple_extent_dims(dataset.space.get(), nullptr, most.data());
  }
  uint64_t bytes = H5Tget_size(dataset.type.get());
  for (const SliceAxis& axis : axes) {
    counts.push_back(axis.count);
    bytes = axis.count > 0 && bytes > UINT64_MAX / axis.count ? UINT64_MAX : bytes * std::max<uint64_t>(axis.count, 1);
  }
  const bool unlimited = bytes <= UINT32_MAX && std::find(most.begin(), most.end(), H5S_UNLIMITED) != most.end();
  for (size_t axis = 0; axis < most.size(); ++axis) {
    most[axis] = unlimited && most[axis] == H5S_UNLIMITED ? H5S_UNLIMITED : counts[axis];
  }
  const auto element = describe_type(dataset.type.get());
  std::optional<ImageSource> source;
  if (shape && element) {
    codec::Extents whole = *shape;
    whole.insert(whole.end(), element->inner.begin(), element->inner.end());
    VARVE_ASSIGN(source, source_of(lookups_, dataset, *element, whole));
  }
  const bool slice = source && !source->region.chunks.empty();
  const Hdf5Id type(type_in(twins_, dataset.type.get()), H5Tclose);
  const Hdf5Id space(scalar ? H5Scopy(dataset.space.get())
                            : H5Screate_simple(static_cast<int>(counts.size()), counts.data(), most.data()),
                     H5Sclose);
  const Hdf5Id creation = creation_of(dataset, counts, unlimited, slice);
  const Hdf5Id copy(type && space ? H5Dcreate2(group.to, link.name.c_str(), type.get(), space.get(), links,
                                               creation.get(), H5P_DEFAULT)
                                  : -1,
                    H5Dclose);
  if (!copy) {
    return refused(path);
  }
  twins_.paths[address] = path;
  objects_.push_back(path);
  if (slice) {
    return place_slice(copy.get(), std::move(*source), axes);
  }
  if (!source && shape && H5Dget_storage_size(dataset.id.get()) > 0) {
    values_.push_back({path, axes});
  }
  return {};
}

Status CoarseBuilder::place_slice(hid_t copy, ImageSource source, const std::vector<SliceAxis>& axes) {
  haddr_t offset = H5Dget_offset(copy);
  if (offset == HADDR_UNDEF) {
    H5Eclear2(H5E_DEFAULT);
    const Hdf5Id space(H5Dget_space(copy), H5Sclose);
    unsigned mask = 0;
    hsize_t size = 0;
    std::array<hsize_t, H5S_MAX_RANK> first{};
    if (!space || H5Dget_chunk_info(copy, space.get(), 0, first.data(), &mask, &offset, &size) < 0 ||
        offset == HADDR_UNDEF) {
      return refused("a chunk's place");
    }
  }
  std::vector<SliceAxis> slice = axes;
  for (size_t axis = axes.size(); axis < source.region.shape.size(); ++axis) {
    slice.push_back({0, 1, source.region.shape[axis]});
  }
  image_.sources.push_back(std::move(source));
  image_.add_slice(offset, static_cast<uint32_t>(image_.sources.size() - 1), std::move(slice));
  return {};
}

Status CoarseBuilder::copy_values(const Values& wanted) {
  const Hdf5Dataset from(twins_.from, wanted.path);
  const Hdf5Id to(H5Dopen2(twins_.to, wanted.path.c_str(), H5P_DEFAULT), H5Dclose);
  const Hdf5Id space(to ? H5Dget_space(to.get()) : -1, H5Sclose);
  if (!from || !space) {
    return refused(wanted.path);
  }
  std::vector<hsize_t> start(wanted.axes.size(), 0);
  std::vector<hsize_t> stride;
  std::vector<hsize_t> count;
  codec::Extents extents{H5Tget_size(from.type.get())};
  for (const SliceAxis& axis : wanted.axes) {
    stride.push_back(static_cast<hsize_t>(axis.step));
    count.push_back(axis.count);
    extents.push_back(axis.count);
  }
  const auto bytes = checked_product(extents);
  if (!bytes || *bytes > kMostLiteral) {
    return Error{ENOENT, fmt::format("dataset {} is compressed by its program, and takes more than {} MiB in it",
                                     wanted.path, kMostLiteral >> 20)};
  }
  if (*bytes == 0) {
    return {};
  }
  Hdf5Values values(from.type.get(), space.get());
  if ((!start.empty() &&
       H5Sselect_hyperslab(from.space.get(), H5S_SELECT_SET, start.data(), stride.data(), count.data(), nullptr) < 0) ||
      H5Dread(from.id.get(), values.type(), space.get(), from.space.get(), H5P_DEFAULT, values.data()) < 0) {
    return refused(wanted.path);
  }
  follow_references(twins_, values.type(), values.data(), values.count());
  return H5Dwrite(to.get(), values.type(), H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) < 0
             ? Status(refused(wanted.path))
             : Status();
}

/// What the library wrote, but for where slices are.
void CoarseBuilder::add_written() {
  std::sort(image_.parts.begin(), image_.parts.end(),
            [](const ImagePart& a, const ImagePart& b) { return a.offset < b.offset; });
  const size_t slices = image_.parts.size();
  size_t next = 0;
  for (auto& [page, bytes] : sink_.pages) {
    uint64_t at = page * Hdf5Sink::kPage;
    const uint64_t end = std::min(at + Hdf5Sink::kPage, sink_.end);
    while (at < end) {
      while (next < slices && image_.parts[next].offset + image_.parts[next].length <= at) {
        ++next;
      }
      const bool covered = next < slices && image_.parts[next].offset <= at;
      const uint64_t stop = next == slices
                                ? end
                                : std::min(end, covered ? image_.parts[next].offset + image_.parts[next].length
                                                        : image_.parts[next].offset);
      if (!covered) {
        const auto first = bytes.begin() + static_cast<ptrdiff_t>(at % Hdf5Sink::kPage);
        image_.add_bytes(at, {first, first + static_cast<ptrdiff_t>(stop - at)});
      }
      at = stop;
    }
  }
}

/// A sink's content as a file.
class SinkView : public FileView {
 public:
  explicit SinkView(const Hdf5Sink& sink) : sink_(sink) {}
  uint64_t size() const override { return sink_.end; }
  Result<size_t> read(uint64_t offset, std::span<std::byte> out) override {
    size_t done = 0;
    for (; done < out.size() && offset + done < sink_.end; ++done) {
      const auto page = sink_.pages.find((offset + done) / Hdf5Sink::kPage);
      out[done] = page == sink_.pages.end() ? std::byte{0} : page->second[(offset + done) % Hdf5Sink::kPage];
    }
    return done;
  }

 private:
  const Hdf5Sink& sink_;
};

/// Makes a file of a chunked and a contiguous dataset with an attribute each.
Status make_sample(Hdf5Sink& sink) {
  VARVE_ASSIGN(const hid_t made, create_hdf5(sink, H5P_DEFAULT));
  const Hdf5Id file(made, H5Fclose);
  const std::array<hsize_t, 2> extents{32, 4};
  const Hdf5Id space(H5Screate_simple(2, extents.data(), nullptr), H5Sclose);
  const Hdf5Id one(H5Screate(H5S_SCALAR), H5Sclose);
  const Hdf5Id chunked(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  H5Pset_chunk(chunked.get(), 2, extents.data());
  const std::array<float, 128> values{};
  for (const hid_t creation : {chunked.get(), hid_t{H5P_DEFAULT}}) {
    const Hdf5Id dataset(H5Dcreate2(file.get(), creation == H5P_DEFAULT ? "a" : "b", H5T_IEEE_F32LE, space.get(),
                                    H5P_DEFAULT, creation, H5P_DEFAULT),
                         H5Dclose);
    const Hdf5Id attribute(H5Acreate2(dataset.get(), "c", H5T_IEEE_F32LE, one.get(), H5P_DEFAULT, H5P_DEFAULT),
                           H5Aclose);
    H5Dwrite(dataset.get(), H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
    H5Awrite(attribute.get(), H5T_NATIVE_FLOAT, values.data());
  }
  return {};
}

}  // namespace

void prepare_hdf5() {
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  Hdf5Sink sink;
  sink.most_pages = kMostLiteral / Hdf5Sink::kPage;
  if (make_sample(sink).ok()) {
    SinkView view(sink);
    static_cast<void>(hdf5_coarse(view, 1));
    static_cast<void>(hdf5_region(view, {"a", {}}));
  }
  H5Eclear2(H5E_DEFAULT);
}

Result<FileImage> hdf5_coarse(FileView& view, uint8_t shift) {
  VARVE_ASSIGN(const std::unique_ptr<Hdf5File> file, open_hdf5_file(view));
  return CoarseBuilder(*file, shift).build();
}

}  // namespace varve::fs
