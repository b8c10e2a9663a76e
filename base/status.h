// Status and Result: how every fallible call in the library reports failure (no exceptions cross a boundary).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tilewright {

// Numbering follows the absl/PJRT convention, so that frontends can map codes one to one.
enum class Code : int32_t {
  Ok = 0,
  Cancelled = 1,
  Unknown = 2,
  InvalidArgument = 3,
  DeadlineExceeded = 4,
  NotFound = 5,
  AlreadyExists = 6,
  PermissionDenied = 7,
  ResourceExhausted = 8,
  FailedPrecondition = 9,
  Aborted = 10,
  OutOfRange = 11,
  Unimplemented = 12,
  Internal = 13,
  Unavailable = 14,
  DataLoss = 15,
  Unauthenticated = 16,
};

const char* code_name(Code code);

// A failure with its message, the op it belongs to (may be empty) and the chain of causes.
class [[nodiscard]] Status {
 public:
  Status() = default;  // ok
  Status(Code code, std::string message);

  static Status ok() { return Status(); }
  static Status invalid(std::string message) { return Status(Code::InvalidArgument, std::move(message)); }
  static Status unimplemented(std::string message) { return Status(Code::Unimplemented, std::move(message)); }
  static Status not_found(std::string message) { return Status(Code::NotFound, std::move(message)); }
  static Status internal(std::string message) { return Status(Code::Internal, std::move(message)); }
  static Status runtime(std::string message) { return Status(Code::Unavailable, std::move(message)); }
  static Status out_of_range(std::string message) { return Status(Code::OutOfRange, std::move(message)); }
  static Status exhausted(std::string message) { return Status(Code::ResourceExhausted, std::move(message)); }
  static Status precondition(std::string message) {
    return Status(Code::FailedPrecondition, std::move(message));
  }

  bool is_ok() const { return !detail_; }
  explicit operator bool() const = delete;  // ambiguous: write is_ok()
  Code code() const { return detail_ ? detail_->code : Code::Ok; }
  const std::string& message() const;
  const std::string& op() const;
  const Status* cause() const { return detail_ ? detail_->cause.get() : nullptr; }

  Status with_op(std::string op) &&;
  // Returns a status of the same code that says what was being done, with this one as its cause.
  Status because(std::string doing) const;
  // "INVALID_ARGUMENT: message [op]: caused by ..." on one line.
  std::string to_string() const;

 private:
  struct Detail {
    Code code;
    std::string message;
    std::string op;
    std::shared_ptr<const Status> cause;
  };
  std::shared_ptr<const Detail> detail_;
};

// A value or the status that says why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}
  Result(Status status) : status_(std::move(status)) {}

  bool is_ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& value() & { return *value_; }
  const T& value() const& { return *value_; }
  T&& value() && { return std::move(*value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }

 private:
  Status status_;
  std::optional<T> value_;
};

#define TW_CONCAT_INNER(a, b) a##b
#define TW_CONCAT(a, b) TW_CONCAT_INNER(a, b)

// Leaves the function with the status of `expr` unless it is ok.
#define TW_RETURN_IF_ERROR(expr)                \
  do {                                          \
    ::tilewright::Status tw_status_ = (expr);   \
    if (!tw_status_.is_ok()) return tw_status_; \
  } while (false)

// `TW_ASSIGN_OR_RETURN(auto x, compute())`: declares x from a Result or leaves with its status.
#define TW_ASSIGN_OR_RETURN(lhs, expr) TW_ASSIGN_OR_RETURN_IMPL(TW_CONCAT(tw_result_, __LINE__), lhs, expr)
#define TW_ASSIGN_OR_RETURN_IMPL(result, lhs, expr) \
  auto result = (expr);                             \
  if (!result.is_ok()) return result.status();      \
  lhs = std::move(result).value()

// A broken invariant of ours: never aborts the host; use only where a Status can be returned.
#define TW_ASSERT(condition)                                                                          \
  do {                                                                                                \
    if (!(condition))                                                                                 \
      return ::tilewright::Status::internal(std::string("broken invariant: ") + #condition + " at " + \
                                            __FILE__ + ":" + std::to_string(__LINE__));               \
  } while (false)

}  // namespace tilewright
