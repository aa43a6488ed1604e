#include "fs/formats/pickle.h"

#include <algorithm>
#include <map>
#include <memory>

#include "fs/formats/binary.h"
#include "fs/formats/check.h"

namespace varve::fs {

namespace {

constexpr size_t kDeepestTuple = 32;  // deeper ones are read over
constexpr size_t kMostValues = size_t{1} << 20;
constexpr size_t kLongestText = 256;  // longer ones are read over

/// An object as far as tensors need it.
struct Value {
  enum class Kind : uint8_t { other, mark, number, text, name, tuple, storage };
  Kind kind = Kind::other;
  int64_t number = 0;                         ///< a storage: index into the result
  std::string text;                           ///< of a string, or "module name" of a class or function
  std::shared_ptr<std::vector<Value>> items;  ///< of a tuple
  size_t depth = 0;                           ///< of tuples
};

class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) : rest_(bytes) {}

  std::vector<PickledStorage> storages() {
    while (step()) {
    }
    return std::move(storages_);
  }

 private:
  /// False: the end.
  bool step() {
    if (rest_.empty() || stack_.size() + memo_.size() > kMostValues) {
      return false;
    }
    const auto code = std::to_integer<unsigned char>(rest_[0]);
    rest_ = rest_.subspan(1);
    return constant(code).value_or(false) || text(code).value_or(false) || memory(code).value_or(false) ||
           container(code).value_or(false) || object(code).value_or(false);
  }

  /// Of each group of opcodes: nothing, the code is not among them; false: it makes no sense here.
  using Taken = std::optional<bool>;

  template <typename T>
  std::optional<uint64_t> argument() {
    if (rest_.size() < sizeof(T)) {
      return std::nullopt;
    }
    const T value = load<T>(rest_, 0, false);
    rest_ = rest_.subspan(sizeof(T));
    return static_cast<uint64_t>(static_cast<int64_t>(value));
  }

  bool skip(std::optional<uint64_t> count) {
    if (!count || *count > rest_.size()) {
      return false;
    }
    rest_ = rest_.subspan(*count);
    return true;
  }

  bool push(Value value) {
    stack_.push_back(std::move(value));
    return true;
  }

  bool push_number(std::optional<uint64_t> number) {
    return number && push({Value::Kind::number, static_cast<int64_t>(*number), {}, {}, 0});
  }

  bool push_other(bool good = true) { return good && push({}); }

  std::optional<Value> pop() {
    if (stack_.empty() || stack_.back().kind == Value::Kind::mark) {
      return std::nullopt;
    }
    Value value = std::move(stack_.back());
    stack_.pop_back();
    return value;
  }

  bool drop(size_t count) {
    for (; count > 0; --count) {
      if (!pop()) {
        return false;
      }
    }
    return true;
  }

  std::optional<std::vector<Value>> pop_to_mark() {
    const auto mark = std::find_if(stack_.rbegin(), stack_.rend(),
                                   [](const Value& value) { return value.kind == Value::Kind::mark; });
    if (mark == stack_.rend()) {
      return std::nullopt;
    }
    std::vector<Value> values(std::make_move_iterator(mark.base()), std::make_move_iterator(stack_.end()));
    stack_.resize(stack_.size() - values.size() - 1);
    return values;
  }

  Taken constant(unsigned char code) {
    switch (code) {
      case 0x80:  // PROTO
        return skip(1);
      case 0x95:  // FRAME
        return skip(8);
      case 'N':   // NONE
      case 0x88:  // NEWTRUE
      case 0x89:  // NEWFALSE
        return push_other();
      case 'J':
        return push_number(argument<int32_t>());
      case 'K':
        return push_number(argument<uint8_t>());
      case 'M':
        return push_number(argument<uint16_t>());
      case 'G':  // BINFLOAT
        return push_other(skip(8));
      case 0x8a:
        return long_number(argument<uint8_t>());
      case 0x8b:
        return push_other(skip(argument<uint32_t>()));
      default:
        return std::nullopt;
    }
  }

