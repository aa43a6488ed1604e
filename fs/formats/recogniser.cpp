#include "fs/formats/recogniser.h"

#include <algorithm>
#include <array>

#include "fs/formats/check.h"
#include "fs/formats/hdf5.h"
#include "fs/formats/npy.h"
#include "fs/formats/raw.h"

namespace varve::fs {

namespace {

Result<std::optional<Recognised>> first_claim(std::string_view name, FileView& file,
                                              const std::optional<RawHint>& hint) {
  VARVE_ASSIGN(auto npy, recognise_npy(file));
  if (npy) {
    return npy;
  }
  VARVE_ASSIGN(auto hdf5, recognise_hdf5(file));
  if (hdf5) {
    return hdf5;
  }
  return recognise_raw(name, file, hint);
}

}  // namespace

Result<std::optional<Recognised>> recognise(std::string_view name, FileView& file, const std::optional<RawHint>& hint) {
  VARVE_ASSIGN(auto claimed, first_claim(name, file, hint));
  if (claimed) {
    VARVE_TRY(check_arrays(*claimed, file.size()));
  }
  return claimed;
}

bool worth_recognising(std::string_view name, FileView& file, const std::optional<RawHint>& hint) {
  if (file.size() == 0) {
    return false;
  }
  if (hint || raw_hint_of_name(name)) {
    return true;
  }
  std::array<std::byte, kNpyMagic.size()> start{};
  auto got = file.read(0, start);
  if (got.ok() && *got == start.size() &&
      std::equal(start.begin(), start.end(), kNpyMagic.begin(),
                 [](std::byte a, char b) { return a == static_cast<std::byte>(b); })) {
    return true;
  }
  return has_hdf5_signature(file);
}

}  // namespace varve::fs
