// VTK's files: the legacy format with binary data, and the XML formats (.vti, .vtr, .vts, .vtu, .vtp) with appended raw
// data.
// Method: https://docs.vtk.org/en/latest/vtk_file_formats/ (vtk_legacy_file_format, vtkxml_file_format).
#pragma once

#include "fs/formats/recogniser.h"

namespace varve::fs {

inline constexpr std::string_view kVtkMagic = "# vtk DataFile Version ";

/// Nothing: another format, or text. Arrays are named "/PointData/NAME", "/CellData/NAME", "/FieldData/NAME",
/// "/Points", "/Coordinates/x" and so on; fields on structured grids have the grid's shape, (z, y, x) and then the
/// components. From what is not understood on, the file stays bytes.
Result<std::optional<Recognised>> recognise_vtk(FileView& file);

/// The same of XML. Arrays of pieces after the first are named "/Piece1/PointData/NAME" and so on. Compressed data,
/// data in base64 and text stay bytes.
Result<std::optional<Recognised>> recognise_vtk_xml(FileView& file);

/// How many points and cells a structured grid has along its axes, slowest first; empty: it has no structure.
struct VtkGrid {
  codec::Extents points, cells;
  /// From its points along each axis; false: they are none, or too many.
  bool set(codec::Extents points_along_axes);
  /// The shape of a field of `tuples` points or cells.
  codec::Extents shape_of(uint64_t tuples, uint64_t components) const;
};

}  // namespace varve::fs
