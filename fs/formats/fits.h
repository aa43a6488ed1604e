// FITS: coarse images of its files. See file_image.h.
// Method: FITS Standard 4.0, https://fits.gsfc.nasa.gov/fits_standard.html
#pragma once

#include "fs/formats/file_image.h"

namespace varve::fs {

bool has_fits_magic(FileView& file);

/// The file with the arrays of its primary HDU and image extensions thinned; NAXISn, world coordinates (CRPIX, CDELT,
/// PC, CD, SIP) and IRAF's LTM and LTV follow, CHECKSUM and DATASUM go. Tables and what else there is stay as they are.
Result<FileImage> fits_coarse(FileView& file, uint8_t shift);

}  // namespace varve::fs
