// FITS: the images in its files, and coarse images of the files themselves (file_image.h).
// Method: FITS Standard 4.0, https://fits.gsfc.nasa.gov/fits_standard.html
#pragma once

#include "fs/formats/file_image.h"

namespace varve::fs {

inline constexpr std::string_view kFitsMagic = "SIMPLE  = ";

/// The magic, and that the file keeps to the standard (T).
bool has_fits_magic(FileView& file);

/// Nothing: no FITS file. EBADMSG: a header that does not parse, or data longer than the file. Claims the images of the
/// primary HDU and of IMAGE extensions, named "/PRIMARY" or by EXTNAME ("/SCI", "/SCI,2") or number ("/3"); BLANK is a
/// fill value. Kept exact: HDUs with CHECKSUM or DATASUM, and those with BSCALE or BZERO. Tables (which compressed
/// images are, too) and random groups are none.
Result<std::optional<Recognised>> recognise_fits(FileView& file);

/// The file with the arrays of its primary HDU and image extensions thinned; NAXISn, world coordinates (CRPIX, CDELT,
/// PC, CD, SIP) and IRAF's LTM and LTV follow, CHECKSUM and DATASUM go. Tables and what else there is stay as they are.
Result<FileImage> fits_coarse(FileView& file, uint8_t shift);

}  // namespace varve::fs
