#include "eadem/io/json.h"

#include <iterator>

#include "eadem/io/mapped_file.h"
#include "eadem/io/printable.h"

namespace eadem::io {
namespace {

// Reads characters and tells, through `position`, how far the parser has come: its events carry no offsets.
struct CountingIterator {
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;
  const char* at;
  const char** position;
  reference operator*() const { return *at; }
  CountingIterator& operator++() {
    *position = ++at;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const CountingIterator& other) const { return at == other.at; }
  bool operator!=(const CountingIterator& other) const { return at != other.at; }
};

// Builds the value, refusing depth and duplicate keys, which nlohmann's own builder lets pass.
class Builder : public nlohmann::json_sax<Json> {
 public:
  explicit Builder(int depth) : depth_(depth) {}

  bool null() override { return put(nullptr); }
  bool boolean(bool value) override { return put(value); }
  bool number_integer(number_integer_t value) override { return put(value); }
  bool number_unsigned(number_unsigned_t value) override { return put(value); }
  bool number_float(number_float_t value, const string_t&) override { return put(value); }
  bool string(string_t& value) override { return put(std::move(value)); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return open(Json::object()); }
  bool start_array(std::size_t) override { return open(Json::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    const auto [place, fresh] = stack_.back()->get_ref<Json::object_t&>().emplace(name, nullptr);
    if (!fresh) {
      error = fmt::format("the key '{}' occurs twice in one object", name);
      return false;
    }
    slot_ = &place->second;
    return true;
  }
  bool parse_error(std::size_t, const std::string& token, const nlohmann::detail::exception& cause) override {
    // nlohmann's text is "[json.exception.parse_error.101] parse error at line 1, column 2: syntax error ...".
    std::string_view text = cause.what();
    if (const auto from = text.find("syntax error"); from != text.npos) text.remove_prefix(from);
    error = text.empty() ? fmt::format("unexpected '{}'", token) : std::string(text);
    return false;
  }

  Json root;
  std::string error;

 private:
  template <class T>
  bool put(T&& value) {
    place(Json(std::forward<T>(value)));
    return true;
  }
  Json* place(Json&& value) {
    if (stack_.empty()) {
      root = std::move(value);
      return &root;
    }
    if (stack_.back()->is_array()) {
      auto& array = stack_.back()->get_ref<Json::array_t&>();
      array.push_back(std::move(value));
      return &array.back();
    }
    *slot_ = std::move(value);
    return slot_;
  }
  bool open(Json&& container) {
    if (static_cast<int>(stack_.size()) == depth_) {
      error = fmt::format("nested deeper than {} levels", depth_);
      return false;
    }
    stack_.push_back(place(std::move(container)));
    return true;
  }
  bool close() {
    stack_.pop_back();
    return true;
  }

  int depth_;
  std::vector<Json*> stack_;
  Json* slot_ = nullptr;
};

std::string_view kind_of(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null: return "null";
    case Json::value_t::object: return "an object";
    case Json::value_t::array: return "an array";
    case Json::value_t::string: return "a string";
    case Json::value_t::boolean: return "a boolean";
    case Json::value_t::number_float: return "a fractional number";
    default: return "an integer";
  }
}

template <class T>
struct Convert;
template <>
struct Convert<bool> {
  static constexpr std::string_view kind = "a boolean";
  static std::optional<bool> from(const Json& value) {
    return value.is_boolean() ? std::optional(value.get<bool>()) : std::nullopt;
  }
};
template <>
struct Convert<std::string> {
  static constexpr std::string_view kind = "a string";
  static std::optional<std::string> from(const Json& value) {
    return value.is_string() ? std::optional(value.get<std::string>()) : std::nullopt;
  }
};
template <>
struct Convert<double> {
  static constexpr std::string_view kind = "a number";
  static std::optional<double> from(const Json& value) {
    return value.is_number() ? std::optional(value.get<double>()) : std::nullopt;
  }
};
template <>
struct Convert<std::int64_t> {
  static constexpr std::string_view kind = "an integer of 64 bits";
  static std::optional<std::int64_t> from(const Json& value) {
    if (!value.is_number_integer()) return std::nullopt;
    if (value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX) return std::nullopt;
    return value.get<std::int64_t>();
  }
};
template <>
struct Convert<std::uint64_t> {
  static constexpr std::string_view kind = "an unsigned integer of 64 bits";
  static std::optional<std::uint64_t> from(const Json& value) {
    if (!value.is_number_integer()) return std::nullopt;
    if (!value.is_number_unsigned() && value.get<std::int64_t>() < 0) return std::nullopt;
    return value.get<std::uint64_t>();
  }
};

}  // namespace

Json parse_json(std::string_view text, std::string_view source, const JsonLimits& limits) {
  if (text.size() > limits.bytes)
    fail<FileError>("{}: {} bytes of JSON, at most {} are read", source, text.size(), limits.bytes);
  Builder builder(limits.depth);
  const char* position = text.data();
  const CountingIterator begin{text.data(), &position}, end{text.data() + text.size(), &position};
  if (!Json::sax_parse(begin, end, &builder))
    fail<FileError>("{}: not valid JSON at byte {}: {}", source, position - text.data(), printable(builder.error));
  return std::move(builder.root);
}

Json read_json(const std::filesystem::path& path, const JsonLimits& limits) {
  const auto file = MappedFile::open(path);
  return parse_json({reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()}, file->name(), limits);
}

void JsonView::refuse(std::string_view message) const {
  if (path_.empty()) fail<FileError>("{}: the top-level value {}", *source_, printable(message));
  fail<FileError>("{}: key '{}' {}", *source_, printable(path_), printable(message));
}

bool JsonView::has(std::string_view key) const {
  if (!value_->is_object()) refuse(fmt::format("must be an object, it is {}", kind_of(*value_)));
  const auto found = value_->find(key);
  return found != value_->end() && !found->is_null();
}

JsonView JsonView::at(std::string_view key) const {
  JsonView child = *this;
  child.path_ += fmt::format("{}{}", path_.empty() ? "" : ".", key);
  if (!has(key)) child.refuse("is missing");
  child.value_ = &*value_->find(key);
  return child;
}

std::vector<JsonView> JsonView::elements() const {
  if (!value_->is_array()) refuse(fmt::format("must be an array, it is {}", kind_of(*value_)));
  std::vector<JsonView> all;
  all.reserve(value_->size());
  for (std::size_t i = 0; i < value_->size(); ++i) {
    all.push_back(*this);
    all.back().value_ = &(*value_)[i];
    all.back().path_ += fmt::format("[{}]", i);
  }
  return all;
}

template <class T>
T JsonView::as() const {
  if constexpr (requires { typename T::allocator_type; } && !std::same_as<T, std::string>) {
    if (!value_->is_array()) refuse(fmt::format("must be an array, it is {}", kind_of(*value_)));
    T all;
    all.reserve(value_->size());
    for (const Json& element : *value_) {
      auto converted = Convert<typename T::value_type>::from(element);
      if (!converted)
        refuse(fmt::format("must be an array whose every element is {}, element {} is {}",
                           Convert<typename T::value_type>::kind, all.size(), kind_of(element)));
      all.push_back(std::move(*converted));
    }
    return all;
  } else {
    auto converted = Convert<T>::from(*value_);
    if (!converted) refuse(fmt::format("must be {}, it is {}", Convert<T>::kind, kind_of(*value_)));
    return std::move(*converted);
  }
}

template bool JsonView::as<bool>() const;
template std::int64_t JsonView::as<std::int64_t>() const;
template std::uint64_t JsonView::as<std::uint64_t>() const;
template double JsonView::as<double>() const;
template std::string JsonView::as<std::string>() const;
template std::vector<bool> JsonView::as<std::vector<bool>>() const;
template std::vector<std::int64_t> JsonView::as<std::vector<std::int64_t>>() const;
template std::vector<std::uint64_t> JsonView::as<std::vector<std::uint64_t>>() const;
template std::vector<double> JsonView::as<std::vector<double>>() const;
template std::vector<std::string> JsonView::as<std::vector<std::string>>() const;

}  // namespace eadem::io
