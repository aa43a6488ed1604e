// NIfTI-1 and NIfTI-2 images (.nii), which are one array each.
// Method: https://nifti.nimh.nih.gov/pub/dist/src/niftilib/nifti1.h, .../nifti2.h
#pragma once

#include "fs/formats/formats.h"

namespace varve::fs {

/// The size of a header and the magic number of a file with header and image in one, in either byte order.
bool may_be_nifti(const Candidate& candidate);

/// Nothing: no such file. EBADMSG: dimensions that cannot be, or a file shorter than they say. Axes are
/// reversed (Fortran order); not those of complex numbers and colours, which get one more. Kept exact: images with
/// scl_slope or scl_inter ("packed") and those whose intent is a label ("labels"). Element types that the codec does
/// not know (128-bit floats) and empty images: no array.
Result<std::optional<Recognised>> recognise_nifti(FileView& file);

}  // namespace varve::fs
