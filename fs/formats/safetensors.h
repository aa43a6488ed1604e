// safetensors: the length of a header, the header (JSON), and tensors.
// Method: https://github.com/huggingface/safetensors#format
#pragma once

#include "fs/formats/formats.h"

namespace varve::fs {

/// A length that fits, and a '{' behind it.
bool may_be_safetensors(const Candidate& candidate);

/// Nothing: what follows is no header of tensors. EBADMSG: it is, but a tensor's shape, type and place contradict each
/// other or the file's size. Arrays are named "/" and the tensor's name, and are in the file's order; BOOL is u8,
/// complex numbers get one more axis. Empty tensors and other types (8-bit floats): no array.
Result<std::optional<Recognised>> recognise_safetensors(FileView& file);

}  // namespace varve::fs