  /// LONG1: little-endian, two's complement, as many bytes as are needed.
  bool long_number(std::optional<uint64_t> count) {
    if (!count || *count > rest_.size()) {
      return false;
    }
    if (*count > 8) {
      return push_other(skip(count));
    }
    uint64_t value = 0;
    for (size_t i = 0; i < *count; ++i) {
      value |= std::to_integer<uint64_t>(rest_[i]) << (8 * i);
    }
    const bool negative = *count > 0 && (rest_[*count - 1] & std::byte{0x80}) != std::byte{0};
    if (negative && *count < 8) {
      value |= ~uint64_t{0} << (8 * *count);
    }
    return skip(count) && push_number(value);
  }

  Taken text(unsigned char code) {
    switch (code) {
      case 'X':
        return string(argument<uint32_t>());
      case 0x8c:
        return string(argument<uint8_t>());
      case 0x8d:
        return string(argument<uint64_t>());
      case 'T':  // BINSTRING
      case 'B':  // BINBYTES
        return push_other(skip(argument<uint32_t>()));
      case 'U':  // SHORT_BINSTRING
      case 'C':  // SHORT_BINBYTES
        return push_other(skip(argument<uint8_t>()));
      case 0x8e:  // BINBYTES8
      case 0x96:  // BYTEARRAY8
        return push_other(skip(argument<uint64_t>()));
      case 'c':
        return global();
      case 0x93:
        return stack_global();
      default:
        return std::nullopt;
    }
  }

  std::string take(size_t count) {
    std::string out(reinterpret_cast<const char*>(rest_.data()), count);
    rest_ = rest_.subspan(count);
    return out;
  }

  bool string(std::optional<uint64_t> length) {
    if (!length || *length > rest_.size() || *length > kLongestText) {
      return push_other(skip(length));
    }
    return push({Value::Kind::text, 0, take(*length), {}, 0});
  }

  std::optional<std::string> line() {
    const auto end = std::find(rest_.begin(), rest_.end(), std::byte{'\n'});
    if (end == rest_.end()) {
      return std::nullopt;
    }
    std::string out = take(static_cast<size_t>(end - rest_.begin()));
    rest_ = rest_.subspan(1);
    return out;
  }

  bool global() {
    const auto module = line();
    const auto name = line();
    if (!module || !name || module->size() + name->size() > kLongestText) {
      return push_other(module && name);
    }
    return push({Value::Kind::name, 0, *module + " " + *name, {}, 0});
  }

  bool stack_global() {
    const auto name = pop();
    const auto module = pop();
    return name && module && push({Value::Kind::name, 0, module->text + " " + name->text, {}, 0});
  }

  Taken memory(unsigned char code) {
    switch (code) {
      case 'q':
        return remember(argument<uint8_t>());
      case 'r':
        return remember(argument<uint32_t>());
      case 0x94:
        return remember(memo_.size());
      case 'h':
        return recall(argument<uint8_t>());
      case 'j':
        return recall(argument<uint32_t>());
      default:
        return std::nullopt;
    }
  }

  bool remember(std::optional<uint64_t> key) {
    if (!key || stack_.empty()) {
      return false;
    }
    memo_[*key] = stack_.back();
    return true;
  }

  bool recall(std::optional<uint64_t> key) {
    const auto found = key ? memo_.find(*key) : memo_.end();
    return found != memo_.end() && push(found->second);
  }

  Taken container(unsigned char code) {
    switch (code) {
      case '(':
        return push({Value::Kind::mark, 0, {}, {}, 0});
      case ')':
        return push_tuple({});
      case 0x85:
      case 0x86:
      case 0x87:
        return short_tuple(code - 0x84U);
      case 't': {
        auto items = pop_to_mark();
        return items && push_tuple(std::move(*items));
      }
      case '}':
      case ']':
      case 0x8f:  // EMPTY_SET
        return push_other();
      case 'd':
      case 'l':
      case 0x91:  // FROZENSET
        return push_other(pop_to_mark().has_value());
      case 'a':  // APPEND
        return drop(1);
      case 's':  // SETITEM
        return drop(2);
      case 'e':   // APPENDS
      case 'u':   // SETITEMS
      case 0x90:  // ADDITEMS
      case '1':   // POP_MARK
        return pop_to_mark().has_value();
      case '0':
        return drop(1);
      case '2':
        return !stack_.empty() && push(Value(stack_.back()));
      default:
        return std::nullopt;
    }
  }

