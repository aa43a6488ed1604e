#include "codec/cuda/device_codec.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>

namespace varve::codec::cuda {

namespace {

Error failed(std::string text) { return {ENODEV, std::move(text)}; }

/// Waves with holes and some rough parts.
template <typename T>
std::vector<T> test_elements(const Extents& shape) {
  std::vector<T> out(element_count(shape));
  uint64_t noise = 1;
  for (size_t i = 0; i < out.size(); ++i) {
    noise = noise * 6364136223846793005U + 1442695040888963407U;
    const auto x = static_cast<double>(i % shape[2]);
    const auto y = static_cast<double>(i / shape[2] % shape[1]);
    const auto rough = i < out.size() / 3 ? static_cast<double>(noise >> 40) * 0x1p-26 : 0.0;
    out[i] = static_cast<T>(x * y * 0.01 + (x - 12) * (x - 12) * 0.05 + rough);
    if (noise >> 56 == 0) {
      out[i] = T(1e20);
    }
  }
  return out;
}

template <typename T>
void put_corner_values(std::vector<T>& out) {
  using Limits = std::numeric_limits<T>;
  const std::array<T, 8> corners = {T(-0.0),          Limits::denorm_min(), Limits::min(),       Limits::max(),
                                    Limits::lowest(), Limits::infinity(),   -Limits::infinity(), Limits::quiet_NaN()};
  for (size_t i = 0; i < corners.size(); ++i) {
    out[i * 97 + 5] = corners[i];
  }
}

template <typename T>
Status test_type(DeviceCodec& device, Interpolation interpolation) {
  const Extents shape = {21, 26, 35};
  std::vector<T> elements = test_elements<T>(shape);
  const auto bytes = std::as_bytes(std::span(elements));
  const DType type = sizeof(T) == 4 ? DType::f32 : DType::f64;
  const uint64_t fill = sizeof(T) == 4 ? std::bit_cast<uint32_t>(1e20F) : std::bit_cast<uint64_t>(1e20);
  const ArraySpec spec{type, shape, {BoundMode::absolute, 1e-2}, {fill}, bytes};
  const Box whole{{0, 0, 0}, shape};
  VARVE_ASSIGN(Settings settings, make_plan(spec, [&](const Box& box, std::byte* out) -> Status {
                 copy_box(shape, bytes.data(), box, sizeof(T), out);
                 return {};
               }));
  settings.interpolation = interpolation;
  put_corner_values(elements);  // which no table has tokens for
  if (why_unsupported(settings) != Unsupported::no || settings.geometry.tile_count() != 1) {
    return failed("the self-test's array is none for devices; this is a mistake of Varve's");
  }
  VARVE_ASSIGN(const auto expected, encode_tile(settings, 0, bytes.data(), false));
  EncodeCounts encoded;
  VARVE_ASSIGN(const auto made, device.encode(settings, {0}, whole, bytes.data(), encoded));
  const bool same =
      made.size() == 1 && std::equal(made[0].begin(), made[0].end(), expected.begin(), expected.end(),
                                     [](const Record& a, const Record& b) { return a.id == b.id && a.data == b.data; });
  if (!same) {
    return failed("the device encoded a test array to other records than the CPU");
  }
  const auto find = [&](const RecordId& id) -> std::optional<std::span<const std::byte>> {
    for (const Record& record : expected) {
      if (record.id == id) {
        return record.data;
      }
    }
    return std::nullopt;
  };
  std::vector<T> seen(elements.size());
  DecodeCounts decoded;
  VARVE_TRY(device.decode(settings, {0}, find, 0, whole, reinterpret_cast<std::byte*>(seen.data()), decoded));
  std::vector<T> wanted(elements.size());
  VARVE_ASSIGN(const CoarseGrid coarse, decode_coarse(settings, 0, expected[0].data));
  for (uint64_t brick = 0; brick < settings.geometry.brick_count(); ++brick) {
    const Box box = settings.geometry.brick_box(brick);
    VARVE_TRY(decode_brick(settings, brick, coarse.data, {find({0, brick}), find({1, brick}), find({2, brick})},
                           {0, 0, box, whole}, reinterpret_cast<std::byte*>(wanted.data())));
  }
  if (std::memcmp(seen.data(), wanted.data(), wanted.size() * sizeof(T)) != 0 || decoded.cpu_bricks != 0 ||
      encoded.cpu_tiles != 0) {
    return failed("the device decoded a test array to other values than the CPU");
  }
  return {};
}

}  // namespace

Result<DeviceChoice> parse_device(std::string_view text) {
  if (text == "auto") {
    return DeviceChoice{};
  }
  if (text == "cpu") {
    return DeviceChoice{DeviceChoice::Kind::cpu, 0};
  }
  DeviceChoice choice{DeviceChoice::Kind::cuda, 0};
  if (text == "cuda") {
    return choice;
  }
  if (text.substr(0, 5) == "cuda:") {
    const char* const end = text.data() + text.size();
    const auto read = std::from_chars(text.data() + 5, end, choice.number);
    if (read.ec == std::errc() && read.ptr == end && choice.number >= 0) {
      return choice;
    }
  }
  return Error{EINVAL, fmt::format("device '{}' is none; use auto, cpu, cuda or cuda:N, N from 0 on", text)};
}

std::string plugin_abi() {
  return fmt::format("1 {} {} {} {}", __VERSION__, sizeof(Settings), sizeof(Geometry), sizeof(Record));
}

Status self_test(DeviceCodec& device) {
  for (const auto interpolation : {Interpolation::linear, Interpolation::cubic, Interpolation::quintic}) {
    VARVE_TRY(test_type<float>(device, interpolation));
    VARVE_TRY(test_type<double>(device, interpolation));
  }
  return {};
}

Result<std::unique_ptr<DeviceCodec>> open_device(const std::string& path, int number) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);  // stays: what it made may be in use until the end
  if (library == nullptr) {
    return failed(fmt::format("the CUDA plug-in cannot be loaded: {}", dlerror()));
  }
  const auto open = reinterpret_cast<OpenPlugin>(dlsym(library, kOpenPlugin));
  if (open == nullptr) {
    return failed(fmt::format("{} is no CUDA plug-in of Varve", path));
  }
  std::array<char, 400> error{};
  std::unique_ptr<DeviceCodec> device(open(plugin_abi().c_str(), number, error.data(), error.size()));
  if (device == nullptr) {
    return failed(error.data());
  }
  VARVE_TRY(self_test(*device));
  return device;
}

}  // namespace varve::codec::cuda
