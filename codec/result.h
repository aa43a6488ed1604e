// Errors are values: an errno and a sentence. Nothing throws across a folder's border.
#pragma once

#include <cerrno>
#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace varve {

/// What went wrong, for a program (`code`, an errno > 0) and for a person (`text`: what, where, what to do).
struct Error {
  int code = EIO;
  std::string text;
};

/// A value or an Error. Not thread-safe; as cheap to move as what it holds.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : content_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit on purpose
  Result(Error error) : content_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit on purpose

  bool ok() const { return content_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& operator*() & { return *std::get_if<0>(&content_); }
  const T& operator*() const& { return *std::get_if<0>(&content_); }
  T&& operator*() && { return std::move(*std::get_if<0>(&content_)); }
  T* operator->() { return std::get_if<0>(&content_); }
  const T* operator->() const { return std::get_if<0>(&content_); }
  const Error& error() const { return *std::get_if<1>(&content_); }

 private:
  std::variant<T, Error> content_;
};

/// Success, or an Error.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT: implicit on purpose

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Error& error() const { return *error_; }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

}  // namespace varve

// NOLINTBEGIN(bugprone-macro-parentheses): declarations cannot stand in parentheses
/// Returns the error of `expression` from the enclosing function, if it has one.
#define VARVE_TRY(expression)                                   \
  do {                                                          \
    if (auto varve_status = (expression); !varve_status.ok()) { \
      return varve_status.error();                              \
    }                                                           \
  } while (false)

#define VARVE_CONCAT_INNER(a, b) a##b
#define VARVE_CONCAT(a, b) VARVE_CONCAT_INNER(a, b)

/// `VARVE_ASSIGN(auto x, f());` declares x from a Result, or returns its error.
#define VARVE_ASSIGN(declaration, expression) \
  VARVE_ASSIGN_INNER(VARVE_CONCAT(varve_result_, __LINE__), declaration, expression)
#define VARVE_ASSIGN_INNER(result, declaration, expression) \
  auto result = (expression);                               \
  if (!result.ok()) {                                       \
    return result.error();                                  \
  }                                                         \
  declaration = *std::move(result)
// NOLINTEND(bugprone-macro-parentheses)
