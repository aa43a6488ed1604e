// NetCDF's classic formats (CDF-1, CDF-2, CDF-5): the arrays of their files, and images of these; see file_image.h.
// Method: https://docs.unidata.ucar.edu/netcdf-c/current/file_format_specifications.html
#pragma once

#include "fs/formats/region_spec.h"

namespace varve::fs {

bool has_netcdf3_magic(FileView& file);

/// Nothing: no such file. Each variable of numbers is an array; of a record variable a record is a chunk. Bytes stay:
/// characters, variables that the file is too short for, and the record variables of the smallest records, where there
/// would be over a thousand chunks and one for less than 256 bytes of the file, or over half a million. EBADMSG: the
/// header cannot be read.
Result<std::optional<Recognised>> recognise_netcdf3(FileView& file);

/// The file with dimensions thinned (but those that are the length of strings), its variables and coordinates with
/// them. ENOENT, EBADMSG: the header cannot be read, with the reason.
Result<FileImage> netcdf3_coarse(FileView& file, uint8_t shift);

/// A part of a variable as .npy. ENOENT: no such variable.
Result<FileImage> netcdf3_region(FileView& file, const RegionSpec& spec);

}  // namespace varve::fs