  bool short_tuple(size_t count) {
    std::vector<Value> items(count);
    for (size_t i = count; i-- > 0;) {
      auto item = pop();
      if (!item) {
        return false;
      }
      items[i] = std::move(*item);
    }
    return push_tuple(std::move(items));
  }

  bool push_tuple(std::vector<Value> items) {
    size_t depth = 0;
    for (const Value& item : items) {
      depth = std::max(depth, item.depth + 1);
    }
    if (depth > kDeepestTuple) {
      return push_other();
    }
    return push({Value::Kind::tuple, 0, {}, std::make_shared<std::vector<Value>>(std::move(items)), depth});
  }

  Taken object(unsigned char code) {
    switch (code) {
      case 'Q':
        return persistent();
      case 'R':
        return reduce();
      case 'b':  // BUILD
        return drop(1);
      case 0x81:  // NEWOBJ
        return push_other(drop(2));
      case 0x92:  // NEWOBJ_EX
        return push_other(drop(3));
      default:  // STOP among them
        return std::nullopt;
    }
  }

  /// ('storage', torch.FloatStorage, '0', 'cpu', 1234)
  bool persistent() {
    const auto id = pop();
    if (!id) {
      return false;
    }
    if (id->kind != Value::Kind::tuple || id->items->size() != 5) {
      return push_other();
    }
    const std::vector<Value>& items = *id->items;
    if (items[0].text != "storage" || items[1].kind != Value::Kind::name || items[2].kind != Value::Kind::text ||
        items[4].kind != Value::Kind::number || items[4].number < 0) {
      return push_other();
    }
    const auto [at, is_new] = by_key_.emplace(items[2].text, storages_.size());
    if (is_new) {
      const auto elements = static_cast<uint64_t>(items[4].number);
      storages_.push_back({items[2].text, items[1].text.substr(items[1].text.rfind(' ') + 1), elements, {elements}});
    }
    return push({Value::Kind::storage, static_cast<int64_t>(at->second), {}, {}, 0});
  }

  bool reduce() {
    const auto arguments = pop();
    const auto function = pop();
    if (!arguments || !function) {
      return false;
    }
    if (function->text == "torch._utils _rebuild_tensor_v2" && arguments->kind == Value::Kind::tuple &&
        arguments->items->size() >= 4) {
      tensor(*arguments->items);
    }
    return push_other();
  }

  static std::optional<std::vector<uint64_t>> numbers(const Value& value) {
    std::vector<uint64_t> out;
    for (size_t i = 0; value.kind == Value::Kind::tuple && i < value.items->size(); ++i) {
      const Value& item = (*value.items)[i];
      if (item.kind != Value::Kind::number || item.number < 0) {
        return std::nullopt;
      }
      out.push_back(static_cast<uint64_t>(item.number));
    }
    return value.kind == Value::Kind::tuple ? std::optional(std::move(out)) : std::nullopt;
  }

  /// (storage, offset in it, size, stride, ...)
  void tensor(const std::vector<Value>& of) {
    const auto size = numbers(of[2]);
    const auto stride = numbers(of[3]);
    if (of[0].kind != Value::Kind::storage || of[1].kind != Value::Kind::number || of[1].number != 0 || !size ||
        !stride || size->size() != stride->size() || size->empty() || size->size() > codec::kMaxRank) {
      return;
    }
    PickledStorage& storage = storages_[static_cast<size_t>(of[0].number)];
    if (storage.shape.size() > 1 || checked_product(*size) != storage.elements) {
      return;
    }
    uint64_t wanted = 1;
    for (size_t axis = size->size(); axis-- > 0;) {
      if ((*size)[axis] != 1 && (*stride)[axis] != wanted) {
        return;
      }
      wanted *= (*size)[axis];
    }
    storage.shape = *size;
  }

  std::span<const std::byte> rest_;
  std::vector<Value> stack_;
  std::map<uint64_t, Value> memo_;
  std::map<std::string, size_t> by_key_;
  std::vector<PickledStorage> storages_;
};

}  // namespace

std::vector<PickledStorage> pickled_storages(std::span<const std::byte> pickle) { return Reader(pickle).storages(); }

}  // namespace varve::fs
