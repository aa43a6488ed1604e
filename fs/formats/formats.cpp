#include "fs/formats/formats.h"

#include <array>

#include "fs/formats/amrex.h"
#include "fs/formats/fits.h"
#include "fs/formats/hdf5.h"
#include "fs/formats/mrc.h"
#include "fs/formats/netcdf3.h"
#include "fs/formats/nifti.h"
#include "fs/formats/npy.h"
#include "fs/formats/npz.h"
#include "fs/formats/pytorch.h"
#include "fs/formats/raw.h"
#include "fs/formats/safetensors.h"
#include "fs/formats/vtk.h"

namespace varve::fs {

namespace {

/// A recogniser that needs the content alone.
template <Result<std::optional<Recognised>> (*recognise)(FileView&)>
Result<std::optional<Recognised>> by_content(const Candidate& candidate) {
  return recognise(candidate.file);
}

bool may_be_npy(const Candidate& candidate) { return candidate.has(0, kNpyMagic); }

bool may_be_fits(const Candidate& candidate) { return candidate.has(0, kFitsMagic) && candidate.has(29, "T"); }

bool may_be_hdf5(const Candidate& candidate) { return has_hdf5_signature(candidate.file); }

bool may_be_netcdf3(const Candidate& candidate) { return has_netcdf3_magic(candidate.file); }

bool may_be_amrex(const Candidate& candidate) { return candidate.has(0, kFabMagic); }

bool may_be_vtk(const Candidate& candidate) { return candidate.has(0, kVtkMagic); }

/// The element is the first, behind a declaration and comments at most.
bool may_be_vtk_xml(const Candidate& candidate) {
  const std::string_view start(reinterpret_cast<const char*>(candidate.start.data()), candidate.start.size());
  return start.starts_with('<') && start.find("<VTKFile") != std::string_view::npos;
}

bool may_be_raw(const Candidate& candidate) { return candidate.hint || raw_hint_of_name(candidate.name); }

Result<std::optional<Recognised>> raw(const Candidate& candidate) {
  return recognise_raw(candidate.name, candidate.file, candidate.hint);
}

constexpr std::array kFormats{
    Format{"npy", may_be_npy, by_content<recognise_npy>},
    Format{"fits", may_be_fits, by_content<recognise_fits>},
    Format{"nifti", may_be_nifti, by_content<recognise_nifti>},
    Format{"mrc", may_be_mrc, by_content<recognise_mrc>},
    Format{"netcdf3", may_be_netcdf3, by_content<recognise_netcdf3>},
    Format{"amrex", may_be_amrex, by_content<recognise_amrex>},
    Format{"vtk", may_be_vtk, by_content<recognise_vtk>},
    Format{"vtk-xml", may_be_vtk_xml, by_content<recognise_vtk_xml>},
    Format{"npz", may_be_npz, by_content<recognise_npz>},
    Format{"pytorch", may_be_pytorch, by_content<recognise_pytorch>},
    Format{"safetensors", may_be_safetensors, by_content<recognise_safetensors>},
    Format{"hdf5", may_be_hdf5, by_content<recognise_hdf5>},
    Format{"raw", may_be_raw, raw},
};

}  // namespace

std::span<const Format> formats() { return kFormats; }

}  // namespace varve::fs
